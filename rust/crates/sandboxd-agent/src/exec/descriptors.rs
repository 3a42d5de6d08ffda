//! The descriptors of one exec: our ends, and those that go to its program.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::io::unix::AsyncFd;

use super::pipes;
use crate::watch;

/// What stays with the agent.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) outputs: [Option<AsyncFd<OwnedFd>>; 2],
    pub(crate) stdin: Option<OwnedFd>,
    /// For writing to the control socket, whose other direction is the second output.
    pub(crate) control: Option<OwnedFd>,
    /// For settings of the terminal.
    pub(crate) terminal: Option<OwnedFd>,
}

/// What goes to init.
#[derive(Debug)]
pub(crate) struct Theirs {
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    /// `None`: the same as stdout.
    stderr: Option<OwnedFd>,
    /// Whether stdin is stdout, too.
    terminal: bool,
}

impl Theirs {
    pub(crate) const fn has_stdin(&self) -> bool {
        self.terminal || self.stdin.is_some()
    }

    pub(crate) const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Stdin if there is one, stdout, stderr.
    pub(crate) fn put<'a>(&'a self, out: &mut Vec<BorrowedFd<'a>>) {
        let stdin = if self.terminal { Some(&self.stdout) } else { self.stdin.as_ref() };
        out.extend(stdin.map(OwnedFd::as_fd));
        out.push(self.stdout.as_fd());
        out.push(self.stderr.as_ref().unwrap_or(&self.stdout).as_fd());
    }
}

/// Pipes for output, and one for input if that is wanted.
///
/// # Errors
///
/// When descriptors run out.
pub(crate) fn piped(stdin: bool, control: bool) -> io::Result<(Ours, Theirs)> {
    let (stdout, their_stdout) = pipes::for_output()?;
    let (stderr, their_stderr) = if control { socket()? } else { pipes::for_output()? };
    let (their_stdin, stdin) = stdin.then(pipes::for_input).transpose()?.unzip();
    let ours = Ours {
        control: control.then(|| stderr.try_clone()).transpose()?,
        outputs: [Some(watch::readable(stdout)?), Some(watch::readable(stderr)?)],
        stdin,
        terminal: None,
    };
    let stderr = Some(their_stderr);
    Ok((ours, Theirs { stdin: their_stdin, stdout: their_stdout, stderr, terminal: false }))
}

/// A terminal that was opened, as everything but the control socket.
///
/// # Errors
///
/// When descriptors run out.
pub(crate) fn on_terminal(
    (master, slave): (OwnedFd, OwnedFd),
    control: bool,
) -> io::Result<(Ours, Theirs)> {
    let (reply, their_reply) = control.then(socket).transpose()?.unzip();
    let ours = Ours {
        stdin: Some(master.try_clone()?),
        terminal: Some(master.try_clone()?),
        control: reply.as_ref().map(OwnedFd::try_clone).transpose()?,
        outputs: [Some(watch::readable(master)?), reply.map(watch::readable).transpose()?],
    };
    Ok((ours, Theirs { stdin: None, stdout: slave, stderr: their_reply, terminal: true }))
}

/// A socket whose first end, ours, does not block.
fn socket() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}
