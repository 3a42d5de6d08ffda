//! Containment without any cgroup.

use std::time::Duration;

use sandboxd_linux::protocol::{FromInit, Step, ToInit};

use crate::execs::alive;
use crate::support::{Command, Host, Order, Sandbox, eventually, is_root};

fn with_sandbox(test: impl FnOnce(&Sandbox)) {
    if !is_root() {
        return;
    }
    let host = Host::without_cgroups(0);
    let sandbox = host.launch(&Order::default());
    test(&sandbox);
    host.end(sandbox);
    host.vanish();
}

#[test]
fn status_and_usage_are_those_of_the_program() {
    with_sandbox(|sandbox| {
        let ended = sandbox.sh("echo out; exit 7");
        assert_eq!((ended.code(), ended.stdout.as_str()), (Some(7), "out\n"));
        assert!(ended.cpu_nanos > 0 && ended.peak_kib > 0);
        assert_eq!(sandbox.sh("kill -USR1 $$").signal(), Some(libc::SIGUSR1));
        let failure = sandbox.start(&Command::new(&["nowhere"])).wait().unwrap_err();
        assert_eq!((failure.step, failure.errno), (Step::Program, libc::ENOENT));

        let mut command = Command::sh("echo $$; sleep 987");
        command.want_started = true;
        let exec = sandbox.start(&command);
        let FromInit::Started { pid, .. } = sandbox.report() else { panic!() };
        exec.wait_for_output();
        sandbox.send(&ToInit::Signal { exec: exec.exec, signal: libc::SIGTERM });
        let ended = exec.wait().unwrap();
        assert_eq!((ended.signal(), ended.stdout), (Some(libc::SIGTERM), format!("{pid}\n")));
    });
}

#[test]
fn everything_below_a_warden_can_be_killed_and_only_that() {
    with_sandbox(|sandbox| {
        // Background children of another exec live on.
        assert_eq!(sandbox.sh("cp /bin/sleep /tmp/other; /tmp/other 987 &").code(), Some(0));
        let script = "sleep 987 & setsid sleep 987 & (setsid sh -c 'sleep 987 & sleep 987' &) &
            (trap '' TERM HUP INT; sleep 987) & echo up; wait";
        let exec = sandbox.start(&Command::sh(script));
        exec.wait_for_output();
        std::thread::sleep(Duration::from_millis(50));
        sandbox.send(&ToInit::SignalAll { exec: exec.exec, signal: libc::SIGKILL });
        let ended = exec.wait().unwrap();
        assert_eq!((ended.signal(), ended.stdout.as_str()), (Some(libc::SIGKILL), "up\n"));
        eventually("all are gone", || !alive(sandbox, "sleep"));
        let all = sandbox.sh("cat /proc/[0-9]*/stat").stdout;
        assert!(alive(sandbox, "other"), "{all}");
    });
}

#[test]
fn descendants_can_be_killed_after_the_main_process_has_ended() {
    with_sandbox(|sandbox| {
        let exec = sandbox.start(&Command::sh("setsid sleep 987 & echo main"));
        let number = exec.exec;
        assert_eq!(exec.wait().unwrap().code(), Some(0));
        eventually("it lives on", || alive(sandbox, "sleep"));
        sandbox.send(&ToInit::SignalAll { exec: number, signal: libc::SIGKILL });
        eventually("it is gone", || !alive(sandbox, "sleep"));
        // Its warden is gone with it.
        eventually("only init and we are left", || {
            sandbox.sh("cat /proc/[0-9]*/comm | grep -c sandboxd-init").stdout == "2\n"
        });
    });
}

#[test]
fn a_fork_bomb_is_killed() {
    with_sandbox(|sandbox| {
        // Bounded all the same: nothing but the kill would end it.
        let script = "test $(ulimit -p) = 200 || exit; echo up; bomb() { bomb | bomb & }; (bomb) &
            while :; do :; done";
        let command = Command::new(&["prlimit", "--nproc=200", "sh", "-c", script]).user(1000);
        let exec = sandbox.start(&command);
        exec.wait_for_output();
        std::thread::sleep(Duration::from_millis(100));
        sandbox.send(&ToInit::SignalAll { exec: exec.exec, signal: libc::SIGKILL });
        assert_eq!(exec.wait().unwrap().signal(), Some(libc::SIGKILL));
        eventually("all are gone", || {
            sandbox.sh("cat /proc/[0-9]*/comm | grep -c '^sh$'").stdout == "1\n"
        });
    });
}

#[test]
fn a_killed_warden_is_reported_as_a_killed_program() {
    with_sandbox(|sandbox| {
        // The warden is the parent of the program.
        assert_eq!(sandbox.sh("kill -9 $PPID; sleep 1").signal(), Some(libc::SIGKILL));
        assert_eq!(sandbox.sh("echo on").stdout, "on\n");
    });
}
