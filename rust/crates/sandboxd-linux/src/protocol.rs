//! What agent, launcher and init say to each other.
//!
//! Two `SOCK_SEQPACKET` socket pairs, one message per packet, descriptors by `SCM_RIGHTS`:
//!
//! * agent ↔ launcher: the launcher begins with [`Hello`]; the agent sends [`Launch`], the launcher
//!   answers [`FromLauncher`].
//! * agent ↔ init: the agent sends [`ToInit`], init answers [`FromInit`].
//!
//! All three are of one build, which the launcher's first word says ([`Hello`]), so there is no
//! version in the rest. Init trusts the agent; the agent parses init's packets with bounds checks all
//! the same, because init lives in the sandbox's namespaces.

use std::ffi::OsString;
use std::path::PathBuf;

mod hello;
mod packet;

pub use hello::Hello;
use packet::{Reader, Writer};

/// Longest packet. Larger exec payloads travel in a memfd ([`ExecRequest::payload_in_memfd`]).
pub const MAX_PACKET: usize = 64 * 1024;

/// Execs that one sandbox can run at once. Init's table is fixed; the agent's limit is this one.
pub const MAX_EXECS: usize = 1_024;

/// A packet that breaks the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("packet is not well formed")]
pub struct Malformed;

/// One mounted piece of the root: an overlay of read-only layers beneath one writable layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayeredMount {
    /// Where, beneath the root: `/` or a path such as `/usr`. `/` comes first.
    pub target: PathBuf,
    /// Directories, topmost first: of the host, or beneath a mount that comes with the order
    /// ([`Launch::bases`]). The path of the latter is relative, and begins with the mount's number.
    pub layers: Vec<PathBuf>,
}

/// Which ids of the host the ids of a sandbox are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// Host id of the sandbox's root.
    pub first: u32,
    /// 65,536, or 1.
    pub count: u32,
}

/// Order to make one sandbox. Descriptors with it: init's end of its socket, then for each entry
/// of `cgroup_tasks` an open `tasks` file (v1), then the v2 directory if `cgroup_directory`, then
/// `bases` mounts that were never attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Chosen by the agent, named in the answers.
    pub number: u32,
    /// Take every capability away and set no_new_privs.
    pub hardened: bool,
    pub root: Vec<LayeredMount>,
    /// Existing directory of the host to build the root on, in init's own mount namespace.
    pub mount_point: PathBuf,
    /// Size of the writable layer, /tmp and /dev/shm included. It is memory: it has to stay below the
    /// memory limit by some MiB, or files alone could fill that, and the kernel would have nothing to
    /// kill but init.
    pub disk_bytes: u64,
    /// CPUs that the sandbox may use; empty means all.
    pub cpus: Vec<u32>,
    /// Processes and threads of each user inside, by `RLIMIT_NPROC`, where no cgroup counts them; 0
    /// sets none.
    pub processes: u32,
    pub hostname: OsString,
    pub cgroup_tasks: u32,
    pub cgroup_directory: bool,
    /// Mounts that layers lie on. With any, set-id files give no rights: they may be of another sandbox.
    pub bases: u32,
}

/// Answers of the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromLauncher {
    /// Init runs as this process of the launcher's pid namespace, with these ids of the host. The
    /// range is its own until [`FromLauncher::Ended`].
    Launched { number: u32, pid: u32, ids: IdRange },
    /// Nothing was made.
    Failed { number: u32, failure: Failure },
    /// Init was reaped; the kernel has ended everything in the sandbox before that.
    Ended { number: u32, status: i32 },
}

/// What failed, for people and for the choice of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub step: Step,
    pub errno: i32,
    /// Operand, such as a path; may be empty.
    pub detail: String,
}

/// The step that failed, of a launch or of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    Namespaces = 1,
    IdMap = 2,
    Cgroup = 3,
    Mount = 4,
    Network = 5,
    Capabilities = 6,
    Seccomp = 7,
    Other = 8,
    /// Too many execs at once.
    Table = 16,
    Fork = 17,
    User = 18,
    Directory = 19,
    Program = 20,
    /// A descriptor, such as the terminal, could not be set up.
    Descriptor = 21,
}

impl Step {
    const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Namespaces,
            2 => Self::IdMap,
            3 => Self::Cgroup,
            4 => Self::Mount,
            5 => Self::Network,
            6 => Self::Capabilities,
            7 => Self::Seccomp,
            8 => Self::Other,
            16 => Self::Table,
            17 => Self::Fork,
            18 => Self::User,
            19 => Self::Directory,
            20 => Self::Program,
            21 => Self::Descriptor,
            _ => return None,
        })
    }
}

/// How the processes of an exec are kept together, so that all of them can be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Containment {
    /// Started into a v2 leaf; its directory is the last descriptor.
    CgroupDirectory = 1,
    /// The child writes `0` into a v1 `tasks` file; it is the last descriptor.
    CgroupTasks = 2,
    /// No cgroup can be written: a forked subreaper is the ancestor of them all, and init ends
    /// them (`ToInit::Kill`).
    Subreaper = 3,
}

/// Order to start one process. Descriptors with it: stdin unless `null_stdin`, stdout, stderr,
/// the memfd if `payload_in_memfd`, then the one of `containment`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    pub exec: u32,
    pub containment: Containment,
    pub null_stdin: bool,
    /// Stdin is a terminal: it becomes the controlling one, of a session of its own.
    pub terminal: bool,
    /// Ask for `FromInit::Started` before the exit.
    pub want_started: bool,
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    /// Number of arguments and of environment entries in the payload.
    pub argc: u32,
    pub envc: u32,
    /// Arguments, `NAME=value` entries and the working directory, each ended by NUL. In the packet,
    /// or in the memfd from its start when it does not fit.
    pub payload: Vec<u8>,
    pub payload_in_memfd: bool,
}

/// Orders to init. (`Exec` is decoded without allocation by init itself: [`ExecView`].)
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToInit {
    Exec(ExecRequest),
    /// To the main process of an exec.
    Signal {
        exec: u32,
        signal: i32,
    },
    /// To every process beneath the subreaper of an exec. SIGKILL is repeated until none is left. Of an
    /// exec that a cgroup contains: to whoever traces its main process.
    SignalAll {
        exec: u32,
        signal: i32,
    },
    /// To be answered with [`FromInit::Synced`], when every order before it was carried out.
    Sync {
        number: u32,
    },
}

/// What a process used, with those children of its own that it collected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time.
    pub cpu_nanos: u64,
    /// Largest resident set of any of them.
    pub peak_kib: u64,
    /// Read from and written to block devices.
    pub read_bytes: u64,
    pub write_bytes: u64,
}

/// Reports of init.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromInit {
    /// The sandbox stands. With it: an `O_PATH` descriptor of its root, and the mount of its writable
    /// layer, never attached if this kernel can copy such a mount.
    Ready,
    /// It does not, and init exits.
    SetupFailed(Failure),
    Started {
        exec: u32,
        pid: u32,
    },
    /// The process never ran.
    StartFailed {
        exec: u32,
        failure: Failure,
    },
    /// The main process ended.
    Exited {
        exec: u32,
        /// As `wait(2)` gives it.
        status: i32,
        usage: Usage,
    },
    /// Every order before this [`ToInit::Sync`] was carried out: a program that was to start has.
    Synced {
        number: u32,
    },
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl Launch {
    /// The packet for this order.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(512));
        out.word(self.number);
        out.byte(self.hardened.into());
        out.word(count(self.root.len()));
        for mount in &self.root {
            out.path(&mount.target);
            out.word(count(mount.layers.len()));
            for layer in &mount.layers {
                out.path(layer);
            }
        }
        out.path(&self.mount_point);
        out.long(self.disk_bytes);
        out.word(count(self.cpus.len()));
        for cpu in &self.cpus {
            out.word(*cpu);
        }
        out.word(self.processes);
        out.bytes(self.hostname.as_encoded_bytes());
        out.word(self.cgroup_tasks);
        out.byte(self.cgroup_directory.into());
        out.word(self.bases);
        out.0
    }

    /// Reads the packet.
    ///
    /// # Errors
    ///
    /// If it is malformed.
    pub fn decode(packet: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader(packet);
        let launch = Self {
            number: input.word()?,
            hardened: input.flag()?,
            root: input.list(|input| {
                Ok(LayeredMount { target: input.path()?, layers: input.list(Reader::path)? })
            })?,
            mount_point: input.path()?,
            disk_bytes: input.long()?,
            cpus: input.list(Reader::word)?,
            processes: input.word()?,
            hostname: input.path()?.into(),
            cgroup_tasks: input.word()?,
            cgroup_directory: input.flag()?,
            bases: input.word()?,
        };
        input.end(launch)
    }
}

impl FromLauncher {
    /// The packet for this answer.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(64));
        match self {
            Self::Launched { number, pid, ids } => {
                out.byte(1);
                out.word(*number);
                out.word(*pid);
                out.word(ids.first);
                out.word(ids.count);
            }
            Self::Failed { number, failure } => {
                out.byte(2);
                out.word(*number);
                out.failure(failure);
            }
            Self::Ended { number, status } => {
                out.byte(3);
                out.word(*number);
                out.signed(*status);
            }
        }
        out.0
    }

    /// Reads the packet.
    ///
    /// # Errors
    ///
    /// If it is malformed.
    pub fn decode(packet: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader(packet);
        let answer = match input.byte()? {
            1 => Self::Launched {
                number: input.word()?,
                pid: input.word()?,
                ids: IdRange { first: input.word()?, count: input.word()? },
            },
            2 => Self::Failed { number: input.word()?, failure: input.failure()? },
            3 => Self::Ended { number: input.word()?, status: input.signed()? },
            _ => return Err(Malformed),
        };
        input.end(answer)
    }
}

impl ToInit {
    /// The packet for this order.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(512));
        match self {
            Self::Exec(exec) => {
                out.byte(1);
                out.word(exec.exec);
                out.byte(exec.containment as u8);
                out.byte(exec.null_stdin.into());
                out.byte(exec.terminal.into());
                out.byte(exec.want_started.into());
                out.word(exec.uid);
                out.word(exec.gid);
                out.word(count(exec.groups.len()));
                for group in &exec.groups {
                    out.word(*group);
                }
                out.word(exec.argc);
                out.word(exec.envc);
                out.byte(exec.payload_in_memfd.into());
                out.bytes(&exec.payload);
            }
            Self::Signal { exec, signal } => {
                out.byte(2);
                out.word(*exec);
                out.signed(*signal);
            }
            Self::SignalAll { exec, signal } => {
                out.byte(3);
                out.word(*exec);
                out.signed(*signal);
            }
            Self::Sync { number } => {
                out.byte(4);
                out.word(*number);
            }
        }
        out.0
    }
}

/// An order as init reads it: nothing is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToInitView<'a> {
    Exec(ExecView<'a>),
    Signal { exec: u32, signal: i32 },
    SignalAll { exec: u32, signal: i32 },
    Sync { number: u32 },
}

/// [`ExecRequest`] as init reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecView<'a> {
    pub exec: u32,
    pub containment: Containment,
    pub null_stdin: bool,
    pub terminal: bool,
    pub want_started: bool,
    pub uid: u32,
    pub gid: u32,
    /// Little-endian `u32`s.
    pub groups: &'a [u8],
    pub argc: u32,
    pub envc: u32,
    pub payload: &'a [u8],
    pub payload_in_memfd: bool,
}

impl<'a> ToInitView<'a> {
    /// Reads the packet.
    ///
    /// # Errors
    ///
    /// If it is malformed.
    pub fn decode(packet: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = Reader(packet);
        let order = match input.byte()? {
            1 => Self::Exec(ExecView {
                exec: input.word()?,
                containment: match input.byte()? {
                    1 => Containment::CgroupDirectory,
                    2 => Containment::CgroupTasks,
                    3 => Containment::Subreaper,
                    _ => return Err(Malformed),
                },
                null_stdin: input.flag()?,
                terminal: input.flag()?,
                want_started: input.flag()?,
                uid: input.word()?,
                gid: input.word()?,
                groups: {
                    let groups = input.word()? as usize;
                    input.take(groups.checked_mul(4).ok_or(Malformed)?)?
                },
                argc: input.word()?,
                envc: input.word()?,
                payload_in_memfd: input.flag()?,
                payload: input.bytes()?,
            }),
            2 => Self::Signal { exec: input.word()?, signal: input.signed()? },
            3 => Self::SignalAll { exec: input.word()?, signal: input.signed()? },
            4 => Self::Sync { number: input.word()? },
            _ => return Err(Malformed),
        };
        input.end(order)
    }
}

impl FromInit {
    /// The packet for this report.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(64));
        match self {
            Self::Ready => out.byte(1),
            Self::SetupFailed(failure) => {
                out.byte(2);
                out.failure(failure);
            }
            Self::Started { exec, pid } => {
                out.byte(3);
                out.word(*exec);
                out.word(*pid);
            }
            Self::StartFailed { exec, failure } => {
                out.byte(4);
                out.word(*exec);
                out.failure(failure);
            }
            Self::Exited { exec, status, usage } => {
                out.byte(5);
                out.word(*exec);
                out.signed(*status);
                out.usage(usage);
            }
            Self::Synced { number } => {
                out.byte(6);
                out.word(*number);
            }
        }
        out.0
    }

    /// Reads the packet.
    ///
    /// # Errors
    ///
    /// If it is malformed.
    pub fn decode(packet: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader(packet);
        let report = match input.byte()? {
            1 => Self::Ready,
            2 => Self::SetupFailed(input.failure()?),
            3 => Self::Started { exec: input.word()?, pid: input.word()? },
            4 => Self::StartFailed { exec: input.word()?, failure: input.failure()? },
            5 => {
                Self::Exited { exec: input.word()?, status: input.signed()?, usage: input.usage()? }
            }
            6 => Self::Synced { number: input.word()? },
            _ => return Err(Malformed),
        };
        input.end(report)
    }
}
