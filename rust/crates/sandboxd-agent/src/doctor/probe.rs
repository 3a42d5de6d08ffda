//! Putting together what was tried and what the cgroups allow.

use std::fs;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use sandboxd_linux::cgroup::{Cgroups, Layout};
use sandboxd_linux::mount::{FileSystem, copy_beneath};
use sandboxd_linux::protocol::Containment;

use super::child::Step;
use super::namespaces::Namespaces;
use crate::call::Answer;
use crate::capabilities::{Capabilities, Capability, Feature};
use crate::state::StateFolder;

/// Settings that forbid user namespaces, with the value that does, and the command that allows
/// them.
const SWITCHES: &[(&str, &str, &str)] = &[
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "run `sysctl kernel.unprivileged_userns_clone=1`",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "run `sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
    ("/proc/sys/user/max_user_namespaces", "0", "run `sysctl user.max_user_namespaces=16384`"),
    ("/proc/sys/user/max_net_namespaces", "0", "run `sysctl user.max_net_namespaces=16384`"),
];

/// Where no setting explains it.
const NAMESPACES_REMEDY: &str = "run the agent as root, or, within a container, allow unshare, \
                                 clone3 and mount in its seccomp and AppArmor profiles";

const CGROUP_REMEDY: &str = "run the agent as root, or with `systemd-run --user --scope -p \
                             Delegate=yes`, where cgroups can be written";

/// Finds out what this host can enforce. Takes some milliseconds, most of them in a child process.
pub(crate) fn probe(
    state: &Answer<StateFolder>,
    cgroups: &Cgroups,
    layout: &Layout,
) -> Capabilities {
    let namespaces = Namespaces::probe();
    let mut found = namespace_features(&namespaces);
    found.extend(cgroup_features(cgroups, layout));
    found.push(grader(&namespaces, cgroups));
    found.push(seccomp());
    found.push(openat2_feature());
    found.push(state_feature(state));
    Capabilities::new(found)
}

fn given(feature: Feature, detail: impl Into<String>) -> Capability {
    Capability { feature, available: true, detail: detail.into() }
}

fn missing(feature: Feature, detail: impl Into<String>) -> Capability {
    Capability { feature, available: false, detail: detail.into() }
}

fn namespace_features(namespaces: &Namespaces) -> Vec<Capability> {
    let tried = |feature, result: Result<(), Errno>, given_by: &str, what: &str| match result {
        Ok(()) => given(feature, given_by),
        Err(errno) => missing(feature, format!("{what} ({errno}): {}", switch(&read_setting))),
    };
    let tmpfs = namespaces.step(Step::Tmpfs);
    let overlay = tmpfs.and_then(|()| namespaces.step(Step::Overlay));
    let range = match namespaces.range {
        Ok(()) => given(Feature::IdRange, "65536 ids for each sandbox"),
        Err(_) => {
            missing(Feature::IdRange, "sandboxes have their root only: run the agent as root")
        }
    };
    let idmapped = match namespaces.idmapped {
        Ok(()) => given(Feature::IdmappedMounts, "the file system of /usr allows them"),
        Err(Errno::PERM) => {
            let detail = "the machine's files belong to nobody in sandboxes: run the agent as root";
            missing(Feature::IdmappedMounts, detail)
        }
        Err(errno) => {
            let detail = format!(
                "the machine's files belong to nobody in sandboxes, as the file system of /usr \
                 cannot map owners ({errno}): use ext4, xfs, btrfs or tmpfs"
            );
            missing(Feature::IdmappedMounts, detail)
        }
    };
    vec![
        tried(
            Feature::UserNamespaces,
            namespaces.step(Step::User),
            "can be made",
            "user namespaces cannot be made",
        ),
        range,
        tried(
            Feature::NetworkNamespaces,
            namespaces.step(Step::Network),
            "can be made",
            "network namespaces cannot be made",
        ),
        tried(
            Feature::Overlay,
            overlay,
            "can be mounted in a user namespace",
            "overlays cannot be mounted in a user namespace",
        ),
        idmapped,
        tried(
            Feature::DiskLimit,
            tmpfs,
            "size of the tmpfs that takes all writes",
            "no tmpfs can be mounted in a user namespace",
        ),
    ]
}

fn cgroup_features(cgroups: &Cgroups, layout: &Layout) -> Vec<Capability> {
    let controls = cgroups.controls();
    let limit = |feature, available: bool, controller: &str| {
        if !available {
            let detail = format!("no cgroup with controller `{controller}`: {CGROUP_REMEDY}");
            return missing(feature, detail);
        }
        let version = if layout.v1(controller).is_some() { 1 } else { 2 };
        given(feature, format!("cgroup v{version}"))
    };
    let kill_tree = match cgroups.containment() {
        Containment::CgroupDirectory => "cgroup v2: each exec in a group that is killed as one",
        Containment::CgroupTasks => "cgroup v1: each exec in a group that is frozen, then killed",
        Containment::Subreaper => "a subreaper for each exec, as no cgroup can be written: slower",
    };
    vec![
        limit(Feature::MemoryLimit, controls.memory, "memory"),
        limit(Feature::PidsLimit, controls.pids, "pids"),
        limit(Feature::CpuLimit, controls.cpu, "cpu"),
        if cgroups.counts_cpu_time() {
            given(Feature::CpuTimeLimit, "cgroup v2 counts it for each exec")
        } else {
            let detail = "the CPU time of an exec with all its descendants is counted by cgroups \
                          of version 2 only; one may be mounted beside those of version 1";
            missing(Feature::CpuTimeLimit, format!("{detail}: {CGROUP_REMEDY}"))
        },
        given(Feature::KillTree, kill_tree),
    ]
}

/// Graders need a freezer for their sandbox, its files with other ids, and a kernel that copies mounts
/// which were never attached.
fn grader(namespaces: &Namespaces, cgroups: &Cgroups) -> Capability {
    if cgroups.containment() == Containment::Subreaper {
        return missing(Feature::Grader, format!("no freezer for processes: {CGROUP_REMEDY}"));
    }
    if namespaces.range.is_err() {
        let detail = "protected files need ids of their own: run the agent as root";
        return missing(Feature::Grader, detail);
    }
    let copied = FileSystem::new(c"tmpfs")
        .and_then(|tmpfs| tmpfs.mount(MountAttrFlags::empty()))
        .and_then(|tree| copy_beneath(tree, c""));
    match copied {
        Ok(_) => given(Feature::Grader, "in a box of its own, beside the frozen sandbox"),
        Err(error) => {
            let detail =
                format!("mounts cannot be copied out of a sandbox ({error}): use Linux 6.15");
            missing(Feature::Grader, detail)
        }
    }
}

fn seccomp() -> Capability {
    let actions = read_setting("/proc/sys/kernel/seccomp/actions_avail");
    if actions.is_some_and(|actions| actions.split(' ').any(|action| action == "errno")) {
        given(Feature::Seccomp, "filters can be installed")
    } else {
        missing(Feature::Seccomp, "no filters: boot a kernel with CONFIG_SECCOMP_FILTER")
    }
}

fn openat2_feature() -> Capability {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        Ok(_) => given(Feature::Openat2, "file calls stay beneath a sandbox's root"),
        Err(errno) => {
            let detail = format!("file calls do not work ({errno}): boot Linux 5.6 or later");
            missing(Feature::Openat2, detail)
        }
    }
}

fn state_feature(state: &Answer<StateFolder>) -> Capability {
    match state {
        Ok(state) => given(Feature::StateFolder, state.root().display().to_string()),
        Err(error) => missing(Feature::StateFolder, error.message.clone()),
    }
}

/// What to change so that namespaces can be made and used.
fn switch(read: &dyn Fn(&str) -> Option<String>) -> &'static str {
    let off = SWITCHES.iter().find(|(path, value, _)| read(path).as_deref() == Some(value));
    off.map_or(NAMESPACES_REMEDY, |(_, _, remedy)| remedy)
}

fn read_setting(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_in_the_way_is_named() {
        let ubuntu = |path: &str| {
            path.ends_with("apparmor_restrict_unprivileged_userns").then(|| "1".to_owned())
        };
        assert!(switch(&ubuntu).contains("apparmor_restrict_unprivileged_userns=0"));
        let debian = |path: &str| path.ends_with("userns_clone").then(|| "0".to_owned());
        assert!(switch(&debian).contains("unprivileged_userns_clone=1"));
        assert_eq!(switch(&|_| None), NAMESPACES_REMEDY);
    }

    #[test]
    fn without_cgroups_every_limit_says_what_would_provide_it() {
        let found = cgroup_features(&Cgroups::none(), &Layout::parse("", ""));
        for (capability, available) in found.iter().zip([false, false, false, false, true]) {
            assert_eq!(capability.available, available, "{capability:?}");
        }
        assert!(found[0].detail.contains("memory") && found[0].detail.contains("Delegate=yes"));
    }
}
