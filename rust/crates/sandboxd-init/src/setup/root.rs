//! The file system of the sandbox.
//!
//! One tmpfs holds everything that can be written: the upper layers, `/dev/shm`, the mount points. It
//! is mounted over the mount point in our own mount namespace, so nothing of it exists outside, and
//! all paths below are relative to it.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, mkdirat};
use rustix::mount::MountAttrFlags;
use rustix::process::{chdir, fchdir};
use sandboxd_linux::mount::{
    FileSystem, attach, copy_beneath, copy_tree, enter_root, files_of_tmpfs,
};
use sandboxd_linux::protocol::{Failure, Step};

use super::plan::{Layer, Overlay, Plan};
use super::{devices, proc};
use crate::failure::At as _;

/// Mounts the whole tree and makes it the root. Returns the mount of the writable layer: attached
/// nowhere, if this kernel can copy it, so that a grader's root can be made from it.
pub(super) fn build(plan: &Plan<'_>) -> Result<OwnedFd, Failure> {
    let writable = enter_writable_layer(plan)?;
    let mut attributes = MountAttrFlags::empty();
    attributes.set(MountAttrFlags::MOUNT_ATTR_NOSUID, plan.nosuid);
    let mut layers = 0;
    for (index, overlay) in plan.root.iter().enumerate() {
        mount_overlay(index, &mut layers, overlay, attributes)?;
    }
    devices::mount(plan)?;
    proc::mount()?;
    chdir(c"root").at(Step::Mount)?;
    enter_root().at(Step::Mount)?;
    Ok(writable)
}

/// Mounts the tmpfs and goes into it. What is attached is a copy, where the kernel can make one: only a
/// mount that never was can be copied by others, and this one leaves the mount tree with the old root.
fn enter_writable_layer(plan: &Plan<'_>) -> Result<OwnedFd, Failure> {
    let tmpfs = FileSystem::new(c"tmpfs").at_path(Step::Mount, c"tmpfs")?;
    let set = |key: &CStr, value: &CStr| tmpfs.set(key, value).at_path(Step::Mount, c"tmpfs");
    set(c"size", &text(plan.disk_bytes.to_string()))?;
    set(c"nr_inodes", &text(files_of_tmpfs(plan.disk_bytes).to_string()))?;
    set(c"mode", c"0755")?;
    let tree = tmpfs.mount(MountAttrFlags::empty()).at_path(Step::Mount, c"tmpfs")?;
    let copy = copy_beneath(&tree, c"").ok();
    let attached = copy.as_ref().unwrap_or(&tree);
    attach(attached, &plan.mount_point).at_path(Step::Mount, &plan.mount_point)?;
    fchdir(attached).at(Step::Mount)?;
    make_directory(&text("root".into()))?;
    Ok(tree)
}

fn mount_overlay(
    index: usize,
    layers: &mut u32,
    overlay: &Overlay,
    attributes: MountAttrFlags,
) -> Result<(), Failure> {
    let target = &overlay.target;
    let mut lower = String::new();
    for layer in &overlay.layers {
        // Names of our own: they are short, and neither `:` nor `,` is in them.
        let name = format!("l{layers}");
        *layers += 1;
        attach_layer(layer, &text(name.clone()))?;
        if !lower.is_empty() {
            lower.push(':');
        }
        lower.push_str(&name);
    }
    let upper = text(format!("u{index}"));
    let work = text(format!("w{index}"));
    make_directory(&upper)?;
    make_directory(&work)?;
    let file_system = FileSystem::new(c"overlay").at_path(Step::Mount, c"overlay")?;
    let set = |key: &CStr, value: &CStr| file_system.set(key, value).at_path(Step::Mount, target);
    set(c"source", c"overlay")?;
    set(c"lowerdir", &text(lower))?;
    set(c"upperdir", &upper)?;
    set(c"workdir", &work)?;
    // `trusted.*` attributes are out of reach in a user namespace.
    file_system.set_flag(c"userxattr").at_path(Step::Mount, target)?;
    let tree = file_system.mount(attributes).at_path(Step::Mount, target)?;
    let path = beneath_root(target);
    attach(&tree, &path).at_path(Step::Mount, target)
}

/// Attaches a layer beside the writable layer: an overlay takes its layers from mounts of our own
/// namespace only, before kernel 6.15.
fn attach_layer(layer: &Layer, name: &CString) -> Result<(), Failure> {
    make_directory(name)?;
    let copied;
    let tree = if let Some(tree) = &layer.tree {
        tree
    } else {
        copied = copy_tree(&layer.path).at_path(Step::Mount, &layer.path)?;
        &copied
    };
    attach(tree, name).at_path(Step::Mount, &layer.path)
}

/// The path at which an absolute path of the sandbox is now.
fn beneath_root(target: &CString) -> CString {
    let mut path = b"root".to_vec();
    path.extend(target.as_bytes());
    CString::new(path).unwrap_or_default()
}

fn make_directory(name: &CString) -> Result<(), Failure> {
    mkdirat(rustix::fs::CWD, name, Mode::from_raw_mode(0o755)).at_path(Step::Mount, name)
}

/// For text of our own, which has no NUL in it.
fn text(text: String) -> CString {
    CString::new(text).unwrap_or_default()
}
