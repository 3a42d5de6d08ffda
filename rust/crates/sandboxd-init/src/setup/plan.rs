//! What the launcher has prepared for one init.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};

use sandboxd_linux::protocol::IdRange;
use sandboxd_linux::seccomp::Filter;
use sandboxd_linux::title::Title;

use crate::serve::Scores;

/// A read-only directory beneath an overlay.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) path: CString,
    /// Detached copy of its mount with mapped owners, if the launcher could make one.
    pub(crate) tree: Option<OwnedFd>,
}

/// A mounted piece of the root.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// Absolute path in the sandbox.
    pub(crate) target: CString,
    /// Topmost first.
    pub(crate) layers: Vec<Layer>,
}

/// What an init has to pass before it is where it belongs.
#[derive(Debug)]
pub(crate) struct Gate<'a> {
    /// v1 `tasks` files to enter.
    pub(crate) tasks: &'a [OwnedFd],
    /// Has a byte when ids are mapped, and its end when they never will be.
    pub(crate) wait: BorrowedFd<'a>,
}

/// One sandbox, as its order and the launcher's namespaces make it.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) ids: IdRange,
    pub(crate) hardened: bool,
    pub(crate) root: Vec<Overlay>,
    /// Set-id files give no rights, as those of another sandbox must not.
    pub(crate) nosuid: bool,
    pub(crate) mount_point: CString,
    pub(crate) disk_bytes: u64,
    pub(crate) cpus: &'a [u32],
    /// Processes and threads of each user inside; 0 sets no limit.
    pub(crate) processes: u32,
    pub(crate) host_name: &'a [u8],
    pub(crate) control: BorrowedFd<'a>,
    pub(crate) filter: &'a Filter,
    pub(crate) scores: Scores,
    /// Whether init makes its network namespace, rather than being born into one.
    pub(crate) makes_network: bool,
    /// For an init that was born outside of its v1 groups, into a user namespace without ids.
    pub(crate) gate: Option<Gate<'a>>,
    /// Where the launcher's command line is, which names paths of the host.
    pub(crate) title: Title,
}
