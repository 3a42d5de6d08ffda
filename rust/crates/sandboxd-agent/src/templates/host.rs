//! The template `host`: the machine's programs, and nothing else of the machine.
//!
//! Its root is a small layer made by the agent at its start, and the machine's `/usr` (and `/bin`,
//! `/lib` and so on where they are not links into it) as read-only layers of their own.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use sandboxd_linux::protocol::LayeredMount;

use super::etc;

/// Where programs are, next to `/usr`.
const PROGRAMS: &[&str] = &["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Directories of the layer that everybody may enter.
const FOLDERS: &[&str] = &[
    "dev",
    "etc",
    "home",
    "media",
    "mnt",
    "opt",
    "proc",
    "run",
    "srv",
    "sys",
    "usr",
    "var",
    "var/cache",
    "var/lib",
    "var/local",
    "var/log",
    "var/mail",
    "var/opt",
    "var/spool",
];

/// Directories with other permissions.
const SPECIAL: &[(&str, u32)] =
    &[("root", 0o700), ("tmp", 0o1777), ("var/tmp", 0o1777), ("run/lock", 0o1777)];

/// Makes the layer at `layer`, which must not exist, for a machine whose root is `machine`, and
/// returns the pieces of the template's root.
///
/// # Errors
///
/// If the layer cannot be written.
pub(super) fn make(machine: &Path, layer: &Path) -> io::Result<Vec<LayeredMount>> {
    folder(layer, 0o755)?;
    for name in FOLDERS {
        folder(&layer.join(name), 0o755)?;
    }
    for (name, mode) in SPECIAL {
        folder(&layer.join(name), *mode)?;
    }
    symlink("/run", layer.join("var/run"))?;
    symlink("/run/lock", layer.join("var/lock"))?;
    etc::populate(&machine.join("etc"), &layer.join("etc"))?;
    let mut root = vec![
        LayeredMount { target: "/".into(), layers: vec![layer.to_owned()] },
        LayeredMount { target: "/usr".into(), layers: vec![machine.join("usr")] },
    ];
    for name in PROGRAMS {
        let original = machine.join(name);
        if let Ok(target) = fs::read_link(&original) {
            if is_in_usr(&target) {
                symlink(target, layer.join(name))?;
            }
        } else if original.is_dir() {
            folder(&layer.join(name), 0o755)?;
            let target = Path::new("/").join(name);
            root.push(LayeredMount { target, layers: vec![original] });
        }
    }
    Ok(root)
}

/// Makes the layer that tells programs they have `cpus` processors, to lie on top of the other one.
///
/// # Errors
///
/// If the layer cannot be written.
pub(super) fn make_cpus(layer: &Path, cpus: usize) -> io::Result<()> {
    let folder = layer.join("sys/devices/system/cpu");
    DirBuilder::new().recursive(true).mode(0o755).create(&folder)?;
    let last = cpus.saturating_sub(1);
    let list = if last == 0 { "0\n".to_owned() } else { format!("0-{last}\n") };
    for name in ["online", "possible", "present"] {
        fs::write(folder.join(name), &list)?;
    }
    Ok(())
}

fn folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)?;
    // Not what `mkdir` leaves of it: the umask is the caller's, and the sticky bit is dropped.
    if mode == 0o755 { Ok(()) } else { fs::set_permissions(path, Permissions::from_mode(mode)) }
}

fn is_in_usr(target: &Path) -> bool {
    let inside = target.starts_with("usr") || target.starts_with("/usr");
    inside && !target.components().any(|part| part.as_os_str() == "..")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::path::PathBuf;

    use super::*;

    fn made_for(machine: &Path) -> (tempfile::TempDir, PathBuf, Vec<LayeredMount>) {
        let parent = tempfile::tempdir().unwrap();
        let layer = parent.path().join("host");
        let root = make(machine, &layer).unwrap();
        (parent, layer, root)
    }

    #[test]
    fn nothing_of_the_machine_but_its_programs_is_in_it() {
        let (_parent, layer, root) = made_for(Path::new("/"));
        for empty in ["home", "root", "var/lib", "var/log", "run/lock", "opt", "srv", "mnt", "dev"]
        {
            assert_eq!(fs::read_dir(layer.join(empty)).unwrap().count(), 0, "{empty}");
        }
        let layers = root.iter().flat_map(|mount| &mount.layers);
        for path in layers.filter(|path| **path != layer) {
            let name = path.strip_prefix("/").unwrap().to_str().unwrap();
            assert!(name == "usr" || PROGRAMS.contains(&name), "{}", path.display());
        }
        for secret in ["shadow", "gshadow", "sudoers", "ssh", "machine-id", "apt", "cron.d"] {
            assert!(!layer.join("etc").join(secret).exists(), "{secret}");
        }
    }

    #[test]
    fn no_setuid_file_and_nothing_writable_by_others_is_in_it() {
        let (_parent, layer, _root) = made_for(Path::new("/"));
        let open: Vec<_> = SPECIAL.iter().map(|(name, _)| layer.join(name)).collect();
        let mut stack = vec![layer];
        while let Some(folder) = stack.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let found = fs::symlink_metadata(entry.path()).unwrap();
                if found.is_dir() {
                    stack.push(entry.path());
                }
                if found.is_symlink() || open.contains(&entry.path()) {
                    continue;
                }
                assert_eq!(found.mode() & 0o6022, 0, "{}", entry.path().display());
            }
        }
    }

    #[test]
    fn folders_have_the_permissions_programs_expect() {
        let (_parent, layer, _root) = made_for(Path::new("/"));
        for (name, mode) in SPECIAL {
            let found = fs::metadata(layer.join(name)).unwrap();
            assert_eq!(found.mode() & 0o7777, *mode, "{name}");
        }
    }

    #[test]
    fn a_machine_that_is_not_merged_gets_a_mount_for_each_program_folder() {
        let machine = tempfile::tempdir().unwrap();
        for name in ["usr", "bin", "lib", "etc"] {
            fs::create_dir(machine.path().join(name)).unwrap();
        }
        symlink("usr/sbin", machine.path().join("sbin")).unwrap();
        symlink("/somewhere/else", machine.path().join("lib64")).unwrap();
        let (_parent, layer, root) = made_for(machine.path());
        let targets: Vec<_> = root.iter().map(|mount| mount.target.to_str().unwrap()).collect();
        assert_eq!(targets, ["/", "/usr", "/bin", "/lib"]);
        assert_eq!(fs::read_link(layer.join("sbin")).unwrap(), Path::new("usr/sbin"));
        assert!(fs::symlink_metadata(layer.join("lib64")).is_err());
    }

    #[test]
    fn the_number_of_processors_is_what_it_is_told() {
        for (cpus, list) in [(1, "0\n"), (3, "0-2\n")] {
            let layer = tempfile::tempdir().unwrap();
            make_cpus(layer.path(), cpus).unwrap();
            let online = layer.path().join("sys/devices/system/cpu/online");
            assert_eq!(fs::read_to_string(online).unwrap(), list);
        }
    }
}
