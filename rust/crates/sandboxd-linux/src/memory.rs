//! Memory straight from the kernel: pages that are never touched cost nothing, which an allocator's
//! cleared memory does not promise.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};

/// Lowest part of a region for a stack, never accessible.
const GUARD: usize = 4096;

/// A private mapping, zeroes or a file's content.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    length: usize,
}

impl Region {
    /// Zeroed memory.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn new(length: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing is overlapped.
        let start = unsafe { mmap_anonymous(null_mut(), length, protection, MapFlags::PRIVATE) }?;
        Self::made(start.cast(), length)
    }

    /// The content of a file from its start. The file must not shrink while it is mapped.
    ///
    /// # Errors
    ///
    /// If it is empty or cannot be mapped.
    pub fn of_file(file: impl AsFd) -> io::Result<Self> {
        let length = rustix::fs::fstat(&file)?.st_size;
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing is overlapped; the mapping is private, so
        // no other process changes what was read.
        let start = unsafe { mmap(null_mut(), length, protection, MapFlags::PRIVATE, file, 0) }?;
        Self::made(start.cast(), length)
    }

    /// Leaves the region out of every copy of this process, whose pages then need not be copied. No
    /// child that is made by a fork may touch it. Best effort.
    pub fn keep_from_forks(&self) {
        // SAFETY: the mapping stays as it is here.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxDontFork) };
    }

    /// Memory for a stack, with a guard below it.
    pub(crate) fn stack(length: usize) -> io::Result<Self> {
        let region = Self::new(length + GUARD)?;
        // SAFETY: the lowest page was just mapped and nothing uses it.
        unsafe { mprotect(region.start.as_ptr().cast(), GUARD, MprotectFlags::empty()) }?;
        Ok(region)
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    fn made(start: *mut u8, length: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, as long as `length`, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by this type, and nothing borrows it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}
