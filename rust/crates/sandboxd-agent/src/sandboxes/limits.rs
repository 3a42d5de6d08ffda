//! What a sandbox may use: what the claim asks for, else what the template says.

use sandboxd_proto::{CallError, ErrorCode, v1};

use crate::call::Answer;
use crate::capabilities::{Capabilities, Feature};

/// Enough for a shell; with less the sandbox would not even start.
const MIN_MEMORY: u64 = 8 * 1024 * 1024;
const MIN_DISK: u64 = 1024 * 1024;
/// Init and a shell with a child.
const MIN_PIDS: u32 = 4;
/// The kernel's smallest share: 1 ms of every 100 ms.
const MIN_CPU_MILLIS: u32 = 10;
/// What the memory limit has to leave above the files of the sandbox, which are memory too: for a
/// shell, for the kernel's notes about files, and so that files alone do not make it kill somebody.
/// Of a small limit at most half.
const BESIDE_FILES: u64 = 16 * 1024 * 1024;
/// A pebibyte: more is a mistake, and would overflow the kernel's page counters.
const MAX_BYTES: u64 = 1 << 50;

/// The limits of a new sandbox.
///
/// Defaults apply where the host can enforce them; a limit that was asked for is enforced, or the
/// claim is refused.
///
/// # Errors
///
/// `unsupported` when the host cannot enforce a requested limit, `invalid_argument` when one is too
/// small to work, or leaves no memory beside the files.
pub(crate) fn effective(
    requested: &v1::Limits,
    defaults: &v1::Limits,
    capabilities: &Capabilities,
) -> Answer<v1::Limits> {
    let memory = ("limits.memory_bytes", Feature::MemoryLimit, MIN_MEMORY, MAX_BYTES);
    let pids = ("limits.pids", Feature::PidsLimit, MIN_PIDS, 4_194_304);
    let cpu = ("limits.cpu_millis", Feature::CpuLimit, MIN_CPU_MILLIS, 10_000_000);
    let disk = ("limits.disk_bytes", Feature::DiskLimit, MIN_DISK, MAX_BYTES);
    let output_bytes = requested.output_bytes.or(defaults.output_bytes);
    if output_bytes == Some(0) {
        return Err(out_of_range("limits.output_bytes", "0", "1", "any"));
    }
    // Whichever of the two is asked for, the other one's default fits it.
    let default_memory = match (defaults.memory_bytes, requested.disk_bytes, defaults.disk_bytes) {
        (Some(memory), Some(asked), Some(disk)) => {
            Some(memory.saturating_add(asked.saturating_sub(disk)))
        }
        (memory, _, _) => memory,
    };
    let memory_bytes = one(memory, requested.memory_bytes, default_memory, capabilities)?;
    let default_disk = match (memory_bytes, defaults.disk_bytes) {
        (Some(memory), Some(disk)) => Some(disk.min(memory / 2)),
        (_, disk) => disk,
    };
    let disk_bytes = one(disk, requested.disk_bytes, default_disk, capabilities)?;
    check_room_beside_files(memory_bytes, disk_bytes)?;
    Ok(v1::Limits {
        memory_bytes,
        pids: one(pids, requested.pids, defaults.pids, capabilities)?,
        cpu_millis: one(cpu, requested.cpu_millis, defaults.cpu_millis, capabilities)?,
        disk_bytes,
        // Counted by the agent itself: every host can.
        output_bytes,
    })
}

/// Files take memory of the sandbox: when they may take all of it, writing one kills a program instead
/// of failing.
fn check_room_beside_files(memory: Option<u64>, disk: Option<u64>) -> Answer<()> {
    let (Some(memory), Some(disk)) = (memory, disk) else { return Ok(()) };
    let most = memory - BESIDE_FILES.min(memory / 2);
    if disk <= most {
        return Ok(());
    }
    let enough = disk + BESIDE_FILES.max(MIN_MEMORY);
    let message = format!(
        "limits.disk_bytes is {disk} with a memory limit of {memory} bytes, which files count against: \
         give at most {most} bytes of disk, or at least {enough} bytes of memory"
    );
    Err(CallError::new(ErrorCode::InvalidArgument, message))
}

/// CPUs that a share needs: half a core still takes a whole CPU to run on.
pub(crate) const fn cpu_count(cpu_millis: u32) -> u32 {
    cpu_millis.div_ceil(1_000)
}

fn one<T: Copy + PartialOrd + ToString>(
    (field, feature, least, most): (&str, Feature, T, T),
    requested: Option<T>,
    default: Option<T>,
    capabilities: &Capabilities,
) -> Answer<Option<T>> {
    let Some(value) = requested else {
        return Ok(default.filter(|_| capabilities.has(feature)));
    };
    if value < least || value > most {
        let (value, least, most) = (value.to_string(), least.to_string(), most.to_string());
        return Err(out_of_range(field, &value, &least, &most));
    }
    capabilities.require(feature)?;
    Ok(Some(value))
}

fn out_of_range(field: &str, value: &str, least: &str, most: &str) -> CallError {
    let message = format!("{field} is {value}: the least is {least}, the most is {most}");
    CallError::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::Capability;

    fn host(available: bool) -> Capabilities {
        let features =
            [Feature::MemoryLimit, Feature::PidsLimit, Feature::CpuLimit, Feature::DiskLimit];
        let detail = "mount the controllers".to_owned();
        let probed = |feature| Capability { feature, available, detail: detail.clone() };
        Capabilities::new(features.map(probed).to_vec())
    }

    fn defaults() -> v1::Limits {
        v1::Limits { memory_bytes: Some(2 << 30), pids: Some(1024), ..Default::default() }
    }

    #[test]
    fn what_the_claim_asks_for_replaces_what_the_template_says() {
        let requested = v1::Limits { pids: Some(64), ..Default::default() };
        let limits = effective(&requested, &defaults(), &host(true)).unwrap();
        assert_eq!((limits.memory_bytes, limits.pids), (Some(2 << 30), Some(64)));
    }

    #[test]
    fn defaults_give_way_on_a_host_that_cannot_enforce_them() {
        let limits = effective(&v1::Limits::default(), &defaults(), &host(false)).unwrap();
        assert_eq!(limits, v1::Limits::default());
    }

    #[test]
    fn a_requested_limit_is_enforced_or_refused() {
        let requested = v1::Limits { cpu_millis: Some(500), ..Default::default() };
        let refusal = effective(&requested, &defaults(), &host(false)).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::Unsupported);
        assert!(refusal.message.contains("mount the controllers"), "{refusal}");
    }

    const MIB: u64 = 1 << 20;

    /// Memory and disk as the template `host` has them, of a claim that asks for these.
    fn effective_bytes(memory: Option<u64>, disk: Option<u64>) -> Answer<(u64, u64)> {
        let defaults = v1::Limits { disk_bytes: Some(1024 * MIB), ..defaults() };
        let requested = v1::Limits { memory_bytes: memory, disk_bytes: disk, ..Default::default() };
        let limits = effective(&requested, &defaults, &host(true))?;
        Ok((limits.memory_bytes.unwrap(), limits.disk_bytes.unwrap()))
    }

    #[test]
    fn whichever_of_memory_and_disk_is_asked_for_the_other_one_fits() {
        let cases = [
            ((None, None), (2048, 1024)),
            ((Some(1024), None), (1024, 512)),
            ((Some(256), None), (256, 128)),
            ((Some(8), None), (8, 4)),
            ((Some(64 * 1024), None), (64 * 1024, 1024)),
            ((None, Some(1024)), (2048, 1024)),
            ((None, Some(64)), (2048, 64)),
            ((None, Some(4096)), (5120, 4096)),
            ((Some(256), Some(240)), (256, 240)),
        ];
        for ((memory, disk), (expected_memory, expected_disk)) in cases {
            let mib = |value: Option<u64>| value.map(|value| value * MIB);
            let expected = (expected_memory * MIB, expected_disk * MIB);
            assert_eq!(effective_bytes(mib(memory), mib(disk)), Ok(expected));
        }
    }

    #[test]
    fn a_disk_that_leaves_no_memory_is_refused_with_what_would_fit() {
        let asked = [(Some(1024), Some(1024)), (Some(256), Some(250)), (Some(8), Some(6))];
        for (memory, disk) in asked {
            let mib = |value: Option<u64>| value.map(|value: u64| value * MIB);
            let refusal = effective_bytes(mib(memory), mib(disk)).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::InvalidArgument);
            let numbers: Vec<u64> =
                refusal.message.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [_, memory, fits, enough] = numbers[..] else { panic!("{refusal}") };
            assert_eq!(effective_bytes(Some(memory), Some(fits)), Ok((memory, fits)));
            let disk = mib(disk).unwrap();
            assert_eq!(effective_bytes(Some(enough), Some(disk)), Ok((enough, disk)));
        }
    }

    #[test]
    fn files_are_not_bound_to_a_memory_limit_that_nobody_enforces() {
        let capability =
            |feature, available| Capability { feature, available, detail: String::new() };
        let host = Capabilities::new(vec![
            capability(Feature::MemoryLimit, false),
            capability(Feature::DiskLimit, true),
        ]);
        let requested = v1::Limits { disk_bytes: Some(4096 * MIB), ..Default::default() };
        let limits = effective(&requested, &defaults(), &host).unwrap();
        assert_eq!((limits.memory_bytes, limits.disk_bytes), (None, Some(4096 * MIB)));
    }

    #[test]
    fn a_limit_too_small_to_start_with_is_refused_with_the_least() {
        let requested = v1::Limits { memory_bytes: Some(4096), ..Default::default() };
        let refusal = effective(&requested, &defaults(), &host(true)).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::InvalidArgument);
        assert!(refusal.message.contains("memory_bytes") && refusal.message.contains("8388608"));
    }

    #[test]
    fn part_of_a_core_needs_a_whole_cpu() {
        assert_eq!([1, 500, 1000, 1001].map(cpu_count), [1, 1, 1, 2]);
    }
}
