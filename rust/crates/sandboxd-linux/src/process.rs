//! Small settings of the calling process, and the collecting of its children.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::process::Pid;

use crate::protocol::Usage;
use crate::syscall::check;

/// The unit of the kernel's counts of blocks.
const BLOCK: u64 = 512;

/// A child that ended, with what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub pid: u32,
    /// As `wait` gives it.
    pub status: i32,
    pub usage: Usage,
}

/// Collects one child that has ended, if there is one.
///
/// # Errors
///
/// `ECHILD` when there are no children.
pub fn collect_any() -> io::Result<Option<Ended>> {
    collect(-1, libc::WNOHANG)
}

/// A child that a signal has stopped, if there is one. Each stop is told once.
#[must_use]
pub fn next_stopped() -> Option<u32> {
    let mut stopped = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WSTOPPED | libc::WNOHANG;
    // SAFETY: the pointer is valid for writing and outlives the call.
    unsafe { libc::waitid(libc::P_ALL, 0, stopped.as_mut_ptr(), options) };
    // SAFETY: zeroes are a valid `siginfo_t`, and the kernel may have filled it.
    let stopped = unsafe { stopped.assume_init() };
    // SAFETY: the field is there for children, and zero if the kernel has written nothing.
    let pid = unsafe { stopped.si_pid() };
    u32::try_from(pid).ok().filter(|pid| *pid != 0)
}

/// Waits for any child to end.
///
/// # Errors
///
/// `ECHILD` when there are no children.
pub fn collect_next() -> io::Result<Ended> {
    collect(-1, 0)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Waits for this child to end.
///
/// # Errors
///
/// `ECHILD` when it is not a child.
pub fn collect_child(pid: u32) -> io::Result<Ended> {
    collect(pid.cast_signed(), 0)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[expect(clippy::cast_sign_loss, reason = "times and sizes are not negative")]
fn collect(pid: i32, options: i32) -> io::Result<Option<Ended>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let pid = loop {
        let pid = {
            // SAFETY: both pointers are valid for writing and outlive the call.
            unsafe { libc::wait4(pid, &raw mut status, options | libc::__WALL, usage.as_mut_ptr()) }
        };
        match check(pid.into()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            // A child can make itself traced by its parent, and has then only stopped.
            Ok(collected) if collected != 0 && libc::WIFSTOPPED(status) => {}
            Ok(_) => break pid,
        }
    };
    // SAFETY: zeroes are a valid `rusage`, and the kernel may have filled it.
    let usage = unsafe { usage.assume_init() };
    let nanos =
        |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Ok((pid != 0).then(|| Ended {
        pid: pid.cast_unsigned(),
        status,
        usage: Usage {
            cpu_nanos: nanos(usage.ru_utime) + nanos(usage.ru_stime),
            peak_kib: usage.ru_maxrss as u64,
            read_bytes: usage.ru_inblock as u64 * BLOCK,
            write_bytes: usage.ru_oublock as u64 * BLOCK,
        },
    }))
}

/// Sends a signal by pid. Only for children that were not collected yet: their pids are theirs.
///
/// # Errors
///
/// As `kill`.
pub fn kill(pid: u32, signal: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(pid, signal) }.into())?;
    Ok(())
}

/// Sends a signal to every process of this pid namespace but its first and ourselves. No fork slips
/// through: a child that is being made gets it as well.
///
/// # Errors
///
/// `ESRCH` when there is nobody else.
pub fn signal_everyone(signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(-1, signal) }.into())?;
    Ok(())
}

/// Asks for a signal when the parent ends. The kernel forgets it at every change of credentials, so
/// it comes after those.
///
/// # Errors
///
/// If there is no such signal.
pub fn die_with_parent(signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) }.into())?;
    Ok(())
}

/// Closes the process to tracing and to `/proc/<pid>/{mem,fd,root,…}`, for everyone without
/// `CAP_SYS_PTRACE` over it.
///
/// # Errors
///
/// None that are known.
pub fn refuse_tracing() -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }.into())?;
    Ok(())
}

/// Adopts the orphans among all descendants.
///
/// # Errors
///
/// None that are known.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }.into())?;
    Ok(())
}

/// Joins the namespace behind a descriptor. `kind` is one of `CLONE_NEW*`.
///
/// # Errors
///
/// As `setns`.
pub fn join_namespace(namespace: BorrowedFd<'_>, kind: i32) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: takes numbers only; a process with one thread may change any namespace.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind) }.into())?;
    Ok(())
}

/// Closes every descriptor from `first` on.
///
/// # Safety
///
/// Nothing owns or uses them any more.
///
/// # Errors
///
/// Before kernel 5.9.
pub unsafe fn close_from(first: RawFd) -> io::Result<()> {
    // SAFETY: as promised by the caller.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) })?;
    Ok(())
}

/// Replaces the program. Returns only if that failed.
///
/// # Safety
///
/// Both lists end with a null pointer, and everything else in them points to NUL-terminated text.
pub unsafe fn execute(
    program: &CStr,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
) -> io::Error {
    // SAFETY: as promised by the caller.
    unsafe { libc::execve(program.as_ptr(), arguments, environment) };
    io::Error::last_os_error()
}

/// Names the host within this UTS namespace.
///
/// # Errors
///
/// Without `CAP_SYS_ADMIN` over the namespace, or if the name is longer than 64 bytes.
pub fn set_host_name(name: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length are of one slice.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into())?;
    Ok(())
}

/// Takes on an identity of this user namespace for good: groups, then group, then user.
///
/// Raw system calls: those of the C library would tell other threads, which there are none of.
/// Nothing is allocated.
///
/// # Errors
///
/// `PermissionDenied` if it may not be changed, `InvalidInput` if an id is not mapped here.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: pointer and length are of one slice.
    check(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })?;
    become_ids(uid, gid)
}

/// [`become_user`], the supplementary groups left as they are: with a single mapped id, the kernel
/// lets nobody change them.
///
/// # Errors
///
/// As there.
pub fn become_ids(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })?;
    // SAFETY: takes numbers only.
    check(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) })?;
    Ok(())
}

/// Gives a process, or this one, more of a processor than those around it, unless it was told to take
/// less.
///
/// # Errors
///
/// Without `CAP_SYS_NICE` in the first user namespace.
pub fn raise_priority(pid: Option<u32>, by: i32) -> io::Result<()> {
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    if rustix::process::getpriority_process(pid)? <= 0 {
        rustix::process::setpriority_process(pid, -by)?;
    }
    Ok(())
}

/// Whether this process has more of a processor than those around it.
#[must_use]
pub fn has_priority() -> bool {
    rustix::process::getpriority_process(None).is_ok_and(|nice| nice < 0)
}

/// Takes back what [`raise_priority`] gave. Allocates nothing.
///
/// # Errors
///
/// None that the kernel would have a reason for.
pub fn give_priority_up() -> rustix::io::Result<()> {
    rustix::process::setpriority_process(None, 0)
}

/// Gives a thread as much weight as an ordinary one can have, and places it anew among those that wait
/// for its processor: a kernel that has throttled hundreds of them may let it wait for seconds, whatever
/// its weight, because of where it stood among few.
///
/// # Errors
///
/// Without `CAP_SYS_NICE`, or if there is no such thread.
pub fn put_first(thread: u32) -> io::Result<()> {
    let thread = Pid::from_raw(thread.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
    // Only a change places it anew.
    for nice in [HEAVIEST + 1, HEAVIEST] {
        rustix::process::setpriority_process(Some(thread), nice)?;
    }
    Ok(())
}

const HEAVIEST: i32 = -20;
