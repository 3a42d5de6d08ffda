//! Flow control of one stream, in bytes of event bodies.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use sandboxd_proto::frame::{WINDOW, put_credit};
use sandboxd_proto::{CallError, ErrorCode};
use tokio::sync::{Notify, mpsc};
use tokio_stream::Stream;

use super::outbox::{Lane, Outbox};
use crate::call::Answer;
use crate::lock::lock;

/// What a peer still lets us send of a stream.
#[derive(Debug)]
pub(super) struct SendWindow {
    /// May fall below zero by one event: an event is sent when there is any credit.
    credit: Mutex<i64>,
    widened: Notify,
}

impl SendWindow {
    pub(super) fn new() -> Self {
        Self { credit: Mutex::new(WINDOW.into()), widened: Notify::new() }
    }

    pub(super) fn widen(&self, bytes: u32) {
        let mut credit = lock(&self.credit);
        // A peer that grants without end has no flow control, and needs no more of it.
        *credit = credit.saturating_add(bytes.into());
        self.widened.notify_waiters();
    }

    pub(super) fn take(&self, bytes: usize) {
        let mut credit = lock(&self.credit);
        *credit = credit.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Waits until an event may be sent.
    pub(super) async fn open(&self) {
        loop {
            let widened = self.widened.notified();
            if *lock(&self.credit) > 0 {
                return;
            }
            widened.await;
        }
    }
}

/// The connection's end of a stream that the peer sends.
#[derive(Debug)]
pub(super) struct Feed {
    items: mpsc::UnboundedSender<Answer<Bytes>>,
    window: Arc<Mutex<i64>>,
}

/// The call's end of it.
#[derive(Debug)]
pub(crate) struct Incoming {
    items: mpsc::UnboundedReceiver<Answer<Bytes>>,
    window: Arc<Mutex<i64>>,
    consumed: u32,
    call: u32,
    outbox: Outbox,
}

/// The two ends of a stream that `call` receives.
pub(super) fn incoming(call: u32, outbox: Outbox) -> (Feed, Incoming) {
    // Unbounded in items, bounded in bytes by the window.
    let (sender, receiver) = mpsc::unbounded_channel();
    let window = Arc::new(Mutex::new(WINDOW.into()));
    let feed = Feed { items: sender, window: Arc::clone(&window) };
    (feed, Incoming { items: receiver, window, consumed: 0, call, outbox })
}

impl Feed {
    /// Hands an event to the call. False when the peer sent what it was not granted.
    pub(super) fn push(&self, body: Bytes) -> bool {
        let size = u32::try_from(body.len()).unwrap_or(u32::MAX);
        // An empty event would cost no credit, and so there could be any number of them.
        if size == 0 || size > WINDOW {
            return false;
        }
        {
            let mut window = lock(&self.window);
            // The rule of `SendWindow`, seen from the other end.
            if *window <= 0 {
                return false;
            }
            *window -= i64::from(size);
        }
        // The call may have ended early, with an error that is on its way to the peer.
        let _ = self.items.send(Ok(body));
        true
    }

    /// Tells the call that the rest of the stream will not come.
    pub(super) fn fail(&self, message: &str, reason: &str) {
        let error = CallError::new(ErrorCode::ConnectionLost, message).with_reason(reason);
        let _ = self.items.send(Err(error));
    }
}

impl Stream for Incoming {
    type Item = Answer<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.items.poll_recv(context));
        if let Some(Ok(body)) = &item {
            self.consume(body.len());
        }
        Poll::Ready(item)
    }
}

impl Incoming {
    /// Grants half a window at a time: enough to keep the peer sending, few frames.
    fn consume(&mut self, bytes: usize) {
        self.consumed += u32::try_from(bytes).unwrap_or(u32::MAX);
        if self.consumed >= WINDOW / 2 {
            *lock(&self.window) += i64::from(self.consumed);
            let mut frame = Vec::new();
            put_credit(&mut frame, self.call, self.consumed);
            self.outbox.send(frame, Lane::Single);
            self.consumed = 0;
        }
    }
}
