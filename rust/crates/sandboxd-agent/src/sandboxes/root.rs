//! What file calls need to know of a sandbox.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use sandboxd_linux::protocol::IdRange;

use crate::files::Uploads;

/// The root of a ready sandbox. The sandbox may end at any time; the descriptor then still resolves,
/// to a tree that nobody else sees.
#[derive(Debug, Clone)]
pub(crate) struct SandboxRoot {
    /// `O_PATH`.
    pub(crate) root: Arc<OwnedFd>,
    /// Host ids of its files.
    pub(crate) ids: IdRange,
    /// Absolute, as seen inside; where relative paths begin.
    pub(crate) cwd: Vec<u8>,
    pub(crate) uploads: Uploads,
}
