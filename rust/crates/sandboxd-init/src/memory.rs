//! The allocator of launcher and init: dense, and part of the program's own memory.
//!
//! Each init begins with the launcher's pages, and a page that either of them writes to afterwards is
//! copied. So what the launcher uses again and again should lie close together. A general allocator
//! spreads it over the pages that its start has used, and over a part of the address space of its own,
//! for which every init would need three more tables of the kernel.
//!
//! Blocks have sizes of powers of two, and those of one size that were given back are used again
//! before others are begun. Pages of the arena that were never reached cost nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Far above what a launcher of thousands of sandboxes needs; the system gives what goes beyond.
const ARENA: usize = 512 * 1024;

const PAGE: usize = 4_096;
const SMALLEST: usize = 16;

/// Sizes from [`SMALLEST`] to half of the arena.
const SIZES: usize = (ARENA / SMALLEST).ilog2() as usize;

/// The allocator. For a process with a single thread.
#[derive(Debug)]
pub(crate) struct Dense(UnsafeCell<Arena>);

/// All zeroes at first, so that it takes no room in the program's file.
#[derive(Debug)]
#[repr(C, align(4096))]
struct Arena {
    state: State,
    blocks: [MaybeUninit<u8>; ARENA - size_of::<State>()],
}

#[derive(Debug)]
struct State {
    /// Bytes behind the state that were begun.
    begun: usize,
    /// Blocks of each size that were given back, each with the address of the next in it.
    free: [*mut Free; SIZES],
}

#[derive(Debug)]
struct Free {
    next: *mut Self,
}

// SAFETY: launcher and init have one thread each, and no signal handler.
unsafe impl Sync for Dense {}

impl Dense {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(Arena {
            state: State { begun: 0, free: [null_mut(); SIZES] },
            blocks: [MaybeUninit::uninit(); ARENA - size_of::<State>()],
        }))
    }

    fn start(&self) -> *mut u8 {
        self.0.get().cast()
    }

    /// Whether a block is one of ours.
    fn owns(&self, block: *mut u8) -> bool {
        let start = self.start().addr();
        (start..start + ARENA).contains(&block.addr())
    }
}

impl State {
    /// A block of the arena at `start`, or null when there is no room.
    fn take(&mut self, size: usize, start: *mut u8) -> *mut u8 {
        let head = &mut self.free[index(size)];
        if !head.is_null() {
            let block = *head;
            // SAFETY: blocks in the list are ours alone, and hold what `give_back` wrote.
            *head = unsafe { (*block).next };
            return block.cast();
        }
        let offset = (size_of::<Self>() + self.begun).next_multiple_of(size.min(PAGE));
        if offset + size > ARENA {
            return null_mut();
        }
        self.begun = offset + size - size_of::<Self>();
        // SAFETY: the arena reaches beyond the end of the block.
        unsafe { start.add(offset) }
    }

    /// Takes a block of `size` back, which came from [`Self::take`].
    fn give_back(&mut self, block: *mut u8, size: usize) {
        let head = &mut self.free[index(size)];
        let block = block.cast::<Free>();
        // SAFETY: nobody else has the block any more; it is large enough and aligned, since even the
        // smallest size is.
        unsafe { block.write(Free { next: *head }) };
        *head = block;
    }
}

/// The size of the block for a layout, if the arena has such.
fn block_size(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(SMALLEST).next_power_of_two();
    (size < ARENA && layout.align() <= PAGE).then_some(size)
}

fn index(size: usize) -> usize {
    (size / SMALLEST).ilog2() as usize
}

// SAFETY: a block is as large as its size, which is at least the layout's, and begins at a multiple of
// it or of a page, so of the alignment; it is in use once at a time, because it is taken out of the
// list or out of the rest of the arena.
unsafe impl GlobalAlloc for Dense {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(size) = block_size(layout) {
            // SAFETY: the arena begins with it; one thread has one reference at a time.
            let state = unsafe { &mut *self.start().cast::<State>() };
            let block = state.take(size, self.start());
            if !block.is_null() {
                return block;
            }
        }
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match block_size(layout) {
            Some(size) if self.owns(block) => {
                // SAFETY: the arena begins with it; one thread has one reference at a time.
                let state = unsafe { &mut *self.start().cast::<State>() };
                state.give_back(block, size);
            }
            // SAFETY: what is not of the arena came from the system.
            _ => unsafe { System.dealloc(block, layout) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    fn alloc(memory: &Dense, layout: Layout) -> *mut u8 {
        // SAFETY: no layout of these tests is empty.
        let block = unsafe { memory.alloc(layout) };
        assert!(!block.is_null());
        assert_eq!(block.addr() % layout.align(), 0);
        // SAFETY: the block was made for the layout.
        unsafe { block.write_bytes(0xa5, layout.size()) };
        block
    }

    fn dealloc(memory: &Dense, block: *mut u8, layout: Layout) {
        // SAFETY: made by `alloc` with this layout, and given back once.
        unsafe { memory.dealloc(block, layout) };
    }

    #[test]
    fn blocks_do_not_overlap_are_aligned_and_used_again() {
        static MEMORY: Dense = Dense::new();
        let memory = &MEMORY;
        let layouts: Vec<Layout> =
            (0..400_usize).map(|number| layout(number * 7 % 900 + 1, 1 << (number % 8))).collect();
        let mut blocks: Vec<(usize, usize)> = Vec::new();
        for each in &layouts {
            let start = alloc(memory, *each).addr();
            let end = start + each.size();
            assert!(blocks.iter().all(|(from, to)| end <= *from || *to <= start));
            blocks.push((start, end));
        }
        let kept = alloc(memory, layout(64, 8));
        dealloc(memory, kept, layout(64, 8));
        assert_eq!(alloc(memory, layout(40, 8)), kept);
    }

    #[test]
    fn what_is_too_large_comes_from_the_system() {
        static MEMORY: Dense = Dense::new();
        let memory = &MEMORY;
        for each in [layout(ARENA, 1), layout(ARENA / 2 + 1, 1), layout(64, 2 * PAGE)] {
            let block = alloc(memory, each);
            assert!(!memory.owns(block));
            dealloc(memory, block, each);
        }
        // Also when the arena has run out.
        let half = layout(ARENA / 2, 8);
        let blocks = [alloc(memory, half), alloc(memory, half)];
        assert_eq!(blocks.map(|block| memory.owns(block)), [true, false]);
        blocks.into_iter().for_each(|block| dealloc(memory, block, half));
        assert!(memory.owns(alloc(memory, half)));
    }
}
