//! Linux mechanisms: everything that needs a raw system call, behind safe functions.

pub mod protocol;
