//! Graders: commands that see the protected files of a sandbox, while nothing else in it runs.
//!
//! A grader runs in a box of its own, beside the sandbox: other namespaces, other ids, other cgroups,
//! and an init of its own. Its root is made of the sandbox's layers, with the protected files on top
//! and what it writes itself in a layer that goes with it. So nothing that was left running in the
//! sandbox shares anything with it that could be watched, signalled, traced or mounted over; those
//! processes are frozen meanwhile, so that the files stay as they are, too.

mod box_beside;
mod grade;
mod view;

pub(crate) use grade::Gate;
pub(crate) use view::View;
