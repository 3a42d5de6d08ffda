//! Starting, signalling and ending programs in a sandbox of this machine.

use std::time::{Duration, Instant};

use crate::support::{Command, Host, Order, Sandbox, eventually, is_root};
use sandboxd_linux::protocol::{FromInit, FromLauncher, Step, ToInit};

fn with_sandbox(test: impl FnOnce(&Host, &Sandbox)) {
    if !is_root() {
        return;
    }
    let host = Host::start(0);
    let sandbox = host.launch(&Order::default());
    test(&host, &sandbox);
    host.end(sandbox);
    host.vanish();
}

/// Whether a program of this name runs in the sandbox.
pub(crate) fn alive(sandbox: &Sandbox, name: &str) -> bool {
    let script = format!("grep -lx {name} /proc/[0-9]*/comm");
    sandbox.sh(&script).code() == Some(0)
}

#[test]
fn signals_reach_the_program_and_its_status_is_exact() {
    with_sandbox(|_, sandbox| {
        let exec = sandbox
            .start(&Command::sh("trap 'exit 42' USR1; echo up; while :; do sleep 0.01; done"));
        exec.wait_for_output();
        sandbox.send(&ToInit::Signal { exec: exec.exec, signal: libc::SIGUSR1 });
        assert_eq!(exec.wait().unwrap().code(), Some(42));

        let exec = sandbox.start(&Command::sh("echo up; exec sleep 100"));
        exec.wait_for_output();
        sandbox.send(&ToInit::Signal { exec: exec.exec, signal: libc::SIGTERM });
        assert_eq!(exec.wait().unwrap().signal(), Some(libc::SIGTERM));

        assert_eq!(sandbox.sh("kill -SEGV $$").signal(), Some(libc::SIGSEGV));
        // One that has ended, and one that never was: nothing happens.
        sandbox.send(&ToInit::Signal { exec: 1, signal: libc::SIGKILL });
        sandbox.send(&ToInit::Signal { exec: 999, signal: libc::SIGKILL });
        assert_eq!(sandbox.sh("true").code(), Some(0));
    });
}

#[test]
fn a_program_that_cannot_start_says_at_which_step() {
    with_sandbox(|_, sandbox| {
        sandbox.sh("mkdir /tmp/p /tmp/q; echo 'echo no header' > /tmp/script; chmod 755 /tmp/script
            echo > /tmp/p/tool; printf '#!/bin/sh\\necho found' > /tmp/q/tool; chmod 755 /tmp/q/tool");
        let failed = |command: &Command| {
            let failure = sandbox.start(command).wait().unwrap_err();
            (failure.step, failure.errno)
        };
        assert_eq!(failed(&Command::new(&["nowhere"])), (Step::Program, libc::ENOENT));
        assert_eq!(failed(&Command::new(&["/etc/passwd"])), (Step::Program, libc::EACCES));
        assert_eq!(failed(&Command::new(&[""])), (Step::Program, libc::ENOENT));
        assert_eq!(failed(&Command::new(&["/tmp/script"])), (Step::Program, libc::ENOEXEC));
        let mut command = Command::new(&["tool"]);
        command.environment = vec!["PATH=/nowhere:/tmp/p".into()];
        assert_eq!(failed(&command), (Step::Program, libc::EACCES));
        command.environment = vec!["PATH=/tmp/p:/tmp/q".into()];
        assert_eq!(sandbox.run(&command).stdout, "found\n");
        command.environment = vec!["PATH=".into()];
        command.directory = "/tmp/q".into();
        assert_eq!(sandbox.run(&command).stdout, "found\n");

        let mut command = Command::new(&["true"]);
        command.directory = "/nowhere".into();
        assert_eq!(failed(&command), (Step::Directory, libc::ENOENT));
        command.directory = "/root".into();
        assert_eq!(failed(&command.clone().user(1000)), (Step::Directory, libc::EACCES));
        let unmapped = Command::new(&["true"]).user(70_000);
        assert_eq!(failed(&unmapped), (Step::User, libc::EINVAL));
        assert_eq!(sandbox.sh("true").code(), Some(0));
    });
}

#[test]
fn environment_and_arguments_arrive_as_given_whatever_their_size() {
    with_sandbox(|_, sandbox| {
        let mut command = Command::sh("tr '\\0' '\\n' < /proc/self/environ; pwd");
        command.environment = vec!["PATH=/bin".into(), "A=1\n2".into(), "A=3".into(), "x".into()];
        command.directory = "/tmp".into();
        assert_eq!(sandbox.run(&command).stdout, "PATH=/bin\nA=1\n2\nA=3\nx\n/tmp\n");

        let mut command = Command::new(&["sh", "-c", "echo $# ${#1}", "sh"]);
        command.arguments.extend((0..30_000).map(|_| b"abc".to_vec()));
        assert_eq!(sandbox.run(&command).stdout, "30000 3\n");
        let mut command = Command::new(&["sh", "-c", "echo $# ${#1}", "sh"]);
        command.arguments.push(vec![b'x'; 100_000]);
        assert_eq!(sandbox.run(&command).stdout, "1 100000\n");
        assert_eq!(sandbox.sh("echo small").stdout, "small\n");
    });
}

#[test]
fn started_comes_before_the_exit_with_the_pid_inside() {
    with_sandbox(|_, sandbox| {
        let mut command = Command::sh("echo $$");
        command.want_started = true;
        let exec = sandbox.start(&command);
        let FromInit::Started { exec: number, pid } = sandbox.report() else { panic!() };
        assert_eq!(number, exec.exec);
        assert_eq!(exec.wait().unwrap().stdout, format!("{pid}\n"));
    });
}

#[test]
fn an_exec_ends_when_its_main_process_does_and_background_children_live_on() {
    with_sandbox(|_, sandbox| {
        let ended = sandbox.sh("sleep 987 & echo main");
        assert_eq!((ended.code(), ended.stdout.as_str()), (Some(0), "main\n"));
        eventually("it runs", || alive(sandbox, "sleep"));
    });
}

#[test]
fn killing_a_leaf_ends_everything_that_the_exec_started() {
    with_sandbox(|_, sandbox| {
        let script = "sleep 987 & setsid sleep 987 & (setsid sh -c 'sleep 987 & sleep 987' &) &
            (trap '' TERM HUP INT; sleep 987) & echo up; wait";
        let mut exec = sandbox.start(&Command::sh(script));
        exec.wait_for_output();
        std::thread::sleep(Duration::from_millis(50));
        let mut leaf = exec.leaf.take().unwrap();
        assert!(leaf.is_populated().unwrap());
        assert!(leaf.signal(libc::SIGCONT).unwrap() >= 5);
        leaf.kill().unwrap();

        let ended = exec.wait().unwrap();
        assert_eq!((ended.signal(), ended.stdout.as_str()), (Some(libc::SIGKILL), "up\n"));
        eventually("the leaf is empty", || !leaf.is_populated().unwrap());
        assert!(!leaf.is_reusable());
        assert!(!alive(sandbox, "sleep"));
        eventually("the leaf can be removed", || leaf.remove().is_ok());
        assert_eq!(sandbox.sh("echo again").stdout, "again\n");
    });
}

#[test]
fn a_fork_bomb_is_ended_with_its_leaf() {
    if !is_root() {
        return;
    }
    let host = Host::start(0);
    let limits = sandboxd_linux::cgroup::Limits { pids: Some(64), ..Default::default() };
    let sandbox = host.launch(&Order { limits, ..Order::default() });
    let mut exec = sandbox
        .start(&Command::sh("echo up; bomb() { bomb | bomb & }; (bomb) & while :; do :; done"));
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
fn memory_beyond_the_limit_is_counted_as_such() {
    if !is_root() {
        return;
    }
    let host = Host::start(0);
    let limits = sandboxd_linux::cgroup::Limits {
        memory_bytes: Some(32 << 20),
        cpu_millis: Some(500),
        ..Default::default()
    };
    let order = Order { limits, disk_bytes: Some(24 << 20), ..Order::default() };
    let sandbox = host.launch(&order);
    let ended = sandbox.sh("head -c 100M /dev/zero | tail -c 90M > /dev/null");
    // The kernel takes the largest first; while that one is still dying, perhaps the shell as well.
    let killed = (ended.code(), ended.signal());
    let expected = [(Some(128 + libc::SIGKILL), None), (None, Some(libc::SIGKILL))];
    assert!(expected.contains(&killed), "{killed:?}");
    let counters = sandbox.group.counters().unwrap();
    assert!(counters.oom_kills > 0);
    assert!(counters.memory_peak_bytes.unwrap() > 24 << 20, "{counters:?}");
    // Files are memory too. However often that is too much, it is never init that dies.
    for _ in 0..20 {
        sandbox.sh("head -c 24M /dev/zero > /tmp/file; head -c 20M /dev/zero | tail -c 20M | wc");
    }
    assert_eq!(sandbox.sh("echo alive").stdout, "alive\n");
    host.end(sandbox);
    host.vanish();
}

#[test]
fn a_clean_leaf_is_used_again_and_orphans_are_reaped() {
    with_sandbox(|_, sandbox| {
        let mut leaf = None;
        for _ in 0..50 {
            let mut exec = match leaf.take() {
                Some(leaf) => sandbox.start_in(&Command::sh("(true &); exit 3"), Some(leaf)),
                None => sandbox.start(&Command::sh("(true &); exit 3")),
            };
            let used = exec.leaf.take().unwrap();
            assert_eq!(exec.wait().unwrap().code(), Some(3));
            eventually("the leaf is clean", || used.is_reusable());
            leaf = Some(used);
        }
        let zombies = sandbox.sh("grep -l '^State:.Z' /proc/[0-9]*/status");
        assert_eq!(zombies.stdout, "");
    });
}

#[test]
fn a_sandbox_outlives_kill_all_from_inside() {
    with_sandbox(|_, sandbox| {
        assert_eq!(sandbox.sh("kill -9 -1; kill -9 1; exit 5").code(), Some(5));
    });
}

#[test]
fn an_init_that_dies_is_reported_and_takes_everything_with_it() {
    if !is_root() {
        return;
    }
    let host = Host::start(0);
    let sandbox = host.launch(&Order::default());
    let exec = sandbox.start(&Command::sh("echo up; sleep 987"));
    exec.wait_for_output();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(sandbox.pid.cast_signed()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let FromLauncher::Ended { number, status } = host.hear() else { panic!() };
    assert_eq!((number, libc::WTERMSIG(status)), (sandbox.number, libc::SIGKILL));
    eventually("the groups are removed", || sandbox.group.remove().is_ok());
    drop(exec);
    host.vanish();
}

#[test]
fn a_vanished_agent_leaves_nothing_even_of_busy_sandboxes() {
    if !is_root() {
        return;
    }
    let host = Host::start(4);
    let sandboxes: Vec<_> = (0..4).map(|_| host.launch(&Order::default())).collect();
    for sandbox in &sandboxes {
        let exec = sandbox.start(&Command::sh("echo up; sleep 987 & setsid sleep 987"));
        exec.wait_for_output();
    }
    let pids: Vec<u32> = sandboxes.iter().map(|sandbox| sandbox.pid).collect();
    let started = Instant::now();
    // The sockets stay open here, as they would in a process that a killed agent has forked.
    host.vanish();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}

#[test]
fn a_killed_launcher_takes_its_sandboxes_with_it() {
    if !is_root() {
        return;
    }
    let mut host = Host::start(0);
    let sandbox = host.launch(&Order::default());
    host.launcher.process.kill().unwrap();
    host.launcher.process.wait().unwrap();
    let process = format!("/proc/{}", sandbox.pid);
    eventually("init is gone", || {
        std::fs::read_to_string(format!("{process}/stat")).map_or(true, |stat| stat.contains(") Z"))
    });
    drop(sandbox);
    host.cgroups.remove().unwrap();
}
