//! The new mount API: trees by descriptor, attached when they are complete.
//!
//! Paths are C strings, so that nothing here allocates.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags,
};

use crate::syscall::check;

/// `struct mount_attr` of the kernel.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const MOUNT_ATTR_RDONLY: u64 = 0x1;
const MOUNT_ATTR_IDMAP: u64 = 0x10_0000;

/// Copies the mount at `path`, without what is mounted beneath it, into a detached mount.
///
/// # Errors
///
/// If the path does not exist, or may not be copied.
pub fn copy_tree(path: &CStr) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(rustix::mount::open_tree(CWD, path, flags)?)
}

/// Copies a mount from the directory `path` of it on, without what is mounted beneath, into a detached
/// mount. An empty path means the directory that `tree` is. A mount that was never attached can be
/// copied by whoever holds it, in any mount namespace, since Linux 6.15.
///
/// # Errors
///
/// If the path does not exist, or the mount may not be copied.
pub fn copy_beneath(tree: impl AsFd, path: &CStr) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    Ok(rustix::mount::open_tree(tree, path, flags)?)
}

/// Maps the owners of a detached mount's files with a user namespace: what root of the host owns is
/// shown as owned by the namespace's root.
///
/// # Errors
///
/// `InvalidInput` if the file system cannot, `PermissionDenied` if it belongs to another user
/// namespace.
pub fn map_ids(tree: impl AsFd, user_namespace: impl AsFd) -> io::Result<()> {
    let descriptor = user_namespace.as_fd().as_raw_fd();
    set_attributes(
        tree,
        &Attributes {
            set: MOUNT_ATTR_IDMAP,
            clear: 0,
            propagation: 0,
            user_namespace: u64::try_from(descriptor).unwrap_or(u64::MAX),
        },
    )
}

/// Makes a detached mount read-only.
///
/// # Errors
///
/// If it is not a mount.
pub fn make_read_only(tree: impl AsFd) -> io::Result<()> {
    let attributes =
        Attributes { set: MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
    set_attributes(tree, &attributes)
}

fn set_attributes(tree: impl AsFd, attributes: &Attributes) -> io::Result<()> {
    // SAFETY: the path is empty and NUL-terminated, the attributes outlive the call and have the
    // size that is passed.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            std::ptr::from_ref(attributes),
            size_of::<Attributes>(),
        )
    };
    check(answer)?;
    Ok(())
}

/// Attaches a detached mount at `target`.
///
/// # Errors
///
/// If the target does not exist or is of another kind.
pub fn attach(tree: impl AsFd, target: &CStr) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, c"", CWD, target, flags)?)
}

/// A file system being configured.
#[derive(Debug)]
pub struct FileSystem(OwnedFd);

impl FileSystem {
    /// Starts to configure a file system of this type.
    ///
    /// # Errors
    ///
    /// If the kernel does not have it.
    pub fn new(kind: &CStr) -> io::Result<Self> {
        Ok(Self(rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?))
    }

    /// Sets an option with a value.
    ///
    /// # Errors
    ///
    /// If the file system does not know it.
    pub fn set(&self, key: &CStr, value: &CStr) -> io::Result<()> {
        Ok(rustix::mount::fsconfig_set_string(&self.0, key, value)?)
    }

    /// Sets an option to an open file.
    ///
    /// # Errors
    ///
    /// If the file system does not know it, or takes no descriptor.
    pub fn set_descriptor(&self, key: &CStr, value: impl AsFd) -> io::Result<()> {
        Ok(rustix::mount::fsconfig_set_fd(&self.0, key, value)?)
    }

    /// Sets an option without a value.
    ///
    /// # Errors
    ///
    /// If the file system does not know it.
    pub fn set_flag(&self, key: &CStr) -> io::Result<()> {
        Ok(rustix::mount::fsconfig_set_flag(&self.0, key)?)
    }

    /// Makes the file system and a detached mount of it.
    ///
    /// # Errors
    ///
    /// If it cannot be made from these options, or not by us.
    pub fn mount(self, attributes: MountAttrFlags) -> io::Result<OwnedFd> {
        rustix::mount::fsconfig_create(&self.0)?;
        Ok(rustix::mount::fsmount(&self.0, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
    }
}

/// Bytes of a tmpfs for each file in it. A file with anything in it takes a page; one with nothing in
/// it takes memory too, which no limit but this one keeps within bounds.
const BYTES_PER_FILE: u64 = 4_096;

/// Files that even the smallest tmpfs has room for.
const LEAST_FILES: u64 = 1_024;

/// How many files a tmpfs of this size may hold.
#[must_use]
pub const fn files_of_tmpfs(bytes: u64) -> u64 {
    let files = bytes / BYTES_PER_FILE;
    if files < LEAST_FILES { LEAST_FILES } else { files }
}

/// Gives a mounted tmpfs another size. `mount` is its mount, by a descriptor that `fsmount` gave; the
/// caller needs no access to the mount's namespace.
///
/// # Errors
///
/// `PermissionDenied` without rights over mounts here and over its user namespace; `InvalidInput` if
/// more than the size is in it.
pub fn resize_tmpfs(mount: impl AsFd, bytes: u64) -> io::Result<()> {
    let flags = FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC;
    let picked = rustix::mount::fspick(mount, c"", flags)?;
    rustix::mount::fsconfig_set_string(&picked, c"size", bytes.to_string())?;
    let files = files_of_tmpfs(bytes).to_string();
    rustix::mount::fsconfig_set_string(&picked, c"nr_inodes", files)?;
    Ok(rustix::mount::fsconfig_reconfigure(&picked)?)
}

/// Makes the working directory, which is a mount point, the root, and takes the old root off the
/// mount tree.
///
/// # Errors
///
/// If the working directory is not a mount point, or the old root is shared.
pub fn enter_root() -> io::Result<()> {
    // The old root lands on top of the new one, where the second call peels it off: no directory has
    // to exist for it.
    rustix::process::pivot_root(c".", c".")?;
    rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir(c"/")?)
}
