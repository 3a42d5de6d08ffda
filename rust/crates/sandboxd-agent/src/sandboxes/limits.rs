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
/// small to work.
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
    Ok(v1::Limits {
        memory_bytes: one(memory, requested.memory_bytes, defaults.memory_bytes, capabilities)?,
        pids: one(pids, requested.pids, defaults.pids, capabilities)?,
        cpu_millis: one(cpu, requested.cpu_millis, defaults.cpu_millis, capabilities)?,
        disk_bytes: one(disk, requested.disk_bytes, defaults.disk_bytes, capabilities)?,
        // Counted by the agent itself: every host can.
        output_bytes,
    })
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
