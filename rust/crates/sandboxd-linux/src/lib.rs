//! Linux mechanisms: everything that needs a raw system call, behind safe functions.

pub mod capabilities;
pub mod cgroup;
pub mod clone;
pub mod fsids;
pub mod inherit;
pub mod launcher;
pub mod lease;
pub mod memory;
pub mod mount;
pub mod network;
pub mod pidfd;
pub mod process;
pub mod protocol;
pub mod seccomp;
pub mod seqpacket;
pub mod signals;
pub mod title;
pub mod unshare;

mod syscall;
