//! Version 2 on machines that this one is not.

use std::path::Path;

use super::double::Double;
use super::driver::{Controls, Counters, Driver, Limits};
use super::layout::Layout;
use super::v2::V2;

const LIMITS: Limits =
    Limits { memory_bytes: Some(1 << 30), pids: Some(100), cpu_millis: Some(1_500) };

fn layout(own: &str) -> Layout {
    Layout { v1: Vec::new(), v2: Some(own.into()), v2_top: Some("/c".into()) }
}

/// A pod's group: the agent is alone in it.
fn pod() -> Double {
    Double::default()
        .directory("/c")
        .file("/c/cgroup.controllers", "cpu io memory pids")
        .file("/c/sandboxd-1-2/cgroup.controllers", "cpu memory pids")
        .file("/c/sandboxd-1-2/cgroup.subtree_control", "cpu memory pids")
}

#[test]
fn a_group_without_processes_hands_its_controllers_down() {
    let files = pod();
    let driver = V2::set_up(files.clone(), &layout("/c"), "sandboxd-1-2").unwrap();
    assert_eq!(driver.controls(), Controls { memory: true, pids: true, cpu: true });
    assert_eq!(
        files.log(),
        [
            "mkdir /c/sandboxd-1-2",
            "+cpu > /c/cgroup.subtree_control",
            "+memory > /c/cgroup.subtree_control",
            "+pids > /c/cgroup.subtree_control",
            "+cpu > /c/sandboxd-1-2/cgroup.subtree_control",
            "+memory > /c/sandboxd-1-2/cgroup.subtree_control",
            "+pids > /c/sandboxd-1-2/cgroup.subtree_control",
        ]
    );
}

#[test]
fn limits_are_set_on_the_sandbox_and_its_leaves_have_none() {
    let files = pod().file("/c/sandboxd-1-2/sb-7/memory.swap.max", "max");
    let driver = V2::set_up(files.clone(), &layout("/c"), "sandboxd-1-2").unwrap();
    files.log();
    driver.create(Path::new("sb-7"), &LIMITS).unwrap();
    assert_eq!(
        files.log(),
        [
            "mkdir /c/sandboxd-1-2/sb-7",
            "1073741824 > /c/sandboxd-1-2/sb-7/memory.max",
            "0 > /c/sandboxd-1-2/sb-7/memory.swap.max",
            "100 > /c/sandboxd-1-2/sb-7/pids.max",
            "150000 100000 > /c/sandboxd-1-2/sb-7/cpu.max",
        ]
    );
    driver.create_leaf(Path::new("sb-7/x0"), 500_000).unwrap();
    assert_eq!(
        files.log(),
        [
            "mkdir /c/sandboxd-1-2/sb-7/x0",
            "chown 500000 /c/sandboxd-1-2/sb-7/x0/cgroup.procs",
            "chown 500000 /c/sandboxd-1-2/sb-7/cgroup.procs",
            "open /c/sandboxd-1-2/sb-7/x0",
        ]
    );
    driver.kill(Path::new("sb-7/x0")).unwrap();
    driver.remove(Path::new("sb-7")).unwrap();
    assert_eq!(
        files.log(),
        [
            "1 > /c/sandboxd-1-2/sb-7/x0/cgroup.kill",
            "rmdir /c/sandboxd-1-2/sb-7/x0",
            "rmdir /c/sandboxd-1-2/sb-7",
        ]
    );
}

#[test]
fn a_limit_that_is_refused_leaves_no_group() {
    let files = pod().refuse("100 > /c/sandboxd-1-2/sb-7/pids.max", libc::EINVAL);
    let driver = V2::set_up(files.clone(), &layout("/c"), "sandboxd-1-2").unwrap();
    let error = driver.create(Path::new("sb-7"), &LIMITS).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    assert_eq!(files.log().last().unwrap(), "rmdir /c/sandboxd-1-2/sb-7");
}

#[test]
fn an_agent_that_is_alone_in_its_group_steps_aside() {
    // The refusal is the kernel's rule about groups with processes. The double lifts it when it is
    // told to, as the kernel does once the agent has moved.
    let own = "/c/pod";
    let refused = "+memory > /c/pod/cgroup.subtree_control";
    let files = Double::default()
        .directory(own)
        .file("/c/pod/cgroup.controllers", "memory")
        .refuse(refused, libc::EBUSY);
    let driver = V2::set_up(files.clone(), &layout(own), "t").unwrap();
    assert_eq!(driver.controls(), Controls::default());
    let log = files.log();
    assert!(log.contains(&"0 > /c/pod/t/agent/cgroup.procs".to_owned()), "{log:?}");

    files.allow_again(refused);
    let files = files.file("/c/pod/u/cgroup.subtree_control", "memory");
    let driver = V2::set_up(files, &layout(own), "u").unwrap();
    assert_eq!(driver.controls(), Controls { memory: true, pids: false, cpu: false });
}

#[test]
fn beside_other_programs_the_tree_goes_to_the_top_or_does_without_limits() {
    let session = "/c/user.slice/session-1.scope";
    let machine = || {
        Double::default()
            .directory("/c")
            .directory(session)
            .file("/c/user.slice/session-1.scope/cgroup.controllers", "memory pids")
            .file("/c/cgroup.controllers", "cpu memory pids")
            .refuse("+memory > /c/user.slice/session-1.scope/cgroup.subtree_control", libc::EBUSY)
    };
    let files = machine().file("/c/t/cgroup.subtree_control", "cpu memory pids");
    let driver = V2::set_up(files.clone(), &layout(session), "t").unwrap();
    assert_eq!(driver.trees(), [Path::new("/c/t")]);
    assert_eq!(files.log().last().unwrap(), "rmdir /c/user.slice/session-1.scope/t");

    let files = machine().refuse("mkdir /c/t", libc::EACCES);
    let driver = V2::set_up(files, &layout(session), "t").unwrap();
    assert_eq!(driver.trees(), [Path::new("/c/user.slice/session-1.scope/t")]);
    assert_eq!(driver.controls(), Controls::default());
}

#[test]
fn counters_are_read_where_there_is_a_controller() {
    let files = pod()
        .file("/c/sandboxd-1-2/sb-7/memory.events", "low 0\nmax 9\noom 2\noom_kill 3\n")
        .file("/c/sandboxd-1-2/sb-7/memory.peak", "4096\n")
        .file("/c/sandboxd-1-2/sb-7/pids.events", "max 5\n");
    let driver = V2::set_up(files, &layout("/c"), "sandboxd-1-2").unwrap();
    let expected = Counters { oom_kills: 3, pids_refusals: 5, memory_peak_bytes: Some(4096) };
    assert_eq!(driver.counters(Path::new("sb-7")).unwrap(), expected);
}

#[test]
fn a_leaf_is_populated_until_the_kernel_says_that_it_is_not() {
    let files = pod().file("/c/sandboxd-1-2/sb-7/x0/cgroup.events", "populated 1\nfrozen 0\n");
    let driver = V2::set_up(files.clone(), &layout("/c"), "sandboxd-1-2").unwrap();
    assert!(driver.is_populated(Path::new("sb-7/x0")).unwrap());
    let _ = files.file("/c/sandboxd-1-2/sb-7/x0/cgroup.events", "populated 0\nfrozen 0\n");
    assert!(!driver.is_populated(Path::new("sb-7/x0")).unwrap());
}

#[test]
fn z13_a_leaf_stays_frozen_until_it_is_thawed() {
    let events = "/c/sandboxd-1-2/sb-7/x0/cgroup.events";
    let files = pod()
        .directory("/c/sandboxd-1-2/sb-7")
        .directory("/c/sandboxd-1-2/sb-7/x0")
        .file("/c/sandboxd-1-2/sb-7/x0/cgroup.freeze", "0\n")
        .file(events, "populated 1\nfrozen 0\n");
    let driver = V2::set_up(files.clone(), &layout("/c"), "sandboxd-1-2").unwrap();
    files.log();
    let leaf = Path::new("sb-7/x0");
    assert_eq!(driver.leaves(Path::new("sb-7")).unwrap(), [leaf]);
    driver.freeze(leaf).unwrap();
    assert!(!driver.is_frozen(leaf).unwrap(), "the kernel has not said so yet");
    let _ = files.clone().file(events, "populated 1\nfrozen 1\n");
    assert!(driver.is_frozen(leaf).unwrap());
    driver.thaw(leaf).unwrap();
    assert_eq!(
        files.log(),
        ["1 > /c/sandboxd-1-2/sb-7/x0/cgroup.freeze", "0 > /c/sandboxd-1-2/sb-7/x0/cgroup.freeze",]
    );
}
