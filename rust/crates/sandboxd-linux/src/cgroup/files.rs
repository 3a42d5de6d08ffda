//! The few file operations that drivers need, so that a double can stand in for the kernel.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

/// File operations on cgroup file systems.
pub(crate) trait Files: Debug + Send + Sync {
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    /// The directories beneath, not recursively.
    fn directories(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    fn exists(&self, path: &Path) -> bool;
    fn read(&self, path: &Path) -> io::Result<String>;
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;
    /// For reading a directory or watching a file: close-on-exec.
    fn open_read(&self, path: &Path) -> io::Result<OwnedFd>;
    fn open_write(&self, path: &Path) -> io::Result<OwnedFd>;
    fn give_to(&self, path: &Path, id: u32) -> io::Result<()>;
}

/// The kernel's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostFiles;

impl Files for HostFiles {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(path)?;
        let directories = entries.filter_map(Result::ok).filter_map(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| entry.path())
        });
        Ok(directories.collect())
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        // One write: the kernel reads each as one order. Never creates a file.
        let file = self.open_write(path)?;
        rustix::io::write(file, text.as_bytes())?;
        Ok(())
    }

    fn open_read(&self, path: &Path) -> io::Result<OwnedFd> {
        Ok(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn open_write(&self, path: &Path) -> io::Result<OwnedFd> {
        Ok(open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn give_to(&self, path: &Path, id: u32) -> io::Result<()> {
        chown(path, Some(id), Some(id))
    }
}
