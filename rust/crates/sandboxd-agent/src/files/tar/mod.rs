//! The tar format: ustar headers, pax records, and what GNU tar has besides.

mod encode;
mod header;
mod pax;
mod sparse;

pub(super) use encode::{Fields, put_member};
pub(super) use header::{Header, Malformed};
pub(super) use pax::Records;
pub(super) use sparse::{LAST_OLD_MAP, Segment, first_old_map, old_map, sparse_map_of_text};

/// Bytes of a block: everything in an archive is a whole number of them.
pub(super) const BLOCK: usize = 512;

/// Bytes that fill the last block of `size` bytes.
pub(super) fn padding(size: u64) -> usize {
    // Below the size of a block.
    usize::try_from(size.wrapping_neg() % BLOCK as u64).unwrap_or(0)
}
