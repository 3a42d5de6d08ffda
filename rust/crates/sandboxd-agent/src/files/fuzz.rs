//! Archives that nobody would make: whatever they say, nothing outside the target is touched.
//!
//! `PROPTEST_CASES` sets how many are tried.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::extract::{Destination, Extraction};
use super::tests::{Sandbox, path, sandbox};
use crate::call::Answer;

const BLOCK: usize = 512;

/// One member: a header with a right checksum, and what follows it.
#[derive(Debug, Clone)]
struct Member {
    name: Vec<u8>,
    link: Vec<u8>,
    kind: u8,
    mode: u32,
    /// What the header says.
    size: u64,
    body: Vec<u8>,
}

impl Member {
    fn encode(&self) -> Vec<u8> {
        let mut header = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.name[..self.name.len().min(100)]);
        put(100, format!("{:07o}\0", self.mode & 0o7777).as_bytes());
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{:011o}\0", self.size).as_bytes());
        put(136, b"00000000000\0");
        put(148, b"        ");
        put(156, &[self.kind]);
        put(157, &self.link[..self.link.len().min(100)]);
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(&self.body);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }
}

/// Names that lead somewhere else, through what other members may have made.
fn names() -> impl Strategy<Value = Vec<u8>> {
    let known = select(vec![
        "a",
        "b",
        "a/b",
        "b/c",
        "a/b/c",
        "..",
        "../secret",
        "../root",
        "/secret",
        "/../secret",
        "a/../../secret",
        "./a",
        "a//b",
        "a/",
        ".",
        "",
        "/",
        "link",
        "link/secret",
        "link/../secret",
        "up/secret",
        "up",
    ]);
    prop_oneof![
        8 => known.prop_map(|name| name.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..100),
    ]
}

fn members() -> impl Strategy<Value = Member> {
    let kinds = select(b"0\x00123456\x37gxLKSVMND".to_vec());
    let record =
        (select(vec!["path", "linkpath", "size", "GNU.sparse.map", "GNU.sparse.major"]), names())
            .prop_map(|(key, value)| {
                // `LENGTH KEY=VALUE\n`, as an extended header has it.
                let rest = [key.as_bytes(), b"=", &value, b"\n"].concat();
                let length = rest.len() + 3;
                [format!("{length:02} ").as_bytes(), &rest].concat()
            });
    let body = prop_oneof![vec(any::<u8>(), 0..1200), record, names()];
    let size =
        prop_oneof![6 => Just(None), 1 => (0_u64..5_000).prop_map(Some), 1 => Just(Some(1 << 32))];
    (names(), names(), kinds, 0_u32..0o10000, size, body).prop_map(
        |(name, link, kind, mode, size, body)| Member {
            name,
            link,
            kind,
            mode,
            size: size.unwrap_or(body.len() as u64),
            body,
        },
    )
}

fn archives() -> impl Strategy<Value = Vec<u8>> {
    let whole = vec(members(), 1..12).prop_map(|members| {
        let mut bytes: Vec<u8> = members.iter().flat_map(Member::encode).collect();
        bytes.resize(bytes.len() + 2 * BLOCK, 0);
        bytes
    });
    (whole, vec((any::<Index>(), any::<u8>()), 0..3), any::<Index>(), any::<bool>()).prop_map(
        |(mut bytes, spoilt, end, cut)| {
            for (at, byte) in spoilt {
                let at = at.index(bytes.len());
                bytes[at] ^= byte;
            }
            if cut {
                bytes.truncate(end.index(bytes.len()));
            }
            bytes
        },
    )
}

fn extract(sandbox: &Sandbox, archive: &[u8], piece: usize) -> Answer<()> {
    let to = Destination { path: path("/target"), owner: None };
    let mut extraction = Extraction::begin(&sandbox.tree, to, &Arc::default())?;
    for chunk in archive.chunks(piece) {
        extraction.append(&[Bytes::copy_from_slice(chunk)])?;
    }
    extraction.finish().map(drop)
}

/// What there is below a folder, symlinks not followed.
fn entries(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            entries(&entry.path(), found);
        }
    }
}

proptest! {
    #[test]
    fn f2_an_archive_changes_nothing_outside_its_target(
        archive in archives(),
        piece in 1_usize..3_000,
    ) {
        let sandbox = sandbox();
        fs::create_dir(sandbox.root.join("target")).unwrap();
        fs::write(sandbox.root.join("secret"), "inside").unwrap();
        // A way out that a program may have laid.
        std::os::unix::fs::symlink("..", sandbox.root.join("target/up")).unwrap();
        // Refused or not: it must end, without a panic.
        let _ = extract(&sandbox, &archive, piece);

        let outer = sandbox.root.parent().unwrap();
        prop_assert_eq!(fs::read(outer.join("secret")).unwrap(), b"secret");
        prop_assert_eq!(fs::read(sandbox.root.join("secret")).unwrap(), b"inside");
        let mut found = Vec::new();
        entries(outer, &mut found);
        for entry in found {
            let kind = fs::symlink_metadata(&entry).unwrap().file_type();
            prop_assert!(!kind.is_block_device() && !kind.is_char_device(), "{:?}", entry);
            let known = [outer.join("secret"), sandbox.root.clone(), sandbox.root.join("secret")];
            prop_assert!(
                known.contains(&entry) || entry.starts_with(sandbox.root.join("target")),
                "{:?} was made", entry
            );
        }
    }

    #[test]
    fn f2_bytes_that_are_no_archive_are_refused(bytes in vec(1_u8.., 0..3_000), piece in 1_usize..700) {
        let sandbox = sandbox();
        fs::create_dir(sandbox.root.join("target")).unwrap();
        prop_assert!(bytes.is_empty() || extract(&sandbox, &bytes, piece).is_err());
    }
}
