//! Totals since the agent started.

use std::sync::atomic::{AtomicU64, Ordering};

use sandboxd_proto::v1::{self, Cause};

/// Number that is only ever added to.
#[derive(Debug, Default)]
pub(crate) struct Total(AtomicU64);

impl Total {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ends of execs that are told apart: the causes, an end with the sandbox, and no beginning.
const ENDS: usize = CAUSES.len() + 2;
const LOST: usize = CAUSES.len();
const NEVER_RAN: usize = CAUSES.len() + 1;

const CAUSES: [(Cause, &str); 10] = [
    (Cause::Exited, "exited"),
    (Cause::Signaled, "signaled"),
    (Cause::Timeout, "timeout"),
    (Cause::CpuLimit, "cpu_limit"),
    (Cause::MemoryLimit, "memory_limit"),
    (Cause::PidsLimit, "pids_limit"),
    (Cause::DiskLimit, "disk_limit"),
    (Cause::OutputLimit, "output_limit"),
    (Cause::Canceled, "canceled"),
    (Cause::IdleOutputTimeout, "idle_output_timeout"),
];

/// The totals of one agent. What an exec did is added at its end.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sandboxes_claimed: Total,
    pub(crate) sandboxes_lost: Total,
    pub(crate) execs_started: Total,
    pub(crate) output_bytes: Total,
    pub(crate) spilled_bytes: Total,
    pub(crate) stdin_bytes: Total,
    pub(crate) file_read_bytes: Total,
    pub(crate) file_written_bytes: Total,
    cpu_time_ns: Total,
    ends: [Total; ENDS],
}

impl Counters {
    /// An exec has ended, and so.
    pub(crate) fn exec_ended(&self, end: &v1::ExecEnd) {
        let index = CAUSES.iter().position(|(cause, _)| *cause == end.cause());
        if let Some(total) = index.and_then(|index| self.ends.get(index)) {
            total.add(1);
        }
        self.output_bytes.add(end.stdout_total_bytes + end.stderr_total_bytes);
        self.cpu_time_ns.add(end.cpu_time_ns);
    }

    /// An exec was lost with its sandbox.
    pub(crate) fn exec_lost(&self) {
        self.ends[LOST].add(1);
    }

    /// The program of an exec could not be started.
    pub(crate) fn exec_never_ran(&self) {
        self.ends[NEVER_RAN].add(1);
    }

    /// As `Sandboxes.Info` reports them.
    pub(crate) fn to_wire(&self) -> v1::Counters {
        let names = CAUSES.iter().map(|(_, name)| *name).chain(["lost", "never_ran"]);
        let ends = names.zip(&self.ends).map(|(name, total)| (name.to_owned(), total.get()));
        v1::Counters {
            sandboxes_claimed: self.sandboxes_claimed.get(),
            sandboxes_lost: self.sandboxes_lost.get(),
            execs_started: self.execs_started.get(),
            execs_ended: ends.filter(|(_, total)| *total > 0).collect(),
            output_bytes: self.output_bytes.get(),
            spilled_bytes: self.spilled_bytes.get(),
            stdin_bytes: self.stdin_bytes.get(),
            file_read_bytes: self.file_read_bytes.get(),
            file_written_bytes: self.file_written_bytes.get(),
            cpu_time_ns: self.cpu_time_ns.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_counted_under_the_name_that_the_wire_gives_it() {
        let counters = Counters::default();
        let causes: Vec<Cause> = (1..).map_while(|number| Cause::try_from(number).ok()).collect();
        assert_eq!(causes.len(), CAUSES.len());
        for cause in &causes {
            let end = v1::ExecEnd {
                stdout_total_bytes: 2,
                stderr_total_bytes: 3,
                cpu_time_ns: 7,
                ..v1::ExecEnd::default()
            };
            counters.exec_ended(&v1::ExecEnd { cause: (*cause).into(), ..end });
        }
        let wire = counters.to_wire();
        let names = causes.iter().map(|cause| {
            let name = cause.as_str_name().strip_prefix("CAUSE_").unwrap();
            (name.to_lowercase(), 1)
        });
        assert_eq!(wire.execs_ended, names.collect());
        let count = u64::try_from(causes.len()).unwrap();
        assert_eq!((wire.output_bytes, wire.cpu_time_ns), (5 * count, 7 * count));
    }

    #[test]
    fn execs_that_did_not_end_by_themselves_are_counted_apart() {
        let counters = Counters::default();
        counters.exec_lost();
        counters.exec_never_ran();
        counters.exec_never_ran();
        let expected = [("lost".to_owned(), 1), ("never_ran".to_owned(), 2)];
        assert_eq!(counters.to_wire().execs_ended, expected.into());
    }
}
