//! What tests of connections need: a Unix socket between client and agent that does on order what
//! networks do by chance.
#![forbid(unsafe_code)]

mod plan;
mod proxy;
mod relay;

pub use plan::{Counts, Order, Plan};
pub use proxy::Proxy;
