//! The harmless part of `/etc`: what programs need to run, and nothing that is about the machine.
//!
//! By an allow list: whatever is not named here is not in a sandbox. On top of that a file is left
//! out unless every user of the machine may read it, so that a secret in an expected place stays
//! out as well. Accounts, name service and hosts are written anew: they would name the people and
//! the networks of the machine.

use std::fs::{self, DirEntry};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use super::accounts;

/// Files to copy.
const FILES: &[&str] = &[
    "adduser.conf",
    "alpine-release",
    "arch-release",
    "bash.bashrc",
    "ca-certificates.conf",
    "debian_version",
    "deluser.conf",
    "fedora-release",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "magic.mime",
    "manpath.config",
    "mime.types",
    "mke2fs.conf",
    "mtab",
    "netconfig",
    "networks",
    "os-release",
    "pam.conf",
    "profile",
    "protocols",
    "redhat-release",
    "rpc",
    "services",
    "shells",
    "system-release",
    "timezone",
    "ucf.conf",
    "xattr.conf",
];

/// Directories to copy with everything in them, a trailing `*` standing for any ending.
const FOLDERS: &[&str] = &[
    "ImageMagick-*",
    "R",
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "emacs",
    "fonts",
    "gdb",
    "groff",
    "java*",
    "ld.so.conf.d",
    "maven",
    "pam.d",
    "perl",
    "pki",
    "python*",
    "security",
    "sgml",
    "skel",
    "ssl",
    "terminfo",
    "texmf",
    "vim",
    "xdg",
    "xml",
];

/// Names that are left out wherever they are: places for keys, and for settings that commonly have
/// passwords or addresses of a company in them although everybody may read them.
const NEVER: &[&str] = &[
    "Renviron.site",
    "Rprofile.site",
    "consumer",
    "entitlement",
    "nssdb",
    "opasswd",
    "pam_env.conf",
    "private",
    "settings-security.xml",
    "settings.xml",
];

/// Largest file that is copied. The largest wanted one is a bundle of certificates (230 KiB).
const MAX_FILE: u64 = 2 * 1024 * 1024;

/// Bounds of the whole copy: it is made at every start of an agent, often in memory.
const MAX_BYTES: u64 = 32 * 1024 * 1024;
const MAX_ENTRIES: usize = 8_192;

/// Copies what is harmless in `from` to the existing directory `to`, and writes the rest.
///
/// # Errors
///
/// If `to` cannot be written. What cannot be read in `from` is left out.
pub(super) fn populate(from: &Path, to: &Path) -> io::Result<()> {
    let mut copy = Copy { bytes: MAX_BYTES, entries: MAX_ENTRIES };
    for entry in sorted(from) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let wanted = if is_folder { FOLDERS } else { FILES };
        if wanted.iter().any(|pattern| matches(pattern, &name)) {
            copy.entry(&entry, &to.join(&*name))?;
        }
    }
    let contents = |name: &str| fs::read_to_string(from.join(name)).unwrap_or_default();
    write(&to.join("passwd"), &accounts::users(&contents("passwd")))?;
    write(&to.join("group"), &accounts::groups(&contents("group")))?;
    write(&to.join("nsswitch.conf"), NSSWITCH)?;
    write(&to.join("hosts"), HOSTS)?;
    write(&to.join("hostname"), "sandbox\n")?;
    // There is no network, so there is no name server either.
    write(&to.join("resolv.conf"), "")
}

const NSSWITCH: &str = "\
passwd: files
group: files
shadow: files
hosts: files dns
networks: files
protocols: files
services: files
rpc: files
";

const HOSTS: &str = "\
127.0.0.1 localhost sandbox
::1 localhost ip6-localhost ip6-loopback
";

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}

/// Sorted, so that the same part is left out each time where bounds are met.
fn sorted(folder: &Path) -> Vec<DirEntry> {
    let mut entries: Vec<DirEntry> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    entries.sort_by_key(DirEntry::file_name);
    entries
}

/// A copy under way, with what it may still take.
struct Copy {
    bytes: u64,
    entries: usize,
}

impl Copy {
    fn entry(&mut self, entry: &DirEntry, to: &Path) -> io::Result<()> {
        let name = entry.file_name();
        if NEVER.iter().any(|never| name == *never) {
            return Ok(());
        }
        let Some(entries) = self.entries.checked_sub(1) else { return Ok(()) };
        self.entries = entries;
        let Ok(kind) = entry.file_type() else { return Ok(()) };
        if kind.is_dir() {
            self.folder(&entry.path(), to)
        } else if kind.is_symlink() {
            link(&entry.path(), to)
        } else if kind.is_file() {
            self.file(&entry.path(), to)
        } else {
            Ok(())
        }
    }

    fn folder(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let readable =
            fs::metadata(from).is_ok_and(|found| found.permissions().mode() & 0o5 == 0o5);
        if !readable {
            return Ok(());
        }
        fs::create_dir(to)?;
        for entry in sorted(from) {
            self.entry(&entry, &to.join(entry.file_name()))?;
        }
        Ok(())
    }

    fn file(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        // Not followed and not waited for: whoever may write in /etc may also swap a file for a
        // FIFO in this moment.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = flags.bits().cast_signed();
        let Ok(source) = fs::OpenOptions::new().read(true).custom_flags(flags).open(from) else {
            return Ok(());
        };
        let Ok(found) = source.metadata() else { return Ok(()) };
        let mode = found.permissions().mode();
        let size = found.len();
        if !found.is_file() || mode & 0o4 == 0 || size > MAX_FILE || size > self.bytes {
            return Ok(());
        }
        self.bytes -= size;
        let mut text = Vec::new();
        // Most are a page or less: one read and one write are less work than any copying call.
        if source.take(size).read_to_end(&mut text).is_err() {
            return Ok(());
        }
        let mode = 0o644 | (mode & 0o111);
        let mut copy = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
        copy.write_all(&text)
    }
}

/// Copies a link that stays within what a sandbox has.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    // Each doubles a certificate of the bundle beside it, or leads to a manual page. On a
    // developer's machine these are nine tenths of all links, and half of the time to copy.
    if from.starts_with("/etc/ssl/certs") || from.extension().is_some_and(|ending| ending == "gz") {
        return Ok(());
    }
    let Ok(target) = fs::read_link(from) else { return Ok(()) };
    let inside = target.is_relative()
        || ["/usr", "/etc", "/proc"].iter().any(|folder| target.starts_with(folder));
    if inside { symlink(target, to) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// An `/etc` as an attacker would like to see it copied.
    fn machine() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("etc"), folder.path().join("copy"));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&to).unwrap();
        (folder, from, to)
    }

    fn file(path: &Path, text: &str, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn nothing_that_is_not_on_the_list_is_copied() {
        let (_folder, from, to) = machine();
        let secrets = [
            "shadow",
            "shadow-",
            "gshadow",
            "sudoers",
            "machine-id",
            "fstab",
            "environment",
            "pip.conf",
            "npmrc",
            "gitconfig",
            "wgetrc",
            "ssh/ssh_host_key",
            "apt/auth.conf",
            "docker/daemon.json",
            "cron.d/job",
            "profile.d/proxy.sh",
            "default/service",
            "kubernetes/admin.conf",
            "wireguard/wg0.conf",
            "hosts.allow",
            "crontab",
        ];
        for secret in secrets {
            file(&from.join(secret), "secret", 0o644);
        }
        file(&from.join("services"), "http 80/tcp", 0o644);
        populate(&from, &to).unwrap();
        for secret in secrets {
            assert!(!to.join(secret).exists(), "{secret}");
        }
        assert_eq!(fs::read_to_string(to.join("services")).unwrap(), "http 80/tcp");
    }

    #[test]
    fn a_secret_in_an_expected_place_is_not_copied() {
        let (_folder, from, to) = machine();
        file(&from.join("ssl/private/key.pem"), "secret", 0o644);
        file(&from.join("ssl/certs/own.key"), "secret", 0o640);
        file(&from.join("ssl/certs/ca.crt"), "public", 0o644);
        file(&from.join("security/opasswd"), "secret", 0o644);
        file(&from.join("maven/settings.xml"), "secret", 0o644);
        file(&from.join("python3/closed/token"), "secret", 0o644);
        let closed = from.join("python3/closed");
        fs::set_permissions(closed, fs::Permissions::from_mode(0o700)).unwrap();
        populate(&from, &to).unwrap();
        assert!(to.join("ssl/certs/ca.crt").exists());
        for secret in [
            "ssl/private",
            "ssl/certs/own.key",
            "security/opasswd",
            "python3/closed",
            "maven/settings.xml",
        ] {
            assert!(!to.join(secret).exists(), "{secret}");
        }
    }

    #[test]
    fn links_out_of_what_a_sandbox_has_are_not_copied_and_never_followed() {
        let (folder, from, to) = machine();
        let outside = folder.path().join("outside");
        file(&outside, "secret", 0o644);
        symlink(&outside, from.join("services")).unwrap();
        symlink("/usr/share/zoneinfo/UTC", from.join("localtime")).unwrap();
        fs::create_dir(from.join("ssl")).unwrap();
        symlink(folder.path(), from.join("ssl/certs")).unwrap();
        populate(&from, &to).unwrap();
        assert!(fs::symlink_metadata(to.join("services")).is_err());
        assert!(fs::symlink_metadata(to.join("ssl/certs")).is_err());
        let zone = fs::read_link(to.join("localtime")).unwrap();
        assert_eq!(zone, Path::new("/usr/share/zoneinfo/UTC"));
    }

    #[test]
    fn devices_pipes_and_files_beyond_the_bound_are_left_out() {
        let (_folder, from, to) = machine();
        file(&from.join("services"), "", 0o644);
        fs::File::options()
            .write(true)
            .open(from.join("services"))
            .unwrap()
            .set_len(MAX_FILE + 1)
            .unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, from.join("protocols"), 0o644.into()).unwrap();
        populate(&from, &to).unwrap();
        assert!(!to.join("services").exists());
        assert!(!to.join("protocols").exists());
    }
}
