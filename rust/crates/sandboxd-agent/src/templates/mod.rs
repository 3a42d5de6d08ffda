//! Templates: what a sandbox is made from.

mod accounts;
mod etc;
mod host;
mod template;

pub(crate) use template::{Template, Templates};
