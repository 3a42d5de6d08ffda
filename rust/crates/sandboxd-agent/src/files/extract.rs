//! Unpacking an archive, as it arrives.
//!
//! Every byte of it may be hostile, and programs may change the tree meanwhile. A member's folder is
//! resolved beneath the target, without any symlink, by the kernel; a name has no slash in it; a
//! file appears whole or not at all. So nothing outside the target is touched. What was unpacked
//! before an error stays, and the error says how much that is. Memory is bounded: by one extended
//! header, by a map of [`MAX_SEGMENTS`], and by [`MAX_FOLDERS`] bytes of folders whose times wait
//! for the end.

use std::fmt::Display;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, chmod,
    fchmod, fstat, ftruncate, futimens, linkat, mkdirat, mknodat, openat, openat2, seek, statat,
    symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use sandboxd_proto::{CallError, ErrorCode, v1};

use super::make_dir::make_folders;
use super::new_file::NewFile;
use super::path::{SandboxPath, shown};
use super::tar::{
    BLOCK, Header, LAST_OLD_MAP, Malformed, Records, Segment, first_old_map, old_map, padding,
    sparse_map_of_text,
};
use super::tree::{Owner, Tree, check_real, failure, retry};
use super::write::write_all;
use crate::call::Answer;

/// Bytes of one extended header. Above the longest path and link together.
const MAX_EXTENDED: u64 = 1024 * 1024;

/// Parts of one sparse file.
const MAX_SEGMENTS: usize = 65_536;

/// Bytes of a map in front of the data: of so many segments with the longest numbers.
const MAX_MAP: usize = MAX_SEGMENTS * 42;

/// Bytes of names of folders.
const MAX_FOLDERS: usize = 16 * 1024 * 1024;

/// Longest path of a member, and longest target of a link; the kernel's own limit.
const MAX_PATH: usize = 4_095;

/// Where an archive goes.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) path: SandboxPath,
    /// Whose everything is; `None`: whose the archive says.
    pub(super) owner: Option<Owner>,
}

/// An archive that is being unpacked.
#[derive(Debug)]
pub(super) struct Extraction {
    tree: Tree,
    destination: SandboxPath,
    top: OwnedFd,
    owner: Option<Owner>,
    turn: Arc<Mutex<()>>,
    /// Bytes that arrived.
    size: u64,
    entries: u64,
    /// What is not a whole block yet.
    pending: Vec<u8>,
    stage: Stage,
    /// Of all members that follow.
    global: Records,
    /// Of the next member.
    local: Records,
    /// From GNU's own kinds of members, which name the next one.
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    folders: Vec<Folder>,
    folder_bytes: usize,
    /// The folder that was used last.
    recent: Option<(Vec<u8>, Arc<OwnedFd>)>,
}

/// What the next bytes are.
#[derive(Debug)]
enum Stage {
    Header,
    /// An extended header, or a long name.
    Extended {
        kind: u8,
        body: Vec<u8>,
        left: u64,
        padding: usize,
    },
    /// More of GNU's older map of a sparse file.
    OldMap {
        member: Box<Member>,
        segments: Vec<Segment>,
        real_size: u64,
    },
    /// The map in front of a sparse file's data.
    TextMap {
        member: Box<Member>,
        text: Vec<u8>,
        real_size: u64,
    },
    Data(Box<Body>),
    /// Data of a member that has none to keep, or what fills its last block.
    Skip(u64),
    /// One block of zeros came; nothing else may follow.
    End,
}

#[derive(Debug)]
struct Member {
    path: Vec<u8>,
    header: Header,
    modified: (i64, u32),
}

#[derive(Debug)]
struct Body {
    member: Member,
    file: NewFile,
    name: Vec<u8>,
    segments: std::vec::IntoIter<Segment>,
    /// Bytes of the segment that is being written.
    left: u64,
    /// Size with all holes.
    real_size: u64,
    /// Bytes that fill the last block.
    padding: usize,
}

#[derive(Debug)]
struct Folder {
    path: Vec<u8>,
    mode: u32,
    modified: (i64, u32),
}

impl Extraction {
    /// Makes the target, if it is missing.
    pub(super) fn begin(tree: &Tree, to: Destination, turn: &Arc<Mutex<()>>) -> Answer<Self> {
        let Destination { path, owner } = to;
        let path = path.trimmed();
        make_folders(tree, &path, owner.unwrap_or(Owner::ROOT))?;
        let failed = |errno| failure(&path, errno);
        let top = tree.open(path.bytes(), OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        check_real(&path, &top)?;
        Ok(Self {
            tree: tree.clone(),
            destination: path,
            top,
            owner,
            turn: Arc::clone(turn),
            size: 0,
            entries: 0,
            pending: Vec::new(),
            stage: Stage::Header,
            global: Records::default(),
            local: Records::default(),
            long_path: None,
            long_link: None,
            folders: Vec::new(),
            folder_bytes: 0,
            recent: None,
        })
    }

    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    pub(super) const fn progress(&self) -> v1::FilesExtractResponse {
        v1::FilesExtractResponse { size: self.size, entries: self.entries }
    }

    /// Takes the next bytes.
    pub(super) fn append(&mut self, chunks: &[Bytes]) -> Answer<()> {
        for chunk in chunks {
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let taken = self.take(rest)?;
                self.size += taken as u64;
                rest = &rest[taken..];
            }
        }
        Ok(())
    }

    /// Ends it: everything must have come.
    pub(super) fn finish(mut self) -> Answer<v1::FilesExtractResponse> {
        if !matches!(self.stage, Stage::End) {
            let what = match &self.stage {
                Stage::Data(body) => {
                    format!("in the middle of member {}", shown(&body.member.path))
                }
                _ if self.size == 0 => "before it began".to_owned(),
                _ => "without its end".to_owned(),
            };
            return Err(self.refused("truncated", format!("the archive stops {what}")));
        }
        // The inner ones first: they are what changes the times of the outer ones.
        for folder in std::mem::take(&mut self.folders).into_iter().rev() {
            self.settle(&folder)?;
        }
        Ok(self.progress())
    }

    /// Takes some of the bytes, at least one, and says how many.
    fn take(&mut self, bytes: &[u8]) -> Answer<usize> {
        match &mut self.stage {
            Stage::Skip(left) => {
                let count = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= count as u64;
                if *left == 0 {
                    self.stage = Stage::Header;
                }
                Ok(count)
            }
            Stage::Extended { body, left, .. } if *left > 0 => {
                let count = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                body.extend_from_slice(&bytes[..count]);
                *left -= count as u64;
                if *left == 0 {
                    self.extended_ends()?;
                }
                Ok(count)
            }
            Stage::Data(body) => {
                let count = bytes.len().min(usize::try_from(body.left).unwrap_or(usize::MAX));
                if let Err(errno) = write_all(&body.file, &bytes[..count]) {
                    let path = body.member.path.clone();
                    return Err(self.failed(&path, errno));
                }
                body.left -= count as u64;
                self.next_segment()?;
                Ok(count)
            }
            Stage::Header
            | Stage::Extended { .. }
            | Stage::OldMap { .. }
            | Stage::TextMap { .. }
            | Stage::End => {
                let count = bytes.len().min(BLOCK - self.pending.len());
                self.pending.extend_from_slice(&bytes[..count]);
                if let Ok(block) = <[u8; BLOCK]>::try_from(&self.pending[..]) {
                    self.pending.clear();
                    self.block(&block)?;
                }
                Ok(count)
            }
        }
    }

    fn block(&mut self, block: &[u8; BLOCK]) -> Answer<()> {
        match std::mem::replace(&mut self.stage, Stage::Header) {
            Stage::End => {
                if block.iter().any(|byte| *byte != 0) {
                    return Err(self.refused("malformed", "the archive goes on after its end"));
                }
                self.stage = Stage::End;
                Ok(())
            }
            Stage::OldMap { member, mut segments, real_size } => {
                segments.extend(
                    old_map(&block[..LAST_OLD_MAP]).map_err(|it| self.broken(&member.path, it))?,
                );
                if segments.len() > MAX_SEGMENTS {
                    return Err(self.broken(&member.path, Malformed("it has too many holes")));
                }
                if block[LAST_OLD_MAP] != 0 {
                    self.stage = Stage::OldMap { member, segments, real_size };
                    return Ok(());
                }
                self.begin_file(*member, segments, real_size)
            }
            Stage::TextMap { mut member, mut text, real_size } => {
                text.extend_from_slice(block);
                if text.len() > MAX_MAP {
                    return Err(self.broken(&member.path, Malformed("it has too many holes")));
                }
                let map = sparse_map_of_text(&text, MAX_SEGMENTS);
                match map.map_err(|it| self.broken(&member.path, it))? {
                    Some((segments, used)) => {
                        let left = member.header.size.checked_sub(used as u64);
                        let Some(left) = left else {
                            return Err(self.broken(&member.path, Malformed("its map is cut")));
                        };
                        member.header.size = left;
                        self.begin_file(*member, segments, real_size)
                    }
                    None => {
                        self.stage = Stage::TextMap { member, text, real_size };
                        Ok(())
                    }
                }
            }
            _ => self.header(block),
        }
    }

    fn header(&mut self, block: &[u8; BLOCK]) -> Answer<()> {
        let header = match Header::read(block) {
            Ok(Some(header)) => header,
            Ok(None) => {
                self.stage = Stage::End;
                return Ok(());
            }
            Err(Malformed(what)) if self.size < BLOCK as u64 => {
                let hint =
                    if block.starts_with(&[0x1f, 0x8b]) { ": unpack the gzip first" } else { "" };
                return Err(
                    self.refused("malformed", format!("this is no tar archive, {what}{hint}"))
                );
            }
            Err(broken) => {
                let path = b"after the last one".to_vec();
                return Err(self.broken(&path, broken));
            }
        };
        if let b'x' | b'g' | b'L' | b'K' = header.kind {
            if header.size > MAX_EXTENDED {
                let what = Malformed("its extended header is longer than 1 MiB");
                return Err(self.broken(&header.path, what));
            }
            self.stage = Stage::Extended {
                kind: header.kind,
                body: Vec::new(),
                left: header.size,
                padding: padding(header.size),
            };
            return if header.size == 0 { self.extended_ends() } else { Ok(()) };
        }
        self.member(header, block)
    }

    fn extended_ends(&mut self) -> Answer<()> {
        let stage = std::mem::replace(&mut self.stage, Stage::Header);
        let Stage::Extended { kind, mut body, padding, .. } = stage else { return Ok(()) };
        let read = match kind {
            b'x' => self.local.read(&body),
            b'g' => self.global.read(&body),
            kind => {
                while body.last() == Some(&0) {
                    body.pop();
                }
                *(if kind == b'L' { &mut self.long_path } else { &mut self.long_link }) =
                    Some(body);
                Ok(())
            }
        };
        read.map_err(|it| self.broken(b"with an extended header", it))?;
        if padding > 0 {
            self.stage = Stage::Skip(padding as u64);
        }
        Ok(())
    }

    fn member(&mut self, mut header: Header, block: &[u8; BLOCK]) -> Answer<()> {
        let records = std::mem::take(&mut self.local);
        let global = &self.global;
        let path = records.sparse_path.clone().or(records.path.clone()).or(self.long_path.take());
        let path = path.or(global.path.clone()).unwrap_or_else(|| header.path.clone());
        let link = records.link.clone().or(self.long_link.take()).or(global.link.clone());
        header.link = link.unwrap_or(header.link);
        header.size = records.size.or(global.size).unwrap_or(header.size);
        header.uid = records.uid.or(global.uid).unwrap_or(header.uid);
        header.gid = records.gid.or(global.gid).unwrap_or(header.gid);
        let modified = records.modified.or(global.modified).unwrap_or((header.modified, 0));
        if header.size > i64::MAX as u64 {
            return Err(self.broken(&path, Malformed("its size is beyond what a file can have")));
        }
        // As writers did it before there was a kind for folders.
        if matches!(header.kind, b'0' | 0) && path.ends_with(b"/") {
            header.kind = b'5';
        }
        let member = Member { path, header, modified };
        match member.header.kind {
            b'0' | 0 | b'7' => {
                let size = member.header.size;
                if records.has_sparse_text {
                    let real_size = records.sparse_size.unwrap_or(0);
                    let (member, text) = (Box::new(member), Vec::new());
                    self.stage = Stage::TextMap { member, text, real_size };
                    return Ok(());
                }
                if let Some(real_size) = records.sparse_size {
                    let segments = records.segments().filter(|it| it.len() <= MAX_SEGMENTS);
                    let broken = Malformed("its map of holes is broken");
                    let segments = segments.ok_or_else(|| self.broken(&member.path, broken))?;
                    return self.begin_file(member, segments, real_size);
                }
                self.begin_file(member, vec![Segment { offset: 0, length: size }], size)
            }
            b'S' => {
                let (segments, more, real_size) =
                    first_old_map(block).map_err(|it| self.broken(&member.path, it))?;
                if more {
                    self.stage = Stage::OldMap { member: Box::new(member), segments, real_size };
                    return Ok(());
                }
                self.begin_file(member, segments, real_size)
            }
            _ => {
                self.whole(&member)?;
                self.entries += 1;
                // Links have no data of their own, whatever is sent.
                let size = member.header.size;
                let left = size + padding(size) as u64;
                self.stage = if left == 0 { Stage::Header } else { Stage::Skip(left) };
                Ok(())
            }
        }
    }

    /// A member without data.
    fn whole(&mut self, member: &Member) -> Answer<()> {
        match member.header.kind {
            b'5' => self.folder(member),
            b'1' => self.hard_link(member),
            b'2' => {
                let target = &member.header.link;
                if target.is_empty() || target.len() > MAX_PATH {
                    return Err(self.broken(&member.path, Malformed("its target is no path")));
                }
                let owner = self.owner_of(member)?;
                let (parent, name) = self.place_of(member)?;
                self.make(member, &parent, &name, || {
                    self.tree.as_owner(owner, || symlinkat(&target[..], &parent, &name[..]))
                })?;
                utimensat(&parent, &name[..], &times(member.modified), AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(|errno| self.failed(&member.path, errno))
            }
            b'6' => {
                let owner = self.owner_of(member)?;
                let (parent, name) = self.place_of(member)?;
                self.make(member, &parent, &name, || {
                    self.tree.as_owner(owner, || {
                        mknodat(&parent, &name[..], FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
                    })
                })?;
                set_pipe(&parent, &name, member).map_err(|errno| self.failed(&member.path, errno))
            }
            b'3' | b'4' => {
                let what = format!("member {} is a device", shown(&member.path));
                Err(self.refused("device", what))
            }
            kind => {
                let what = format!(
                    "member {} is of a kind that is not unpacked: {:?}",
                    shown(&member.path),
                    char::from(kind)
                );
                Err(self.refused("kind", what))
            }
        }
    }

    fn folder(&mut self, member: &Member) -> Answer<()> {
        let path = self.checked(&member.path, &member.path)?;
        if !path.is_empty() {
            let owner = self.owner_of(member)?;
            let (parent, name) = self.place_of(member)?;
            // Its own permissions come at the end: they may keep an ordinary user's agent out.
            let made = self.tree.as_owner(owner, || mkdirat(&parent, &name[..], Mode::RWXU));
            match made {
                Ok(()) => {}
                Err(Errno::EXIST) => {
                    let found = statat(&parent, &name[..], AtFlags::SYMLINK_NOFOLLOW)
                        .map_err(|errno| self.failed(&member.path, errno))?;
                    match FileType::from_raw_mode(found.st_mode) {
                        FileType::Directory => {}
                        FileType::Symlink => return Err(self.through_link(&member.path)),
                        _ => return Err(self.failed(&member.path, Errno::EXIST)),
                    }
                }
                Err(errno) => return Err(self.failed(&member.path, errno)),
            }
        }
        self.folder_bytes += path.len() + size_of::<Folder>();
        if self.folder_bytes > MAX_FOLDERS {
            let message = format!(
                "the archive has more than {MAX_FOLDERS} bytes of directories: unpack it in parts"
            );
            return Err(self.stopped(ErrorCode::ResourceExhausted, message));
        }
        let (mode, modified) = (member.header.mode, member.modified);
        self.folders.push(Folder { path, mode, modified });
        Ok(())
    }

    fn hard_link(&mut self, member: &Member) -> Answer<()> {
        let source = self.checked(&member.header.link, &member.path)?;
        let (parent, name) = self.place_of(member)?;
        let (source_parent, source_name) = match split(&source) {
            Some((folder, name)) => (self.parent(&folder, false, member)?, name),
            None => return Err(self.broken(&member.path, Malformed("it is a link to a directory"))),
        };
        self.make(member, &parent, &name, || {
            self.tree.as_owner(Owner::ROOT, || {
                linkat(&source_parent, &source_name[..], &parent, &name[..], AtFlags::empty())
            })
        })
    }

    /// Makes something that is no folder under a name, in place of what has it and is none either.
    fn make(
        &self,
        member: &Member,
        parent: &OwnedFd,
        name: &[u8],
        make: impl Fn() -> Result<(), Errno>,
    ) -> Answer<()> {
        let failed = |errno| self.failed(&member.path, errno);
        match make() {
            Err(Errno::EXIST) => {}
            result => return result.map_err(failed),
        }
        match unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => make().map_err(failed),
            // The two answers for a folder.
            Err(Errno::ISDIR | Errno::PERM) => Err(failed(Errno::ISDIR)),
            Err(errno) => Err(failed(errno)),
        }
    }

    fn begin_file(&mut self, member: Member, segments: Vec<Segment>, real_size: u64) -> Answer<()> {
        let mut end = 0;
        let mut sum = 0_u64;
        for segment in &segments {
            let after = segment.offset.checked_add(segment.length).filter(|it| *it <= real_size);
            let (true, Some(after)) = (segment.offset >= end, after) else {
                return Err(self.broken(&member.path, Malformed("its map of holes is broken")));
            };
            end = after;
            sum += segment.length;
        }
        if sum != member.header.size || i64::try_from(real_size).is_err() {
            return Err(self.broken(&member.path, Malformed("its map of holes is broken")));
        }
        let owner = self.owner_of(&member)?;
        let (parent, name) = self.place_of(&member)?;
        let file = NewFile::create(&self.tree, owner, parent)
            .map_err(|errno| self.failed(&member.path, errno))?;
        let padding = padding(member.header.size);
        let segments = segments.into_iter();
        let body = Body { member, file, name, segments, left: 0, real_size, padding };
        self.stage = Stage::Data(Box::new(body));
        self.next_segment()
    }

    /// Goes to the next part of a file when one is written, and to the next member after the last.
    fn next_segment(&mut self) -> Answer<()> {
        let Stage::Data(body) = &mut self.stage else { return Ok(()) };
        while body.left == 0 {
            let Some(segment) = body.segments.next() else { return self.file_ends() };
            body.left = segment.length;
            if let Err(errno) = seek(&body.file, rustix::fs::SeekFrom::Start(segment.offset)) {
                let path = body.member.path.clone();
                return Err(self.failed(&path, errno));
            }
        }
        Ok(())
    }

    fn file_ends(&mut self) -> Answer<()> {
        let stage = std::mem::replace(&mut self.stage, Stage::Header);
        let Stage::Data(body) = stage else { return Ok(()) };
        let Body { member, file, name, real_size, padding, .. } = *body;
        let placed = ftruncate(&file, real_size)
            .and_then(|()| fchmod(&file, Mode::from_raw_mode(member.header.mode)))
            .and_then(|()| futimens(&file, &times(member.modified)))
            .and_then(|()| {
                if file.was_reachable() {
                    file.hold()?;
                }
                file.place(&self.tree, &name, &self.turn)
            });
        placed.map_err(|errno| self.failed(&member.path, errno))?;
        self.entries += 1;
        if padding > 0 {
            self.stage = Stage::Skip(padding as u64);
        }
        Ok(())
    }

    /// Gives a folder its permissions and its time, once everything is in it.
    fn settle(&self, folder: &Folder) -> Answer<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = if folder.path.is_empty() { b"." } else { &folder.path[..] };
        let settled =
            retry(|| openat2(&self.top, path, flags, Mode::empty(), BENEATH)).and_then(|found| {
                fchmod(&found, Mode::from_raw_mode(folder.mode))?;
                futimens(&found, &times(folder.modified))
            });
        match settled {
            // A program took it away meanwhile.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(errno) => Err(self.failed(&folder.path, errno)),
        }
    }

    fn owner_of(&self, member: &Member) -> Answer<Owner> {
        if let Some(owner) = self.owner {
            return Ok(owner);
        }
        let id = |id: u64| u32::try_from(id).ok();
        let owner = id(member.header.uid).zip(id(member.header.gid));
        let owner = owner.map(|(uid, gid)| Owner { uid, gid });
        owner.filter(|owner| self.tree.has_ids(*owner)).ok_or_else(|| {
            let what = format!(
                "member {} belongs to {}:{}, which the sandbox does not have: name a user",
                shown(&member.path),
                member.header.uid,
                member.header.gid
            );
            self.refused("owner", what)
        })
    }

    /// The folder of a member, made if it is missing, and the member's name in it.
    fn place_of(&mut self, member: &Member) -> Answer<(Arc<OwnedFd>, Vec<u8>)> {
        let path = self.checked(&member.path, &member.path)?;
        let Some((folder, name)) = split(&path) else {
            let what = Malformed("it would take the place of the directory to unpack into");
            return Err(self.broken(&member.path, what));
        };
        Ok((self.parent(&folder, true, member)?, name))
    }

    /// A path without `.` and doubled slashes; empty for the target itself.
    fn checked(&self, path: &[u8], member: &[u8]) -> Answer<Vec<u8>> {
        let escapes = |what: &str| {
            let what = format!("member {} {what}", shown(member));
            Err(self.refused("escapes", what))
        };
        if path.is_empty() || path.contains(&0) || path.len() > MAX_PATH {
            return Err(self.broken(member, Malformed("it has a path that no file can have")));
        }
        if path.starts_with(b"/") {
            return escapes("has an absolute path, which leads out of the directory");
        }
        let mut parts = Vec::new();
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return escapes("leads out of the directory with `..`"),
                part if part.len() > 255 => return Err(self.failed(member, Errno::NAMETOOLONG)),
                part => parts.push(part),
            }
        }
        Ok(parts.join(&b'/'))
    }

    fn parent(&mut self, path: &[u8], make: bool, member: &Member) -> Answer<Arc<OwnedFd>> {
        if let Some((recent, folder)) = &self.recent
            && recent == path
        {
            return Ok(Arc::clone(folder));
        }
        let folder = match self.open_folder(path) {
            Err(Errno::NOENT) if make => {
                let owner = self.owner_of(member)?;
                let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
                let ends: Vec<usize> = slashes.map(|(end, _)| end).chain([path.len()]).collect();
                for end in ends {
                    let part = &path[..end];
                    let Some((above, name)) = split(part) else { continue };
                    let made = self.open_folder(&above).and_then(|above| {
                        let mode = Mode::from_raw_mode(0o755);
                        match self.tree.as_owner(owner, || mkdirat(&above, &name[..], mode)) {
                            Err(Errno::EXIST) => Ok(()),
                            result => result,
                        }
                    });
                    made.map_err(|errno| self.unreachable(&member.path, errno))?;
                }
                self.open_folder(path)
            }
            result => result,
        };
        let folder = Arc::new(folder.map_err(|errno| self.unreachable(&member.path, errno))?);
        check_real(&self.destination, &folder)?;
        self.recent = Some((path.to_vec(), Arc::clone(&folder)));
        Ok(folder)
    }

    fn open_folder(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = if path.is_empty() { b"." } else { path };
        retry(|| openat2(&self.top, path, flags, Mode::empty(), BENEATH))
    }

    fn unreachable(&self, member: &[u8], errno: Errno) -> CallError {
        match errno {
            // What the kernel says of a link where a folder is to be, too.
            Errno::LOOP | Errno::XDEV => self.through_link(member),
            Errno::NOTDIR => {
                let what = format!("member {} leads through what is no directory", shown(member));
                self.refused("escapes", what)
            }
            errno => self.failed(member, errno),
        }
    }

    fn through_link(&self, member: &[u8]) -> CallError {
        self.refused("escapes", format!("member {} leads through a symlink", shown(member)))
    }

    fn broken(&self, member: &[u8], Malformed(what): Malformed) -> CallError {
        self.refused("malformed", format!("member {} is broken: {what}", shown(member)))
    }

    fn refused(&self, reason: &str, what: impl Display) -> CallError {
        self.stopped(ErrorCode::ArchiveRefused, what).with_reason(reason)
    }

    fn failed(&self, member: &[u8], errno: Errno) -> CallError {
        if errno == Errno::LOOP {
            return self.through_link(member);
        }
        let error = failure(&self.destination, errno);
        let what = format!("member {} cannot be unpacked: {}", shown(member), error.message);
        self.stopped(error.code, what)
    }

    fn stopped(&self, code: ErrorCode, what: impl Display) -> CallError {
        let message = format!("{what}; {} members before it were unpacked", self.entries);
        CallError::new(code, message).maybe_run(self.entries > 0)
    }
}

/// How members find their folders. Not past mount points only because of what `/proc` shows, which
/// is looked at apart: the sandbox's own folders may be mounts.
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Folder and name of a checked path; `None` for an empty one.
fn split(path: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if path.is_empty() {
        return None;
    }
    Some(match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (path[..slash].to_vec(), path[slash + 1..].to_vec()),
        None => (Vec::new(), path.to_vec()),
    })
}

/// Gives a pipe its permissions and its time. By descriptor, and past the way that a link in its
/// place would lead.
fn set_pipe(parent: &OwnedFd, name: &[u8], member: &Member) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let pipe = openat(parent, name, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&pipe)?.st_mode) != FileType::Fifo {
        // A program has replaced it.
        return Ok(());
    }
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    chmod(&path, Mode::from_raw_mode(member.header.mode & 0o7777))?;
    utimensat(CWD, &path, &times(member.modified), AtFlags::empty())
}

fn times((seconds, nanoseconds): (i64, u32)) -> Timestamps {
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let modified = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
    Timestamps { last_access: omit, last_modification: modified }
}
