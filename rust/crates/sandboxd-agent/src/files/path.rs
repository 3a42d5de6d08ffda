//! Paths as requests name them.
//!
//! Nothing is resolved here: `..`, symlinks and doubled slashes are the kernel's, beneath the
//! sandbox's root ([`super::tree::Tree`]). This only joins and splits text.

use sandboxd_proto::{CallError, ErrorCode};

use crate::call::Answer;

/// Longest path that Linux takes, without its NUL.
const MAX_PATH: usize = 4_095;

/// Letters of a path that a message shows.
const MAX_SHOWN: usize = 256;

/// An absolute path within a sandbox. Not empty, and without NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SandboxPath(Vec<u8>);

impl SandboxPath {
    /// Reads the path of a request; a relative one starts at `cwd`.
    ///
    /// # Errors
    ///
    /// `invalid_argument`, when no file can have this path.
    pub(super) fn new(path: &[u8], cwd: &[u8]) -> Answer<Self> {
        let problem = if path.is_empty() {
            "is empty"
        } else if path.contains(&0) {
            "has a NUL byte in it"
        } else {
            let joined = if path.starts_with(b"/") { path.to_vec() } else { join(cwd, path) };
            if joined.len() <= MAX_PATH {
                return Ok(Self(joined));
            }
            "is longer than 4095 bytes"
        };
        let message = format!("path {} {problem}", shown(path));
        Err(CallError::new(ErrorCode::InvalidArgument, message))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The folder, and the name in it. `None` if the path ends in `/`, `.` or `..`, and so can only
    /// be a folder.
    pub(super) fn split(&self) -> Option<(&[u8], &[u8])> {
        let slash = self.0.iter().rposition(|byte| *byte == b'/')?;
        let (folder, name) = (&self.0[..=slash], &self.0[slash + 1..]);
        (!matches!(name, b"" | b"." | b"..")).then_some((folder, name))
    }

    /// Without slashes at its end; the root stays what it is.
    pub(super) fn trimmed(&self) -> Self {
        let end = self.0.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1);
        Self(self.0[..end].to_vec())
    }

    /// The path that a link in this path's folder leads to.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub(super) fn follow(&self, target: &[u8]) -> Answer<Self> {
        let (folder, _) = self.split().unwrap_or((b"/", b""));
        Self::new(target, folder)
    }
}

/// For messages: they show it as text, and not all of a long one.
impl std::fmt::Display for SandboxPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&shown(&self.0))
    }
}

fn join(folder: &[u8], path: &[u8]) -> Vec<u8> {
    [folder, b"/", path].concat()
}

/// A path as messages show it: as text, and not all of a long one.
pub(super) fn shown(path: &[u8]) -> String {
    let start = &path[..path.len().min(MAX_SHOWN)];
    let rest = if path.len() > MAX_SHOWN { "…" } else { "" };
    format!("{:?}{rest}", String::from_utf8_lossy(start))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> SandboxPath {
        SandboxPath::new(text.as_bytes(), b"/work").unwrap()
    }

    #[test]
    fn relative_paths_start_at_the_working_directory() {
        assert_eq!(path("a/b").bytes(), b"/work/a/b");
        assert_eq!(path("/a").bytes(), b"/a");
    }

    #[test]
    fn a_name_is_split_off_unless_only_a_folder_can_be_meant() {
        assert_eq!(path("/a/b").split(), Some((&b"/a/"[..], &b"b"[..])));
        assert_eq!(path("/a").split(), Some((&b"/"[..], &b"a"[..])));
        for folder in ["/", "/a/", "/a/.", "/a/..", ".."] {
            assert_eq!(path(folder).split(), None, "{folder}");
        }
        assert_eq!(path("/a//").trimmed().bytes(), b"/a");
        assert_eq!(path("//").trimmed().bytes(), b"/");
    }

    #[test]
    fn links_lead_on_from_their_folder() {
        assert_eq!(path("/a/link").follow(b"b").unwrap().bytes(), b"/a//b");
        assert_eq!(path("/a/link").follow(b"/b").unwrap().bytes(), b"/b");
    }

    #[test]
    fn what_no_file_can_be_called_is_refused() {
        for bad in [&b""[..], b"/a\0b", &[b'a'; 5_000]] {
            let error = SandboxPath::new(bad, b"/").unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument);
            assert!(error.message.len() < 1_000);
        }
    }

    proptest! {
        #[test]
        fn folder_and_name_make_the_path_again(text in "[a./]{1,40}") {
            let path = path(&text);
            if let Some((folder, name)) = path.split() {
                prop_assert_eq!([folder, name].concat(), path.bytes());
                prop_assert!(folder.ends_with(b"/"));
                prop_assert!(!name.contains(&b'/'));
            }
        }

        #[test]
        fn any_bytes_are_a_path_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            if let Ok(path) = SandboxPath::new(&bytes, b"/work") {
                prop_assert!(path.bytes().starts_with(b"/"));
                let _ = (path.split(), path.trimmed(), path.to_string());
            }
        }
    }
}
