//! A small agent: starts a launcher, orders sandboxes, runs programs in them, and checks that nothing
//! is left at the end.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandboxd_linux::cgroup::{Cgroups, Layout, Leaf, Limits, SandboxCgroup};
use sandboxd_linux::launcher::{IdSlots, Launcher, LauncherConfig};
use sandboxd_linux::protocol::{
    Containment, ExecRequest, Failure, FromInit, FromLauncher, Hello, IdRange, Launch,
    LayeredMount, MAX_PACKET, ToInit, Usage,
};
use sandboxd_linux::seqpacket::{self, Descriptors, Wait};

/// Far above what anything here takes, below the patience of a person.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sandboxes that one launcher of the tests has ids for.
pub(crate) const SLOTS: u32 = 8;

/// First host id of the tests' sandboxes.
pub(crate) const FIRST_ID: u32 = 1_600_000_000;

pub(crate) struct Host {
    pub(crate) launcher: Launcher,
    pub(crate) cgroups: Cgroups,
    folder: tempfile::TempDir,
    numbers: Cell<u32>,
}

pub(crate) struct Sandbox {
    pub(crate) control: OwnedFd,
    pub(crate) root: OwnedFd,
    pub(crate) ids: IdRange,
    pub(crate) pid: u32,
    pub(crate) number: u32,
    pub(crate) group: SandboxCgroup,
    containment: Containment,
    execs: Cell<u32>,
}

#[derive(Default, Clone)]
pub(crate) struct Order {
    /// Beneath `/usr`, instead of the host's.
    pub(crate) layer: Option<PathBuf>,
    pub(crate) hardened: bool,
    pub(crate) limits: Limits,
    pub(crate) disk_bytes: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) usage: Usage,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        libc::WIFEXITED(self.status).then(|| libc::WEXITSTATUS(self.status))
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        libc::WIFSIGNALED(self.status).then(|| libc::WTERMSIG(self.status))
    }
}

/// Whether the whole of it can be tested here; prints why not.
pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: ranges of ids can only be mapped by root");
    }
    root
}

impl Host {
    pub(crate) fn start(pool: u32) -> Self {
        Self::in_layout(pool, &Layout::of_this_process().unwrap())
    }

    /// As on a machine that has version 1 only.
    pub(crate) fn with_v1(pool: u32) -> Self {
        let layout = Layout::of_this_process().unwrap();
        Self::in_layout(pool, &Layout { v2: None, v2_top: None, ..layout })
    }

    fn in_layout(pool: u32, layout: &Layout) -> Self {
        // A tree for each test, and not an agent's: other agents on the machine sweep those whose
        // owner they cannot find.
        let tree = format!("sandboxd-test-{}-{}", std::process::id(), next_host());
        Self::with(pool, Cgroups::set_up_as(layout, &tree), &std::env::temp_dir())
    }

    /// Of a launcher that has no namespaces ahead and knows the layers, as in a burst: its inits are born
    /// into namespaces of their own.
    pub(crate) fn in_a_burst() -> Self {
        let host = Self::start(0);
        let first = host.launch(&Order::default());
        host.end(first);
        host
    }

    /// Without cgroups, with its state beneath a folder of the caller.
    pub(crate) fn beneath(base: &Path) -> Self {
        Self::with(0, Cgroups::none(), base)
    }

    pub(crate) fn without_cgroups(pool: u32) -> Self {
        Self::with(pool, Cgroups::none(), &std::env::temp_dir())
    }

    fn with(pool: u32, cgroups: Cgroups, base: &Path) -> Self {
        let folder = tempfile::tempdir_in(base).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        make_skeleton(&folder.path().join("skeleton"));
        fs::create_dir(folder.path().join("mnt")).unwrap();
        let first = FIRST_ID + next_host() * 65_536 * SLOTS;
        let config = LauncherConfig {
            program: env!("CARGO_BIN_EXE_sandboxd-init").into(),
            ids: IdSlots { first, count: 65_536, slots: SLOTS },
            pool,
            cgroups: cgroups.trees(),
            state: Some(folder.path().into()),
        };
        let launcher = config.start().unwrap();
        let host = Self { launcher, cgroups, folder, numbers: Cell::new(0) };
        assert_eq!(Hello::decode(&host.hear_packet()), Some(Hello::of_this_build()));
        host
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn launch(&self, order: &Order) -> Sandbox {
        self.try_launch(order).unwrap()
    }

    pub(crate) fn try_launch(&self, order: &Order) -> Result<Sandbox, Failure> {
        let number = self.numbers.get() + 1;
        self.numbers.set(number);
        let group = self.cgroups.create(number, &order.limits).unwrap();
        let join = group.join().unwrap();
        let (control, theirs) = seqpacket::pair().unwrap();
        let layer = order.layer.clone().unwrap_or_else(|| "/usr".into());
        let launch = Launch {
            number,
            hardened: order.hardened,
            root: vec![
                LayeredMount {
                    target: "/".into(),
                    layers: vec![self.folder.path().join("skeleton")],
                },
                LayeredMount { target: "/usr".into(), layers: vec![layer] },
            ],
            mount_point: self.folder.path().join("mnt"),
            disk_bytes: order.disk_bytes.unwrap_or(64 << 20),
            cpus: Vec::new(),
            processes: 0,
            hostname: "box".into(),
            cgroup_tasks: join.tasks.len().try_into().unwrap(),
            cgroup_directory: join.directory.is_some(),
            bases: 0,
        };
        let mut descriptors = vec![theirs.as_fd()];
        descriptors.extend(join.tasks.iter().map(|tasks| tasks.as_fd()));
        descriptors.extend(join.directory.iter().map(|directory| directory.as_fd()));
        seqpacket::send(&self.launcher.socket, &launch.encode(), &descriptors, Wait::Never)
            .unwrap();
        drop(theirs);
        let (pid, ids) = match self.hear() {
            FromLauncher::Launched { pid, ids, .. } => (pid, ids),
            FromLauncher::Failed { failure, .. } => return Err(failure),
            answer => panic!("{answer:?}"),
        };
        let (report, mut descriptors) = receive(&control);
        match report {
            FromInit::Ready => {}
            FromInit::SetupFailed(failure) => return Err(failure),
            report => panic!("{report:?}"),
        }
        let root = descriptors.take().unwrap();
        let containment = self.cgroups.containment();
        Ok(Sandbox { control, root, ids, pid, number, group, containment, execs: Cell::new(0) })
    }

    pub(crate) fn hear(&self) -> FromLauncher {
        FromLauncher::decode(&self.hear_packet()).unwrap()
    }

    fn hear_packet(&self) -> Vec<u8> {
        let mut buffer = vec![0; MAX_PACKET];
        wait_readable(self.launcher.socket.as_fd());
        let received = seqpacket::receive(&self.launcher.socket, &mut buffer, Wait::Never).unwrap();
        assert!(received.length > 0, "the launcher is gone");
        buffer.truncate(received.length);
        buffer
    }

    /// Ends a sandbox and checks that its groups can be removed.
    pub(crate) fn end(&self, sandbox: Sandbox) {
        let Sandbox { number, control, group, pid, .. } = sandbox;
        drop(control);
        match self.hear() {
            FromLauncher::Ended { number: ended, .. } => assert_eq!(ended, number),
            answer => panic!("{answer:?}"),
        }
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        eventually("the groups are removed", || group.remove().is_ok());
    }

    /// Goes away as a killed agent does, and checks what the launcher leaves.
    pub(crate) fn vanish(self) {
        let Self { launcher: Launcher { socket, mut process }, cgroups, folder, .. } = self;
        drop(socket);
        assert!(process.wait().unwrap().success());
        for tree in cgroups.trees() {
            assert!(!tree.exists(), "{} is left", tree.display());
        }
        assert!(!folder.path().exists());
    }
}

pub(crate) struct Exec<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) exec: u32,
    pub(crate) leaf: Option<Leaf>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

#[derive(Clone)]
pub(crate) struct Command {
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) environment: Vec<String>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) directory: String,
    pub(crate) want_started: bool,
}

impl Command {
    pub(crate) fn new<S: AsRef<OsStr>>(arguments: &[S]) -> Self {
        Self {
            arguments: arguments
                .iter()
                .map(|argument| argument.as_ref().as_encoded_bytes().to_vec())
                .collect(),
            environment: vec!["PATH=/usr/bin:/bin:/usr/sbin:/sbin".into()],
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            directory: String::new(),
            want_started: false,
        }
    }

    pub(crate) fn sh(script: &str) -> Self {
        Self::new(&["sh", "-c", script])
    }

    pub(crate) fn user(mut self, uid: u32) -> Self {
        (self.uid, self.gid) = (uid, uid);
        self
    }
}

impl Sandbox {
    pub(crate) fn sh(&self, script: &str) -> Ended {
        self.run(&Command::sh(script))
    }

    pub(crate) fn run(&self, command: &Command) -> Ended {
        self.start(command).wait().unwrap()
    }

    pub(crate) fn start(&self, command: &Command) -> Exec<'_> {
        let leaf = match self.containment {
            Containment::Subreaper => None,
            _ => Some(self.group.create_leaf(self.ids.first).unwrap()),
        };
        self.start_in(command, leaf)
    }

    pub(crate) fn start_in(&self, command: &Command, leaf: Option<Leaf>) -> Exec<'_> {
        let exec = self.execs.get() + 1;
        self.execs.set(exec);
        let mut payload = Vec::new();
        let strings = command
            .arguments
            .iter()
            .map(Vec::as_slice)
            .chain(command.environment.iter().map(String::as_bytes))
            .chain([command.directory.as_bytes()]);
        for text in strings {
            payload.extend(text);
            payload.push(0);
        }
        let memory = (payload.len() > MAX_PACKET - 1_024).then(|| {
            let memory =
                rustix::fs::memfd_create(c"payload", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
            let mut file = fs::File::from(memory);
            std::io::Write::write_all(&mut file, &std::mem::take(&mut payload)).unwrap();
            OwnedFd::from(file)
        });
        let (stdout, their_stdout) = pipe();
        let (stderr, their_stderr) = pipe();
        let order = ToInit::Exec(ExecRequest {
            exec,
            containment: self.containment,
            null_stdin: true,
            terminal: false,
            want_started: command.want_started,
            uid: command.uid,
            gid: command.gid,
            groups: command.groups.clone(),
            argc: command.arguments.len().try_into().unwrap(),
            envc: command.environment.len().try_into().unwrap(),
            payload,
            payload_in_memfd: memory.is_some(),
        });
        let mut descriptors = vec![their_stdout.as_fd(), their_stderr.as_fd()];
        descriptors.extend(memory.iter().map(|memory| memory.as_fd()));
        descriptors.extend(leaf.iter().map(|leaf| leaf.as_fd()));
        seqpacket::send(&self.control, &order.encode(), &descriptors, Wait::Never).unwrap();
        Exec { sandbox: self, exec, leaf, stdout, stderr }
    }

    pub(crate) fn send(&self, order: &ToInit) {
        seqpacket::send(&self.control, &order.encode(), &[], Wait::Never).unwrap();
    }

    pub(crate) fn report(&self) -> FromInit {
        receive(&self.control).0
    }
}

impl Exec<'_> {
    /// Waits for the end of this exec, the only one that runs.
    pub(crate) fn wait(self) -> Result<Ended, Failure> {
        match self.sandbox.report() {
            FromInit::Exited { exec, status, usage } => {
                assert_eq!(exec, self.exec);
                Ok(Ended { status, stdout: drain(self.stdout), stderr: drain(self.stderr), usage })
            }
            FromInit::StartFailed { exec, failure } => {
                assert_eq!(exec, self.exec);
                Err(failure)
            }
            report => panic!("{report:?}"),
        }
    }

    /// Waits until the program has written something.
    pub(crate) fn wait_for_output(&self) {
        wait_readable(self.stdout.as_fd());
    }
}

/// Everything written so far; background processes may hold the pipe open.
fn drain(pipe: OwnedFd) -> String {
    rustix::io::ioctl_fionbio(&pipe, true).unwrap();
    let mut bytes = Vec::new();
    let _ = fs::File::from(pipe).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn receive(control: &OwnedFd) -> (FromInit, Descriptors) {
    let mut buffer = vec![0; MAX_PACKET];
    wait_readable(control.as_fd());
    let received = seqpacket::receive(control, &mut buffer, Wait::Never).unwrap();
    assert!(received.length > 0, "init is gone");
    (FromInit::decode(&buffer[..received.length]).unwrap(), received.descriptors)
}

fn wait_readable(descriptor: BorrowedFd<'_>) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: TIMEOUT.as_secs().try_into().unwrap(), tv_nsec: 0 };
    let ready = poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&timeout));
    assert_eq!(ready, Ok(1), "nothing came in {TIMEOUT:?}");
}

fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
}

fn next_host() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn make_skeleton(folder: &Path) {
    fs::create_dir(folder).unwrap();
    for name in ["usr", "dev", "proc", "sys", "etc", "root", "tmp", "run", "home"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    fs::set_permissions(folder.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::set_permissions(folder.join("root"), fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["bin", "sbin", "lib", "lib64", "lib32", "libx32"] {
        if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
            symlink(target, folder.join(name)).unwrap();
        }
    }
    let passwd = "root:*:0:0:root:/root:/bin/sh\nuser:*:1000:1000::/home:/bin/sh\n";
    fs::write(folder.join("etc/passwd"), passwd).unwrap();
    fs::write(folder.join("etc/group"), "root:x:0:\ntty:x:5:\nuser:x:1000:\n").unwrap();
    let libraries = ["ld.so.cache", "pam.d", "login.defs", "security"];
    for name in libraries.map(PathBuf::from) {
        let source = Path::new("/etc").join(&name);
        let _ = std::process::Command::new("cp")
            .arg("-r")
            .arg(source)
            .arg(folder.join("etc"))
            .stderr(std::process::Stdio::null())
            .status();
    }
}
