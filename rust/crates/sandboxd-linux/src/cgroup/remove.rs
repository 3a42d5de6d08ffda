//! Taking groups away again: a group goes only when no process, not even a dying one, is in it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::driver::pids;
use super::files::{Files, HostFiles};
use super::v2::{ASIDE, step_back};
use crate::pidfd;

/// How long a killed process may take to leave its group: it has to give its memory back first.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Removes a directory of groups and all beneath it. A group that is gone already counts as removed.
pub(super) fn remove_directories(files: &impl Files, directory: &Path) -> io::Result<()> {
    match files.remove_directory(directory) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // Busy: because of groups beneath it, or of processes.
        Err(_) => {}
    }
    for beneath in files.directories(directory)? {
        remove_directories(files, &beneath)?;
    }
    match files.remove_directory(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// The groups beneath `group`, named from the tree on.
pub(super) fn leaves(files: &impl Files, tree: &Path, group: &Path) -> io::Result<Vec<PathBuf>> {
    let found = files.directories(&tree.join(group))?;
    Ok(found.iter().filter_map(|leaf| leaf.file_name()).map(|name| group.join(name)).collect())
}

/// Takes back directories that were made before something failed. Best effort.
pub(super) fn undo(files: &impl Files, directories: &[PathBuf]) {
    for directory in directories {
        let _ = remove_directories(files, directory);
    }
}

/// Kills everything in a tree of groups and removes it, waiting a bounded time.
///
/// # Errors
///
/// `ResourceBusy` if something in it would not die in five seconds.
pub fn remove_tree(tree: &Path) -> io::Result<()> {
    step_back(&HostFiles, tree);
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    let mut pause = Duration::from_millis(1);
    loop {
        match remove_directories(&HostFiles, tree) {
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => {}
            Ok(()) => return Ok(()),
        }
        kill_tree(tree);
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Thaws every group of a tree. Best effort: those that are not frozen, or gone, are none of it.
pub fn thaw_tree(tree: &Path) {
    for beneath in HostFiles.directories(tree).unwrap_or_default() {
        thaw_tree(&beneath);
    }
    let _ = HostFiles.write(&tree.join("freezer.state"), "THAWED");
    let _ = HostFiles.write(&tree.join("cgroup.freeze"), "0");
}

fn kill_tree(group: &Path) {
    // Agent and launcher end by themselves, and each may be the one who waits for the other.
    if group.ends_with(ASIDE) {
        return;
    }
    for beneath in HostFiles.directories(group).unwrap_or_default() {
        kill_tree(&beneath);
    }
    // A group left frozen would never let its processes die.
    let _ = HostFiles.write(&group.join("freezer.state"), "THAWED");
    let listed = HostFiles.read(&group.join("cgroup.procs")).unwrap_or_default();
    let own = std::process::id();
    for pid in pids(&listed).into_iter().filter(|pid| *pid != own) {
        let Ok(process) = pidfd::open(pid) else { continue };
        let still = HostFiles.read(&group.join("cgroup.procs")).unwrap_or_default();
        if pids(&still).contains(&pid) {
            let _ = pidfd::send_signal(&process, 9);
        }
    }
}
