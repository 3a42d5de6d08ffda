//! Reading a regular file, some chunks at a time.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};
use sandboxd_proto::{CallError, ErrorCode, v1};

use super::path::SandboxPath;
use super::produce::Producer;
use super::tree::{Tree, failure};
use super::version::version;
use crate::call::Answer;

/// Bytes of one message: with its envelope just below 64 KiB, so that small frames never wait for
/// more than that.
pub(super) const CHUNK: usize = 64 * 1024 - 128;

/// Least that is asked of the kernel at once.
const MIN_CHUNK: u64 = 4 * 1024;

/// Chunks that are read at once: the window of a stream, so that a reader who keeps up causes one
/// change of threads for each of them.
const CHUNKS: usize = 4;

/// Which part of a file is wanted.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) length: Option<u64>,
    /// So many bytes at the end, instead of from `offset` on.
    pub(super) tail: Option<u64>,
    /// Of the version that this names; empty: of any.
    pub(super) version: Bytes,
}

/// A file that is being read. Has read nothing ahead.
#[derive(Debug)]
pub(super) struct Reading {
    file: OwnedFd,
    path: SandboxPath,
    offset: u64,
    /// Bytes that are still wanted.
    wanted: u64,
    /// Size when it was opened, as a hint: it may grow and shrink.
    size: u64,
    /// For the first message.
    version: Option<Bytes>,
    ended: bool,
}

impl Reading {
    /// Opens the regular file at `path`, to read the part of it.
    pub(super) fn open(tree: &Tree, path: SandboxPath, part: &Part) -> Answer<Self> {
        let (file, found) = tree.regular(&path)?;
        let size: u64 = found.st_size.try_into().unwrap_or(0);
        let version = version(&found);
        if !part.version.is_empty() && part.version != version {
            let message = format!("{path} is not the file any more that was read before");
            return Err(CallError::new(ErrorCode::FileChanged, message));
        }
        let offset = part.tail.map_or(part.offset, |tail| size.saturating_sub(tail));
        let wanted = part.length.unwrap_or(u64::MAX);
        Ok(Self { file, path, offset, wanted, size, version: Some(version), ended: false })
    }

    /// Reads the next bytes; none at the end.
    fn chunk(&mut self) -> Answer<Bytes> {
        // One byte more than there should be shows the end without another call.
        let expected = self.size.saturating_sub(self.offset) + 1;
        let room = expected.clamp(MIN_CHUNK, CHUNK as u64).min(self.wanted);
        // Offsets beyond what the kernel counts with are beyond the end as well.
        if room == 0 || i64::try_from(self.offset.saturating_add(room)).is_err() {
            return Ok(Bytes::new());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(room).unwrap_or(usize::MAX));
        let count = loop {
            match pread(&self.file, spare_capacity(&mut bytes), self.offset) {
                Ok(count) => break count as u64,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failure(&self.path, errno)),
            }
        };
        self.offset += count;
        // Regular files are short at their end only.
        self.wanted = if count < room { 0 } else { self.wanted - count };
        Ok(bytes.into())
    }
}

impl Producer for Reading {
    type Message = v1::FilesReadResponse;

    fn produce(&mut self) -> Answer<Vec<v1::FilesReadResponse>> {
        let mut made = Vec::new();
        while made.len() < CHUNKS && !self.ended {
            let mut message = v1::FilesReadResponse::default();
            if let Some(version) = self.version.take() {
                message.version = version;
                message.offset = Some(self.offset);
                message.size = Some(self.size);
            }
            message.data = self.chunk()?;
            self.ended = message.data.is_empty() || self.wanted == 0;
            if !message.data.is_empty() || message.offset.is_some() {
                made.push(message);
            }
        }
        Ok(made)
    }
}
