//! One member's header, written: ustar, with pax records for what does not fit.

use super::sparse::Segment;
use super::{BLOCK, padding};

/// Longest text that a header has room for.
const NAME: usize = 100;

/// What is to be said of a member.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Fields<'a> {
    pub(in super::super) kind: u8,
    pub(in super::super) path: &'a [u8],
    pub(in super::super) link: &'a [u8],
    pub(in super::super) mode: u32,
    pub(in super::super) uid: u32,
    pub(in super::super) gid: u32,
    /// Of the file; for a sparse one, with its holes.
    pub(in super::super) size: u64,
    pub(in super::super) modified: (i64, u32),
    /// Of a sparse file. Its map is written with the header.
    pub(in super::super) segments: Option<&'a [Segment]>,
}

/// Appends everything that comes before a member's data.
pub(in super::super) fn put_member(out: &mut Vec<u8>, fields: &Fields<'_>) {
    let mut records = Vec::new();
    let mut size = fields.size;
    let mut path = fields.path.to_vec();
    let mut map = Vec::new();
    if let Some(segments) = fields.segments {
        map = map_text(segments);
        size = map.len() as u64 + segments.iter().map(|segment| segment.length).sum::<u64>();
        put_record(&mut records, b"GNU.sparse.major", b"1");
        put_record(&mut records, b"GNU.sparse.minor", b"0");
        put_record(&mut records, b"GNU.sparse.name", fields.path);
        put_record(&mut records, b"GNU.sparse.realsize", fields.size.to_string().as_bytes());
        // For programs that do not know sparse files: their name tells what this is.
        path.truncate(NAME - 13);
        path.splice(..0, *b"GNUSparse.0/");
    } else if path.len() > NAME {
        put_record(&mut records, b"path", &path);
        path.truncate(NAME);
    }
    let mut link = fields.link;
    if link.len() > NAME {
        put_record(&mut records, b"linkpath", link);
        link = &link[..NAME];
    }
    let (seconds, nanoseconds) = fields.modified;
    let whole = u64::try_from(seconds).ok().filter(|seconds| *seconds < 1 << 33);
    if nanoseconds != 0 || whole.is_none() {
        put_record(&mut records, b"mtime", time(seconds, nanoseconds).as_bytes());
    }
    let mut small = size;
    if size >= 1 << 33 {
        put_record(&mut records, b"size", size.to_string().as_bytes());
        small = 0;
    }
    for (key, id) in [("uid", fields.uid), ("gid", fields.gid)] {
        if id >= 1 << 21 {
            put_record(&mut records, key.as_bytes(), id.to_string().as_bytes());
        }
    }
    if !records.is_empty() {
        let extended = Ustar { kind: b'x', path: b"pax", mode: 0o644, ..Ustar::default() };
        extended.put(out, records.len() as u64);
        out.extend_from_slice(&records);
        out.resize(out.len() + padding(records.len() as u64), 0);
    }
    let ustar = Ustar {
        kind: fields.kind,
        path: &path,
        link,
        mode: fields.mode,
        uid: if fields.uid < 1 << 21 { fields.uid } else { 0 },
        gid: if fields.gid < 1 << 21 { fields.gid } else { 0 },
        modified: whole.unwrap_or(0),
    };
    ustar.put(out, small);
    out.extend_from_slice(&map);
}

#[derive(Default)]
struct Ustar<'a> {
    kind: u8,
    path: &'a [u8],
    link: &'a [u8],
    mode: u32,
    uid: u32,
    gid: u32,
    modified: u64,
}

impl Ustar<'_> {
    fn put(&self, out: &mut Vec<u8>, size: u64) {
        let mut block = [0; BLOCK];
        block[..self.path.len()].copy_from_slice(self.path);
        octal(&mut block[100..107], self.mode.into());
        octal(&mut block[108..115], self.uid.into());
        octal(&mut block[116..123], self.gid.into());
        octal(&mut block[124..135], size);
        octal(&mut block[136..147], self.modified);
        block[156] = self.kind;
        block[157..157 + self.link.len()].copy_from_slice(self.link);
        block[257..265].copy_from_slice(b"ustar\x0000");
        block[148..156].fill(b' ');
        let sum = block.iter().map(|byte| u64::from(*byte)).sum();
        octal(&mut block[148..154], sum);
        block[154] = 0;
        out.extend_from_slice(&block);
    }
}

/// All digits that fit: values are checked before.
fn octal(field: &mut [u8], mut value: u64) {
    for digit in field.iter_mut().rev() {
        *digit = b'0' + u8::try_from(value & 7).unwrap_or(0);
        value >>= 3;
    }
}

fn put_record(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    // The length counts its own digits.
    let rest = key.len() + value.len() + 3;
    let digits = |number: usize| number.to_string().len();
    let mut length = rest + digits(rest);
    if digits(length) > digits(rest) {
        length = rest + digits(length);
    }
    out.extend_from_slice(length.to_string().as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

fn time(seconds: i64, nanoseconds: u32) -> String {
    let (sign, seconds, nanoseconds) = if seconds < 0 && nanoseconds > 0 {
        ("-", seconds.unsigned_abs() - 1, 1_000_000_000 - nanoseconds)
    } else {
        (if seconds < 0 { "-" } else { "" }, seconds.unsigned_abs(), nanoseconds)
    };
    format!("{sign}{seconds}.{nanoseconds:09}")
}

fn map_text(segments: &[Segment]) -> Vec<u8> {
    let mut text = format!("{}\n", segments.len());
    for segment in segments {
        text.push_str(&format!("{}\n{}\n", segment.offset, segment.length));
    }
    let mut text = text.into_bytes();
    text.resize(text.len().next_multiple_of(BLOCK), 0);
    text
}

#[cfg(test)]
mod tests {
    use super::super::{Header, Records};
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let path = [b'x'; 300];
        for (path, link, uid, size, modified) in [
            (&b"a"[..], &b""[..], 0, 0, (0, 0)),
            (&path[..], &path[..], 1 << 30, 1 << 40, (-5, 250_000_000)),
            (&path[..99], &path[..101], 65_535, 7, (1 << 34, 1)),
        ] {
            let fields = Fields {
                kind: b'0',
                path,
                link,
                mode: 0o4755,
                uid,
                gid: uid,
                size,
                modified,
                segments: None,
            };
            let mut out = Vec::new();
            put_member(&mut out, &fields);
            let mut records = Records::default();
            let mut header = Header::read(out[..BLOCK].try_into().unwrap()).unwrap().unwrap();
            if header.kind == b'x' {
                let size = usize::try_from(header.size).unwrap();
                records.read(&out[BLOCK..BLOCK + size]).unwrap();
                let next = (BLOCK + size).next_multiple_of(BLOCK);
                header = Header::read(out[next..].try_into().unwrap()).unwrap().unwrap();
            }
            assert_eq!(records.path.unwrap_or(header.path), path);
            assert_eq!(records.link.unwrap_or(header.link), link);
            assert_eq!(records.uid.unwrap_or(header.uid), u64::from(uid));
            assert_eq!(records.size.unwrap_or(header.size), size);
            assert_eq!(records.modified.unwrap_or((header.modified, 0)), modified);
            assert_eq!((header.kind, header.mode), (b'0', 0o4755));
        }
    }

    #[test]
    fn the_length_of_a_record_counts_itself() {
        for size in 85..105 {
            let mut out = Vec::new();
            put_record(&mut out, b"k", &vec![b'v'; size]);
            let length: usize = std::str::from_utf8(&out).unwrap()[..3].trim().parse().unwrap();
            assert_eq!(length, out.len());
        }
    }
}
