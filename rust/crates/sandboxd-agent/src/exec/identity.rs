//! What a process is given for its user: ids, home and environment, from the sandbox's own files.

use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use sandboxd_linux::protocol::IdRange;
use sandboxd_proto::{CallError, ErrorCode};

use super::environment::environment;
use super::users::{User, UserName, look_up};
use crate::call::Answer;

/// Longest user or group file that is read. Real ones have some kilobytes.
const MAX_FILE: u64 = 1024 * 1024;

/// A user's part of every command that runs as it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    /// `NAME=value` entries, each ended by NUL.
    pub(crate) environment: Vec<u8>,
    /// Its home if that exists, else `/`.
    pub(crate) directory: Vec<u8>,
}

/// What of a claim goes into an identity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimed<'a> {
    pub(crate) environment: &'a [(Vec<u8>, Vec<u8>)],
    /// The sandbox's share, if it is limited.
    pub(crate) cpus: Option<u32>,
}

impl Identity {
    /// The root of a sandbox. It needs no look-up: its ids are 0 in every sandbox.
    pub(crate) fn root(root: impl AsFd, claimed: Claimed<'_>) -> Self {
        let user = User {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            name: b"root".to_vec(),
            home: b"/root".to_vec(),
            shell: b"/bin/sh".to_vec(),
        };
        Self::new(root, user, claimed)
    }

    /// Looks `name` up beneath `root`.
    ///
    /// # Errors
    ///
    /// `exec_failed` at the step `user` when there is no such user, `unsupported` when its ids are
    /// not among those of the sandbox.
    pub(crate) fn resolve(
        root: impl AsFd,
        name: &UserName,
        ids: IdRange,
        claimed: Claimed<'_>,
    ) -> Answer<Self> {
        let root = root.as_fd();
        let passwd = contents(root, "etc/passwd")?;
        let group = contents(root, "etc/group")?;
        let unknown = || {
            let UserName::Name(name) = name else { return failed("user has no ids".to_owned()) };
            failed(format!("the sandbox has no user {name:?}: it is not in its /etc/passwd"))
        };
        let user = look_up(name, &passwd, &group).ok_or_else(unknown)?;
        let outside = |id: &u32| *id >= ids.count;
        if let Some(id) = [user.uid, user.gid].iter().chain(&user.groups).find(|id| outside(id)) {
            let message = format!(
                "id {id} is not among the {} of the sandbox: use another user, or a host with \
                 `user.range`",
                ids.count
            );
            return Err(CallError::new(ErrorCode::Unsupported, message));
        }
        Ok(Self::new(root, user, claimed))
    }

    fn new(root: impl AsFd, user: User, claimed: Claimed<'_>) -> Self {
        let environment = environment(&user, claimed.cpus, claimed.environment);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let home = openat2(root, &*user.home, flags, Mode::empty(), ResolveFlags::IN_ROOT);
        let directory = if home.is_ok() { user.home } else { b"/".to_vec() };
        Self { uid: user.uid, gid: user.gid, groups: user.groups, environment, directory }
    }
}

/// Reads a file that whoever runs in the sandbox may have made: a link, a pipe, of any length.
fn contents(root: impl AsFd, path: &str) -> Answer<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file: OwnedFd = match openat2(root, path, flags, Mode::empty(), resolve) {
        Ok(file) => file,
        // Images of a single program have none: numbers work all the same.
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
        Err(errno) => return Err(unreadable(path, &errno.to_string())),
    };
    let found = fstat(&file).map_err(|errno| unreadable(path, &errno.to_string()))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(unreadable(path, "it is not a regular file"));
    }
    let mut contents = Vec::new();
    let read = std::fs::File::from(file).take(MAX_FILE + 1).read_to_end(&mut contents);
    read.map_err(|error| unreadable(path, &error.to_string()))?;
    if contents.len() as u64 > MAX_FILE {
        return Err(unreadable(path, &format!("it is longer than {MAX_FILE} bytes")));
    }
    Ok(contents)
}

fn unreadable(path: &str, why: &str) -> CallError {
    failed(format!("cannot look users up in the sandbox's /{path}: {why}"))
}

fn failed(message: String) -> CallError {
    CallError::new(ErrorCode::ExecFailed, message).with_reason("user")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    const IDS: IdRange = IdRange { first: 1 << 20, count: 65_536 };
    const CLAIMED: Claimed<'_> = Claimed { environment: &[], cpus: None };

    fn sandbox(passwd: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        std::fs::write(root.path().join("etc/passwd"), passwd).unwrap();
        root
    }

    fn resolve(root: &Path, name: &str, ids: IdRange) -> Answer<Identity> {
        let descriptor = rustix::fs::open(root, OFlags::PATH, Mode::empty()).unwrap();
        Identity::resolve(&descriptor, &UserName::parse(name).unwrap(), ids, CLAIMED)
    }

    #[test]
    fn a_user_starts_at_home_if_there_is_one() {
        let root = sandbox("a:x:5:6::/home/a:/bin/sh\nb:x:7:7::/nowhere:\n");
        std::fs::create_dir_all(root.path().join("home/a")).unwrap();
        let a = resolve(root.path(), "a", IDS).unwrap();
        assert_eq!((a.uid, a.gid, a.directory), (5, 6, b"/home/a".to_vec()));
        assert_eq!(resolve(root.path(), "b", IDS).unwrap().directory, b"/");
    }

    #[test]
    fn x9_an_unknown_user_is_an_error_that_names_it() {
        let root = sandbox("");
        let error = resolve(root.path(), "ghost", IDS).unwrap_err();
        assert_eq!((error.code, error.reason.as_str()), (ErrorCode::ExecFailed, "user"));
        assert!(error.message.contains("ghost"), "{error}");
    }

    #[test]
    fn ids_beyond_those_of_the_sandbox_are_unsupported() {
        let root = sandbox("far:x:70000:0::/:\n");
        assert_eq!(resolve(root.path(), "far", IDS).unwrap_err().code, ErrorCode::Unsupported);
        let one = IdRange { first: 1000, count: 1 };
        assert_eq!(resolve(root.path(), "1", one).unwrap_err().code, ErrorCode::Unsupported);
        assert_eq!(resolve(root.path(), "0", one).unwrap().uid, 0);
    }

    #[test]
    fn links_pipes_and_endless_files_in_its_place_do_no_harm() {
        let root = sandbox("");
        let passwd = root.path().join("etc/passwd");
        for target in ["/etc/passwd", "/proc/self/fd/0", "/dev/zero"] {
            std::fs::remove_file(&passwd).unwrap();
            symlink(target, &passwd).unwrap();
            assert!(resolve(root.path(), "root", IDS).is_err(), "{target} is not followed out");
        }
        std::fs::remove_file(&passwd).unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &passwd, FileType::Fifo, mode, 0).unwrap();
        assert!(resolve(root.path(), "root", IDS).is_err());
        std::fs::remove_file(&passwd).unwrap();
        std::fs::File::create(&passwd).unwrap().set_len(1 << 40).unwrap();
        let error = resolve(root.path(), "root", IDS).unwrap_err();
        assert!(error.message.contains("longer"), "{error}");
    }
}
