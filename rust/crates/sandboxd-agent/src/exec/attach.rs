//! One reader of an exec's output.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use sandboxd_proto::v1::exec_attach_response::Event;
use sandboxd_proto::{CallError, ErrorCode, v1};
use tokio::task::JoinHandle;
use tokio_stream::Stream;

use super::entry::{Exec, ExecState};
use super::kept::{Range, Read};
use super::output::{STDOUT, stream_name};
use super::readers::NOT_READ;
use crate::call::Answer;
use crate::lock::lock;

/// Longest piece of output in one event. Below the credit that a call begins with
/// ([`sandboxd_proto::frame::WINDOW`]).
const CHUNK: usize = 64 * 1024;

/// Bytes that are read from a file at once.
const READ_AHEAD: usize = 256 * 1024;

/// A stream of output from given offsets on, with the end as its last item.
#[derive(Debug)]
pub(crate) struct Attachment {
    exec: Arc<Exec>,
    number: u32,
    positions: [u64; 2],
    /// Where it ends in each stream, if it does not follow the exec to its end.
    until: Option<[u64; 2]>,
    /// Whether the exec's end is of interest.
    wants_end: bool,
    /// The stream to look at first: they take turns.
    turn: usize,
    from_disk: FromDisk,
    finished: bool,
}

/// Bytes of one stream that are not in memory.
#[derive(Debug)]
enum FromDisk {
    Nothing,
    Reading { stream: usize, job: JoinHandle<io::Result<Bytes>> },
    Ready { stream: usize, bytes: Bytes },
}

impl Attachment {
    /// # Errors
    ///
    /// `output_range` when an offset is not kept, or lies beyond what was written.
    pub(crate) fn new(exec: Arc<Exec>, request: &v1::ExecAttachRequest) -> Answer<Self> {
        let positions = match request.stream() {
            v1::OutputStream::Unspecified => [request.stdout_offset, request.stderr_offset],
            v1::OutputStream::Stdout => [request.stdout_offset, NOT_READ],
            v1::OutputStream::Stderr => [NOT_READ, request.stderr_offset],
        };
        let mut state = lock(&exec.state);
        for stream in [0, 1] {
            check(&state, stream, positions[stream])?;
        }
        let totals = [0, 1].map(|stream| state.outputs[stream].total());
        let length = request.length.unwrap_or(u64::MAX);
        let wanted = positions.map(|position| position.saturating_add(length));
        let until = match (request.no_wait, request.length) {
            (false, None) => None,
            (false, Some(_)) => Some(wanted),
            (true, _) => Some([wanted[0].min(totals[0]), wanted[1].min(totals[1])]),
        };
        // One that waits for more is a reader like any other, whatever it waits for.
        let number = state.readers.attach(positions, !request.no_wait);
        if state.held_back {
            state.wake_driver();
        }
        drop(state);
        Ok(Self {
            exec,
            number,
            positions,
            until,
            wants_end: request.length.is_none(),
            turn: STDOUT,
            from_disk: FromDisk::Nothing,
            finished: false,
        })
    }

    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Answer<Event>>> {
        if self.finished {
            return Poll::Ready(None);
        }
        if let Some(event) = ready!(self.poll_disk(context)) {
            return Poll::Ready(Some(event));
        }
        let exec = Arc::clone(&self.exec);
        let mut state = lock(&exec.state);
        // What comes from a control socket is behind the output that was written before it.
        let first = if state.control.is_some() { STDOUT } else { self.turn };
        for stream in [first, 1 - first] {
            loop {
                let offset = self.positions[stream];
                let left = self.left(stream);
                if left == 0 {
                    break;
                }
                match state.outputs[stream].read(offset, left.min(CHUNK)) {
                    Read::Nothing => break,
                    Read::Data(data) => {
                        return Poll::Ready(Some(Ok(self.deliver(&mut state, stream, data))));
                    }
                    Read::OnDisk(length) => {
                        drop(state);
                        self.read_disk(stream, offset, length.min(left).min(READ_AHEAD));
                        return self.next(context);
                    }
                    // The offset of the next event shows it.
                    Read::Gone { available_from } => self.positions[stream] = available_from,
                }
            }
        }
        let is_over = self.until.is_some() && [0, 1].iter().all(|stream| self.left(*stream) == 0);
        if is_over || state.outcome.is_some() {
            self.finished = true;
            return Poll::Ready(self.last(&state, is_over));
        }
        state.readers.sleep(self.number, context.waker());
        Poll::Pending
    }

    /// The last item, where all is delivered that is wanted.
    fn last(&self, state: &ExecState, is_over: bool) -> Option<Answer<Event>> {
        let total = |stream: usize| state.outputs[stream].total();
        match state.outcome.as_ref()? {
            Err(_) if is_over => None,
            Err(error) => Some(Err(error.clone())),
            // The end is behind all output, that which came in the meantime included.
            Ok(end) => (self.wants_end
                && [0, 1].iter().all(|stream| self.positions[*stream] >= total(*stream)))
            .then(|| Ok(Event::End(end.clone()))),
        }
    }

    /// Bytes of a stream that are still wanted.
    fn left(&self, stream: usize) -> usize {
        let position = self.positions[stream];
        let until = self.until.map_or(NOT_READ, |until| until[stream]);
        usize::try_from(until.saturating_sub(position)).unwrap_or(usize::MAX)
    }

    fn deliver(&mut self, state: &mut ExecState, stream: usize, data: Bytes) -> Event {
        let offset = self.positions[stream];
        self.positions[stream] = offset + data.len() as u64;
        self.turn = 1 - stream;
        state.readers.advance(self.number, stream, self.positions[stream]);
        if state.held_back {
            state.wake_driver();
        }
        let output = v1::ExecOutput { offset, data };
        if stream == STDOUT { Event::Stdout(output) } else { Event::Stderr(output) }
    }

    fn read_disk(&mut self, stream: usize, offset: u64, length: usize) {
        let spill = Arc::clone(&self.exec.spill);
        let job = tokio::task::spawn_blocking(move || spill.read(stream, offset, length));
        self.from_disk = FromDisk::Reading { stream, job };
    }

    /// The next event of what was read from disk, once it is there.
    fn poll_disk(&mut self, context: &mut Context<'_>) -> Poll<Option<Answer<Event>>> {
        if let FromDisk::Reading { stream, job } = &mut self.from_disk {
            let stream = *stream;
            let read = ready!(Pin::new(job).poll(context));
            match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
                Ok(bytes) => {
                    let offset = self.positions[stream];
                    let found = lock(&self.exec.state).outputs[stream].read(offset, 1);
                    // What was given up meanwhile may have been overwritten with nothing.
                    self.from_disk = match found {
                        Read::Gone { .. } => FromDisk::Nothing,
                        _ => FromDisk::Ready { stream, bytes },
                    };
                }
                Err(error) => {
                    self.finished = true;
                    self.from_disk = FromDisk::Nothing;
                    let message = format!("agent cannot read kept output: {error}");
                    let error = CallError::new(ErrorCode::Internal, message).maybe_run(true);
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        let FromDisk::Ready { stream, bytes } = &mut self.from_disk else {
            return Poll::Ready(None);
        };
        let (stream, data) = (*stream, bytes.split_to(bytes.len().min(CHUNK)));
        if bytes.is_empty() {
            self.from_disk = FromDisk::Nothing;
        }
        let exec = Arc::clone(&self.exec);
        let event = self.deliver(&mut lock(&exec.state), stream, data);
        Poll::Ready(Some(Ok(event)))
    }
}

/// Refuses an offset at which nothing is, and nothing will be next.
fn check(state: &ExecState, stream: usize, offset: u64) -> Answer<()> {
    let output = &state.outputs[stream];
    let beyond = offset > output.total() && offset != NOT_READ;
    if !beyond && !matches!(output.read(offset, 1), Read::Gone { .. }) {
        return Ok(());
    }
    let name = stream_name(stream);
    let ranges = shown(&output.ranges());
    let problem = if beyond { "was not written so far" } else { "is not kept any more" };
    let there = if ranges.is_empty() { "nothing".to_owned() } else { format!("bytes {ranges}") };
    let message = format!("{name} from byte {offset} on {problem}: {there} can be read");
    Err(CallError::new(ErrorCode::OutputRange, message)
        .with_reason(format!("{name}:{ranges}"))
        .maybe_run(true))
}

/// Ranges as `0-100,500-600`; the ends are exclusive.
fn shown(ranges: &[Range]) -> String {
    let shown: Vec<String> =
        ranges.iter().map(|range| format!("{}-{}", range.start, range.end)).collect();
    shown.join(",")
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
