//! The launcher as an ordinary user: one id, no cgroups, everything else the same.

use std::os::unix::process::CommandExt as _;

use crate::support::{Command, Host, Order};

/// An id that owns nothing on this machine.
const NOBODY: u32 = 65_534;

/// Runs `test` as an ordinary user: at once if we are one, else in a process of its own.
fn as_ordinary_user(name: &str, test: impl FnOnce()) {
    if !rustix::process::geteuid().is_root() {
        return test();
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .status();
    match status {
        Ok(status) => assert!(status.success()),
        Err(error) => println!("skipped: an ordinary user cannot run this test: {error}"),
    }
}

#[test]
fn an_ordinary_user_has_sandboxes_with_one_id() {
    as_ordinary_user("ordinary::an_ordinary_user_has_sandboxes_with_one_id", || {
        let host = Host::without_cgroups(2);
        let sandbox = host.launch(&Order::default());
        assert_eq!((sandbox.ids.first, sandbox.ids.count), (NOBODY, 1));

        assert_eq!(sandbox.sh("id -u; hostname; echo hi").stdout, "0\nbox\nhi\n");
        let script = "set -e; touch /usr/new /etc/new /root/new; ls -l /dev/null
            ! head -c 1 /proc/1/mem; ! unshare --user true; ! ls /proc/1/root/; mkdir /opt";
        let ended = sandbox.sh(script);
        assert_eq!(ended.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
        let failure = sandbox.start(&Command::new(&["true"]).user(1000)).wait().unwrap_err();
        assert_eq!(failure.step, sandboxd_linux::protocol::Step::User);

        host.end(sandbox);
        host.vanish();
    });
}

#[test]
fn an_ordinary_user_can_harden_sandboxes() {
    as_ordinary_user("ordinary::an_ordinary_user_can_harden_sandboxes", || {
        let host = Host::without_cgroups(0);
        let sandbox = host.launch(&Order { hardened: true, ..Order::default() });
        let ended = sandbox.sh("grep CapEff /proc/self/status");
        assert_eq!(ended.stdout, "CapEff:\t0000000000000000\n");
        host.end(sandbox);
        host.vanish();
    });
}
