//! Errors of sandboxes that could not be made.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::io::Errno;
use sandboxd_linux::protocol::{Failure, Step};
use sandboxd_proto::{CallError, ErrorCode};

/// The error for a step of the launcher or of init that failed.
pub(super) fn launch_failed(sandbox_id: &str, failure: &Failure) -> CallError {
    let step = match failure.step {
        Step::Namespaces => "namespaces",
        Step::IdMap => "id_map",
        Step::Cgroup => "cgroup",
        Step::Mount => "mount",
        Step::Network => "network",
        Step::Capabilities => "capabilities",
        Step::Seccomp => "seccomp",
        Step::Fork => "fork",
        Step::Other
        | Step::Table
        | Step::User
        | Step::Directory
        | Step::Program
        | Step::Descriptor => "other",
    };
    let error = io::Error::from_raw_os_error(failure.errno);
    let operand = if failure.detail.is_empty() { "" } else { ": " };
    let detail = &failure.detail;
    let remedy = remedy(failure);
    let message =
        format!("sandbox {sandbox_id:?} cannot be made: {step}{operand}{detail}: {error}{remedy}");
    CallError::new(ErrorCode::LaunchFailed, message).with_reason(step)
}

/// The error for an init that ended before the sandbox stood, without a word.
pub(super) fn ended_early(sandbox_id: &str, status: i32) -> CallError {
    let status = ExitStatus::from_raw(status);
    let message = format!(
        "sandbox {sandbox_id:?} cannot be made: its init ended ({status}) before it stood; with a \
         small memory limit, give more"
    );
    CallError::new(ErrorCode::LaunchFailed, message).with_reason("other")
}

/// What to change, where the error says that a limit of the kernel is met.
fn remedy(failure: &Failure) -> &'static str {
    match (failure.step, Errno::from_raw_os_error(failure.errno)) {
        (Step::Namespaces, Errno::NOSPC) => {
            "; raise user.max_user_namespaces and its likes for other namespaces by sysctl"
        }
        (Step::Namespaces, Errno::PERM) => {
            "; allow user namespaces, with user.max_user_namespaces above 0 and, within a \
             container, clone3 and unshare in its seccomp and AppArmor profiles"
        }
        (Step::Mount, Errno::NOSPC) => "; raise fs.mount-max by sysctl",
        (Step::IdMap, Errno::AGAIN) => "; release some sandboxes",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_step_operand_and_what_to_change() {
        let failure = |step, errno: Errno, detail: &str| {
            launch_failed(
                "a",
                &Failure { step, errno: errno.raw_os_error(), detail: detail.to_owned() },
            )
        };
        let error = failure(Step::Mount, Errno::NOENT, "/opt/layer");
        assert_eq!((error.code, error.reason.as_str()), (ErrorCode::LaunchFailed, "mount"));
        assert!(error.message.contains("mount: /opt/layer: No such file"), "{error}");
        for errno in [Errno::NOSPC, Errno::PERM] {
            let error = failure(Step::Namespaces, errno, "");
            assert!(error.message.contains("max_user_namespaces"), "{error}");
        }
    }

    #[test]
    fn an_init_that_says_nothing_is_described_by_its_end() {
        let error = ended_early("a", 9);
        assert_eq!(error.code, ErrorCode::LaunchFailed);
        assert!(error.message.contains("signal: 9"), "{error}");
    }
}
