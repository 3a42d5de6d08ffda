//! Packets as bytes: little-endian numbers, and byte strings behind their length.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use super::{Failure, Malformed, Step, Usage};

/// Puts a packet together.
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }
    pub(super) fn word(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    pub(super) fn signed(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    pub(super) fn long(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    pub(super) fn bytes(&mut self, value: &[u8]) {
        // Packets are bounded by MAX_PACKET, far below 4 GiB.
        self.word(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(value);
    }
    pub(super) fn path(&mut self, value: &std::path::Path) {
        use std::os::unix::ffi::OsStrExt as _;
        self.bytes(value.as_os_str().as_bytes());
    }
    pub(super) fn failure(&mut self, failure: &Failure) {
        self.byte(failure.step as u8);
        self.signed(failure.errno);
        self.bytes(failure.detail.as_bytes());
    }
    pub(super) fn usage(&mut self, usage: &Usage) {
        let Usage { cpu_nanos, peak_kib, read_bytes, write_bytes } = *usage;
        for value in [cpu_nanos, peak_kib, read_bytes, write_bytes] {
            self.long(value);
        }
    }
}

/// Takes a packet apart, with bounds checks.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }
    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }
    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        Ok(self.byte()? != 0)
    }
    pub(super) fn word(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }
    pub(super) fn signed(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_le_bytes)
    }
    pub(super) fn long(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.word()? as usize;
        self.take(length)
    }
    pub(super) fn path(&mut self) -> Result<PathBuf, Malformed> {
        self.bytes().map(|bytes| OsString::from_vec(bytes.to_vec()).into())
    }
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.word()? as usize;
        // Every item takes at least a byte: a count beyond that is a lie, not an allocation.
        if count > self.0.len() {
            return Err(Malformed);
        }
        (0..count).map(|_| item(self)).collect()
    }
    pub(super) fn failure(&mut self) -> Result<Failure, Malformed> {
        let step = Step::from_number(self.byte()?).ok_or(Malformed)?;
        let errno = self.signed()?;
        let detail = String::from_utf8_lossy(self.bytes()?).into_owned();
        Ok(Failure { step, errno, detail })
    }
    pub(super) fn usage(&mut self) -> Result<Usage, Malformed> {
        Ok(Usage {
            cpu_nanos: self.long()?,
            peak_kib: self.long()?,
            read_bytes: self.long()?,
            write_bytes: self.long()?,
        })
    }
    pub(super) fn end<T>(self, value: T) -> Result<T, Malformed> {
        if self.0.is_empty() { Ok(value) } else { Err(Malformed) }
    }
}
