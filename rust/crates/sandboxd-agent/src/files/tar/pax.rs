//! Records of the pax format: `LENGTH KEY=VALUE\n`, which go before what a header says.

use super::header::Malformed;
use super::sparse::Segment;

/// What records say of the next member, or of all that follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Records {
    pub(in super::super) path: Option<Vec<u8>>,
    pub(in super::super) link: Option<Vec<u8>>,
    pub(in super::super) size: Option<u64>,
    pub(in super::super) uid: Option<u64>,
    pub(in super::super) gid: Option<u64>,
    /// Seconds and nanoseconds.
    pub(in super::super) modified: Option<(i64, u32)>,
    /// A sparse file's own name and size.
    pub(in super::super) sparse_path: Option<Vec<u8>>,
    pub(in super::super) sparse_size: Option<u64>,
    /// Its map, in the versions that have it in records.
    pub(in super::super) sparse_map: Vec<u64>,
    /// Its map is in front of its data.
    pub(in super::super) has_sparse_text: bool,
}

impl Records {
    /// Takes in the body of a pax header.
    pub(in super::super) fn read(&mut self, mut body: &[u8]) -> Result<(), Malformed> {
        const BROKEN: Malformed = Malformed("its extended header is broken");
        while !body.is_empty() {
            let space = body.iter().take(20).position(|byte| *byte == b' ').ok_or(BROKEN)?;
            let length = decimal(&body[..space]).ok_or(BROKEN)?;
            let length = usize::try_from(length).map_err(|_| BROKEN)?;
            let record = body.get(space + 1..length).ok_or(BROKEN)?;
            let record = record.strip_suffix(b"\n").ok_or(BROKEN)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or(BROKEN)?;
            self.note(&record[..equals], &record[equals + 1..]).ok_or(BROKEN)?;
            body = &body[length..];
        }
        Ok(())
    }

    fn note(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"path" => self.path = Some(text(value)?),
            b"linkpath" => self.link = Some(text(value)?),
            b"size" => self.size = Some(decimal(value)?),
            b"uid" => self.uid = Some(decimal(value)?),
            b"gid" => self.gid = Some(decimal(value)?),
            b"mtime" => self.modified = Some(time(value)?),
            b"GNU.sparse.name" => self.sparse_path = Some(text(value)?),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse_size = Some(decimal(value)?),
            b"GNU.sparse.major" => self.has_sparse_text = decimal(value)? == 1,
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => self.sparse_map.push(decimal(value)?),
            b"GNU.sparse.map" => {
                for number in value.split(|byte| *byte == b',') {
                    self.sparse_map.push(decimal(number)?);
                }
            }
            // Access times, names of users, attributes and comments are not kept.
            _ => {}
        }
        Some(())
    }

    /// The map that is in the records.
    pub(in super::super) fn segments(&self) -> Option<Vec<Segment>> {
        let pairs = self.sparse_map.chunks(2);
        pairs.map(|pair| Some(Segment { offset: pair[0], length: *pair.get(1)? })).collect()
    }
}

fn text(value: &[u8]) -> Option<Vec<u8>> {
    (!value.contains(&0)).then(|| value.to_vec())
}

pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Seconds with an optional sign and fraction; a time before 1970 is rounded down.
fn time(value: &[u8]) -> Option<(i64, u32)> {
    let (negative, value) = match value.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let mut parts = value.splitn(2, |byte| *byte == b'.');
    let seconds = i64::try_from(decimal(parts.next()?)?).ok()?;
    let fraction = parts.next().unwrap_or(b"0");
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    let nanoseconds = digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    Some(match (negative, nanoseconds) {
        (false, _) => (seconds, nanoseconds),
        (true, 0) => (-seconds, 0),
        (true, _) => (-seconds - 1, 1_000_000_000 - nanoseconds),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_are_cut_by_their_length_alone() {
        let mut records = Records::default();
        records.read(b"15 path=a\nb=c\xff\n17 mtime=-1.5000\n9 size=7\n").unwrap();
        assert_eq!(records.path.as_deref(), Some(&b"a\nb=c\xff"[..]));
        assert_eq!(records.modified, Some((-2, 500_000_000)));
        assert_eq!(records.size, Some(7));
    }

    #[test]
    fn broken_records_are_told() {
        for bad in [
            &b"5 a=b\n"[..],
            b"x path=a\n",
            b"9999999999999999999999 path=a\n",
            b"11 path=a\n",
            b"7 size\n",
            b"11 size=-17\n",
            b"10 path=\0\n",
        ] {
            assert!(Records::default().read(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_records_or_an_error(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Records::default().read(&body);
        }
    }
}
