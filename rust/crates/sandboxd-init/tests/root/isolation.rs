//! What can be seen and done from inside.

use std::os::fd::AsRawFd as _;

use crate::support::{Command, Host, Order, eventually, is_root};

#[test]
fn a_program_runs_and_its_output_and_exit_code_come_back() {
    if !is_root() {
        return;
    }
    let host = Host::in_a_burst();
    let sandbox = host.launch(&Order::default());

    let ended = sandbox.run(&Command::new(&["/bin/true"]));
    assert_eq!((ended.code(), ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "", ""));

    let ended = sandbox.run(&Command::new(&["/bin/echo", "hello", "world"]));
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(0), "hello world\n"));

    let ended = sandbox.sh("echo out; echo err >&2; exit 7");
    assert_eq!(ended.code(), Some(7));
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("out\n", "err\n"));
    assert!(ended.usage.cpu_nanos > 0 && ended.usage.peak_kib > 0);

    host.end(sandbox);
    host.vanish();
}

#[test]
fn inside_is_root_of_a_small_machine_and_outside_nobody() {
    if !is_root() {
        return;
    }
    let host = Host::start(2);
    let sandbox = host.launch(&Order::default());

    assert_eq!(sandbox.sh("id -u; id -g; id -G; hostname").stdout, "0\n0\n0\nbox\n");
    let map = std::fs::read_to_string(format!("/proc/{}/uid_map", sandbox.pid)).unwrap();
    let map: Vec<u32> = map.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(map, [0, sandbox.ids.first, 65_536]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", sandbox.pid)).unwrap();
    assert!(status.contains(&format!("Uid:\t{0}\t{0}\t{0}\t{0}\n", sandbox.ids.first)), "{status}");
    assert!(status.contains("Groups:\t \n"), "{status}");
    let beneath = std::fs::metadata(format!("/proc/self/fd/{}/etc", sandbox.root.as_raw_fd()));
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&beneath.unwrap()), sandbox.ids.first);

    assert_eq!(sandbox.sh("stat -c %u:%g /usr /usr/bin/env /etc/passwd").stdout, "0:0\n0:0\n0:0\n");
    let title = sandbox.sh("cat /proc/1/comm; tr -d '\\0' < /proc/1/cmdline").stdout;
    assert_eq!(title, "sandboxd-init\nsandboxd-init", "paths of the host can be read");
    let groups = sandbox.sh("cut -d: -f3 /proc/1/cgroup | sort -u; cut -d: -f3 /proc/self/cgroup");
    assert!(!groups.stdout.contains("sandboxd"), "{}", groups.stdout);
    assert!(
        !sandbox.sh("cat /proc/self/mountinfo").stdout.contains(host.folder().to_str().unwrap())
    );
    assert_eq!(sandbox.sh("ls /proc | grep -c '^[0-9]'").code(), Some(0));
    assert_eq!(
        sandbox.sh("cat /sys/class/net/*/operstate 2>/dev/null; ls /proc/sys/net/ipv4/conf").stdout,
        "all\ndefault\nlo\n"
    );

    host.end(sandbox);
    host.vanish();
}

#[test]
fn what_is_written_stays_inside_and_is_bounded() {
    if !is_root() {
        return;
    }
    let host = Host::in_a_burst();
    let sandbox = host.launch(&Order { disk_bytes: Some(4 << 20), ..Order::default() });

    let script = "set -e
        echo x > /usr/bin/new; chmod 755 /usr/bin/new; rm /usr/bin/env
        touch /etc/a /tmp/b /root/c /dev/shm/d
        chown 1000:1000 /tmp/b; mv /usr/bin/cat /usr/bin/dog; ls -l /usr/bin/dog";
    let ended = sandbox.sh(script);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert!(!std::path::Path::new("/usr/bin/new").exists());
    assert!(std::path::Path::new("/usr/bin/env").exists());
    assert!(!host.folder().join("skeleton/etc/a").exists());
    assert_eq!(std::fs::read_dir(host.folder().join("mnt")).unwrap().count(), 0);

    let ended = sandbox.sh("head -c 8M /dev/zero > /tmp/big");
    assert_ne!(ended.code(), Some(0));
    assert!(ended.stderr.contains("No space left"), "{}", ended.stderr);

    host.end(sandbox);
    host.vanish();
}

#[test]
fn other_users_exist_and_setuid_programs_work() {
    if !is_root() {
        return;
    }
    let host = Host::in_a_burst();
    let sandbox = host.launch(&Order::default());

    let mut user = Command::sh("id -u; id -g; id -G; grep CapEff /proc/self/status").user(1000);
    user.groups = vec![1000, 5];
    assert_eq!(sandbox.run(&user).stdout, "1000\n1000\n1000 5\nCapEff:\t0000000000000000\n");
    let ended = sandbox.sh("su user -c 'id -u'");
    assert_eq!(ended.stdout, "1000\n", "{}", ended.stderr);
    let ended = sandbox.run(&Command::sh("kill -9 1; cat /etc/shadow; touch /etc/x").user(1000));
    assert_ne!(ended.code(), Some(0));
    let script = "cp /usr/bin/id /tmp/id && chmod 4755 /tmp/id";
    assert_eq!(sandbox.sh(script).code(), Some(0));
    assert!(sandbox.run(&Command::sh("/tmp/id").user(1000)).stdout.contains("euid=0(root)"));

    host.end(sandbox);
    host.vanish();
}

#[test]
fn the_usual_ways_out_are_closed() {
    if !is_root() {
        return;
    }
    let host = Host::in_a_burst();
    let sandbox = host.launch(&Order::default());
    let denied = |script: &str| {
        let ended = sandbox.sh(script);
        assert_ne!(ended.code(), Some(0), "{script}: {}{}", ended.stdout, ended.stderr);
    };

    denied("unshare --user true");
    denied("unshare --mount true");
    denied("unshare --net true");
    denied("nsenter -t 1 -m true");
    denied("mount -t tmpfs none /mnt");
    denied("umount /proc");
    denied("mount -o remount,rw /proc/sys");
    denied("head -c 1 /proc/1/mem");
    denied("ls /proc/1/root/");
    denied("ls /proc/1/fd/");
    denied("cat /proc/1/environ");
    denied("echo b > /proc/sysrq-trigger && test -s /proc/sysrq-trigger");
    denied("echo 100 > /proc/sys/user/max_user_namespaces");
    denied("echo x > /proc/sys/kernel/core_pattern");
    denied("test -s /proc/kcore");
    denied("test -s /proc/keys");
    denied("ls /proc/acpi | grep .");
    denied("mknod /tmp/disk b 254 0");
    denied("dmesg");
    denied("date -s 2001-01-01");
    denied("hostname other");
    denied("ls /sys/fs/cgroup");
    denied("ulimit -c unlimited");
    denied("chroot /proc/1/root true");

    let python = |code: &str| sandbox.run(&Command::new(&["python3", "-c", code])).stdout;
    let clone = "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
class Args(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in 'flags pidfd ct pt sig stack size tls'.split()]
print(libc.syscall(435, ctypes.byref(Args(flags=0x10000000, sig=17)), 64), ctypes.get_errno())
print(libc.syscall(425, 8, 0), ctypes.get_errno())
print(libc.syscall(1000), ctypes.get_errno())
print(libc.ioctl(0, 0x5412, b'x'), ctypes.get_errno())";
    let answers = python(clone);
    if !answers.is_empty() {
        // ENOSPC: the limit on user namespaces.
        assert_eq!(answers, "-1 28\n-1 1\n-1 38\n-1 1\n");
    }
    host.end(sandbox);
    host.vanish();
}

#[test]
fn a_hardened_sandbox_has_no_capabilities_at_all() {
    if !is_root() {
        return;
    }
    let host = Host::in_a_burst();
    let sandbox = host.launch(&Order { hardened: true, ..Order::default() });
    let status = sandbox.sh("grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status");
    let none = "0000000000000000";
    let expected = format!(
        "CapPrm:\t{none}\nCapEff:\t{none}\nCapBnd:\t{none}\nCapAmb:\t{none}\nNoNewPrivs:\t1\nSeccomp:\t2\n"
    );
    assert_eq!(status.stdout, expected);
    host.end(sandbox);

    let sandbox = host.launch(&Order::default());
    let status = sandbox.sh("grep -E 'CapEff|CapBnd' /proc/self/status");
    assert_eq!(status.stdout, "CapEff:\t00000000a80425fb\nCapBnd:\t00000000a80425fb\n");
    host.end(sandbox);
    host.vanish();
}

#[test]
fn programs_inherit_their_three_descriptors_and_nothing_else() {
    if !is_root() {
        return;
    }
    let host = Host::start(1);
    let sandbox = host.launch(&Order::default());
    let ended = sandbox.sh("cd /proc/self/fd && echo *; grep -E '^Sig(Blk|Ign)' /proc/self/status");
    // 3 is the shell's own, of the folder that it lists.
    assert!(
        ended.stdout.starts_with("0 1 2\n") || ended.stdout.starts_with("0 1 2 3\n"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.ends_with("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"),
        "{}",
        ended.stdout
    );
    // Standard ones, socket, score, signals, null. Those of the exec are closed after its report.
    eventually("init closes what it passed on", || {
        std::fs::read_dir(format!("/proc/{}/fd", sandbox.pid)).unwrap().count() == 7
    });
    host.end(sandbox);
    host.vanish();
}

#[test]
fn terminals_and_shared_memory_work() {
    if !is_root() {
        return;
    }
    let host = Host::in_a_burst();
    let sandbox = host.launch(&Order::default());
    let ended = sandbox.sh("script -qec 'tty; echo $-' /dev/null < /dev/null");
    assert!(ended.stdout.contains("/dev/pts/0"), "{}{}", ended.stdout, ended.stderr);
    let ended = sandbox
        .sh("echo x > /dev/shm/a; cat /dev/shm/a; echo gone > /dev/null; stat -c %a /dev/shm
        head -c 4 /dev/urandom | wc -c; head -c 4 /dev/zero | wc -c; cat /dev/zero > /dev/full");
    assert_eq!(ended.stdout, "x\n1777\n4\n4\n");
    assert!(ended.stderr.contains("No space left"));
    host.end(sandbox);
    host.vanish();
}
