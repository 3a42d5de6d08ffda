//! Containment without any cgroup.

use std::time::{Duration, Instant};

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
        assert!(ended.usage.cpu_nanos > 0 && ended.usage.peak_kib > 0);
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
        assert_eq!(sandbox.sh("kill -9 -1; sleep 1").signal(), Some(libc::SIGKILL));
        assert_eq!(sandbox.sh("echo on").stdout, "on\n");
    });
}

#[test]
fn nothing_outlives_a_killed_warden_but_what_others_watch() {
    with_sandbox(|sandbox| {
        assert_eq!(sandbox.sh("cp /bin/sleep /tmp/other; /tmp/other 987 &").code(), Some(0));
        let script = "(setsid sleep 987 &); setsid sleep 987 & n=0
            while [ $n -lt 9999 ]; do n=$((n+1)); done; kill -9 $PPID; sleep 987";
        let ended = sandbox.sh(script);
        assert!(!alive(sandbox, "sleep"));
        // The usage is the program's all the same.
        assert_eq!(ended.signal(), Some(libc::SIGKILL));
        assert!(ended.usage.cpu_nanos > 1_000_000, "{ended:?}");
        // Nor what is left of an exec whose end was reported before.
        let script = "(until [ -e /tmp/go ]; do sleep 0.01; done; kill -9 $PPID; sleep 987) &";
        let script = format!("setsid sleep 987 & P=$PPID; {}", script.replace("$PPID", "$P"));
        assert_eq!(sandbox.sh(&script).code(), Some(0));
        eventually("it sleeps", || alive(sandbox, "sleep"));
        sandbox.sh("touch /tmp/go");
        eventually("all are gone", || !alive(sandbox, "sleep"));
        assert!(alive(sandbox, "other"));
    });
}

#[test]
fn a_stopped_warden_goes_on() {
    with_sandbox(|sandbox| {
        assert_eq!(sandbox.sh("kill -STOP $PPID; exit 7").code(), Some(7));
        assert_eq!(sandbox.sh("kill -STOP -1; exit 8").code(), Some(8));
    });
}

#[test]
fn nobody_is_saved_by_stopping_wardens() {
    with_sandbox(|sandbox| {
        let again = "import os\nwhile True: os.kill(os.getppid(), 19)";
        let attacks = [
            "kill -STOP -1; echo up; sleep 987".into(),
            "echo up; while :; do kill -STOP -1; done".into(),
            format!("P=$PPID; echo up; exec python3 -c '{again}'"),
            "P=$PPID; echo up; (while :; do kill -STOP $P; kill -CONT $P; done) & sleep 987".into(),
        ];
        for attack in attacks {
            let exec = sandbox.start(&Command::sh(&attack));
            exec.wait_for_output();
            std::thread::sleep(Duration::from_millis(50));
            let ordered = Instant::now();
            sandbox.send(&ToInit::SignalAll { exec: exec.exec, signal: libc::SIGKILL });
            assert_eq!(exec.wait().unwrap().signal(), Some(libc::SIGKILL), "{attack}");
            assert!(ordered.elapsed() < Duration::from_millis(500), "{attack}");
            // Without a process more than its own.
            let list = "for file in /proc/[0-9]*/comm; do read -r comm <$file; echo $comm; done";
            let left = sandbox.sh(list).stdout;
            let mut left: Vec<&str> = left.lines().collect();
            left.sort_unstable();
            assert_eq!(left, ["sandboxd-init", "sandboxd-init", "sh"], "{attack}");
        }
    });
}

#[test]
fn a_warden_cannot_be_traced_and_traces_nobody() {
    with_sandbox(|sandbox| {
        let python = |code: &str| {
            let code = format!("import ctypes, os; ptrace = ctypes.CDLL(None).ptrace; {code}");
            sandbox.run(&Command::new(&["python3", "-c", &code]))
        };
        // PTRACE_ATTACH and PTRACE_SEIZE.
        let ended = python("print(*(ptrace(r, os.getppid(), 0, 0) for r in (16, 0x4206)))");
        assert_eq!(ended.stdout, "-1 -1\n");
        // PTRACE_TRACEME: a stop is no end.
        let exec = Command::sh(
            "exec python3 -c 'import ctypes, os; ctypes.CDLL(None).ptrace(0, 0, 0, 0)
print(flush=True); os.kill(os.getpid(), 10)'",
        );
        let exec = sandbox.start(&exec);
        exec.wait_for_output();
        std::thread::sleep(Duration::from_millis(50));
        sandbox.send(&ToInit::SignalAll { exec: exec.exec, signal: libc::SIGKILL });
        assert_eq!(exec.wait().unwrap().signal(), Some(libc::SIGKILL));
    });
}
