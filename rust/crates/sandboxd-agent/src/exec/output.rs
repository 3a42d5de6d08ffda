//! One output stream of an exec, in the form that its kind of call needs.

use super::head_tail::HeadTail;
use super::kept::{Kept, Read};
use super::window::Window;

/// Index of standard output in pairs of streams.
pub(crate) const STDOUT: usize = 0;

/// Name of a stream by its index, for messages.
pub(crate) const fn stream_name(stream: usize) -> &'static str {
    if stream == STDOUT { "stdout" } else { "stderr" }
}

#[derive(Debug)]
pub(crate) enum Output {
    /// Of `Run`: bounded, and the program is never held back.
    HeadTail(HeadTail),
    /// Of `Start`: recent bytes for readers, who may hold the program back.
    Window(Window),
    /// Of a `Run` that has ended.
    Kept(Kept),
}

impl Output {
    pub(crate) fn push(&mut self, data: &[u8]) {
        match self {
            Self::HeadTail(output) => output.push(data),
            Self::Window(output) => output.push(data),
            // Nothing is read after the end.
            Self::Kept(_) => {}
        }
    }

    /// Appends what was left in the pipe at the end: it is kept whatever a window's limit says.
    pub(crate) fn push_last(&mut self, data: &[u8]) {
        match self {
            Self::Window(output) => output.push_all(data),
            Self::HeadTail(_) | Self::Kept(_) => self.push(data),
        }
    }

    /// How much may be pushed without losing bytes from `keep_from` on, where readers matter.
    pub(crate) fn room(&self, keep_from: impl FnOnce() -> Option<u64>) -> usize {
        match self {
            Self::Window(output) => keep_from().map_or(usize::MAX, |from| output.room(from)),
            Self::HeadTail(_) | Self::Kept(_) => usize::MAX,
        }
    }

    pub(crate) fn read(&self, offset: u64, limit: usize) -> Read {
        match self {
            Self::HeadTail(output) => output.read(offset, limit),
            Self::Window(output) => output.read(offset, limit),
            Self::Kept(output) => output.read(offset, limit),
        }
    }

    /// Bytes that the program wrote.
    pub(crate) fn total(&self) -> u64 {
        match self {
            Self::HeadTail(output) => output.total(),
            Self::Window(output) => output.total(),
            Self::Kept(output) => output.total,
        }
    }

    /// Brings the output into its last form. Returns how many bytes of it stay in memory.
    pub(crate) fn settle(&mut self) -> usize {
        match self {
            Self::HeadTail(output) => {
                let kept = std::mem::replace(output, HeadTail::new(0)).finish();
                let bytes = kept.bytes.len();
                *self = Self::Kept(kept);
                bytes
            }
            Self::Window(output) => output.settle(),
            Self::Kept(output) => output.bytes.len(),
        }
    }

    /// The output as the result of a command; of one that has ended.
    pub(crate) fn to_kept(&self) -> Kept {
        match self {
            Self::Kept(output) => output.clone(),
            Self::Window(output) => output.to_kept(),
            Self::HeadTail(_) => Kept::default(),
        }
    }
}
