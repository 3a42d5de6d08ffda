//! What a grader sees: layers of its sandbox, in another order.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandboxd_linux::protocol::LayeredMount;

use crate::files::{Protected, SYSTEM};
use crate::sandboxes::Enclosure;

/// Number of the protected files among the mounts of an order.
const PROTECTED: &str = "0";

/// Where the sandbox's changes to its root are: init numbers the upper layers of its overlays, and that
/// of the root comes first.
const CHANGES: &str = "1/u0";

/// What the root of a grader is made of besides the template.
#[derive(Debug)]
pub(crate) struct View {
    protected: Arc<Protected>,
    enclosure: Arc<Enclosure>,
}

impl View {
    /// Of a sandbox and its protected files. `None` if the kernel cannot show the writable layer of one
    /// sandbox to another.
    pub(super) fn new(protected: Arc<Protected>, enclosure: Arc<Enclosure>) -> Option<Self> {
        enclosure.disk.is_some().then_some(Self { protected, enclosure })
    }

    /// The mounts that layers of [`Self::root`] lie on, by number.
    pub(crate) fn bases(&self) -> impl Iterator<Item = &OwnedFd> {
        [Some(self.protected.mount()), self.enclosure.disk.as_ref()].into_iter().flatten()
    }

    /// The root, for a sandbox whose template has the root `template`.
    ///
    /// Protected files come first, so that a directory of theirs hides whatever else has its name.
    /// The sandbox's changes come second, and only to what the template does not bring programs in:
    /// they are left out where the template has a mount of its own, such as `/usr`, and in [`SYSTEM`].
    pub(crate) fn root(template: Vec<LayeredMount>) -> Vec<LayeredMount> {
        let mut root = Vec::with_capacity(template.len() + SYSTEM.len());
        let mut system = Vec::with_capacity(SYSTEM.len());
        for LayeredMount { target, layers } in template {
            let beneath = target.strip_prefix("/").unwrap_or(&target);
            let is_base = beneath.as_os_str().is_empty();
            let mut all = vec![protected(beneath)];
            if is_base {
                all.push(CHANGES.into());
                system.extend(SYSTEM.map(|name| {
                    let own = layers.iter().map(|layer| layer.join(name));
                    let layers = own.filter(|folder| folder.is_dir());
                    let layers = [protected(name.as_ref())].into_iter().chain(layers).collect();
                    LayeredMount { target: Path::new("/").join(name), layers }
                }));
            }
            all.extend(layers);
            root.push(LayeredMount { target, layers: all });
        }
        root.extend(system);
        root
    }
}

fn protected(beneath: &Path) -> PathBuf {
    if beneath.as_os_str().is_empty() {
        return PROTECTED.into();
    }
    Path::new(PROTECTED).join(beneath)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(mount: &LayeredMount) -> Vec<&str> {
        mount.layers.iter().filter_map(|layer| layer.to_str()).collect()
    }

    #[test]
    fn z13_protected_files_are_on_top_and_changes_to_programs_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let layer = folder.path();
        std::fs::create_dir(layer.join("etc")).unwrap();
        let template = vec![
            LayeredMount { target: "/".into(), layers: vec![layer.to_owned()] },
            LayeredMount { target: "/usr".into(), layers: vec!["/usr".into()] },
        ];
        let root = View::root(template);
        let targets: Vec<_> = root.iter().map(|mount| mount.target.to_str().unwrap()).collect();
        assert_eq!(targets, ["/", "/usr", "/etc", "/sys"]);
        let own = layer.to_str().unwrap();
        assert_eq!(paths(&root[0]), ["0", "1/u0", own]);
        assert_eq!(paths(&root[1]), ["0/usr", "/usr"]);
        assert_eq!(paths(&root[2]), ["0/etc", &format!("{own}/etc")]);
        assert_eq!(paths(&root[3]), ["0/sys"], "what the template does not have");
    }
}
