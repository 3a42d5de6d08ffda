//! The output of an exec that has ended, in one piece.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sandboxd_proto::{CallError, ErrorCode};

use super::entry::Exec;
use super::kept::{Kept, Range, Read};
use super::output::Output;
use crate::call::Answer;
use crate::lock::lock;

/// What is kept of a stream: of a `Run` all of it, else at most `limit` bytes, half from either end.
///
/// # Errors
///
/// If the disk cannot be read.
pub(crate) async fn collect(exec: &Exec, stream: usize, limit: usize) -> Answer<Kept> {
    let (ranges, total) = match &lock(&exec.state).outputs[stream] {
        Output::Kept { kept, .. } => return Ok(kept.clone()),
        output => (output.ranges(), output.total()),
    };
    let wanted = ends(&ranges, limit as u64);
    let mut bytes = BytesMut::new();
    let mut head = None;
    for range in &wanted {
        if range.start != bytes.len() as u64 {
            head = head.or(Some(bytes.len()));
        }
        read(exec, stream, range, &mut bytes).await?;
    }
    if (bytes.len() as u64) < total {
        head = head.or(Some(bytes.len()));
    }
    Ok(Kept { bytes: bytes.freeze(), head, total })
}

/// The first and the last bytes of what is kept. Head and tail of a `Run` are these, too.
fn ends(ranges: &[Range], limit: u64) -> Vec<Range> {
    let (first, last) = match ranges {
        [] => return Vec::new(),
        [only] if only.end - only.start <= limit => return vec![only.clone()],
        [first, .., last] => (first.clone(), last.clone()),
        [only] => (only.clone(), only.clone()),
    };
    let tail = (limit / 2).min(last.end - last.start);
    let tail = last.end - tail..last.end;
    // A part that does not begin the stream is no head.
    let head = if first.start == 0 { limit - limit / 2 } else { 0 };
    let head = first.start..(first.start + head).min(first.end).min(tail.start.max(first.start));
    [head, tail].into_iter().filter(|range| !range.is_empty()).collect()
}

async fn read(exec: &Exec, stream: usize, range: &Range, bytes: &mut BytesMut) -> Answer<()> {
    let mut at = range.start;
    while at < range.end {
        let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
        let found = lock(&exec.state).outputs[stream].read(at, left);
        let part: Bytes = match found {
            Read::Data(data) => data,
            Read::OnDisk(length) => {
                let spill = Arc::clone(&exec.spill);
                let job = move || spill.read(stream, at, length);
                let read = tokio::task::spawn_blocking(job).await;
                let read = read.map_err(std::io::Error::other).and_then(|result| result);
                read.map_err(|error| {
                    let message = format!("agent cannot read kept output: {error}");
                    CallError::new(ErrorCode::Internal, message).maybe_run(true)
                })?
            }
            // Nothing is dropped after the end.
            Read::Nothing | Read::Gone { .. } => return Ok(()),
        };
        at += part.len() as u64;
        bytes.extend_from_slice(&part);
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_taken_whole_and_of_the_rest_both_ends() {
        assert_eq!(ends(&[0..10], 10), [0..10]);
        assert_eq!(ends(&[0..10], 5), [0..3, 8..10]);
        assert_eq!(ends(&[0..10, 50..60], 8), [0..4, 56..60]);
        assert_eq!(ends(&[0..2, 50..60], 100), [0..2, 50..60]);
        assert_eq!(ends(&[50..60], 8), [56..60]);
        assert_eq!(ends(&[50..60], 100), [50..60]);
        assert_eq!(ends(&[], 100), []);
        assert_eq!(ends(&[0..1], 0), []);
    }
}
