//! Files for output that does not fit into memory, and the account of both.
//!
//! A file has no name, so nothing of it outlives the agent, and its offsets are those of the stream.
//! It is written and read by threads for blocking work: a disk may take its time, the agent not.
//!
//! The account bounds all execs together. An exec may have on disk as much as is left for the
//! others, so that no number of them leaves nothing for the next.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open, statfs, unlink};

/// Output in memory, over all execs, above which every stream has a small window.
pub(crate) const MEMORY: usize = 256 * 1024 * 1024;

/// Output on disk, over all execs, where there is room.
const DISK: u64 = 4 * 1024 * 1024 * 1024;

/// The same where files are in memory.
const DISK_IN_MEMORY: u64 = 512 * 1024 * 1024;

/// Output on disk of one exec; half of what all may have, if that is less.
const DISK_PER_EXEC: u64 = 512 * 1024 * 1024;

/// Where files go if the state folder is in memory, as `/run` is. The first that is on a disk.
const OTHER_FOLDERS: [&str; 2] = ["/var/tmp", "/tmp"];

/// File systems in memory: tmpfs and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// What all execs of an agent share.
#[derive(Debug)]
pub(crate) struct Space {
    /// `None` where no file can be made: then programs wait instead.
    folder: Option<PathBuf>,
    disk_limit: u64,
    disk: AtomicU64,
    memory_limit: usize,
    memory: AtomicUsize,
}

/// Why bytes are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Some reader has not had them.
    Unread,
    /// They were read, and somebody may ask again: as long as there is plenty of room.
    History,
}

impl Space {
    /// The space of an agent whose own folder is `own`.
    pub(crate) fn new(own: &Path) -> Arc<Self> {
        let others = OTHER_FOLDERS.iter().map(PathBuf::from);
        let candidates: Vec<PathBuf> = std::iter::once(own.to_owned()).chain(others).collect();
        let usable = |folder: &&PathBuf| nameless(folder).is_ok();
        let on_disk = candidates.iter().filter(|folder| !is_in_memory(folder)).find(usable);
        let folder = on_disk.or_else(|| candidates.iter().find(usable));
        let disk_limit = folder.map_or(0, |folder| limit_in(folder));
        if folder.is_none() {
            tracing::warn!("no file for output can be made: programs wait for their readers");
        }
        Self::with_limits(folder.cloned(), disk_limit, MEMORY)
    }

    pub(crate) fn with_limits(folder: Option<PathBuf>, disk: u64, memory: usize) -> Arc<Self> {
        Arc::new(Self {
            folder,
            disk_limit: disk,
            disk: AtomicU64::new(0),
            memory_limit: memory,
            memory: AtomicUsize::new(0),
        })
    }

    /// Whether windows have to be small.
    pub(crate) fn memory_is_short(&self) -> bool {
        self.memory.load(Ordering::Relaxed) >= self.memory_limit
    }

    fn disk_left(&self) -> u64 {
        self.disk_limit.saturating_sub(self.disk.load(Ordering::Relaxed))
    }
}

/// A part of the memory, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    space: Arc<Space>,
    bytes: usize,
}

impl Share {
    pub(crate) fn new(space: &Arc<Space>) -> Self {
        Self { space: Arc::clone(space), bytes: 0 }
    }

    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Enters how much is in use now.
    pub(crate) fn set(&mut self, bytes: usize) {
        let memory = &self.space.memory;
        if bytes >= self.bytes {
            memory.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            memory.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The files of one exec, one for each stream, made when they are needed.
#[derive(Debug)]
pub(crate) struct Spill {
    space: Arc<Space>,
    files: [OnceLock<File>; 2],
    used: AtomicU64,
}

impl Spill {
    pub(crate) fn new(space: &Arc<Space>) -> Arc<Self> {
        let space = Arc::clone(space);
        Arc::new(Self { space, files: [OnceLock::new(), OnceLock::new()], used: AtomicU64::new(0) })
    }

    /// Takes room for `bytes`, if there is enough.
    pub(crate) fn reserve(&self, bytes: u64, need: Need) -> bool {
        let left = self.space.disk_left();
        let most = match need {
            Need::Unread => left.min(DISK_PER_EXEC).min(self.space.disk_limit / 2),
            Need::History => (left / 4).min(DISK_PER_EXEC / 2),
        };
        if self.space.folder.is_none() || self.used() + bytes > most {
            return false;
        }
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.space.disk.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Gives room back.
    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.space.disk.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes on disk.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Writes `chunks`, one after the other, at an offset of a stream. Blocks.
    pub(crate) fn write(&self, stream: usize, offset: u64, chunks: &[Bytes]) -> io::Result<()> {
        let file = self.file(stream)?;
        let mut at = offset;
        for chunk in chunks {
            file.write_all_at(chunk, at)?;
            at += chunk.len() as u64;
        }
        Ok(())
    }

    /// Reads bytes that were written. Blocks.
    pub(crate) fn read(&self, stream: usize, offset: u64, length: usize) -> io::Result<Bytes> {
        let mut bytes = vec![0; length];
        self.file(stream)?.read_exact_at(&mut bytes, offset)?;
        Ok(bytes.into())
    }

    /// Gives the disk back what was written between two offsets. Blocks.
    pub(crate) fn punch(&self, stream: usize, from: u64, to: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(self.file(stream)?, flags, from, to - from)?;
        Ok(())
    }

    fn file(&self, stream: usize) -> io::Result<&File> {
        let slot = &self.files[stream];
        if let Some(file) = slot.get() {
            return Ok(file);
        }
        let folder = self.space.folder.as_deref().ok_or(io::ErrorKind::Unsupported)?;
        let file = File::from(nameless(folder)?);
        // Whoever was first wins: the other file is empty.
        Ok(slot.get_or_init(|| file))
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        let used = *self.used.get_mut();
        self.space.disk.fetch_sub(used, Ordering::Relaxed);
        let files = std::mem::take(&mut self.files);
        // To give the disk back takes the time of a write.
        if files.iter().any(|file| file.get().is_some())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn_blocking(move || drop(files));
        }
    }
}

/// A file that only its descriptor leads to.
fn nameless(folder: &Path) -> io::Result<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    // EXCL: it can never be given a name.
    if let Ok(file) = open(folder, flags | OFlags::TMPFILE | OFlags::EXCL, mode) {
        return Ok(file);
    }
    // Not every file system makes files without a name.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!(".sandboxd-output-{}-{number}", std::process::id());
    let path = folder.join(OsString::from(name));
    let file = open(&path, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode)?;
    unlink(&path)?;
    Ok(file)
}

fn is_in_memory(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|found| IN_MEMORY.contains(&(found.f_type.cast_unsigned())))
}

/// How much all execs may have in `folder`: half of what is free there at the start.
fn limit_in(folder: &Path) -> u64 {
    let most = if is_in_memory(folder) { DISK_IN_MEMORY } else { DISK };
    let free = statfs(folder).map(|found| {
        found.f_bavail.saturating_mul(u64::try_from(found.f_bsize).unwrap_or_default())
    });
    most.min(free.unwrap_or_default() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn space(disk: u64) -> Arc<Space> {
        Space::with_limits(Some(std::env::temp_dir()), disk, 1000)
    }

    #[test]
    fn what_is_written_is_read_at_its_offset_and_nothing_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::with_limits(Some(folder.path().to_owned()), 10 * MIB, 1000);
        let spill = Spill::new(&space);
        spill.write(0, 7 * MIB, &[Bytes::from_static(b"ab"), Bytes::from_static(b"cd")]).unwrap();
        spill.write(1, 7 * MIB, &[Bytes::from_static(b"other")]).unwrap();
        assert_eq!(spill.read(0, 7 * MIB + 1, 3).unwrap(), b"bcd"[..]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        spill.punch(0, 0, 7 * MIB).unwrap();
        assert_eq!(spill.read(0, 7 * MIB, 4).unwrap(), b"abcd"[..]);
    }

    #[test]
    fn an_exec_has_as_much_as_is_left_for_others() {
        let space = space(100);
        let (first, second) = (Spill::new(&space), Spill::new(&space));
        assert!(first.reserve(50, Need::Unread));
        assert!(!first.reserve(1, Need::Unread), "half of all");
        assert!(second.reserve(25, Need::Unread));
        assert!(!second.reserve(25, Need::Unread), "25 are left");
        first.release(20);
        assert!(second.reserve(20, Need::Unread));
        drop(first);
        drop(second);
        assert_eq!(space.disk_left(), 100);
    }

    #[test]
    fn what_was_read_gives_way_to_what_was_not() {
        let space = space(100);
        let spill = Spill::new(&space);
        assert!(spill.reserve(25, Need::History));
        assert!(!spill.reserve(1, Need::History));
        assert!(spill.reserve(25, Need::Unread));
    }

    #[test]
    fn without_a_folder_there_is_no_room() {
        let space = Space::with_limits(None, 0, 1000);
        assert!(!Spill::new(&space).reserve(1, Need::Unread));
        assert!(Spill::new(&space).write(0, 0, &[Bytes::from_static(b"x")]).is_err());
    }

    #[test]
    fn memory_is_counted_over_all_and_given_back() {
        let space = space(0);
        let mut share = Share::new(&space);
        let mut other = Share::new(&space);
        share.set(600);
        assert!(!space.memory_is_short());
        other.set(500);
        assert!(space.memory_is_short());
        share.set(400);
        assert!(!space.memory_is_short());
        drop(other);
        drop(share);
        assert_eq!(space.memory.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_folder_on_a_disk_is_preferred() {
        let own = tempfile::tempdir().unwrap();
        let space = Space::new(own.path());
        assert!(space.folder.is_some());
        assert!(space.disk_limit > 0);
    }
}
