//! Requests that arrive whole, or fail.
//!
//! To the HTTP and gRPC libraries a stream that its sender cancels has just ended. For an upload
//! that would make half a file look like all of it, so the difference is put back here.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

/// A service whose request streams end with an error unless their sender ended them.
#[derive(Debug, Clone)]
pub(super) struct Whole<S>(pub(super) S);

impl<S: NamedService> NamedService for Whole<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<http::Request<Body>>> Service<http::Request<Body>> for Whole<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.0.call(request.map(|body| Body::new(WholeBody { body, failed: false })))
    }
}

#[derive(Debug)]
struct WholeBody<B> {
    body: B,
    failed: bool,
}

impl<B> HttpBody for WholeBody<B>
where
    B: HttpBody<Data = Bytes, Error = Status> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.failed {
            return Poll::Ready(None);
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            // The sender's mark of the end was seen only if the body knows of it.
            None if self.body.is_end_stream() => None,
            None => Some(Err("the request was canceled".to_owned())),
            Some(Ok(frame)) => Some(Ok(frame)),
            Some(Err(status)) => Some(Err(status.message().to_owned())),
        };
        self.failed = matches!(frame, Some(Err(_)));
        // Not with the code for a cancellation, which would be taken for an end again.
        Poll::Ready(frame.map(|frame| frame.map_err(Status::aborted)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Some data, then an end that the sender marked or did not.
    struct Sent {
        data: VecDeque<&'static str>,
        ended: bool,
    }

    impl HttpBody for Sent {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.data.pop_front().map(|data| Ok(Frame::data(Bytes::from(data)))))
        }

        fn is_end_stream(&self) -> bool {
            self.ended && self.data.is_empty()
        }
    }

    async fn frames(ended: bool) -> Vec<Result<Bytes, tonic::Code>> {
        let mut body = WholeBody { body: Sent { data: ["a", "b"].into(), ended }, failed: false };
        let mut seen = Vec::new();
        let next = |body: &mut WholeBody<Sent>, context: &mut Context<'_>| {
            Pin::new(body).poll_frame(context)
        };
        while let Some(frame) = std::future::poll_fn(|context| next(&mut body, context)).await {
            seen.push(frame.map(|frame| frame.into_data().unwrap()).map_err(|s| s.code()));
        }
        seen
    }

    #[tokio::test]
    async fn f2_a_request_that_was_not_ended_by_its_sender_fails() {
        let data = [Ok(Bytes::from("a")), Ok(Bytes::from("b"))];
        assert_eq!(frames(true).await, data);
        let [a, b] = data;
        assert_eq!(frames(false).await, [a, b, Err(tonic::Code::Aborted)]);
    }
}
