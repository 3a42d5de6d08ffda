//! The lean framing of the SDK's connection.
//!
//! A client opens with [`PREFACE`] and a `Hello` frame; the agent answers `Welcome` or an error.
//! Then each call has a number chosen by the client, and its frames carry that number:
//!
//! ```text
//! frame   = u32 length (of what follows) | u32 call | u8 kind | body        (little endian)
//! request = u8 method | message            reply = message           error = `Error`
//! event   = message (a stream's item, either direction)   end = empty (the stream is complete)
//! credit  = u32 bytes                      cancel = empty            ping, pong = empty
//! ```
//!
//! A unary call ends with `Reply` or `Error`. A server stream is `Event`s, then `End` or `Error`.
//! A client stream (Files.Write) is the request with its first message, `Event`s, `End`; then the
//! agent's `Reply` or `Error`. Bodies of events count against a window per call and direction,
//! [`WINDOW`] bytes at first and widened by `Credit`, so that no reader stalls another.

use bytes::{Buf as _, Bytes, BytesMut};
use prost::Message;

use crate::method::Method;
use crate::v1;

/// First bytes of a connection that speaks frames; a gRPC one begins with `PRI `.
pub const PREFACE: &[u8; 4] = b"SBX1";

/// Bytes of event bodies that may be on their way per call and direction.
pub const WINDOW: u32 = 256 * 1024;

/// Longest frame that an agent takes. Above `Run`'s stdin limit (16 MiB) and the kernel's limit
/// on arguments (a quarter of the stack limit, 2 MiB by default).
pub const MAX_REQUEST: usize = 24 * 1024 * 1024;

/// Longest frame that a client takes: both streams of a `Run` at the largest cap (256 MiB each).
pub const MAX_REPLY: usize = 513 * 1024 * 1024;

const HEADER: usize = 9;

/// Frames from this length on are received several at a time, into [`SEVERAL`] bytes.
const LARGE: usize = 32 * 1024;
const SEVERAL: usize = WINDOW as usize;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Hello = 0,
    Request = 1,
    Reply = 2,
    Event = 3,
    End = 4,
    Error = 5,
    Credit = 6,
    Cancel = 7,
    Ping = 8,
    Pong = 9,
}

impl Kind {
    const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Hello,
            1 => Self::Request,
            2 => Self::Reply,
            3 => Self::Event,
            4 => Self::End,
            5 => Self::Error,
            6 => Self::Credit,
            7 => Self::Cancel,
            8 => Self::Ping,
            9 => Self::Pong,
            _ => return None,
        })
    }
}

/// One frame; the body is whatever its kind says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub call: u32,
    pub kind: Kind,
    pub body: Bytes,
}

/// Bytes that are not frames. The connection is of no use any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("frame of {length} bytes is longer than the limit of {limit}")]
    TooLong { length: usize, limit: usize },
    #[error("frame is shorter than its header")]
    TooShort,
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
    #[error("body of a frame cannot be decoded")]
    Body,
}

/// Cuts a byte stream into frames.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    limit: usize,
}

impl Decoder {
    /// A decoder that refuses frames longer than `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit }
    }

    /// Where to append what was read; at least `reserve` bytes are allocated.
    pub fn buffer(&mut self, reserve: usize) -> &mut BytesMut {
        self.buffer.reserve(reserve);
        &mut self.buffer
    }

    /// The next whole frame, if it has arrived.
    ///
    /// # Errors
    ///
    /// If the bytes are not a frame.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(&prefix) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(prefix) as usize;
        if length > self.limit {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        if length < HEADER - 4 {
            return Err(FrameError::TooShort);
        }
        if self.buffer.len() < 4 + length {
            let missing = 4 + length - self.buffer.len();
            // Of a stream of large frames: else the part of each that is here would be copied once
            // more, because the frame before it fills the allocation.
            let ahead = if length >= LARGE { SEVERAL } else { 0 };
            self.buffer.reserve(missing.max(ahead));
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(4 + length);
        frame.advance(4);
        let call = frame.get_u32_le();
        let number = frame.get_u8();
        let kind = Kind::from_number(number).ok_or(FrameError::UnknownKind(number))?;
        Ok(Some(Frame { call, kind, body: frame.freeze() }))
    }
}

fn header(out: &mut Vec<u8>, call: u32, kind: Kind, body: usize) {
    out.reserve(HEADER + body);
    // A longer body cannot be made: messages are bounded far below 4 GiB by the limits above.
    let length = u32::try_from(body + HEADER - 4).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&call.to_le_bytes());
    out.push(kind as u8);
}

/// Appends a frame with a message as its body.
pub fn put_message(out: &mut Vec<u8>, call: u32, kind: Kind, message: &impl Message) {
    header(out, call, kind, message.encoded_len());
    message.encode_raw(out);
}

/// Appends a request.
pub fn put_request(out: &mut Vec<u8>, call: u32, method: Method, message: &impl Message) {
    header(out, call, Kind::Request, 1 + message.encoded_len());
    out.push(method.number());
    message.encode_raw(out);
}

/// Appends a frame without a body.
pub fn put_empty(out: &mut Vec<u8>, call: u32, kind: Kind) {
    header(out, call, kind, 0);
}

/// Appends a grant of `bytes` more of the window of `call`.
pub fn put_credit(out: &mut Vec<u8>, call: u32, bytes: u32) {
    header(out, call, Kind::Credit, 4);
    out.extend_from_slice(&bytes.to_le_bytes());
}

/// Appends an error.
pub fn put_error(out: &mut Vec<u8>, call: u32, error: &crate::CallError) {
    put_message(out, call, Kind::Error, &v1::Error::from(error));
}

/// Splits the body of a request into method number and message.
///
/// # Errors
///
/// If the body is empty.
pub fn split_request(mut body: Bytes) -> Result<(u8, Bytes), FrameError> {
    let number = *body.first().ok_or(FrameError::Body)?;
    body.advance(1);
    Ok((number, body))
}

/// Reads the body of a credit.
///
/// # Errors
///
/// If it is not four bytes.
pub fn read_credit(body: &[u8]) -> Result<u32, FrameError> {
    body.try_into().map(u32::from_le_bytes).map_err(|_| FrameError::Body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_cut_anywhere_come_out_as_they_went_in(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..10),
            cut in 1_usize..50,
        ) {
            let mut wire = Vec::new();
            for (call, data) in bodies.iter().enumerate() {
                let message = v1::FilesReadResponse { data: data.clone().into(), ..Default::default() };
                put_message(&mut wire, call.try_into().unwrap(), Kind::Event, &message);
            }
            let mut decoder = Decoder::new(1024);
            let mut seen = Vec::new();
            for chunk in wire.chunks(cut) {
                decoder.buffer(chunk.len()).extend_from_slice(chunk);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    prop_assert_eq!(frame.call as usize, seen.len());
                    let message = v1::FilesReadResponse::decode(frame.body).unwrap();
                    seen.push(message.data.to_vec());
                }
            }
            prop_assert_eq!(seen, bodies);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut decoder = Decoder::new(64);
            decoder.buffer(bytes.len()).extend_from_slice(&bytes);
            while let Ok(Some(_)) = decoder.next_frame() {}
        }
    }
}
