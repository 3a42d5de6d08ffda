//! Copies of layers that lie on a file system which cannot map owners.
//!
//! The agent's own layers decide whether a sandbox's root owns `/root` and may write to `/etc`. In a
//! container they lie on an overlay, which cannot be mapped, and in a pod with a user namespace on
//! file systems that are not ours to map. A tmpfs of our own can be. It is mounted in a mount
//! namespace of our own, so it goes when we go.
//!
//! Only layers beneath the agent's state folder are copied: they are small and do not change. Those
//! of the machine, such as `/usr`, are shown as they are.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::thread::UnshareFlags;
use sandboxd_linux::mount::{FileSystem, attach, copy_tree};
use sandboxd_linux::unshare::unshare;

/// Most that all copies together may take. The template of a host takes a few MiB.
const SIZE: &CStr = c"64m";

/// Layers that are remembered. Those of templates are few and stay the same.
const MOST_KNOWN: usize = 256;

/// Copied layers, made when they are first asked for.
#[derive(Debug)]
pub(super) struct Shelf {
    state: Option<PathBuf>,
    mounted: Option<PathBuf>,
    copies: Vec<(CString, CString)>,
    /// Layers whose owners could be mapped, each with where it was taken from.
    mapped: Vec<(CString, CString)>,
}

impl Shelf {
    pub(super) const fn new(state: Option<PathBuf>) -> Self {
        Self { state, mounted: None, copies: Vec::new(), mapped: Vec::new() }
    }

    /// Remembers that the owners of a layer can be mapped, taken from `source`.
    pub(super) fn note(&mut self, layer: &CStr, source: &CStr) {
        if self.mapped.len() < MOST_KNOWN && find(&self.mapped, layer.to_bytes()).is_none() {
            self.mapped.push((layer.to_owned(), source.to_owned()));
        }
    }

    /// Where to take a layer from so that its owners can be mapped, if that is known.
    pub(super) fn source(&self, layer: &Path) -> Option<&CStr> {
        find(&self.mapped, layer.as_os_str().as_bytes())
    }

    /// Where the copy of a layer is, if there is one.
    pub(super) fn copy(&self, layer: &CStr) -> Option<CString> {
        find(&self.copies, layer.to_bytes()).map(CStr::to_owned)
    }

    /// A detached mount of a copy of the layer.
    ///
    /// # Errors
    ///
    /// If the layer is not one of the agent's, or cannot be copied.
    pub(super) fn tree(&mut self, layer: &CStr) -> io::Result<OwnedFd> {
        if let Some(copy) = find(&self.copies, layer.to_bytes()) {
            return copy_tree(copy);
        }
        let source = Path::new(OsStr::from_bytes(layer.to_bytes()));
        let state = self.state.clone().ok_or(io::ErrorKind::Unsupported)?;
        if !source.starts_with(&state) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let target = self.mounted(&state)?.join(self.copies.len().to_string());
        copy(source, &target)?;
        let target = CString::new(target.into_os_string().into_encoded_bytes())?;
        let tree = copy_tree(&target)?;
        self.copies.push((layer.to_owned(), target));
        Ok(tree)
    }

    fn mounted(&mut self, state: &Path) -> io::Result<PathBuf> {
        if let Some(mounted) = &self.mounted {
            return Ok(mounted.clone());
        }
        let folder = state.join("shelf");
        match fs::create_dir(&folder) {
            // Of a launcher that was killed; what it had mounted there has gone with it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        unshare(UnshareFlags::NEWNS)?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let tmpfs = FileSystem::new(c"tmpfs")?;
        tmpfs.set(c"size", SIZE)?;
        let tree = tmpfs.mount(MountAttrFlags::empty())?;
        attach(tree, &CString::new(folder.as_os_str().as_bytes())?)?;
        self.mounted = Some(folder.clone());
        Ok(folder)
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        // The folder below has to be removed by the clean-up.
        if let Some(mounted) = &self.mounted {
            let _ = unmount(mounted, UnmountFlags::DETACH);
        }
    }
}

fn find<'a>(known: &'a [(CString, CString)], layer: &[u8]) -> Option<&'a CStr> {
    let found = known.iter().find(|(name, _)| name.as_bytes() == layer);
    found.map(|(_, source)| source.as_c_str())
}

/// Copies a tree of folders, files and links with modes and owners. Anything else in it is left out.
fn copy(source: &Path, target: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(source)?;
    if meta.is_symlink() {
        symlink(fs::read_link(source)?, target)?;
    } else if meta.is_dir() {
        fs::create_dir(target)?;
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            copy(&entry.path(), &target.join(entry.file_name()))?;
        }
    } else if meta.is_file() {
        fs::copy(source, target)?;
    } else {
        return Ok(());
    }
    lchown(target, Some(meta.uid()), Some(meta.gid()))?;
    if !meta.is_symlink() {
        // After the owner, whose change takes the set-id bits away.
        fs::set_permissions(target, meta.permissions())?;
    }
    Ok(())
}
