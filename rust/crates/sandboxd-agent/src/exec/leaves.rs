//! The leaf cgroups of one sandbox: each holds the processes of one exec at a time.
//!
//! Making one takes longer than starting a program in it, so clean ones are used again. One in which
//! background children live on waits until they have ended; one that was killed is never entered
//! again (see [`Leaf`]).

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;

use sandboxd_linux::cgroup::{Leaf, SandboxCgroup};

use crate::lock::lock;

/// Clean leaves kept beyond as many as are in use: a steady stream of execs, however many at once,
/// makes no new ones, and an idle sandbox holds few descriptors.
const SPARE: usize = 4;

/// Leaves looked at whenever one is given back or asked for, so that none is forgotten and no call
/// pays for all.
const LOOKS: usize = 2;

/// The leaves that no exec holds.
#[derive(Debug, Default)]
pub(crate) struct LeafPool(Mutex<Leaves>);

#[derive(Debug, Default)]
struct Leaves {
    clean: Vec<Leaf>,
    /// How many are with execs.
    taken: usize,
    /// Background children live in these.
    lingering: VecDeque<Leaf>,
    /// Waiting for their removal: the kernel refuses it until the dead have left.
    condemned: VecDeque<Leaf>,
}

impl LeafPool {
    /// A leaf for an exec, whose CPU time is measured from now on, exactly if that is asked for. `root`
    /// is the host id of the sandbox's root.
    ///
    /// # Errors
    ///
    /// If none can be made.
    pub(crate) fn take(&self, cgroup: &SandboxCgroup, root: u32, exact: bool) -> io::Result<Leaf> {
        let mut leaves = lock(&self.0);
        if leaves.clean.is_empty() {
            leaves.revisit();
        }
        let mut leaf = match leaves.clean.pop() {
            Some(leaf) => leaf,
            None => cgroup.create_leaf(root)?,
        };
        leaf.begin(exact);
        leaves.taken += 1;
        Ok(leaf)
    }

    /// Takes a leaf back from an exec that has ended. Costs some system calls: to be called when
    /// nobody waits.
    pub(crate) fn give_back(&self, leaf: Leaf, killed: bool) {
        let mut leaves = lock(&self.0);
        leaves.taken = leaves.taken.saturating_sub(1);
        if killed {
            leaves.condemned.push_back(leaf);
        } else {
            leaves.sort_in(leaf);
        }
        leaves.revisit();
    }

    /// Whether background children live in any leaf, as far as is known.
    pub(crate) fn any_lingering(&self) -> bool {
        !lock(&self.0).lingering.is_empty()
    }

    /// Looks at some of the leaves that cannot be used yet.
    pub(crate) fn revisit(&self) {
        lock(&self.0).revisit();
    }

    /// Ends every background child.
    pub(crate) fn kill_lingering(&self) {
        let mut leaves = lock(&self.0);
        while let Some(mut leaf) = leaves.lingering.pop_front() {
            if let Err(error) = leaf.kill() {
                tracing::warn!(%error, "cannot end background processes");
            }
            leaves.condemned.push_back(leaf);
        }
    }
}

impl Leaves {
    fn sort_in(&mut self, mut leaf: Leaf) {
        if leaf.is_reusable() {
            self.clean.push(leaf);
        } else {
            // What lives on in it uses time of its own.
            leaf.forget_used();
            self.lingering.push_back(leaf);
        }
    }

    fn revisit(&mut self) {
        let surplus = self.clean.len().saturating_sub(self.taken + SPARE).min(LOOKS);
        self.condemned.extend(self.clean.drain(..surplus));
        for _ in 0..LOOKS.min(self.lingering.len()) {
            if let Some(leaf) = self.lingering.pop_front() {
                self.sort_in(leaf);
            }
        }
        for _ in 0..LOOKS.min(self.condemned.len()) {
            if let Some(leaf) = self.condemned.pop_front()
                && leaf.remove().is_err()
            {
                self.condemned.push_back(leaf);
            }
        }
    }
}
