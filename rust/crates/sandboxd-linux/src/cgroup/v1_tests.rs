//! Version 1, and what it writes.

use std::path::Path;

use super::double::Double;
use super::driver::{Controls, Counters, Driver, Limits};
use super::layout::Layout;
use super::v1::V1;
use crate::protocol::Containment;

const LIMITS: Limits =
    Limits { memory_bytes: Some(1 << 30), pids: Some(100), cpu_millis: Some(1_500) };

fn layout() -> Layout {
    let v1 = [("memory", "/m"), ("pids", "/p"), ("cpu", "/u"), ("freezer", "/f")];
    let v1 = v1.map(|(name, path)| (name.to_owned(), path.into()));
    Layout { v1: v1.into(), ..Layout::default() }
}

#[test]
fn every_controller_gets_a_group_and_its_limit() {
    let files = Double::default().file("/m/t/sb-7/memory.memsw.limit_in_bytes", "0");
    let driver = V1::set_up(files.clone(), &layout(), "t").unwrap();
    assert_eq!(driver.controls(), Controls { memory: true, pids: true, cpu: true });
    assert_eq!(driver.containment(), Some(Containment::CgroupTasks));
    files.log();
    driver.create(Path::new("sb-7"), &LIMITS).unwrap();
    assert_eq!(
        files.log(),
        [
            "mkdir /m/t/sb-7",
            "mkdir /p/t/sb-7",
            "mkdir /u/t/sb-7",
            "mkdir /f/t/sb-7",
            "1073741824 > /m/t/sb-7/memory.limit_in_bytes",
            "1073741824 > /m/t/sb-7/memory.memsw.limit_in_bytes",
            "100 > /p/t/sb-7/pids.max",
            "100000 > /u/t/sb-7/cpu.cfs_period_us",
            "150000 > /u/t/sb-7/cpu.cfs_quota_us",
        ]
    );
    // The first process stays out of the freezer: only leaves are frozen.
    assert_eq!(driver.tasks(Path::new("sb-7")).unwrap().len(), 3);
    assert_eq!(
        files.log(),
        ["open /m/t/sb-7/tasks", "open /p/t/sb-7/tasks", "open /u/t/sb-7/tasks"]
    );
}

#[test]
fn the_tree_weighs_as_its_work_does() {
    let files = Double::default();
    V1::set_up(files.clone(), &layout(), "t").unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert!(files.log().contains(&format!("{} > /u/t/cpu.shares", 8 * 1_024 * cpus)));
}

#[test]
fn the_agent_answers_from_a_group_of_its_own() {
    let files = Double::default();
    let driver = V1::set_up(files.clone(), &layout(), "t").unwrap();
    files.log();
    driver.shelter();
    assert_eq!(
        files.log(),
        ["mkdir /u/t/agent", "65536 > /u/t/agent/cpu.shares", "0 > /u/t/agent/cgroup.procs"]
    );

    let files = Double::default().refuse("0 > /u/t/agent/cgroup.procs", libc::EACCES);
    V1::set_up(files.clone(), &layout(), "t").unwrap().shelter();
    assert_eq!(files.log().last().unwrap(), "rmdir /u/t/agent");
}

#[test]
fn controllers_that_refuse_are_done_without() {
    let files =
        Double::default().refuse("mkdir /m/t", libc::EACCES).refuse("mkdir /f/t", libc::EROFS);
    let driver = V1::set_up(files, &layout(), "t").unwrap();
    assert_eq!(driver.controls(), Controls { memory: false, pids: true, cpu: true });
    assert_eq!(driver.containment(), None);

    let files = ["/m", "/p", "/u", "/f"].iter().fold(Double::default(), |files, path| {
        files.refuse(&format!("mkdir {path}/t"), libc::EACCES)
    });
    assert!(V1::set_up(files, &layout(), "t").is_none());
}

#[test]
fn controllers_that_share_a_hierarchy_share_a_group() {
    let v1 = [("cpu", "/both"), ("pids", "/both")];
    let v1 = v1.map(|(name, path)| (name.to_owned(), path.into()));
    let layout = Layout { v1: v1.into(), ..Layout::default() };
    let files = Double::default();
    let driver = V1::set_up(files.clone(), &layout, "t").unwrap();
    assert_eq!(driver.trees(), [Path::new("/both/t")]);
    assert_eq!(driver.controls(), Controls { memory: false, pids: true, cpu: true });
    let limits = Limits { memory_bytes: None, ..LIMITS };
    driver.create(Path::new("sb-7"), &limits).unwrap();
    assert_eq!(driver.tasks(Path::new("sb-7")).unwrap().len(), 1);
}

#[test]
fn a_leaf_is_frozen_killed_and_thawed() {
    let files = Double::default()
        .file("/f/t/sb-7/x0/freezer.state", "FROZEN")
        .file("/f/t/sb-7/x0/cgroup.procs", "")
        .file("/f/t/sb-7/x0/tasks", "");
    let driver = V1::set_up(files.clone(), &layout(), "t").unwrap();
    driver.create_leaf(Path::new("sb-7/x0"), 500_000).unwrap();
    files.log();
    driver.kill(Path::new("sb-7/x0")).unwrap();
    assert_eq!(
        files.log(),
        ["FROZEN > /f/t/sb-7/x0/freezer.state", "THAWED > /f/t/sb-7/x0/freezer.state"]
    );
    assert!(!driver.is_populated(Path::new("sb-7/x0")).unwrap());
}

#[test]
fn z13_a_leaf_stays_frozen_until_it_is_thawed() {
    let files = Double::default()
        .directory("/f/t/sb-7")
        .directory("/f/t/sb-7/x0")
        .file("/f/t/sb-7/x0/freezer.state", "FREEZING\n");
    let driver = V1::set_up(files.clone(), &layout(), "t").unwrap();
    files.log();
    assert_eq!(driver.leaves(Path::new("sb-7")).unwrap(), [Path::new("sb-7/x0")]);
    assert!(!driver.is_frozen(Path::new("sb-7/x0")).unwrap(), "one process still runs");
    driver.freeze(Path::new("sb-7/x0")).unwrap();
    let _ = files.clone().file("/f/t/sb-7/x0/freezer.state", "FROZEN\n");
    assert!(driver.is_frozen(Path::new("sb-7/x0")).unwrap());
    driver.thaw(Path::new("sb-7/x0")).unwrap();
    assert_eq!(
        files.log(),
        ["FROZEN > /f/t/sb-7/x0/freezer.state", "THAWED > /f/t/sb-7/x0/freezer.state"]
    );
}

#[test]
fn counters_of_every_kernel_are_understood() {
    let files = Double::default()
        .file("/m/t/sb-7/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
        .file("/m/t/sb-7/memory.max_usage_in_bytes", "8192\n")
        .file("/p/t/sb-7/pids.events", "max 4\n")
        .file("/m/t/sb-8/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n")
        .file("/m/t/sb-8/memory.max_usage_in_bytes", "1\n")
        .file("/p/t/sb-8/pids.events", "max 0\n");
    let driver = V1::set_up(files, &layout(), "t").unwrap();
    let expected = Counters { oom_kills: 2, pids_refusals: 4, memory_peak_bytes: Some(8192) };
    assert_eq!(driver.counters(Path::new("sb-7")).unwrap(), expected);
    assert_eq!(driver.counters(Path::new("sb-8")).unwrap().oom_kills, 0);
}

#[test]
fn a_memory_limit_is_changed_after_that_of_memory_and_swap_was_opened() {
    let files = Double::default().file("/m/t/sb-7/memory.memsw.limit_in_bytes", "0");
    let driver = V1::set_up(files.clone(), &layout(), "t").unwrap();
    driver.create(Path::new("sb-7"), &LIMITS).unwrap();
    files.log();
    let limits = Limits { memory_bytes: Some(1 << 31), ..Limits::default() };
    driver.relimit(Path::new("sb-7"), &limits).unwrap();
    assert_eq!(
        files.log(),
        [
            "-1 > /m/t/sb-7/memory.memsw.limit_in_bytes",
            "2147483648 > /m/t/sb-7/memory.limit_in_bytes",
            "2147483648 > /m/t/sb-7/memory.memsw.limit_in_bytes",
        ]
    );
}
