//! Where this process's groups are, from two texts of `/proc`.

use std::path::{Path, PathBuf};

/// The hierarchies that matter here, each as the directory of the process's own group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// v1 hierarchies by controller: `memory`, `pids`, `cpu`, `freezer`.
    pub v1: Vec<(String, PathBuf)>,
    /// The v2 hierarchy, on a hybrid machine as well.
    pub v2: Option<PathBuf>,
    /// The top of the v2 hierarchy, if it can be seen from here.
    pub v2_top: Option<PathBuf>,
}

/// Controllers of v1 that are of use; others of a machine are left alone.
const USED: [&str; 4] = ["memory", "pids", "cpu", "freezer"];

impl Layout {
    /// Reads `/proc/self/mountinfo` and `/proc/self/cgroup`. A group that lies outside of what is
    /// mounted, as seen from a foreign cgroup namespace, is left out.
    #[must_use]
    pub fn parse(mountinfo: &str, cgroup: &str) -> Self {
        let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::parse).collect();
        let mut layout = Self::default();
        for line in cgroup.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(id), Some(controllers), Some(own)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if id == "0" && controllers.is_empty() {
                let v2 = mounts.iter().filter(|mount| mount.kind == "cgroup2");
                layout.v2 = v2.clone().find_map(|mount| mount.directory(own));
                layout.v2_top = v2.clone().find_map(|mount| mount.directory("/"));
                continue;
            }
            for controller in controllers.split(',').filter(|name| USED.contains(name)) {
                let directory = mounts
                    .iter()
                    .filter(|mount| mount.kind == "cgroup" && mount.has_option(controller))
                    .find_map(|mount| mount.directory(own));
                layout.v1.extend(directory.map(|directory| (controller.to_owned(), directory)));
            }
        }
        layout
    }

    /// The layout of this process.
    ///
    /// # Errors
    ///
    /// If `/proc` is not mounted.
    pub fn of_this_process() -> std::io::Result<Self> {
        let mountinfo = std::fs::read_to_string("/proc/self/mountinfo")?;
        Ok(Self::parse(&mountinfo, &std::fs::read_to_string("/proc/self/cgroup")?))
    }

    /// The directory of a v1 controller.
    #[must_use]
    pub fn v1(&self, controller: &str) -> Option<&Path> {
        let found = self.v1.iter().find(|(name, _)| name == controller);
        found.map(|(_, directory)| directory.as_path())
    }
}

struct Mount<'a> {
    root: &'a str,
    point: PathBuf,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, super_block) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let root = fields.next()?;
        let point = fields.next()?;
        let mut super_block = super_block.split(' ');
        let kind = super_block.next()?;
        let options = super_block.nth(1)?;
        Some(Self { root, point: unescape(point), kind, options })
    }

    fn has_option(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option == name)
    }

    /// Where the group `own` is seen through this mount.
    fn directory(&self, own: &str) -> Option<PathBuf> {
        let beneath = Path::new(own).strip_prefix(self.root).ok()?;
        // `/../..` is how a group outside of the namespace's root is shown.
        if beneath.components().any(|part| part == std::path::Component::ParentDir) {
            return None;
        }
        Some(if beneath.as_os_str().is_empty() {
            self.point.clone()
        } else {
            self.point.join(beneath)
        })
    }
}

/// The kernel writes space, tab, newline and backslash in octal.
fn unescape(path: &str) -> PathBuf {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(path.to_owned(), |path, (code, plain)| path.replace(code, plain))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

    #[test]
    fn a_hybrid_machine_has_controllers_on_v1_and_a_bare_v2() {
        let own = "9:name=systemd:/\n8:pids:/\n4:memory:/jobs/7\n6:freezer:/\n1:cpu:/\n0::/";
        let layout = Layout::parse(HYBRID, own);
        assert_eq!(layout.v1("memory"), Some(Path::new("/sys/fs/cgroup/memory/jobs/7")));
        assert_eq!(layout.v1("cpu"), Some(Path::new("/sys/fs/cgroup/cpu")));
        assert_eq!(layout.v2.as_deref(), Some(Path::new("/sys/fs/cgroup/unified")));
    }

    #[test]
    fn systemd_machines_of_v1_join_cpu_with_cpuacct_and_bind_a_container_group() {
        let mountinfo = "\
1 0 0:1 /docker/4f /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct
2 0 0:2 /docker/4f /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory";
        let own = "4:cpu,cpuacct:/docker/4f\n3:memory:/docker/4f/inner\n";
        let layout = Layout::parse(mountinfo, own);
        assert_eq!(layout.v1("cpu"), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct")));
        assert_eq!(layout.v1("memory"), Some(Path::new("/sys/fs/cgroup/memory/inner")));
        assert_eq!(layout.v1.len(), 2, "cpuacct is not used");
        assert_eq!(layout.v2, None);
    }

    #[test]
    fn a_v2_machine_has_one_hierarchy() {
        let mountinfo = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot";
        let own = "0::/user.slice/user-1000.slice/session-2.scope\n";
        let layout = Layout::parse(mountinfo, own);
        let expected = "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope";
        assert_eq!(layout.v2.as_deref(), Some(Path::new(expected)));
        assert_eq!(layout.v2_top.as_deref(), Some(Path::new("/sys/fs/cgroup")));
        assert!(layout.v1.is_empty());
    }

    #[test]
    fn a_group_outside_of_the_namespace_cannot_be_reached() {
        let mountinfo = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        assert_eq!(Layout::parse(mountinfo, "0::/../../other\n").v2, None);
        let mountinfo = "30 23 0:26 /kubepods/a /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        assert_eq!(Layout::parse(mountinfo, "0::/kubepods/b\n"), Layout::default());
    }

    #[test]
    fn nonsense_gives_nothing() {
        assert_eq!(Layout::parse("a b\n - \n", "x\n1:2\n::\n"), Layout::default());
    }

    #[test]
    fn mount_points_with_spaces_are_understood() {
        let mountinfo = "30 23 0:26 / /mnt/a\\040b rw - cgroup2 none rw";
        let layout = Layout::parse(mountinfo, "0::/x");
        assert_eq!(layout.v2.as_deref(), Some(Path::new("/mnt/a b/x")));
    }
}
