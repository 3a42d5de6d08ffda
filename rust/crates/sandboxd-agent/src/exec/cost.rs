//! What an exec has cost.
//!
//! Of its CPU time the kernel keeps two counts. One comes with the end of the main process, and leaves
//! out what that did not wait for: orphans, and all that is killed with it. The other one is of the
//! leaf, and has everything, but takes as long to read as a tenth of what a short exec costs.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use sandboxd_linux::cgroup::Leaf;
use sandboxd_linux::protocol::Usage;

/// An exec that ends by itself within this time has what its main process and the children it waited
/// for used. Others cannot have used much yet.
const SHORT: Duration = Duration::from_millis(20);

/// Whether this kernel counts what processes read and write (`CONFIG_TASK_IO_ACCOUNTING`); without,
/// there would be zeroes.
static COUNTS_BLOCKS: LazyLock<bool> = LazyLock::new(|| Path::new("/proc/self/io").exists());

/// CPU time of all processes of an exec that is over after `duration`. `whole`: whatever that takes,
/// because something may have been killed, or a limit has to be compared with.
pub(crate) fn cpu_time(
    leaf: Option<&mut Leaf>,
    usage: &Usage,
    duration: Duration,
    whole: bool,
) -> Duration {
    let main = usage.cpu_nanos;
    let Some(leaf) = leaf else { return Duration::from_nanos(main) };
    let all = if whole || duration > SHORT { leaf.used_nanos() } else { None };
    // Two clocks of the kernel: the one of the leaf is behind by a moment at times.
    let all = all.unwrap_or_default().max(main);
    leaf.add_used(all);
    Duration::from_nanos(all)
}

/// Bytes read from and written to block devices by the main process and the children it waited for.
pub(crate) fn io_bytes(usage: &Usage) -> Option<(u64, u64)> {
    COUNTS_BLOCKS.then_some((usage.read_bytes, usage.write_bytes))
}
