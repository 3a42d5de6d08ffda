//! Files of sandboxes, read and written from outside.

mod entry;
mod make_dir;
mod path;
mod read;
mod remove;
mod service;
#[cfg(test)]
mod tests;
mod tree;
mod write;
