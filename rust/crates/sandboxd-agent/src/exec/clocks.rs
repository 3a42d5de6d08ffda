//! The limits of one exec that are times: by the clock on the wall, without output, of CPU.
//!
//! One timer for all of them, and none for an exec without any. CPU time is not watched but looked
//! at: never before it can be used up, were every core busy until then.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use sandboxd_proto::v1;
use tokio::time::Sleep;

use super::cause::EndedBy;

/// The shortest pause between two looks at CPU time, and the longest that a limit on much of it makes
/// of it. In between it is a part of the limit, and so is what is used beyond it.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));
const PAUSES_PER_LIMIT: u32 = 256;

/// The clocks of one exec.
#[derive(Debug)]
pub(crate) struct Clocks {
    wall: Option<Wall>,
    silence: Option<Silence>,
    cpu: Option<Cpu>,
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
struct Wall {
    limit: Duration,
    ends: Instant,
}

#[derive(Debug)]
struct Silence {
    limit: Duration,
    since: Instant,
}

#[derive(Debug)]
struct Cpu {
    limit: Duration,
    cores: u32,
    look: Instant,
}

/// How the exec is doing when a clock has run down.
pub(crate) trait Observed {
    /// Whether it may want to write, and waits for a reader.
    fn is_held_back(&self) -> bool;

    /// CPU time of all of it so far, if that can be read.
    fn cpu_time(&self) -> Option<Duration>;
}

impl Clocks {
    /// The clocks of `command`, from its start on. So many `cores` can it keep busy at most.
    pub(crate) fn new(
        command: &v1::Command,
        started: Instant,
        cores: impl FnOnce() -> u32,
    ) -> Self {
        let limit = |nanoseconds: Option<u64>| nanoseconds.map(Duration::from_nanos);
        let wall = limit(command.timeout_ns).map(|limit| Wall { limit, ends: started + limit });
        let silence = limit(command.idle_output_timeout_ns);
        let cpu = limit(command.cpu_time_limit_ns).map(|limit| {
            let mut cpu = Cpu { limit, cores: cores().max(1), look: started };
            cpu.look_again(started, Duration::ZERO);
            cpu
        });
        Self {
            wall,
            silence: silence.map(|limit| Silence { limit, since: started }),
            cpu,
            timer: None,
        }
    }

    /// The limit on CPU time.
    pub(crate) fn cpu_limit(&self) -> Option<Duration> {
        self.cpu.as_ref().map(|cpu| cpu.limit)
    }

    /// Notes that there was output just now.
    pub(crate) fn heard(&mut self) {
        if let Some(silence) = &mut self.silence {
            silence.since = Instant::now();
        }
    }

    /// Counts no silence before then: the program was stopped, by us.
    pub(crate) fn stood_still(&mut self, until: impl FnOnce() -> Option<Instant>) {
        if let Some(silence) = &mut self.silence
            && let Some(until) = until()
        {
            silence.since = silence.since.max(until);
        }
    }

    /// Waits until a limit is met.
    pub(crate) fn poll(
        &mut self,
        observed: &impl Observed,
        context: &mut Context<'_>,
    ) -> Poll<EndedBy> {
        loop {
            let Some(due) = self.due() else { return Poll::Pending };
            // One that is too early is looked at again then: output does not move the timer.
            let sleep = || Box::pin(tokio::time::sleep_until(due.into()));
            ready!(self.timer.get_or_insert_with(sleep).as_mut().poll(context));
            self.timer = None;
            if let Some(ended_by) = self.check(observed, Instant::now()) {
                return Poll::Ready(ended_by);
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        let wall = self.wall.as_ref().map(|wall| wall.ends);
        let silence = self.silence.as_ref().map(|silence| silence.since + silence.limit);
        let cpu = self.cpu.as_ref().map(|cpu| cpu.look);
        [wall, silence, cpu].into_iter().flatten().min()
    }

    /// The limit that is met, if one is; else the clocks are set again.
    fn check(&mut self, observed: &impl Observed, now: Instant) -> Option<EndedBy> {
        if let Some(wall) = self.wall.as_ref().filter(|wall| wall.ends <= now) {
            return Some(EndedBy::Timeout(wall.limit));
        }
        if let Some(cpu) = self.cpu.as_mut().filter(|cpu| cpu.look <= now) {
            let used = observed.cpu_time().unwrap_or_default();
            if used >= cpu.limit {
                return Some(EndedBy::CpuLimit(cpu.limit));
            }
            cpu.look_again(now, used);
        }
        let silence = self.silence.as_mut()?;
        if observed.is_held_back() {
            silence.since = now;
        }
        let lasted = now.saturating_duration_since(silence.since);
        let limit = silence.limit;
        (lasted >= limit).then_some(EndedBy::IdleOutput { limit, lasted })
    }
}

impl Cpu {
    fn look_again(&mut self, now: Instant, used: Duration) {
        let (shortest, longest) = PAUSES;
        let pause = (self.limit / PAUSES_PER_LIMIT).clamp(shortest, longest);
        self.look = now + (self.limit.saturating_sub(used) / self.cores).max(pause);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;

    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[derive(Debug, Default)]
    struct Program {
        held_back: Cell<bool>,
        /// CPU seconds that it uses in each second.
        pace: f64,
        begun: Cell<Option<Instant>>,
        looks: Cell<u32>,
    }

    impl Observed for Program {
        fn is_held_back(&self) -> bool {
            self.held_back.get()
        }

        fn cpu_time(&self) -> Option<Duration> {
            self.looks.set(self.looks.get() + 1);
            let now = tokio::time::Instant::now().into_std();
            Some((now - self.begun.get()?).mul_f64(self.pace))
        }
    }

    fn command(wall: Option<u64>, silence: Option<u64>, cpu: Option<u64>) -> v1::Command {
        let nanoseconds = |seconds: Option<u64>| seconds.map(|seconds| seconds * 1_000_000_000);
        v1::Command {
            timeout_ns: nanoseconds(wall),
            idle_output_timeout_ns: nanoseconds(silence),
            cpu_time_limit_ns: nanoseconds(cpu),
            ..Default::default()
        }
    }

    #[tokio::test]
    async fn t14_a_command_without_a_limit_has_no_timer() {
        let mut clocks = Clocks::new(&command(None, None, None), Instant::now(), || 1);
        let program = Program::default();
        let polled = poll_fn(|context| Poll::Ready(clocks.poll(&program, context))).await;
        assert!(polled.is_pending() && clocks.timer.is_none());
    }

    #[test]
    fn of_two_limits_the_one_that_is_met_ends_it() {
        let start = Instant::now();
        let program = Program::default();
        let mut clocks = Clocks::new(&command(Some(3), Some(2), None), start, || 1);
        assert_eq!(clocks.due(), Some(start + 2 * SECOND));
        assert_eq!(clocks.check(&program, start + SECOND), None);
        let ended_by = clocks.check(&program, start + 2 * SECOND);
        let (limit, lasted) = (2 * SECOND, 2 * SECOND);
        assert_eq!(ended_by, Some(EndedBy::IdleOutput { limit, lasted }));
        let ended_by = clocks.check(&program, start + 3 * SECOND);
        assert_eq!(ended_by, Some(EndedBy::Timeout(3 * SECOND)));
    }

    #[test]
    fn output_and_a_slow_reader_begin_the_silence_again() {
        let start = Instant::now();
        let program = Program::default();
        let mut clocks = Clocks::new(&command(None, Some(2), None), start, || 1);
        clocks.silence.as_mut().unwrap().since = start + SECOND;
        assert_eq!(clocks.check(&program, start + 2 * SECOND), None);
        program.held_back.set(true);
        assert_eq!(clocks.check(&program, start + 5 * SECOND), None);
        program.held_back.set(false);
        assert_eq!(clocks.due(), Some(start + 7 * SECOND));
        assert_eq!(clocks.check(&program, start + 6 * SECOND), None);
        assert!(clocks.check(&program, start + 7 * SECOND).is_some());
    }

    #[test]
    fn z13_silence_while_a_program_is_stopped_is_not_its_own() {
        let start = Instant::now();
        let program = Program::default();
        let mut clocks = Clocks::new(&command(None, Some(2), None), start, || 1);
        clocks.stood_still(|| Some(start + SECOND));
        assert_eq!(clocks.check(&program, start + 2 * SECOND), None);
        clocks.stood_still(|| Some(start));
        assert_eq!(clocks.due(), Some(start + 3 * SECOND), "time does not run backwards");
        assert!(clocks.check(&program, start + 3 * SECOND).is_some());
    }

    proptest! {
        #[test]
        fn t16_cpu_time_is_looked_at_seldom_and_never_much_too_late(
            limit in 1_u64..1_000,
            cores in 1_u32..64,
            busy in 0.0_f64..=1.0,
        ) {
            let start = Instant::now();
            let pace = busy * f64::from(cores);
            let mut clocks = Clocks::new(&command(None, None, Some(limit)), start, || cores);
            let limit = Duration::from_secs(limit);
            let mut now = start;
            for look in 0_u32.. {
                // Geometric at worst, and then by the shortest pause.
                prop_assert!(look < 20_000, "too many looks");
                let due = clocks.due().unwrap();
                prop_assert!(due > now, "two looks at once");
                now = due;
                let used = (now - start).mul_f64(pace);
                let program = UsedUp(used);
                if clocks.check(&program, now).is_some() {
                    prop_assert!(used >= limit);
                    prop_assert!(used <= limit + PAUSES.1 * cores + SECOND / 100);
                    break;
                }
                if now > start + limit * 4 {
                    prop_assert!(pace < 0.5, "it was not ended");
                    break;
                }
            }
        }
    }

    struct UsedUp(Duration);

    impl Observed for UsedUp {
        fn is_held_back(&self) -> bool {
            false
        }

        fn cpu_time(&self) -> Option<Duration> {
            Some(self.0)
        }
    }
}
