//! The launcher's command line, as `sandboxd_linux::launcher` writes it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use sandboxd_linux::launcher::IdSlots;

/// How to launch, and what to clear up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(super) ids: IdSlots,
    pub(super) pool: usize,
    pub(super) cgroups: Vec<PathBuf>,
    pub(super) state: Option<PathBuf>,
}

impl Options {
    /// Reads `--ids=FIRST:COUNT:SLOTS`, `--pool=N`, `--cgroup=PATH`… and `--state=PATH`.
    pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut ids = None;
        let mut options = Self {
            ids: IdSlots { first: 0, count: 0, slots: 0 },
            pool: 0,
            cgroups: Vec::new(),
            state: None,
        };
        for argument in arguments {
            let bytes = argument.as_bytes();
            let value = |name: &str| bytes.strip_prefix(name.as_bytes()).map(OsStr::from_bytes);
            let wrong = || format!("cannot read {}", argument.display());
            if let Some(text) = value("--ids=") {
                ids = Some(text.to_str().and_then(parse_ids).ok_or_else(wrong)?);
            } else if let Some(text) = value("--pool=") {
                options.pool =
                    text.to_str().and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
            } else if let Some(path) = value("--cgroup=") {
                options.cgroups.push(path.into());
            } else if let Some(path) = value("--state=") {
                options.state = Some(path.into());
            } else if bytes == b"--hello" {
                // What every launcher of this build does.
            } else {
                return Err(format!("unknown option {}", argument.display()));
            }
        }
        options.ids = ids.ok_or("--ids is missing")?;
        Ok(options)
    }
}

fn parse_ids(text: &str) -> Option<IdSlots> {
    let mut parts = text.split(':').map(str::parse);
    let mut next = || parts.next()?.ok();
    let ids = IdSlots { first: next()?, count: next()?, slots: next()? };
    // The last range must end within 32 bits.
    let length = ids.count.checked_mul(ids.slots)?;
    ids.first.checked_add(length)?;
    (ids.count > 0 && parts.next().is_none()).then_some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        Options::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn every_option_is_read() {
        let arguments = [
            "--hello",
            "--ids=100000:65536:4",
            "--pool=8",
            "--cgroup=/a",
            "--cgroup=/b",
            "--state=/s",
        ];
        let expected = Options {
            ids: IdSlots { first: 100_000, count: 65_536, slots: 4 },
            pool: 8,
            cgroups: vec!["/a".into(), "/b".into()],
            state: Some("/s".into()),
        };
        assert_eq!(parse(&arguments), Ok(expected));
    }

    #[test]
    fn ranges_that_do_not_fit_are_refused() {
        for ids in
            ["--ids=0:0:1", "--ids=1:2", "--ids=1:2:3:4", "--ids=4294901760:65536:2", "--ids=x"]
        {
            assert!(parse(&[ids]).is_err(), "{ids}");
        }
        assert!(parse(&[]).is_err());
        assert!(parse(&["--ids=1:1:1", "--surprise"]).is_err());
    }
}
