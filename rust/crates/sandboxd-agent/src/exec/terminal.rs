//! The terminal of one exec.
//!
//! It comes from the sandbox's own instance of devpts, so inside it has a name there and an owner. The
//! agent opens the master side and keeps it: the sandbox gets the other side only, and no other
//! sandbox has a path to either. What the agent opens is where init has mounted devpts, beneath a root that
//! hostile programs write to, so nothing on the way may be a link, and what is found is checked.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, fstatfs, major, minor, openat2};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Winsize, tcgetattr, tcsetattr,
    tcsetwinsize,
};
use sandboxd_linux::fsids::as_owner;
use sandboxd_linux::protocol::IdRange;
use sandboxd_proto::{CallError, ErrorCode, v1};

use super::identity::Identity;
use crate::call::Answer;

/// Of a request that does not say: what terminals had before they had windows.
const DEFAULT_ROWS: u16 = 24;
const DEFAULT_COLUMNS: u16 = 80;

/// `DEVPTS_SUPER_MAGIC`.
const DEVPTS: i64 = 0x1cd1;

/// Device of `ptmx`.
const PTMX: (u32, u32) = (5, 2);

/// A cleared place in the table of special characters.
const DISABLED: u8 = 0;

/// What an exec still has of a terminal.
#[derive(Debug, Default)]
pub(crate) enum Terminal {
    /// It was started without one.
    #[default]
    None,
    /// The master side.
    Open(OwnedFd),
    /// It had one, and has ended.
    Closed,
}

/// Refuses a size that no terminal has.
///
/// # Errors
///
/// `invalid_argument`, naming the field.
pub(crate) fn check(size: v1::Pty) -> Answer<Winsize> {
    let number = |name, value: u32, default| match u16::try_from(value) {
        Ok(0) => Ok(default),
        Ok(value) => Ok(value),
        Err(_) => {
            let message = format!("{name} of the terminal is {value}, above the limit of 65535");
            Err(CallError::new(ErrorCode::InvalidArgument, message))
        }
    };
    Ok(Winsize {
        ws_row: number("rows", size.rows, DEFAULT_ROWS)?,
        ws_col: number("columns", size.columns, DEFAULT_COLUMNS)?,
        ws_xpixel: 0,
        ws_ypixel: 0,
    })
}

/// Opens a new terminal of the sandbox: the master side, which does not block, and the other one.
///
/// # Errors
///
/// When there are no more terminals, or the sandbox has barred its own.
pub(crate) fn open(
    root: impl AsFd,
    ids: IdRange,
    identity: &Identity,
    size: v1::Pty,
) -> io::Result<(OwnedFd, OwnedFd)> {
    let size = check(size).map_err(|_| io::ErrorKind::InvalidInput)?;
    let open = || {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        openat2(&root, "dev/pts/ptmx", flags, Mode::empty(), resolve)
    };
    // The user's, as if it had opened it: it may change its mode, and programs ask whose it is. An
    // ordinary agent's ids are the sandbox's only ones.
    let master = if geteuid().is_root() {
        as_owner(ids.first + identity.uid, ids.first + identity.gid, open)??
    } else {
        open()?
    };
    let found = fstat(&master)?;
    let device = (major(found.st_rdev), minor(found.st_rdev));
    if fstatfs(&master)?.f_type != DEVPTS || device != PTMX {
        return Err(Errno::NODEV.into());
    }
    unlockpt(&master)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    let mut modes = tcgetattr(&master)?;
    // Erasing takes away a character, not a byte of one.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&master, OptionalActions::Now, &modes)?;
    tcsetwinsize(&master, size)?;
    Ok((master, slave))
}

/// Whether [`open`] failed because of what the sandbox did to its `/dev`.
pub(crate) fn is_barred(error: &io::Error) -> bool {
    let barred = [Errno::ACCESS, Errno::PERM, Errno::NOENT, Errno::NODEV, Errno::LOOP];
    Errno::from_io_error(error).is_some_and(|errno| barred.contains(&errno))
}

/// Changes the size. Programs in the foreground get SIGWINCH.
///
/// # Errors
///
/// As [`check`].
pub(crate) fn resize(master: &OwnedFd, size: v1::Pty) -> Answer<()> {
    tcsetwinsize(master, check(size)?).map_err(|errno| {
        let message = format!("the terminal does not take its new size: {errno}");
        CallError::new(ErrorCode::Internal, message)
    })
}

/// What to type for an end of file. In the middle of a line the character sends what there is of the
/// line, so it takes two. Nothing in a mode in which no character has this meaning.
pub(crate) fn end_of_file(master: impl AsFd, in_line: bool) -> Vec<u8> {
    let Ok(modes) = tcgetattr(master) else { return Vec::new() };
    let character = modes.special_codes[SpecialCodeIndex::VEOF];
    if !modes.local_modes.contains(LocalModes::ICANON) || character == DISABLED {
        return Vec::new();
    }
    vec![character; if in_line { 2 } else { 1 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_defaults_and_bounds() {
        let size = |rows, columns| check(v1::Pty { rows, columns });
        let seen = |size: Winsize| (size.ws_row, size.ws_col);
        assert_eq!(size(0, 0).map(seen).unwrap(), (24, 80));
        assert_eq!(size(1, 65_535).map(seen).unwrap(), (1, 65_535));
        let error = size(1, 65_536).unwrap_err();
        assert!(error.message.contains("columns") && error.message.contains("65535"), "{error}");
    }
}
