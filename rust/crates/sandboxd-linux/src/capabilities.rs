//! What root may do inside of a sandbox.
//!
//! Programs get their capabilities at exec from the bounding set, which is cut once by init. Init
//! itself keeps all of those of its user namespace: nobody inside can trace a process with more
//! capabilities than they have.

use std::io;

use rustix::thread::CapabilitySet;

use crate::syscall::check;

/// The set that container engines grant by default, and people therefore expect of a container's
/// root: enough for package managers, `su` and `chown`.
pub const CONTAINER: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::AUDIT_WRITE)
    .union(CapabilitySet::SETFCAP);

/// Takes every capability that is not in `keep` from the bounding set, for this process and all that
/// it starts, for good. Those that the process has now it keeps.
///
/// # Errors
///
/// Without `CAP_SETPCAP`.
pub fn bound(keep: CapabilitySet) -> io::Result<()> {
    // Numbers, not names: a newer kernel's capabilities must go as well.
    for number in 0..64 {
        if keep.bits() & (1 << number) != 0 {
            continue;
        }
        // SAFETY: takes numbers only.
        let answer = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
        match check(answer.into()) {
            // One past the last capability of this kernel.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
            result => result?,
        };
    }
    Ok(())
}
