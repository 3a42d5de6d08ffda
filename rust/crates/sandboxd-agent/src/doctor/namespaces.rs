//! Running the probing child ([`super::child`]) and mapping its ids, as a launcher does.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use sandboxd_linux::mount::{copy_tree, map_ids};

use super::child::Step;

/// First host id that the child's ids are mapped to: among those that agents give to sandboxes.
const FIRST_ID: u32 = 1 << 28;

/// Ids that a sandbox of a root agent has.
const RANGE: u32 = 65_536;

/// What was found out.
#[derive(Debug, Clone)]
pub(super) struct Namespaces {
    /// In the order of the child's steps, up to the last one it came to.
    steps: Vec<(String, Result<(), Errno>)>,
    /// Mapping a whole range of ids.
    pub(super) range: Result<(), Errno>,
    /// Showing a layer with the ids of that namespace.
    pub(super) idmapped: Result<(), Errno>,
}

impl Namespaces {
    /// Starts the child and carries it through its steps.
    pub(super) fn probe() -> Self {
        let spawned = Command::new("/proc/self/exe")
            .arg("probe")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut found =
            Self { steps: Vec::new(), range: Err(Errno::PERM), idmapped: Err(Errno::PERM) };
        match spawned {
            Ok(mut child) => {
                if let Err(error) = found.converse(&mut child) {
                    tracing::warn!(%error, "probing ended early");
                }
                // It ends when its input does.
                drop(child.stdin.take());
                let _ = child.wait();
            }
            Err(error) => tracing::warn!(%error, "cannot start a process for probing"),
        }
        found
    }

    fn converse(&mut self, child: &mut Child) -> io::Result<()> {
        let pid = child.id();
        let (Some(input), Some(output)) = (child.stdin.as_mut(), child.stdout.take()) else {
            return Ok(());
        };
        for line in BufReader::new(output).lines() {
            let line = line?;
            let Some((step, errno)) = line.split_once(' ') else { continue };
            let result = match errno.parse() {
                Ok(0) => Ok(()),
                Ok(errno) => Err(Errno::from_raw_os_error(errno)),
                Err(_) => Err(Errno::INVAL),
            };
            self.steps.push((step.to_owned(), result));
            if step == Step::User.name() && result.is_ok() {
                self.map(pid);
                input.write_all(b"\n")?;
            }
        }
        Ok(())
    }

    /// Maps a range if this user may, and the only id it may map otherwise.
    fn map(&mut self, pid: u32) {
        let write = |name: &str, text: String| {
            fs::write(format!("/proc/{pid}/{name}"), text).map_err(|error| errno(&error))
        };
        if geteuid().is_root() {
            let range = format!("0 {FIRST_ID} {RANGE}");
            self.range = write("uid_map", range.clone()).and_then(|()| write("gid_map", range));
            let namespace = File::open(format!("/proc/{pid}/ns/user"));
            self.idmapped = namespace
                .and_then(|namespace| map_ids(copy_tree(c"/usr")?, namespace))
                .map_err(|error| errno(&error));
        } else {
            let mapped = write("setgroups", "deny".to_owned())
                .and_then(|()| write("uid_map", format!("0 {} 1", geteuid().as_raw())))
                .and_then(|()| write("gid_map", format!("0 {} 1", getegid().as_raw())));
            if let Err(errno) = mapped {
                self.steps.push(("map".to_owned(), Err(errno)));
            }
        }
    }

    /// What became of a step. One that was not reached failed as the one that was in its way.
    pub(super) fn step(&self, step: Step) -> Result<(), Errno> {
        let found = self.steps.iter().find(|(name, _)| name == step.name());
        let in_its_way = || self.steps.iter().find_map(|(_, result)| result.err());
        found.map_or_else(|| Err(in_its_way().unwrap_or(Errno::IO)), |(_, result)| *result)
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_was_not_reached_failed_by_what_was_in_its_way() {
        let steps = vec![
            ("user".to_owned(), Ok(())),
            ("network".to_owned(), Ok(())),
            ("tmpfs".to_owned(), Err(Errno::PERM)),
        ];
        let found = Namespaces { steps, range: Ok(()), idmapped: Ok(()) };
        assert_eq!(found.step(Step::Network), Ok(()));
        assert_eq!(found.step(Step::Overlay), Err(Errno::PERM));
        let nothing = Namespaces { steps: Vec::new(), ..found };
        assert_eq!(nothing.step(Step::User), Err(Errno::IO));
    }
}
