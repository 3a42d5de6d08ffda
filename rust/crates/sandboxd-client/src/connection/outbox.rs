//! Bytes that wait to be written, and how far the writing has come.

/// An outgoing byte stream. Positions count from the start of the connection, so that "was this
/// frame written?" is one comparison.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    buffer: Vec<u8>,
    /// Bytes at the front of `buffer` that are written already.
    start: usize,
    written: u64,
}

impl Outbox {
    /// Where to append frames.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    pub(super) fn pending(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Takes `count` bytes off the front.
    pub(super) fn advance(&mut self, count: usize) {
        self.start += count;
        self.written += count as u64;
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
            // One large stdin must not keep its memory for the rest of the connection.
            self.buffer.shrink_to(KEEP);
        }
    }

    /// Position after everything that was appended.
    pub(super) fn end(&self) -> u64 {
        self.written + self.pending().len() as u64
    }

    /// Position up to which bytes are written.
    pub(super) const fn written(&self) -> u64 {
        self.written
    }
}

/// Capacity, in bytes, that stays allocated between frames; above the window of an upload.
const KEEP: usize = 512 * 1024;
