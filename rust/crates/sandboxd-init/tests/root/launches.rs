//! Launches that fail, and what they leave.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::thread::UnshareFlags;
use sandboxd_linux::mount::{FileSystem, attach};
use sandboxd_linux::protocol::{FromLauncher, Step};
use sandboxd_linux::seqpacket::{self, Wait};
use sandboxd_linux::unshare::unshare;

use crate::support::{Host, Order, SLOTS, eventually, is_root};

#[test]
fn a_layer_that_does_not_exist_is_named_and_the_launcher_goes_on() {
    if !is_root() {
        return;
    }
    let host = Host::start(0);
    let order = Order { layer: Some("/no/such/layer".into()), ..Order::default() };
    let failure = host.try_launch(&order).err().unwrap();
    let expected = (Step::Mount, libc::ENOENT, "/no/such/layer");
    assert_eq!((failure.step, failure.errno, failure.detail.as_str()), expected);
    let FromLauncher::Ended { number: 1, .. } = host.hear() else { panic!() };

    let sandbox = host.launch(&Order::default());
    assert_eq!(sandbox.sh("echo on").stdout, "on\n");
    host.end(sandbox);
    host.vanish();
}

#[test]
fn an_init_is_the_same_wherever_it_was_born() {
    if !is_root() {
        return;
    }
    let host = Host::start(0);
    let order = Order::default();
    // The first one of a launcher that makes nothing ahead is born into a pair, the next is not.
    let [pair, own] = [host.launch(&order), host.launch(&order)];
    for sandbox in [&pair, &own] {
        let map = fs::read_to_string(format!("/proc/{}/uid_map", sandbox.pid)).unwrap();
        let expected = ["0".to_owned(), sandbox.ids.first.to_string(), "65536".to_owned()];
        assert_eq!(map.split_ascii_whitespace().collect::<Vec<_>>(), expected);
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", sandbox.pid)).unwrap();
        let group = format!("/sb-{}", sandbox.number);
        let inside = groups.lines().filter(|line| line.ends_with(&group));
        assert_eq!(inside.count(), host.cgroups.trees().len(), "{groups}");
    }
    let namespaces = |sandbox: &crate::support::Sandbox| {
        let folder = fs::read_dir(format!("/proc/{}/ns", sandbox.pid)).unwrap();
        let links = folder.map(|entry| fs::read_link(entry.unwrap().path()).unwrap());
        links.collect::<std::collections::HashSet<_>>()
    };
    // But the time namespace, which is the machine's, under its two names.
    assert_eq!(namespaces(&pair).intersection(&namespaces(&own)).count(), 1);
    let seen = "cat /proc/self/uid_map /proc/self/gid_map | tr -s ' ' | cut -d' ' -f2,4;
        cat /proc/sys/user/max_user_namespaces; cut -d: -f1 /proc/net/dev; stat -c '%u %g %a %n' / /usr \
        /usr/bin /tmp /dev /proc; cut -d' ' -f3,4,19 /proc/1/stat; cut -d' ' -f2,5,6 /proc/mounts; \
        ls /proc/1/fd; grep -E '^(Cap|Sec|NoNew|Sig)' /proc/1/status /proc/self/status";
    let [pair_sees, own_sees] = [&pair, &own].map(|sandbox| sandbox.sh(seen));
    assert_eq!(pair_sees.code(), Some(0), "{pair_sees:?}");
    assert_eq!(pair_sees.stdout, own_sees.stdout);
    host.end(pair);
    host.end(own);
    host.vanish();
}

#[test]
fn ids_run_out_and_come_back() {
    if !is_root() {
        return;
    }
    let host = Host::start(2);
    let mut sandboxes: Vec<_> = (0..SLOTS).map(|_| host.launch(&Order::default())).collect();
    let mut firsts: Vec<u32> = sandboxes.iter().map(|sandbox| sandbox.ids.first).collect();
    firsts.sort_unstable();
    assert!(firsts.windows(2).all(|pair| pair[1] - pair[0] >= 65_536), "{firsts:?}");

    let failure = host.try_launch(&Order::default()).err().unwrap();
    assert_eq!((failure.step, failure.errno), (Step::IdMap, libc::EAGAIN));

    let ended = sandboxes.pop().unwrap();
    let ids = ended.ids;
    host.end(ended);
    let again = host.launch(&Order::default());
    assert_eq!(again.ids, ids);
    host.end(again);
    sandboxes.into_iter().for_each(|sandbox| host.end(sandbox));
    host.vanish();
}

#[test]
fn a_packet_that_is_no_order_ends_the_launcher_and_the_agent_keeps_its_own() {
    if !is_root() {
        return;
    }
    let host = Host::start(0);
    let sandbox = host.launch(&Order::default());
    seqpacket::send(&host.launcher.socket, b"nonsense", &[], Wait::Never).unwrap();
    let process = format!("/proc/{}", sandbox.pid);
    eventually("init is gone", || !std::path::Path::new(&process).exists());
    let mut host = host;
    assert!(!host.launcher.process.wait().unwrap().success());
    assert!(host.folder().exists());
    let trees = host.cgroups.trees();
    assert!(trees.iter().all(|tree| tree.exists()));
    host.cgroups.remove().unwrap();
}

#[test]
fn sandboxes_of_a_burst_have_a_network_of_their_own_too() {
    if !is_root() {
        return;
    }
    let host = Host::start(1);
    let sandboxes: Vec<_> = (0..3).map(|_| host.launch(&Order::default())).collect();
    let networks: std::collections::HashSet<_> = sandboxes
        .iter()
        .map(|sandbox| {
            let line = "cat /proc/net/dev | grep -c :; cat /proc/net/fib_trie | grep -c 127.0.0.1";
            assert_eq!(sandbox.sh(line).stdout, "1\n2\n");
            fs::read_link(format!("/proc/{}/ns/net", sandbox.pid)).unwrap()
        })
        .collect();
    assert_eq!(networks.len(), 3);
    sandboxes.into_iter().for_each(|sandbox| host.end(sandbox));
    host.vanish();
}

#[test]
fn layers_of_the_agent_have_their_owners_even_where_they_cannot_be_mapped() {
    if !is_root() {
        return;
    }
    // In mounts of this thread and its children alone. Overlays cannot map owners.
    unshare(UnshareFlags::NEWNS).unwrap();
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
    let base = tempfile::tempdir().unwrap();
    let overlay = FileSystem::new(c"overlay").unwrap();
    for (key, name) in [(c"lowerdir", "lower"), (c"upperdir", "upper"), (c"workdir", "work")] {
        let folder = base.path().join(name);
        fs::create_dir(&folder).unwrap();
        overlay.set(key, &c_path(&folder)).unwrap();
    }
    let point = base.path().join("mounted");
    fs::create_dir(&point).unwrap();
    attach(overlay.mount(MountAttrFlags::empty()).unwrap(), &c_path(&point)).unwrap();

    let host = Host::beneath(&point);
    for _ in 0..2 {
        let sandbox = host.launch(&Order::default());
        let ended =
            sandbox.sh("stat -c '%u %a' /root /etc/passwd /tmp; touch /root/x; readlink /bin");
        assert_eq!(ended.stdout, "0 700\n0 644\n0 1777\nusr/bin\n", "{}", ended.stderr);
        host.end(sandbox);
    }
    host.vanish();
    unmount(point, UnmountFlags::DETACH).unwrap();
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

#[test]
fn the_mount_point_stays_as_it_was() {
    if !is_root() {
        return;
    }
    let host = Host::start(0);
    let point = host.folder().join("mnt");
    let before = std::fs::metadata(&point).unwrap();
    let sandbox = host.launch(&Order::default());
    let during = std::fs::metadata(&point).unwrap();
    assert_eq!((before.dev(), before.ino()), (during.dev(), during.ino()));
    host.end(sandbox);
    host.vanish();
}
