//! Maps of sparse files: which parts of a file an archive has; the others are zeros.

use super::BLOCK;
use super::header::{Malformed, number};
use super::pax::decimal;

/// A part of a file that is in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Segment {
    pub(in super::super) offset: u64,
    pub(in super::super) length: u64,
}

const BROKEN: Malformed = Malformed("its map of holes is broken");

/// Where a block of GNU's older map says whether another one follows.
pub(in super::super) const LAST_OLD_MAP: usize = 504;

/// GNU's older map, as it begins in the header: segments, whether a block of more follows, size.
pub(in super::super) fn first_old_map(
    header: &[u8; BLOCK],
) -> Result<(Vec<Segment>, bool, u64), Malformed> {
    let size = number(&header[483..495]).and_then(|size| u64::try_from(size).ok());
    Ok((old_map(&header[386..482])?, header[482] != 0, size.ok_or(BROKEN)?))
}

/// Segments of GNU's older map: pairs of numbers of 12 bytes each, until an empty one.
pub(in super::super) fn old_map(fields: &[u8]) -> Result<Vec<Segment>, Malformed> {
    let used = fields.chunks_exact(24).take_while(|pair| pair[0] != 0);
    let positive =
        |field| number(field).and_then(|number| u64::try_from(number).ok()).ok_or(BROKEN);
    used.map(|pair| Ok(Segment { offset: positive(&pair[..12])?, length: positive(&pair[12..])? }))
        .collect()
}

/// The map in front of the data, if it is all there: lines of numbers, how many segments first.
/// Whole blocks; how many bytes of them it is comes with it.
pub(in super::super) fn sparse_map_of_text(
    text: &[u8],
    max_segments: usize,
) -> Result<Option<(Vec<Segment>, usize)>, Malformed> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let mut used = 0;
    let mut next = || {
        let Some(line) = lines.next() else { return Ok(None) };
        let Some(digits) = line.strip_suffix(b"\n") else {
            // Cut, or endless.
            return if line.len() > 20 { Err(BROKEN) } else { Ok(None) };
        };
        used += line.len();
        decimal(digits).ok_or(BROKEN).map(Some)
    };
    let Some(count) = next()? else { return Ok(None) };
    let count = usize::try_from(count).ok().filter(|count| *count <= max_segments).ok_or(BROKEN)?;
    let mut segments = Vec::new();
    for _ in 0..count {
        let (Some(offset), Some(length)) = (next()?, next()?) else { return Ok(None) };
        segments.push(Segment { offset, length });
    }
    let used = used.next_multiple_of(BLOCK);
    Ok((text.len() >= used).then_some((segments, used)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_map_in_text_is_read_once_it_is_whole() {
        let mut text = b"2\n0\n512\n1024\n3\n".to_vec();
        assert_eq!(sparse_map_of_text(&text, 9), Ok(None));
        text.resize(BLOCK, 0);
        let segments =
            vec![Segment { offset: 0, length: 512 }, Segment { offset: 1024, length: 3 }];
        assert_eq!(sparse_map_of_text(&text, 9), Ok(Some((segments, BLOCK))));
        assert_eq!(sparse_map_of_text(&text, 1), Err(BROKEN));
        assert_eq!(sparse_map_of_text(b"-1\n", 1), Err(BROKEN));
        assert_eq!(sparse_map_of_text(&[b'1'; 30], 1), Err(BROKEN));
    }

    proptest! {
        #[test]
        fn any_text_is_a_map_or_not(text in "[0-9\n,x]{0,100}") {
            let _ = sparse_map_of_text(text.as_bytes(), 10);
            let _ = old_map(text.as_bytes());
        }
    }
}
