//! What happens between vfork and exec: nothing here allocates, takes a lock or panics.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::process::{chdir, ioctl_tiocsctty, setpgid, setsid};
use sandboxd_linux::process::{become_ids, become_user, execute, give_priority_up};
use sandboxd_linux::protocol::Step;
use sandboxd_linux::signals;

use super::payload::Parts;

/// Where programs are looked for when the environment has no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Longest path of a program, its NUL included: the kernel's limit.
const LONGEST_PATH: usize = 4_096;

/// The step that failed, and why.
pub(super) type Stopped = (Step, i32);

/// One program to become.
#[derive(Debug)]
pub(super) struct Program<'a> {
    pub(super) parts: Parts<'a>,
    pub(super) stdin: &'a OwnedFd,
    pub(super) stdout: &'a OwnedFd,
    pub(super) stderr: &'a OwnedFd,
    /// Whether stdin is a terminal, to be the controlling one.
    pub(super) terminal: bool,
    /// v1 `tasks` file to enter, if the group was not entered at birth.
    pub(super) tasks: Option<&'a OwnedFd>,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: &'a [u32],
    /// Whether we still have init's priority. Until now it was of use: init waits for us.
    pub(super) has_priority: bool,
}

impl Program<'_> {
    /// Becomes the program. Returns only if that failed.
    pub(super) fn run(&self) -> Stopped {
        match self.prepare() {
            Ok(()) => (Step::Program, self.search()),
            Err(stopped) => stopped,
        }
    }

    fn prepare(&self) -> Result<(), Stopped> {
        if let Some(tasks) = self.tasks {
            rustix::io::write(tasks, b"0").map_err(|errno| at(Step::Cgroup, errno))?;
        }
        let descriptor = |errno| at(Step::Descriptor, errno);
        rustix::stdio::dup2_stdin(self.stdin).map_err(descriptor)?;
        rustix::stdio::dup2_stdout(self.stdout).map_err(descriptor)?;
        rustix::stdio::dup2_stderr(self.stderr).map_err(descriptor)?;
        if self.terminal {
            setsid().map_err(|errno| at(Step::Other, errno))?;
            ioctl_tiocsctty(rustix::stdio::stdin()).map_err(descriptor)?;
        } else {
            // A process group, not a session: making a session costs up to 35 µs.
            setpgid(None, None).map_err(|errno| at(Step::Other, errno))?;
        }
        signals::block(&[]);
        self.change_user()?;
        if !self.parts.directory.is_empty() {
            chdir(self.parts.directory).map_err(|errno| at(Step::Directory, errno))?;
        }
        if self.has_priority {
            give_priority_up().map_err(|errno| at(Step::Other, errno))?;
        }
        Ok(())
    }

    fn change_user(&self) -> Result<(), Stopped> {
        // As root without groups, the identity is init's own already.
        let changed = if !self.groups.is_empty() {
            become_user(self.uid, self.gid, self.groups)
        } else if self.uid != 0 || self.gid != 0 {
            become_ids(self.uid, self.gid)
        } else {
            Ok(())
        };
        changed.map_err(|error| (Step::User, error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// `execvp` of the C library, without falling back to a shell: a file without a header that the
    /// kernel understands is reported as just that.
    fn search(&self) -> i32 {
        let name = self.parts.program.to_bytes();
        if name.contains(&b'/') {
            return self.execute(self.parts.program);
        }
        if name.is_empty() {
            return libc::ENOENT;
        }
        let mut buffer = [0; LONGEST_PATH];
        let mut denied = false;
        for directory in self.parts.path.unwrap_or(DEFAULT_PATH).split(|byte| *byte == b':') {
            let Some(path) = join(&mut buffer, directory, name) else { continue };
            match self.execute(path) {
                // One that may not be run does not hide one that may, further along.
                libc::EACCES => denied = true,
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                errno => return errno,
            }
        }
        if denied { libc::EACCES } else { libc::ENOENT }
    }

    fn execute(&self, path: &CStr) -> i32 {
        // SAFETY: `Parts` holds null-terminated lists of NUL-terminated text.
        let error = unsafe {
            execute(path, self.parts.arguments.as_ptr(), self.parts.environment.as_ptr())
        };
        error.raw_os_error().unwrap_or(libc::EIO)
    }
}

fn at(step: Step, errno: rustix::io::Errno) -> Stopped {
    (step, errno.raw_os_error())
}

/// `directory/name`, or `name` for an empty directory, which means the working directory. `None` if it
/// is too long to exist.
fn join<'a>(buffer: &'a mut [u8; LONGEST_PATH], directory: &[u8], name: &[u8]) -> Option<&'a CStr> {
    let separator: &[u8] = if directory.is_empty() { b"" } else { b"/" };
    let mut length = 0;
    for part in [directory, separator, name, b"\0"] {
        let end = length + part.len();
        buffer.get_mut(length..end)?.copy_from_slice(part);
        length = end;
    }
    CStr::from_bytes_with_nul(&buffer[..length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_execvp_does() {
        let mut buffer = [0; LONGEST_PATH];
        assert_eq!(join(&mut buffer, b"/bin", b"ls"), Some(c"/bin/ls"));
        assert_eq!(join(&mut buffer, b"", b"ls"), Some(c"ls"));
    }

    #[test]
    fn a_path_that_is_too_long_is_passed_over() {
        let mut buffer = [0; LONGEST_PATH];
        let longest = vec![b'd'; LONGEST_PATH - 4];
        assert!(join(&mut buffer, &longest, b"ls").is_some());
        assert_eq!(join(&mut buffer, &longest, b"lss"), None);
    }
}
