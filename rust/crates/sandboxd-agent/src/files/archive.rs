//! A folder, or anything else, as a tar archive in the pax format.
//!
//! Made step by step, so that a reader who is slow holds no thread. Nothing is followed: symlinks
//! are members, what is mounted is not entered, and a file is opened by its name in its folder, if
//! it is a regular one. Memory and descriptors are bounded however deep and wide the tree is.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, SeekFrom, Stat, fstat, openat2, readlinkat,
    seek, statat,
};
use rustix::io::{Errno, pread};
use sandboxd_proto::{CallError, ErrorCode, v1};

use super::path::{SandboxPath, shown};
use super::produce::Producer;
use super::read::CHUNK;
use super::tar::{BLOCK, Fields, Segment, padding, put_member};
use super::tree::{Tree, check_real, child_folder, failure, retry};
use crate::call::Answer;

/// Bytes that are made in one step: the window of a stream.
const STEP: usize = 4 * CHUNK;

/// Folders that are open at once.
const MAX_OPEN: usize = 32;

/// Bytes of names that wait for their turn.
const MAX_NAMES: usize = 64 * 1024 * 1024;

/// Files with several names that are remembered. Beyond that, each name is a file of its own.
const MAX_LINKED: usize = 100_000;

/// Parts of a sparse file. One with more of them is archived with zeros in it.
const MAX_SEGMENTS: usize = 16_384;

/// Longest path of a member: nobody could open it with a longer one.
const MAX_PATH: usize = 4_095;

/// An archive that is being made.
#[derive(Debug)]
pub(super) struct Archiving {
    tree: Tree,
    path: SandboxPath,
    stage: Stage,
    folders: Vec<Folder>,
    name_bytes: usize,
    /// Files with several names: the first path of each.
    linked: HashMap<(u64, u64), Vec<u8>>,
    out: Vec<u8>,
    entries: u64,
    skipped: u64,
}

#[derive(Debug)]
enum Stage {
    /// A folder that is archived without its own name.
    Walk,
    File(Box<Body>),
    Last,
    Done,
}

#[derive(Debug)]
struct Folder {
    /// Below the top; empty for that.
    path: Vec<u8>,
    /// Closed while many others are open below it.
    open: Option<OwnedFd>,
    /// In reverse order.
    names: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Body {
    file: OwnedFd,
    path: Vec<u8>,
    segments: std::vec::IntoIter<Segment>,
    offset: u64,
    left: u64,
    padding: usize,
}

impl Archiving {
    /// Opens what is at `path`; a symlink there is followed.
    pub(super) fn open(tree: &Tree, path: SandboxPath) -> Answer<Self> {
        let failed = |errno| failure(&path, errno);
        let top = tree.open(path.bytes(), OFlags::PATH).map_err(failed)?;
        let found = fstat(&top).map_err(failed)?;
        check_real(&path, &top)?;
        let mut this = Self {
            tree: tree.clone(),
            path: path.clone(),
            stage: Stage::Walk,
            folders: Vec::new(),
            name_bytes: 0,
            linked: HashMap::new(),
            out: Vec::new(),
            entries: 0,
            skipped: 0,
        };
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let folder = tree.open(path.bytes(), flags).map_err(failed)?;
            this.put(&found, b"./", b"", found_size(&found), None);
            this.enter(Vec::new(), folder)?;
        } else {
            let (file, found) = tree.regular(&path)?;
            let trimmed = path.trimmed();
            let name = trimmed.split().map_or(&b"file"[..], |(_, name)| name).to_vec();
            this.begin_file(file, &found, name)?;
        }
        Ok(this)
    }

    /// Goes on by one step: a member, or some bytes of one.
    fn step(&mut self) -> Answer<()> {
        match &mut self.stage {
            Stage::File(_) => self.copy(),
            Stage::Walk => self.walk(),
            Stage::Last => {
                // Two blocks of zeros are the end.
                self.out.resize(self.out.len() + 2 * BLOCK, 0);
                self.stage = Stage::Done;
                Ok(())
            }
            Stage::Done => Ok(()),
        }
    }

    fn walk(&mut self) -> Answer<()> {
        let Some(folder) = self.folders.last_mut() else {
            self.stage = Stage::Last;
            return Ok(());
        };
        let Some(name) = folder.names.pop() else {
            self.folders.pop();
            return Ok(());
        };
        self.name_bytes -= name.len();
        let path = if folder.path.is_empty() {
            name.clone()
        } else {
            [&folder.path[..], b"/", &name].concat()
        };
        if path.len() > MAX_PATH {
            let message = format!("{} has paths in it that are longer than 4095 bytes", self.path);
            return Err(CallError::new(ErrorCode::ResourceExhausted, message));
        }
        match self.member(&path, &name) {
            // Taken away since its name was read; or a folder above it was.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                self.skipped += 1;
                Ok(())
            }
            Err(errno) => Err(self.failed(&path, errno)),
            Ok(Found::Done) => Ok(()),
            Ok(Found::Folder(open)) => self.enter(path, open),
            Ok(Found::File(file, found)) => self.begin_file(file, &found, path),
        }
    }

    /// Looks at a member, and writes it unless it has something in it.
    fn member(&mut self, path: &[u8], name: &[u8]) -> Result<Found, Errno> {
        let top = self.folders.len() - 1;
        if self.folders[top].open.is_none() {
            self.folders[top].open = Some(self.reopen(&self.folders[top].path)?);
        }
        let Some(folder) = &self.folders[top].open else { return Err(Errno::NOENT) };
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(found.st_mode);
        match kind {
            FileType::Directory => {
                let opened = child_folder(folder, name);
                let slashed = [path, b"/"].concat();
                self.put(&found, &slashed, b"", 0, None);
                match opened {
                    Ok(folder) => Ok(Found::Folder(folder)),
                    // What is mounted is a folder with nothing in it.
                    Err(Errno::XDEV) => Ok(Found::Done),
                    Err(errno) => Err(errno),
                }
            }
            FileType::Symlink => {
                let target = readlinkat(folder, name, Vec::new())?;
                self.put(&found, path, target.as_bytes(), 0, None);
                Ok(Found::Done)
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY
                    | OFlags::NONBLOCK
                    | OFlags::NOCTTY
                    | OFlags::NOFOLLOW
                    | OFlags::LARGEFILE
                    | OFlags::CLOEXEC;
                let file = match retry(|| openat2(folder, name, flags, Mode::empty(), BENEATH)) {
                    // A mount point, or not a file any more.
                    Err(Errno::XDEV | Errno::NXIO | Errno::NODEV) => return Err(Errno::NOENT),
                    result => result?,
                };
                let found = fstat(&file)?;
                if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
                    return Err(Errno::NOENT);
                }
                Ok(Found::File(file, found))
            }
            FileType::Fifo => {
                self.put(&found, path, b"", 0, None);
                Ok(Found::Done)
            }
            _ => {
                self.skipped += 1;
                Ok(Found::Done)
            }
        }
    }

    fn reopen(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let top = self.tree.open(self.path.bytes(), flags)?;
        if path.is_empty() {
            return Ok(top);
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        retry(|| openat2(&top, path, flags, Mode::empty(), BENEATH))
    }

    fn enter(&mut self, path: Vec<u8>, open: OwnedFd) -> Answer<()> {
        let mut names = Vec::new();
        let listed = Dir::read_from(&open).and_then(|entries| {
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if !matches!(name, b"." | b"..") {
                    self.name_bytes += name.len();
                    names.push(name.to_vec());
                }
                if self.name_bytes > MAX_NAMES {
                    return Err(Errno::NOMEM);
                }
            }
            Ok(())
        });
        match listed {
            Err(Errno::NOMEM) => {
                let message = format!(
                    "{} has more than {MAX_NAMES} bytes of names in it: archive it in parts",
                    self.path
                );
                return Err(CallError::new(ErrorCode::ResourceExhausted, message));
            }
            // Removed meanwhile.
            Err(Errno::NOENT) => {}
            result => result.map_err(|errno| self.failed(&path, errno))?,
        }
        names.sort_unstable_by(|one, other| other.cmp(one));
        self.folders.push(Folder { path, open: Some(open), names });
        if let Some(index) = self.folders.len().checked_sub(MAX_OPEN + 1) {
            self.folders[index].open = None;
        }
        Ok(())
    }

    fn begin_file(&mut self, file: OwnedFd, found: &Stat, path: Vec<u8>) -> Answer<()> {
        if found.st_nlink > 1 {
            let key = (found.st_dev, found.st_ino);
            if let Some(first) = self.linked.get(&key).cloned() {
                self.put_kind(b'1', found, &path, &first, 0, None);
                return Ok(());
            }
            if self.linked.len() < MAX_LINKED {
                self.linked.insert(key, path.clone());
            }
        }
        let size = found_size(found);
        let holes = segments(&file, found).map_err(|errno| self.failed(&path, errno))?;
        let segments = holes.clone().unwrap_or_else(|| vec![Segment { offset: 0, length: size }]);
        self.put(found, &path, b"", size, holes.as_deref());
        let data = segments.iter().map(|segment| segment.length).sum();
        let body = Body {
            file,
            path,
            segments: segments.into_iter(),
            offset: 0,
            left: 0,
            padding: padding(data),
        };
        self.stage = Stage::File(Box::new(body));
        Ok(())
    }

    /// Copies some bytes of the file.
    fn copy(&mut self) -> Answer<()> {
        let Stage::File(body) = &mut self.stage else { return Ok(()) };
        if body.left == 0 {
            let Some(segment) = body.segments.next() else {
                self.out.resize(self.out.len() + body.padding, 0);
                self.stage = Stage::Walk;
                return Ok(());
            };
            (body.offset, body.left) = (segment.offset, segment.length);
        }
        let room = usize::try_from(body.left).unwrap_or(usize::MAX).min(STEP);
        let start = self.out.len();
        self.out.resize(start + room, 0);
        let count = loop {
            match pread(&body.file, &mut self.out[start..], body.offset) {
                Err(Errno::INTR) => {}
                result => break result,
            }
        };
        match count {
            Ok(0) if room > 0 => {
                // Zeros in place of what is missing would be content that the file never had.
                let message = format!(
                    "{} in {} became shorter while it was archived",
                    shown(&body.path),
                    self.path
                );
                Err(CallError::new(ErrorCode::FileChanged, message))
            }
            Ok(count) => {
                self.out.truncate(start + count);
                body.offset += count as u64;
                body.left -= count as u64;
                Ok(())
            }
            Err(errno) => {
                let path = body.path.clone();
                Err(self.failed(&path, errno))
            }
        }
    }

    fn put(
        &mut self,
        found: &Stat,
        path: &[u8],
        link: &[u8],
        size: u64,
        holes: Option<&[Segment]>,
    ) {
        let kind = match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => b'5',
            FileType::Symlink => b'2',
            FileType::Fifo => b'6',
            _ => b'0',
        };
        let size = if kind == b'0' { size } else { 0 };
        self.put_kind(kind, found, path, link, size, holes);
    }

    fn put_kind(
        &mut self,
        kind: u8,
        found: &Stat,
        path: &[u8],
        link: &[u8],
        size: u64,
        segments: Option<&[Segment]>,
    ) {
        let owner = self.tree.owner(found);
        let nanoseconds = u32::try_from(found.st_mtime_nsec).unwrap_or(0);
        let fields = Fields {
            kind,
            path,
            link,
            mode: found.st_mode & 0o7777,
            uid: owner.uid,
            gid: owner.gid,
            size,
            modified: (found.st_mtime, nanoseconds),
            segments,
        };
        put_member(&mut self.out, &fields);
        self.entries += 1;
    }

    fn failed(&self, member: &[u8], errno: Errno) -> CallError {
        let error = failure(&self.path, errno);
        let message = format!("{} in it cannot be archived: {}", shown(member), error.message);
        CallError::new(error.code, message)
    }
}

enum Found {
    Done,
    Folder(OwnedFd),
    File(OwnedFd, Stat),
}

/// Members are opened by their name alone, in their folder.
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);

fn found_size(found: &Stat) -> u64 {
    found.st_size.try_into().unwrap_or(0)
}

/// The parts of a file that are not holes; `None` if it has no holes, or too many.
fn segments(file: &OwnedFd, found: &Stat) -> Result<Option<Vec<Segment>>, Errno> {
    let size = found_size(found);
    // Blocks of 512 bytes: with enough of them there is no hole.
    if u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512) >= size {
        return Ok(None);
    }
    let mut segments = Vec::new();
    let mut offset = 0;
    while offset < size {
        let data = match seek(file, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            // A file system that does not tell.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        if data >= size {
            break;
        }
        let hole = seek(file, SeekFrom::Hole(data))?.min(size);
        // A program that fills and empties it meanwhile must not keep us here.
        if hole <= data || segments.len() == MAX_SEGMENTS {
            return Ok(None);
        }
        segments.push(Segment { offset: data, length: hole - data });
        offset = hole;
    }
    Ok(Some(segments))
}

impl Producer for Archiving {
    type Message = v1::FilesArchiveResponse;

    fn produce(&mut self) -> Answer<Vec<v1::FilesArchiveResponse>> {
        if matches!(self.stage, Stage::Done) {
            return Ok(Vec::new());
        }
        while self.out.len() < STEP && !matches!(self.stage, Stage::Done) {
            self.step()?;
        }
        let mut rest = Bytes::from(std::mem::take(&mut self.out));
        let mut made = Vec::new();
        while !rest.is_empty() {
            let size = rest.len().min(CHUNK);
            made.push(v1::FilesArchiveResponse { data: rest.split_to(size), ..Default::default() });
        }
        if matches!(self.stage, Stage::Done)
            && let Some(last) = made.last_mut()
        {
            (last.entries, last.skipped) = (Some(self.entries), Some(self.skipped));
        }
        Ok(made)
    }
}
