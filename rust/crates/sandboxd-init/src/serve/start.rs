//! Starting one exec.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use sandboxd_linux::clone::{self, Options, Stack};
use sandboxd_linux::memory::Region;
use sandboxd_linux::process::{collect_child, has_priority};
use sandboxd_linux::protocol::{Containment, ExecView, Failure, Step};
use sandboxd_linux::seqpacket::{self, Descriptors};

use super::payload::Pointers;
use super::program::{Program, Stopped};
use super::reaper::{Process, Running};
use super::score::Score;
use super::warden::{Leash, Warden};
use crate::failure::{At as _, failure};

/// Room for the frames of a child before its exec: a path and little else.
const STACK_BYTES: usize = 64 * 1024;

/// Memory that every start uses again.
#[derive(Debug)]
pub(super) struct Starter {
    stack: Stack,
    pointers: Pointers,
    groups: Vec<u32>,
    null: OwnedFd,
    score: Score,
    has_priority: bool,
}

/// The descriptors of an order.
#[derive(Debug)]
struct Inherited {
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    memory: Option<OwnedFd>,
    group: Option<OwnedFd>,
}

impl Inherited {
    fn take(order: &ExecView<'_>, descriptors: &mut Descriptors) -> Option<Self> {
        let mut wanted = |wanted: bool| {
            if wanted { descriptors.take().map(Some) } else { Some(None) }
        };
        let inherited = Self {
            stdin: wanted(!order.null_stdin)?,
            stdout: wanted(true)??,
            stderr: wanted(true)??,
            memory: wanted(order.payload_in_memfd)?,
            group: wanted(order.containment != Containment::Subreaper)?,
        };
        descriptors.is_empty().then_some(inherited)
    }
}

impl Starter {
    pub(super) fn new(null: OwnedFd, score: Score) -> io::Result<Self> {
        Ok(Self {
            stack: Stack::new(STACK_BYTES)?,
            pointers: Pointers::default(),
            groups: Vec::new(),
            null,
            score,
            has_priority: has_priority(),
        })
    }

    /// Starts an exec: its program, or a warden that will.
    pub(super) fn start(
        &mut self,
        control: &OwnedFd,
        order: &ExecView<'_>,
        descriptors: &mut Descriptors,
    ) -> Result<Running, Failure> {
        if order.containment != Containment::Subreaper {
            return self.start_program(order, descriptors);
        }
        let (ours, theirs) = seqpacket::pair().at(Step::Fork)?;
        // SAFETY: init has one thread.
        match unsafe { clone::fork(Options::default()) }.at(Step::Fork)? {
            Some(pid) => {
                let process = Process::Warden { leash: Leash::new(ours), doomed: false };
                Ok(Running { pid, exec: order.exec, process })
            }
            None => {
                self.score.forget();
                Warden { control, leash: theirs }.run(self, order, descriptors)
            }
        }
    }

    /// Starts a program. When this returns the child has become it.
    pub(super) fn start_program(
        &mut self,
        order: &ExecView<'_>,
        descriptors: &mut Descriptors,
    ) -> Result<Running, Failure> {
        let malformed = || io::Error::from_raw_os_error(libc::EBADMSG);
        let inherited = Inherited::take(order, descriptors)
            .ok_or_else(|| failure(Step::Descriptor, &malformed(), ""))?;
        let mapped = inherited.memory.as_ref().map(Region::of_file).transpose();
        let mapped = mapped.at(Step::Descriptor)?;
        let payload = mapped.as_deref().unwrap_or(order.payload);
        let parts = self
            .pointers
            .split(payload, order.argc, order.envc)
            .map_err(|_| failure(Step::Other, &malformed(), ""))?;
        self.groups.clear();
        self.groups.extend(order.groups.chunks_exact(4).map(|group| {
            group.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
        }));

        let by_tasks = order.containment == Containment::CgroupTasks;
        let program = Program {
            parts,
            stdin: inherited.stdin.as_ref().unwrap_or(&self.null),
            stdout: &inherited.stdout,
            stderr: &inherited.stderr,
            terminal: order.terminal,
            tasks: inherited.group.as_ref().filter(|_| by_tasks),
            uid: order.uid,
            gid: order.gid,
            groups: &self.groups,
            has_priority: self.has_priority,
        };
        let options = Options {
            cgroup: inherited.group.as_ref().filter(|_| !by_tasks).map(|group| group.as_fd()),
            ..Options::default()
        };
        let stopped: Cell<Option<Stopped>> = Cell::new(None);
        let mut body = || {
            stopped.set(Some(program.run()));
            127
        };
        let pid = self.score.with_programs(|| {
            // SAFETY: init has one thread; `Program::run` keeps to what a vforked child may do.
            unsafe { clone::vfork(options, &mut self.stack, &mut body) }
        });
        let pid = pid.at(Step::Fork)?;
        if let Some((step, errno)) = stopped.get() {
            // It has ended already, and is nobody's business but ours.
            let _ = collect_child(pid);
            return Err(failure(step, &io::Error::from_raw_os_error(errno), ""));
        }
        let process = Process::Main { output: [inherited.stdout, inherited.stderr] };
        Ok(Running { pid, exec: order.exec, process })
    }
}
