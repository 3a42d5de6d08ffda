//! What is left to do when the agent is gone: it may have been killed.

use std::fs;
use std::path::PathBuf;

use sandboxd_linux::cgroup;

/// Removes groups and state. Every init was reaped before, so nothing is in them. Best effort: an
/// agent that ended in order has removed them itself.
pub(super) fn clear_up(cgroups: &[PathBuf], state: Option<&PathBuf>) {
    for tree in cgroups {
        let _ = cgroup::remove_tree(tree);
    }
    if let Some(folder) = state {
        let _ = fs::remove_dir_all(folder);
    }
}
