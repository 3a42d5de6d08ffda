//! Who init is: root of its own namespaces, on its processors, with a name.

use rustix::process::{Resource, Rlimit, setrlimit, umask};
use rustix::thread::{CpuSet, UnshareFlags, sched_setaffinity};
use sandboxd_linux::process::{
    become_ids, become_user, die_with_parent, refuse_tracing, set_host_name,
};
use sandboxd_linux::protocol::{Failure, Step};
use sandboxd_linux::signals;
use sandboxd_linux::unshare::unshare;

use super::plan::Plan;
use crate::failure::At as _;

/// Open files of one process. What container engines grant; bounded by what the agent itself has.
const OPEN_FILES: u64 = 1_048_576;

/// Becomes root inside, and leaves the launcher's settings behind.
pub(super) fn assume(plan: &Plan<'_>) -> Result<(), Failure> {
    if plan.ids.count > 1 {
        become_user(0, 0, &[]).at(Step::User)?;
    } else {
        // A single id may not change its groups: the agent's stay, as the kernel wants it.
        become_user(0, 0, &[]).or_else(|_| become_ids(0, 0)).at(Step::User)?;
    }
    // Nobody may look into init, whose memory is the launcher's.
    refuse_tracing().at(Step::User)?;
    die_with_parent(libc::SIGKILL).at(Step::Other)?;
    // The host's paths of groups are nobody's business. A kernel without it has nothing to hide them.
    let _ = unshare(UnshareFlags::NEWCGROUP);
    // Our own session: a signal from the launcher's terminal is not for us.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"sandboxd-init");
    // SAFETY: init has the launcher's memory, and the launcher has read its arguments.
    unsafe { plan.title.set(b"sandboxd-init") };
    signals::block(&[libc::SIGCHLD]);
    umask(rustix::fs::Mode::from_raw_mode(0o022));
    if !plan.cpus.is_empty() {
        let mut cpus = CpuSet::new();
        plan.cpus
            .iter()
            .filter_map(|cpu| usize::try_from(*cpu).ok())
            .filter(|cpu| *cpu < CpuSet::MAX_CPU)
            .for_each(|cpu| cpus.set(cpu));
        sched_setaffinity(None, &cpus).at(Step::Other)?;
    }
    limit_resources(plan.processes).at(Step::Other)
}

/// No core dumps, as many open files as we may grant, and no more processes than we were told.
fn limit_resources(processes: u32) -> rustix::io::Result<()> {
    if processes > 0 {
        // Counted per user namespace (Linux 5.14), and only root of the host is exempt.
        let most = Some(u64::from(processes));
        setrlimit(Resource::Nproc, Rlimit { current: most, maximum: most })?;
    }
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let files = rustix::process::getrlimit(Resource::Nofile);
    let most = files.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) })
}

/// Names the host.
pub(super) fn name_host(plan: &Plan<'_>) -> Result<(), Failure> {
    set_host_name(plan.host_name).at(Step::Other)
}
