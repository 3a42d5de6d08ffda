//! The lean framing of the SDK: `sandboxd_proto::frame` over one connection.

mod connection;
mod dispatch;
mod ended;
mod handler;
mod input;
mod outbox;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use connection::serve;
