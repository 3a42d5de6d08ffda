//! One output stream of an exec, in the form that its kind of call needs.

use std::sync::Arc;
use std::time::Instant;

use super::grace::Wanted;
use super::head_tail::HeadTail;
use super::kept::{Kept, Range, Read};
use super::readers::Progress;
use super::spill::{Share, Space, Spill};
use super::window::{Policy, Relief, Window};

/// Index of standard output in pairs of streams.
pub(crate) const STDOUT: usize = 0;

/// Name of a stream by its index, for messages.
pub(crate) const fn stream_name(stream: usize) -> &'static str {
    if stream == STDOUT { "stdout" } else { "stderr" }
}

/// Output of `Run` that is counted, and moved to disk when memory is short. Below it, it is neither.
const SMALL: usize = 256 * 1024;

/// Window of a `Run` whose output is on disk.
const WINDOW: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) enum Output {
    /// Of `Run`: bounded, and the program is never held back.
    HeadTail { bytes: HeadTail, limit: usize, share: Share },
    /// Of `Start`, or of a `Run` while memory is short.
    Window(Box<Window>),
    /// Of a `Run` that has ended.
    Kept { kept: Kept, sha256: Option<[u8; 32]>, _share: Share },
}

impl Output {
    /// The output of a `Run` that keeps `limit` bytes.
    pub(crate) fn head_tail(limit: usize, space: &Arc<Space>) -> Self {
        Self::HeadTail { bytes: HeadTail::new(limit), limit, share: Share::new(space) }
    }

    /// The output of a `Start`.
    pub(crate) fn window(policy: Policy, size: usize, space: &Arc<Space>) -> Self {
        Self::Window(Box::new(Window::new(policy, size, space)))
    }

    pub(crate) fn push(&mut self, data: &[u8]) {
        match self {
            Self::HeadTail { bytes, limit, share } => {
                bytes.push(data);
                if bytes.in_memory() > SMALL {
                    share.set(bytes.in_memory());
                    if share.space().memory_is_short()
                        && let Some(parts) = bytes.whole()
                    {
                        *self = Self::Window(Box::new(on_disk(*limit, parts, share.space())));
                    }
                }
            }
            Self::Window(window) => window.push(data),
            // Nothing is read after the end.
            Self::Kept { .. } => {}
        }
    }

    /// How much may be pushed now. 0: the program has to wait.
    pub(crate) fn room(&self, progress: impl FnOnce() -> Progress) -> usize {
        match self {
            Self::Window(window) => window.room(progress()),
            Self::HeadTail { .. } | Self::Kept { .. } => usize::MAX,
        }
    }

    /// Whether it is read while it comes.
    pub(crate) const fn is_window(&self) -> bool {
        matches!(self, Self::Window(_))
    }

    /// What a reader has to read before output leaves memory; `None` while there is room.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        match self {
            Self::Window(window) => window.wanted(),
            Self::HeadTail { .. } | Self::Kept { .. } => None,
        }
    }

    /// Where to append the next bytes without a copy: at least [`super::window::CHUNK`] of room,
    /// for [`Self::filled`] to be told. `None` where bytes have to be pushed.
    pub(crate) fn space(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Self::Window(window) => window.space(),
            Self::HeadTail { .. } | Self::Kept { .. } => None,
        }
    }

    /// Takes note of bytes that were appended to [`Self::space`].
    pub(crate) fn filled(&mut self, count: usize) {
        if let Self::Window(window) = self {
            window.filled(count);
        }
    }

    /// Makes room where memory is bounded by moving bytes to disk, or by dropping some.
    pub(crate) fn relieve(
        &mut self,
        progress: impl FnOnce() -> Progress,
        spill: &Spill,
        now: impl FnOnce() -> Instant,
    ) -> Relief {
        match self {
            Self::Window(window) => window.relieve(progress(), spill, now()),
            Self::HeadTail { .. } | Self::Kept { .. } => Relief::default(),
        }
    }

    /// Takes note of the end of a move to disk.
    pub(crate) fn moved(&mut self, written: bool, now: Instant) {
        if let Self::Window(window) = self {
            window.moved(written, now);
        }
    }

    pub(crate) fn read(&self, offset: u64, limit: usize) -> Read {
        match self {
            Self::HeadTail { bytes, .. } => bytes.read(offset, limit),
            Self::Window(window) => window.read(offset, limit),
            Self::Kept { kept, .. } => kept.read(offset, limit),
        }
    }

    /// What is there to be read.
    pub(crate) fn ranges(&self) -> Vec<Range> {
        match self {
            Self::HeadTail { bytes, .. } => bytes.ranges(),
            Self::Window(window) => window.ranges(),
            Self::Kept { kept, .. } => kept.ranges(),
        }
    }

    /// Bytes that the program wrote.
    pub(crate) fn total(&self) -> u64 {
        match self {
            Self::HeadTail { bytes, .. } => bytes.total(),
            Self::Window(window) => window.total(),
            Self::Kept { kept, .. } => kept.total,
        }
    }

    /// The hash of the whole stream, where bytes of it are lost to everybody.
    pub(crate) fn sha256(&self) -> Option<[u8; 32]> {
        match self {
            Self::HeadTail { bytes, .. } => bytes.sha256(),
            Self::Window(window) => window.sha256(),
            Self::Kept { sha256, .. } => *sha256,
        }
    }

    /// Brings the output into its last form. Returns how many bytes of it stay in memory.
    pub(crate) fn settle(&mut self) -> usize {
        match self {
            Self::HeadTail { bytes, share, .. } => {
                let sha256 = bytes.sha256();
                let kept = std::mem::replace(bytes, HeadTail::new(0)).finish();
                let count = kept.bytes.len();
                let mut left = Share::new(share.space());
                if count > SMALL {
                    left.set(count);
                }
                *self = Self::Kept { kept, sha256, _share: left };
                count
            }
            Self::Window(window) => window.settle(),
            Self::Kept { kept, .. } => kept.bytes.len(),
        }
    }
}

/// The window of a `Run` that goes on on disk, with what it has so far.
fn on_disk(limit: usize, parts: [&[u8]; 2], space: &Arc<Space>) -> Window {
    let tail = (limit / 2) as u64;
    let head = limit as u64 - tail;
    let mut window = Window::new(Policy::Ends { head, tail }, WINDOW, space);
    parts.into_iter().for_each(|part| window.push(part));
    window
}
