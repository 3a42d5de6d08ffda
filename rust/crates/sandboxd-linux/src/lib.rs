//! Linux mechanisms: everything that needs a raw system call, behind safe functions.

pub mod cgroup;
pub mod launcher;
pub mod pidfd;
pub mod protocol;
pub mod seqpacket;
