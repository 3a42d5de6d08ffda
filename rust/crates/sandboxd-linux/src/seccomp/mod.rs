//! The system call filter of a sandbox.
//!
//! Capabilities and namespaces are the boundary; the filter keeps code of the kernel that no sandbox
//! needs out of reach altogether. [`Filter::new`] builds it once, [`Filter::install`] costs a few
//! dozen microseconds per sandbox, and an exec nothing.

mod filter;
mod table;

pub use filter::Filter;
