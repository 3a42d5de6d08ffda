//! One call that is under way.

use std::collections::VecDeque;

use bytes::Bytes;
use prost::Message as _;
use sandboxd_proto::frame::{self, Kind, WINDOW};
use sandboxd_proto::{CallError, Method, v1};

use super::outbox::Outbox;

/// Bytes of content in one event of an upload: a few of them fit into the window.
const CHUNK: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Position in the outgoing stream after which the agent has the whole request.
    pub(super) request_end: u64,
    pub(super) upload: Option<Upload>,
    pub(super) items: VecDeque<Bytes>,
    /// Bytes of items that were taken and not granted again.
    ungranted: u32,
    /// The reply (empty for a stream that ended), or why there is none.
    pub(super) outcome: Option<Result<Bytes, CallError>>,
}

/// What is left of a client stream.
#[derive(Debug)]
pub(super) struct Upload {
    rest: Bytes,
    window: u64,
}

impl Call {
    pub(super) const fn new(method: Method, request_end: u64) -> Self {
        Self {
            method,
            request_end,
            upload: None,
            items: VecDeque::new(),
            ungranted: 0,
            outcome: None,
        }
    }

    /// Gives the call content to send.
    pub(super) fn with_upload(mut self, content: Bytes) -> Self {
        self.upload = Some(Upload { rest: content, window: u64::from(WINDOW) });
        self
    }

    /// Widens the window of an upload.
    pub(super) fn credit(&mut self, bytes: u32) {
        if let Some(upload) = &mut self.upload {
            upload.window += u64::from(bytes);
        }
    }

    /// Appends as much of an upload as the window has room for.
    pub(super) fn pump(&mut self, number: u32, outbox: &mut Outbox) {
        let Some(upload) = &mut self.upload else { return };
        while !upload.rest.is_empty() {
            let chunk = upload.rest.slice(..upload.rest.len().min(CHUNK));
            let length = chunk.len();
            // An `Extract` has its data in the same field, so the bytes are the same.
            let part = Some(v1::files_write_request::Part::Data(chunk));
            let message = v1::FilesWriteRequest { part };
            let body = message.encoded_len() as u64;
            if body > upload.window {
                return;
            }
            upload.window -= body;
            upload.rest = upload.rest.slice(length..);
            frame::put_message(outbox.buffer(), number, Kind::Event, &message);
        }
        frame::put_empty(outbox.buffer(), number, Kind::End);
        self.upload = None;
        self.request_end = outbox.end();
    }

    /// Takes the next item and, in larger steps, lets the agent send as much again.
    pub(super) fn take_item(&mut self, number: u32, outbox: &mut Outbox) -> Option<Bytes> {
        let item = self.items.pop_front()?;
        // The peer cannot send more than the window, which fits.
        self.ungranted += u32::try_from(item.len()).unwrap_or(WINDOW);
        if self.ungranted >= WINDOW / 2 && self.outcome.is_none() {
            frame::put_credit(outbox.buffer(), number, self.ungranted);
            self.ungranted = 0;
        }
        Some(item)
    }

    /// Whether the agent can have acted: nothing before it has the whole request.
    pub(super) const fn may_have_run(&self, written: u64) -> bool {
        self.upload.is_none() && written >= self.request_end
    }
}
