//! Streams of messages whose making blocks.
//!
//! A step is made when the stream is polled, on a thread for blocking work that it holds only for
//! that step: a reader who is slow, or gone, keeps none.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use sandboxd_proto::{CallError, ErrorCode};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_stream::Stream;

use crate::call::Answer;

/// Something that makes messages, some at a time.
pub(super) trait Producer: Send + 'static {
    type Message: Send + 'static;

    /// The next messages, in order; none at the end. Blocks.
    fn produce(&mut self) -> Answer<Vec<Self::Message>>;
}

/// The stream of what a producer makes.
pub(super) struct Produced<P: Producer> {
    state: State<P>,
    made: VecDeque<P::Message>,
}

type Step<P> = (P, Answer<Vec<<P as Producer>::Message>>);

enum State<P: Producer> {
    Idle(P),
    Busy(JoinHandle<Step<P>>),
    Done,
}

impl<P: Producer> Produced<P> {
    pub(super) fn new(producer: P) -> Self {
        Self { state: State::Idle(producer), made: VecDeque::new() }
    }
}

impl<P: Producer> Unpin for Produced<P> {}

impl<P: Producer> Stream for Produced<P> {
    type Item = Answer<P::Message>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(message) = self.made.pop_front() {
            return Poll::Ready(Some(Ok(message)));
        }
        let mut task = match std::mem::replace(&mut self.state, State::Done) {
            State::Done => return Poll::Ready(None),
            State::Idle(mut producer) => spawn_blocking(move || {
                let made = producer.produce();
                (producer, made)
            }),
            State::Busy(task) => task,
        };
        let Poll::Ready(joined) = Pin::new(&mut task).poll(context) else {
            self.state = State::Busy(task);
            return Poll::Pending;
        };
        match joined {
            Ok((producer, Ok(made))) => {
                self.made = made.into();
                let Some(first) = self.made.pop_front() else { return Poll::Ready(None) };
                self.state = State::Idle(producer);
                Poll::Ready(Some(Ok(first)))
            }
            Ok((_, Err(error))) => Poll::Ready(Some(Err(error))),
            Err(error) => {
                let message = format!("reading ended early: {}", io::Error::from(error));
                Poll::Ready(Some(Err(CallError::new(ErrorCode::Internal, message))))
            }
        }
    }
}
