//! Watching for changes, by inotify on the sandbox's own file system.
//!
//! The kernel's queue (16,384 events unless the machine says otherwise) is the only one: when the
//! reader is slower than the changes it overflows, and the reader is told so. Nothing is opened to
//! read; symlinks are not followed below the top, and what is mounted is not entered.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, statat};
use rustix::io::Errno;
use sandboxd_proto::{CallError, ErrorCode, v1};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::path::SandboxPath;
use super::tree::{Tree, check_real, child_folder, failure, retry};
use crate::call::Answer;
use crate::watch as descriptors;

/// Folders that one call watches.
const MAX_FOLDERS: usize = 8_192;

/// Bytes of events that are read at once, and told in one message.
const BATCH: usize = 32 * 1024;

/// Events that are made up for what was in a new folder already.
const MAX_FOUND: usize = 4_096;

/// What is told. Not: opening, reading.
const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);

type Message = Answer<v1::FilesWatchResponse>;

/// What is being watched.
#[derive(Debug)]
pub(super) struct Watching {
    tree: Tree,
    path: SandboxPath,
    /// What was there when watching began. Not kept open: the kernel tells of the end of something
    /// only when nobody has it open any more.
    top: (u64, u64),
    top_watch: i32,
    recursive: bool,
    queue: Arc<AsyncFd<OwnedFd>>,
    /// Paths of watched folders below the top, by the kernel's numbers.
    paths: HashMap<i32, Vec<u8>>,
    /// A folder whose old name was told, and the kernel's number of the move: its new name is told
    /// next, unless it has left. Until then it stays watched, so that nothing in it is missed.
    moving: Option<(u32, Vec<u8>)>,
}

impl Watching {
    /// Begins to watch what is at `path`. Needs a runtime around it.
    pub(super) fn open(tree: &Tree, path: SandboxPath, recursive: bool) -> Answer<Self> {
        let failed = |errno| failure(&path, errno);
        let top = tree.open(path.bytes(), OFlags::PATH).map_err(failed)?;
        check_real(&path, &top)?;
        let found = fstat(&top).map_err(failed)?;
        let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        let queue =
            inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(|errno| {
                let message =
                    format!("cannot watch {path}: the machine has too many watches: {errno}");
                CallError::new(ErrorCode::ResourceExhausted, message)
            })?;
        let queue = descriptors::readable(queue).map_err(|error| {
            CallError::new(ErrorCode::Internal, format!("cannot watch {path}: {error}"))
        })?;
        let mut this = Self {
            tree: tree.clone(),
            path,
            top: (found.st_dev, found.st_ino),
            top_watch: 0,
            recursive: recursive && is_folder,
            queue: Arc::new(queue),
            paths: HashMap::new(),
            moving: None,
        };
        this.top_watch = this.add(top.as_raw_fd(), Vec::new())?;
        if this.recursive {
            this.add_below(Vec::new(), &mut Vec::new())?;
        }
        Ok(this)
    }

    /// Tells changes to `sender` until nobody listens, or nothing is left to watch.
    pub(super) async fn tell(mut self, sender: mpsc::Sender<Message>) {
        // Says that watching has begun.
        if sender.send(Ok(v1::FilesWatchResponse::default())).await.is_err() {
            return;
        }
        let queue = Arc::clone(&self.queue);
        loop {
            let ready = tokio::select! {
                () = sender.closed() => return,
                ready = queue.readable() => ready,
            };
            let Ok(mut ready) = ready else { return };
            let step = spawn_blocking(move || {
                let step = self.step();
                (self, step)
            });
            let Ok((this, step)) = step.await else { return };
            self = this;
            let (message, goes_on) = match step {
                Ok(Step::Nothing) => {
                    ready.clear_ready();
                    continue;
                }
                Ok(Step::Events(events)) => {
                    let goes_on =
                        !events.iter().any(|event| event.kind() == v1::FileEventKind::Gone);
                    (Ok(v1::FilesWatchResponse { events }), goes_on)
                }
                Err(error) => (Err(error), false),
            };
            if sender.send(message).await.is_err() || !goes_on {
                return;
            }
        }
    }

    fn step(&mut self) -> Answer<Step> {
        let mut buffer = vec![MaybeUninit::uninit(); BATCH];
        let mut seen = Vec::new();
        {
            let mut reader = Reader::new(self.queue.get_ref(), &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => {
                        let name = event.file_name().map(|name| name.to_bytes().to_vec());
                        seen.push((event.wd(), event.events(), event.cookie(), name));
                    }
                    Err(Errno::INTR) => continue,
                    Err(Errno::AGAIN) => break,
                    Err(errno) => return Err(failure(&self.path, errno)),
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
        }
        if seen.is_empty() {
            return Ok(Step::Nothing);
        }
        let mut told = Vec::new();
        for (watch, flags, cookie, name) in seen {
            self.event(watch, flags, cookie, name, &mut told)?;
        }
        Ok(Step::Events(told))
    }

    fn event(
        &mut self,
        watch: i32,
        flags: ReadFlags,
        cookie: u32,
        name: Option<Vec<u8>>,
        told: &mut Vec<v1::FileEvent>,
    ) -> Answer<()> {
        let moved = self.moving.take();
        let arrives = flags.contains(ReadFlags::MOVED_TO);
        let moved = moved.filter(|(number, left)| {
            let is_same = arrives && *number == cookie;
            if !is_same {
                self.forget_below(left);
            }
            is_same
        });
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            told.push(event(v1::FileEventKind::Overflow, Vec::new(), false, 0));
            // Folders may have been made that nobody told of.
            return if self.recursive {
                self.add_below(Vec::new(), &mut Vec::new())
            } else {
                Ok(())
            };
        }
        let is_top = watch == self.top_watch;
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
        if flags.intersects(gone | ReadFlags::UNMOUNT) {
            if flags.contains(ReadFlags::IGNORED) {
                self.paths.remove(&watch);
            }
            if is_top && !told.iter().any(|event| event.kind() == v1::FileEventKind::Gone) {
                told.push(event(v1::FileEventKind::Gone, Vec::new(), false, 0));
            }
            return Ok(());
        }
        // Of a folder that is not watched any more.
        let Some(folder) = self.paths.get(&watch) else { return Ok(()) };
        let path = match name {
            Some(name) if folder.is_empty() => name,
            Some(name) => [&folder[..], b"/", &name].concat(),
            // The folder above tells it as well, unless it is the top.
            None if !is_top => return Ok(()),
            None => Vec::new(),
        };
        let is_directory = flags.contains(ReadFlags::ISDIR);
        let kinds = [
            (ReadFlags::CREATE, v1::FileEventKind::Created),
            (ReadFlags::MODIFY, v1::FileEventKind::Modified),
            (ReadFlags::CLOSE_WRITE, v1::FileEventKind::Closed),
            (ReadFlags::ATTRIB, v1::FileEventKind::Attributes),
            (ReadFlags::DELETE, v1::FileEventKind::Deleted),
            (ReadFlags::MOVED_FROM, v1::FileEventKind::MovedFrom),
            (ReadFlags::MOVED_TO, v1::FileEventKind::MovedTo),
        ];
        for (flag, kind) in kinds {
            if flags.contains(flag) && !self.is_nameless(kind, &path) {
                told.push(event(kind, path.clone(), is_directory, cookie));
            }
        }
        if !(self.recursive && is_directory) {
            return Ok(());
        }
        if flags.contains(ReadFlags::MOVED_FROM) {
            self.moving = Some((cookie, path));
        } else if let Some((_, left)) = moved {
            self.rename_below(&left, &path);
        } else if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            self.add_below(path, told)?;
        }
        Ok(())
    }

    /// Whether an event is of a file that has no name yet, such as one that is being uploaded: the
    /// kernel calls it by its number, with `#` in front.
    fn is_nameless(&self, kind: v1::FileEventKind, path: &[u8]) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let looks_so = name
            .strip_prefix(b"#")
            .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit));
        let of_content = matches!(
            kind,
            v1::FileEventKind::Modified | v1::FileEventKind::Closed | v1::FileEventKind::Attributes
        );
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        looks_so && of_content && self.below_top(path, flags).is_err()
    }

    /// Watches the folder at `path` and all folders in it, and tells what is in them already.
    fn add_below(&mut self, path: Vec<u8>, told: &mut Vec<v1::FileEvent>) -> Answer<()> {
        let mut waiting = vec![path];
        while let Some(path) = waiting.pop() {
            let Ok(folder) = self.open_folder(&path) else { continue };
            self.add(folder.as_raw_fd(), path.clone())?;
            // After the watch is there: so nothing that is made meanwhile is missed.
            let Ok(entries) = Dir::read_from(&folder) else { continue };
            for entry in entries {
                let Ok(entry) = entry else { break };
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                let Ok(found) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
                let below =
                    if path.is_empty() { name.to_vec() } else { [&path[..], b"/", name].concat() };
                if told.len() < MAX_FOUND {
                    told.push(event(v1::FileEventKind::Created, below.clone(), is_directory, 0));
                } else if told.len() == MAX_FOUND {
                    told.push(event(v1::FileEventKind::Overflow, Vec::new(), false, 0));
                }
                if is_directory && child_folder(&folder, name).is_ok() {
                    waiting.push(below);
                }
            }
        }
        Ok(())
    }

    fn open_folder(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.below_top(path, flags)
    }

    fn below_top(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let top = self.tree.open(self.path.bytes(), OFlags::PATH)?;
        let found = fstat(&top)?;
        if (found.st_dev, found.st_ino) != self.top {
            return Err(Errno::NOENT);
        }
        let path = if path.is_empty() { b"." } else { path };
        retry(|| openat2(&top, path, flags, Mode::empty(), BENEATH))
    }

    /// Watches what `file` is open on. A second time, it is the same watch.
    fn add(&mut self, file: i32, path: Vec<u8>) -> Answer<i32> {
        if self.paths.len() >= MAX_FOLDERS {
            let message = format!(
                "{} has more than {MAX_FOLDERS} directories in it: watch a part of it",
                self.path
            );
            return Err(CallError::new(ErrorCode::ResourceExhausted, message));
        }
        let link = format!("/proc/self/fd/{file}");
        let watch = match inotify::add_watch(self.queue.get_ref(), link, EVENTS) {
            Ok(watch) => watch,
            Err(errno @ (Errno::NOSPC | Errno::NOMEM)) => {
                let message = format!(
                    "cannot watch {}: the machine has too many watches: {errno}",
                    self.path
                );
                return Err(CallError::new(ErrorCode::ResourceExhausted, message));
            }
            Err(errno) => return Err(failure(&self.path, errno)),
        };
        self.paths.insert(watch, path);
        Ok(watch)
    }

    fn rename_below(&mut self, old: &[u8], new: &[u8]) {
        for watched in self.paths.values_mut() {
            if let Some(rest) = below(watched, old) {
                *watched = [new, rest].concat();
            }
        }
    }

    fn forget_below(&mut self, path: &[u8]) {
        let queue = Arc::clone(&self.queue);
        self.paths.retain(|watch, watched| {
            let is_below = below(watched, path).is_some();
            if is_below {
                let _ = inotify::remove_watch(queue.get_ref(), *watch);
            }
            !is_below
        });
    }
}

/// What follows `folder` in the path of something in it, or of the folder itself.
fn below<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(folder).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

enum Step {
    Nothing,
    Events(Vec<v1::FileEvent>),
}

fn event(kind: v1::FileEventKind, path: Vec<u8>, is_directory: bool, cookie: u32) -> v1::FileEvent {
    v1::FileEvent { kind: kind.into(), path: path.into(), is_directory, cookie }
}
