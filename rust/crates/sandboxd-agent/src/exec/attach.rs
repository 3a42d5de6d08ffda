//! One reader of an exec's output.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use sandboxd_proto::v1::exec_attach_response::Event;
use sandboxd_proto::{CallError, ErrorCode, v1};
use tokio_stream::Stream;

use super::entry::Exec;
use super::kept::Read;
use super::output::{STDOUT, stream_name};
use crate::call::Answer;
use crate::lock::lock;

/// Longest piece of output in one event. Below the credit that a call begins with
/// ([`sandboxd_proto::frame::WINDOW`]).
const CHUNK: usize = 64 * 1024;

/// A stream of output from given offsets on, with the end as its last item.
#[derive(Debug)]
pub(crate) struct Attachment {
    exec: Arc<Exec>,
    number: u32,
    positions: [u64; 2],
    /// The stream to look at first: they take turns.
    turn: usize,
    finished: bool,
}

impl Attachment {
    pub(crate) fn new(exec: Arc<Exec>, positions: [u64; 2]) -> Self {
        let mut state = lock(&exec.state);
        let number = state.readers.attach(positions);
        if state.held_back {
            state.wake_driver();
        }
        drop(state);
        Self { exec, number, positions, turn: STDOUT, finished: false }
    }

    fn next(&mut self, context: &Context<'_>) -> Poll<Option<Answer<Event>>> {
        if self.finished {
            return Poll::Ready(None);
        }
        let mut state = lock(&self.exec.state);
        // What comes from a control socket is behind the output that was written before it.
        let first = if state.control.is_some() { STDOUT } else { self.turn };
        for stream in [first, 1 - first] {
            let offset = self.positions[stream];
            match state.outputs[stream].read(offset, CHUNK) {
                Read::Nothing => {}
                Read::Data(data) => {
                    self.positions[stream] = offset + data.len() as u64;
                    self.turn = 1 - stream;
                    state.readers.advance(self.number, stream, self.positions[stream]);
                    if state.held_back {
                        state.wake_driver();
                    }
                    let output = v1::ExecOutput { offset, data };
                    let event = if stream == STDOUT {
                        Event::Stdout(output)
                    } else {
                        Event::Stderr(output)
                    };
                    return Poll::Ready(Some(Ok(event)));
                }
                Read::Gone { available_from } => {
                    self.finished = true;
                    return Poll::Ready(Some(Err(gone(stream, offset, available_from))));
                }
            }
        }
        if let Some(outcome) = &state.outcome {
            self.finished = true;
            return Poll::Ready(Some(outcome.clone().map(Event::End)));
        }
        state.readers.sleep(self.number, context.waker());
        Poll::Pending
    }
}

fn gone(stream: usize, offset: u64, available_from: u64) -> CallError {
    let name = stream_name(stream);
    let message = format!(
        "{name} from byte {offset} on is not kept any more: it is from byte {available_from} on; \
         attach there, and read faster than the program writes"
    );
    CallError::new(ErrorCode::ResourceExhausted, message)
        .with_reason(format!("{name}_from:{available_from}"))
        .maybe_run(true)
}

impl Stream for Attachment {
    type Item = Answer<v1::ExecAttachResponse>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let response = |event| v1::ExecAttachResponse { event: Some(event) };
        self.next(context).map(|item| item.map(|event| event.map(response)))
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut state = lock(&self.exec.state);
        state.readers.detach(self.number, Instant::now());
        // Without this reader there may be room, or nobody to hold the program back for.
        if state.held_back {
            state.wake_driver();
        }
    }
}
