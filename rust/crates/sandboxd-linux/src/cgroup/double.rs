//! A stand-in for the kernel's files: writes down what is done to it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::files::Files;

/// Files by path, and what happened so far, one line each. Clones share both.
#[derive(Debug, Clone, Default)]
pub(super) struct Double(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Texts of files; a directory has none.
    entries: BTreeMap<PathBuf, Option<String>>,
    log: Vec<String>,
    /// Writes that the kernel refuses, as they appear in the log, with the error number.
    refused: Vec<(String, i32)>,
}

impl Double {
    pub(super) fn directory(self, path: &str) -> Self {
        self.0.lock().unwrap().entries.insert(path.into(), None);
        self
    }

    pub(super) fn file(self, path: &str, text: &str) -> Self {
        self.0.lock().unwrap().entries.insert(path.into(), Some(text.into()));
        self
    }

    /// Refuses what would be logged as `line`.
    pub(super) fn refuse(self, line: &str, errno: i32) -> Self {
        self.0.lock().unwrap().refused.push((line.into(), errno));
        self
    }

    pub(super) fn allow_again(&self, line: &str) {
        self.0.lock().unwrap().refused.retain(|(refused, _)| refused != line);
    }

    /// What happened since the last time.
    pub(super) fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().log)
    }

    fn act(&self, line: String, effect: impl FnOnce(&mut State)) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let refused = state.refused.iter().find(|(refused, _)| *refused == line);
        if let Some((_, errno)) = refused {
            return Err(io::Error::from_raw_os_error(*errno));
        }
        state.log.push(line);
        effect(&mut state);
        Ok(())
    }
}

impl Files for Double {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        if self.exists(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.act(format!("mkdir {}", path.display()), |state| {
            state.entries.insert(path.into(), None);
        })
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        if !self.exists(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if !self.directories(path)?.is_empty() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        self.act(format!("rmdir {}", path.display()), |state| {
            state.entries.retain(|entry, _| !entry.starts_with(path));
        })
    }

    fn directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.0.lock().unwrap();
        let beneath = state
            .entries
            .iter()
            .filter(|(entry, text)| text.is_none() && entry.parent() == Some(path));
        Ok(beneath.map(|(entry, _)| entry.clone()).collect())
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.lock().unwrap().entries.contains_key(path)
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let state = self.0.lock().unwrap();
        let text = state.entries.get(path).and_then(Option::as_ref);
        text.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.act(format!("{text} > {}", path.display()), |_| {})
    }

    fn open_read(&self, path: &Path) -> io::Result<OwnedFd> {
        self.act(format!("open {}", path.display()), |_| {})?;
        Ok(File::open("/dev/null")?.into())
    }

    fn open_write(&self, path: &Path) -> io::Result<OwnedFd> {
        self.open_read(path)
    }

    fn give_to(&self, path: &Path, id: u32) -> io::Result<()> {
        self.act(format!("chown {id} {}", path.display()), |_| {})
    }
}
