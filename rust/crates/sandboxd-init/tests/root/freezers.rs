//! Containment by the freezer, as on machines with version 1 of cgroups only.

use std::time::Duration;

use sandboxd_linux::cgroup::Limits;
use sandboxd_linux::protocol::Containment;

use crate::execs::alive;
use crate::support::{Command, Host, Order, eventually, is_root};

fn start() -> Option<Host> {
    if !is_root() {
        return None;
    }
    let host = Host::with_v1(0);
    if host.cgroups.containment() == Containment::CgroupTasks {
        return Some(host);
    }
    println!("skipped: this machine has no freezer of version 1");
    host.vanish();
    None
}

#[test]
fn a_frozen_leaf_is_killed_as_a_whole_and_only_that() {
    let Some(host) = start() else { return };
    let sandbox = host.launch(&Order::default());
    assert_eq!(sandbox.sh("cp /bin/sleep /tmp/other; /tmp/other 987 & exit 7").code(), Some(7));
    let script = "sleep 987 & setsid sleep 987 & (setsid sh -c 'sleep 987 & sleep 987' &) &
        (trap '' TERM HUP INT; sleep 987) & echo up; wait";
    let mut exec = sandbox.start(&Command::sh(script));
    exec.wait_for_output();
    std::thread::sleep(Duration::from_millis(50));
    let mut leaf = exec.leaf.take().unwrap();
    leaf.kill().unwrap();
    let ended = exec.wait().unwrap();
    assert_eq!((ended.signal(), ended.stdout.as_str()), (Some(libc::SIGKILL), "up\n"));
    eventually("the leaf is empty", || !leaf.is_populated().unwrap());
    assert!(!alive(&sandbox, "sleep"));
    assert!(alive(&sandbox, "other"));
    eventually("the leaf can be removed", || leaf.remove().is_ok());
    host.end(sandbox);
    host.vanish();
}

#[test]
fn a_fork_bomb_is_killed_in_the_freezer() {
    let Some(host) = start() else { return };
    let limits = Limits { pids: Some(64), ..Limits::default() };
    let sandbox = host.launch(&Order { limits, ..Order::default() });
    let script = "echo up; bomb() { bomb | bomb & }; (bomb) & while :; do :; done";
    let mut exec = sandbox.start(&Command::sh(script));
    exec.wait_for_output();
    eventually("the limit is met", || sandbox.group.counters().unwrap().pids_refusals > 0);
    let mut leaf = exec.leaf.take().unwrap();
    leaf.kill().unwrap();
    assert_eq!(exec.wait().unwrap().signal(), Some(libc::SIGKILL));
    eventually("the leaf is empty", || !leaf.is_populated().unwrap());
    assert_eq!(sandbox.sh("echo alive").stdout, "alive\n");
    host.end(sandbox);
    host.vanish();
}

#[test]
fn a_clean_freezer_is_used_again() {
    let Some(host) = start() else { return };
    let sandbox = host.launch(&Order::default());
    let mut leaf = None;
    for _ in 0..20 {
        let command = Command::sh("exit 3");
        let mut exec = match leaf.take() {
            Some(leaf) => sandbox.start_in(&command, Some(leaf)),
            None => sandbox.start(&command),
        };
        let used = exec.leaf.take().unwrap();
        assert_eq!(exec.wait().unwrap().code(), Some(3));
        eventually("the leaf is clean", || used.is_reusable());
        leaf = Some(used);
    }
    drop(leaf);
    host.end(sandbox);
    host.vanish();
}
