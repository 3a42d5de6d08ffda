//! Templates: what a sandbox is made from.

mod template;

pub(crate) use template::{Template, Templates};
