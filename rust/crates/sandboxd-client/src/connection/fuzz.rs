//! Whatever an agent says, and whenever it stops: no panic, no hang, one outcome for every call.
//!
//! `PROPTEST_CASES` sets how many cases are tried.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::tests::{VERSION, options, welcome};
use super::*;

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    Call(Box<Request>),
    /// Of the call with this index, if it was made.
    Cancel(usize),
    Forget(usize),
    Take(usize),
    /// The socket takes so many bytes.
    Written(usize),
    /// The agent's bytes, in pieces of this size.
    Heard(Vec<u8>, usize),
    Tick(u64),
    Closed,
}

fn requests() -> impl Strategy<Value = Request> {
    select(vec![
        Request::SandboxesInfo(v1::SandboxesInfoRequest {}),
        Request::SandboxesClaim(v1::SandboxesClaimRequest::default()),
        Request::ExecRun(v1::ExecRunRequest::default()),
        Request::ExecAttach(v1::ExecAttachRequest::default()),
        Request::FilesRead(v1::FilesReadRequest::default()),
        Request::FilesWrite(v1::FilesWriteTarget::default(), Bytes::from(vec![7; 600_000])),
    ])
}

/// One frame: of any kind, for calls that exist as a rule, with a body that fits it or not.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let body = prop_oneof![
        Just(Vec::new()),
        any::<u32>().prop_map(|credit| credit.to_le_bytes().to_vec()),
        vec(any::<u8>(), 0..60),
    ];
    (0_u32..8, 0_u8..12, body).prop_map(|(call, kind, body)| {
        let length = u32::try_from(body.len() + 5).unwrap();
        [&length.to_le_bytes()[..], &call.to_le_bytes(), &[kind], &body].concat()
    })
}

/// What an agent might say: frames, frames with a wrong byte, or nonsense.
fn speech() -> impl Strategy<Value = Vec<u8>> {
    let whole = vec(frames(), 1..6).prop_map(|frames| frames.concat());
    let spoilt = (vec(frames(), 1..6), any::<prop::sample::Index>(), any::<u8>());
    prop_oneof![
        3 => Just(welcome(VERSION)),
        6 => whole,
        1 => spoilt.prop_map(|(frames, at, byte)| {
            let mut bytes = frames.concat();
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
            bytes
        }),
        1 => vec(any::<u8>(), 0..80),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => requests().prop_map(|request| Step::Call(Box::new(request))),
        1 => (0_usize..8).prop_map(Step::Cancel),
        1 => (0_usize..8).prop_map(Step::Forget),
        3 => (0_usize..8).prop_map(Step::Take),
        3 => (0_usize..2_000_000).prop_map(Step::Written),
        6 => (speech(), 1_usize..40).prop_map(|(bytes, cut)| Step::Heard(bytes, cut)),
        2 => (0_u64..3_000).prop_map(Step::Tick),
        1 => Just(Step::Closed),
    ]
}

/// A connection and what its user has seen of it.
struct World {
    connection: Connection,
    now: Instant,
    calls: Vec<u32>,
    /// Outcomes by call: a second one would be the defect that is looked for.
    outcomes: HashMap<u32, Result<(), CallError>>,
    given_up: Vec<u32>,
}

impl World {
    fn take(&mut self, call: u32) {
        if self.given_up.contains(&call) {
            assert_eq!(self.connection.take_reply(call), None, "a call that was given up");
            return;
        }
        let known = self.outcomes.contains_key(&call);
        let Some(method) = self.connection.method(call) else {
            assert!(known, "a call without an outcome is gone");
            return;
        };
        assert!(!known, "a call with an outcome is still there");
        let outcome = if is_stream(method) {
            loop {
                match self.connection.take_items(call) {
                    Ok(Items::Some(_)) => {}
                    Ok(Items::Pending) => break None,
                    Ok(Items::End) => break Some(Ok(())),
                    Err(error) => break Some(Err(error)),
                }
            }
        } else {
            self.connection.take_reply(call).map(|reply| reply.map(drop))
        };
        if let Some(outcome) = outcome {
            self.outcomes.insert(call, outcome);
        }
    }

    fn step(&mut self, step: Step) {
        let nth = |index: usize| self.calls.get(index).copied();
        match step {
            Step::Call(request) => {
                let failed = self.connection.is_failed();
                match self.connection.request(&request, self.now) {
                    Ok(call) => self.calls.push(call),
                    Err(error) => {
                        assert!(failed && !error.may_have_run);
                    }
                }
            }
            Step::Cancel(index) | Step::Forget(index) => {
                let Some(call) = nth(index) else { return };
                if matches!(step, Step::Cancel(_)) {
                    self.connection.cancel(call);
                } else {
                    self.connection.forget(call);
                }
                if !self.outcomes.contains_key(&call) {
                    self.given_up.push(call);
                }
            }
            Step::Take(index) => {
                if let Some(call) = nth(index) {
                    self.take(call);
                }
            }
            Step::Written(count) => {
                self.connection.written(count.min(self.connection.pending().len()));
            }
            Step::Heard(bytes, cut) => {
                for chunk in bytes.chunks(cut) {
                    self.connection.receive(chunk);
                }
            }
            Step::Tick(millis) => {
                self.now += Duration::from_millis(millis);
                self.connection.tick(self.now);
            }
            Step::Closed => self.connection.disconnected("closed"),
        }
        if self.connection.is_failed() {
            assert_eq!(self.connection.pending(), b"");
        }
    }
}

proptest! {
    #[test]
    fn z1_every_call_has_one_outcome_whatever_the_agent_says(steps in vec(steps(), 0..60)) {
        let now = Instant::now();
        let connection = Connection::new(options(), now);
        let mut world = World {
            connection,
            now,
            calls: Vec::new(),
            outcomes: HashMap::new(),
            given_up: Vec::new(),
        };
        for step in steps {
            world.step(step);
        }
        // Silence ends what still waits, after a bounded time.
        for _ in 0..20 {
            world.step(Step::Tick(10_000));
        }
        for call in world.calls.clone() {
            world.take(call);
            prop_assert!(
                world.outcomes.contains_key(&call) || world.given_up.contains(&call),
                "call {} has no outcome", call
            );
        }
        prop_assert!(world.connection.next_tick().is_none());
    }

    #[test]
    fn x1_before_the_greeting_no_call_claims_to_have_run(
        requests in vec(requests(), 1..6),
        written in 0_usize..2_000_000,
        heard in any::<prop::sample::Index>(),
    ) {
        let mut connection = Connection::new(options(), Instant::now());
        let calls: Vec<u32> =
            requests.iter().map(|request| connection.request(request, Instant::now()).unwrap()).collect();
        connection.written(written.min(connection.pending().len()));
        let greeting = welcome(VERSION);
        connection.receive(&greeting[..heard.index(greeting.len())]);
        connection.disconnected("closed");
        for call in calls {
            let error = match connection.take_items(call) {
                Err(error) => error,
                Ok(_) => panic!("an outcome without an answer"),
            };
            prop_assert!(!error.may_have_run);
        }
    }
}
