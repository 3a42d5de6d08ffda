//! Files of sandboxes, read and written from outside.

mod archive;
mod entry;
mod extract;
#[cfg(test)]
mod fuzz;
mod make_dir;
mod move_;
mod new_file;
mod path;
mod produce;
mod protected;
mod read;
mod remove;
mod service;
mod tar;
#[cfg(test)]
mod tests;
mod tree;
mod uploads;
mod version;
mod watch;
mod write;

pub(crate) use protected::{Protected, SYSTEM};
pub(crate) use uploads::Uploads;
