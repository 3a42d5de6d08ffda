//! One header block, read.

use super::BLOCK;

/// Why bytes are not an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Malformed(pub(in super::super) &'static str);

/// What a header block says. Every byte of it is somebody else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Header {
    pub(in super::super) kind: u8,
    pub(in super::super) path: Vec<u8>,
    pub(in super::super) link: Vec<u8>,
    pub(in super::super) mode: u32,
    pub(in super::super) uid: u64,
    pub(in super::super) gid: u64,
    pub(in super::super) size: u64,
    pub(in super::super) modified: i64,
}

impl Header {
    /// Reads a header; `None` for a block of zeros, which ends an archive.
    pub(in super::super) fn read(block: &[u8; BLOCK]) -> Result<Option<Self>, Malformed> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum = number(&block[148..156]).ok_or(Malformed("its checksum is no number"))?;
        // Counted as if it was spaces itself.
        let unsigned: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        let own: u64 = block[148..156].iter().map(|byte| u64::from(*byte)).sum();
        if i128::from(unsigned - own + 8 * 32) != sum {
            return Err(Malformed("its checksum is wrong"));
        }
        let is_posix = &block[257..263] == b"ustar\0";
        let name = until_nul(&block[..100]);
        let prefix = until_nul(&block[345..500]);
        let path = if is_posix && !prefix.is_empty() {
            [prefix, b"/", name].concat()
        } else {
            name.to_vec()
        };
        let positive = |field: &[u8], what| {
            number(field).and_then(|number| u64::try_from(number).ok()).ok_or(Malformed(what))
        };
        let mode = positive(&block[100..108], "its mode is no positive number")?;
        let modified = number(&block[136..148]).and_then(|number| i64::try_from(number).ok());
        Ok(Some(Self {
            kind: block[156],
            path,
            link: until_nul(&block[157..257]).to_vec(),
            // Some writers put the kind of file in it, too.
            mode: u32::try_from(mode & 0o7777).unwrap_or(0),
            uid: positive(&block[108..116], "its owner is no positive number")?,
            gid: positive(&block[116..124], "its group is no positive number")?,
            size: positive(&block[124..136], "its size is no positive number")?,
            modified: modified.ok_or(Malformed("its time is no number"))?,
        }))
    }
}

/// A field that is text, or as long as it can be.
pub(super) fn until_nul(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    &field[..end]
}

/// A field that is a number: in octal digits, or in binary where it would not fit. Empty is 0.
pub(super) fn number(field: &[u8]) -> Option<i128> {
    let (&first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        // Two's complement of as many bytes as there are, without the mark.
        let negative = first & 0x40 != 0;
        let start = if negative { i128::from(first) - 256 } else { i128::from(first & 0x7f) };
        return Some(rest.iter().fold(start, |number, byte| (number << 8) | i128::from(*byte)));
    }
    let digits = until_nul(field).trim_ascii();
    digits.iter().try_fold(0_i128, |number, digit| match digit {
        b'0'..=b'7' => Some(number * 8 + i128::from(digit - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_octal_or_binary_of_either_sign() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), Some(1 << 33));
        assert_eq!(number(&[0xff; 12]), Some(-1));
        for bad in [&b"9"[..], b"-1", b"1 1", b"0x1"] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_block_is_a_header_or_an_error(block in prop::collection::vec(any::<u8>(), BLOCK)) {
            let _ = Header::read(&block.try_into().unwrap());
        }

        #[test]
        fn any_number_fits_or_not(field in prop::collection::vec(any::<u8>(), 0..13)) {
            let _ = number(&field);
        }
    }
}
