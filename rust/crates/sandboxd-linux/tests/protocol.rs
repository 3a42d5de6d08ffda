//! What agent, launcher and init say to each other survives the way, and nonsense does no harm.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use sandboxd_linux::protocol::{
    Containment, ExecRequest, Failure, FromInit, FromLauncher, Hello, IdRange, Launch,
    LayeredMount, Step, ToInit, ToInitView, Usage,
};

const STEPS: [Step; 14] = [
    Step::Namespaces,
    Step::IdMap,
    Step::Cgroup,
    Step::Mount,
    Step::Network,
    Step::Capabilities,
    Step::Seccomp,
    Step::Other,
    Step::Table,
    Step::Fork,
    Step::User,
    Step::Directory,
    Step::Program,
    Step::Descriptor,
];

fn failures() -> impl Strategy<Value = Failure> {
    (select(&STEPS), any::<i32>(), ".{0,40}").prop_map(|(step, errno, detail)| Failure {
        step,
        errno,
        detail,
    })
}

fn launches() -> impl Strategy<Value = Launch> {
    let mount =
        ("(/[a-z]{1,8}){1,3}", vec("(/[^/\0]{1,8}){1,3}", 0..4)).prop_map(|(target, layers)| {
            LayeredMount {
                target: target.into(),
                layers: layers.into_iter().map(Into::into).collect(),
            }
        });
    let numbers = (any::<u32>(), any::<u64>(), vec(any::<u32>(), 0..8), any::<[u32; 3]>());
    let flags = (any::<bool>(), any::<bool>());
    (numbers, flags, vec(mount, 0..4), "/.{0,40}", ".{0,20}").prop_map(
        |(numbers, (hardened, cgroup_directory), root, mount_point, hostname)| {
            let (number, disk_bytes, cpus, [processes, cgroup_tasks, bases]) = numbers;
            Launch {
                number,
                hardened,
                root,
                mount_point: mount_point.into(),
                disk_bytes,
                cpus,
                processes,
                hostname: hostname.into(),
                cgroup_tasks,
                cgroup_directory,
                bases,
            }
        },
    )
}

fn execs() -> impl Strategy<Value = ExecRequest> {
    let containment =
        select(&[Containment::CgroupDirectory, Containment::CgroupTasks, Containment::Subreaper]);
    let flags = any::<(bool, bool, bool, bool)>();
    let numbers = any::<(u32, u32, u32, u32, u32)>();
    (containment, flags, numbers, vec(any::<u32>(), 0..16), vec(any::<u8>(), 0..512)).prop_map(
        |(containment, flags, (exec, uid, gid, argc, envc), groups, payload)| {
            let (null_stdin, terminal, want_started, payload_in_memfd) = flags;
            ExecRequest {
                exec,
                containment,
                null_stdin,
                terminal,
                want_started,
                uid,
                gid,
                groups,
                argc,
                envc,
                payload,
                payload_in_memfd,
            }
        },
    )
}

proptest! {
    #[test]
    fn launches_arrive_as_sent(launch in launches()) {
        prop_assert_eq!(Launch::decode(&launch.encode()), Ok(launch));
    }

    #[test]
    fn answers_arrive_as_sent(
        number in any::<u32>(),
        pid in any::<u32>(),
        first in any::<u32>(),
        count in any::<u32>(),
        status in any::<i32>(),
        failure in failures(),
    ) {
        let ids = IdRange { first, count };
        for answer in [
            FromLauncher::Launched { number, pid, ids },
            FromLauncher::Failed { number, failure },
            FromLauncher::Ended { number, status },
        ] {
            prop_assert_eq!(FromLauncher::decode(&answer.encode()), Ok(answer));
        }
    }

    #[test]
    fn reports_arrive_as_sent(
        exec in any::<u32>(),
        pid in any::<u32>(),
        status in any::<i32>(),
        numbers in any::<[u64; 4]>(),
        failure in failures(),
    ) {
        let [cpu_nanos, peak_kib, read_bytes, write_bytes] = numbers;
        let usage = Usage { cpu_nanos, peak_kib, read_bytes, write_bytes };
        for report in [
            FromInit::Ready,
            FromInit::SetupFailed(failure.clone()),
            FromInit::Started { exec, pid },
            FromInit::StartFailed { exec, failure },
            FromInit::Exited { exec, status, usage },
            FromInit::Synced { number: exec },
        ] {
            prop_assert_eq!(FromInit::decode(&report.encode()), Ok(report));
        }
    }

    #[test]
    fn execs_are_read_as_sent(request in execs()) {
        let packet = ToInit::Exec(request.clone()).encode();
        let Ok(ToInitView::Exec(view)) = ToInitView::decode(&packet) else {
            return Err(TestCaseError::fail("not an exec"));
        };
        let groups: Vec<u8> = request.groups.iter().flat_map(|id| id.to_le_bytes()).collect();
        prop_assert_eq!(view.exec, request.exec);
        prop_assert_eq!(view.containment, request.containment);
        prop_assert_eq!((view.null_stdin, view.terminal), (request.null_stdin, request.terminal));
        prop_assert_eq!(view.want_started, request.want_started);
        prop_assert_eq!((view.uid, view.gid), (request.uid, request.gid));
        prop_assert_eq!(view.groups, groups);
        prop_assert_eq!((view.argc, view.envc), (request.argc, request.envc));
        prop_assert_eq!(view.payload, request.payload);
        prop_assert_eq!(view.payload_in_memfd, request.payload_in_memfd);
    }

    #[test]
    fn signals_are_read_as_sent(exec in any::<u32>(), signal in any::<i32>()) {
        let packet = ToInit::Signal { exec, signal }.encode();
        prop_assert_eq!(ToInitView::decode(&packet), Ok(ToInitView::Signal { exec, signal }));
        let packet = ToInit::SignalAll { exec, signal }.encode();
        prop_assert_eq!(ToInitView::decode(&packet), Ok(ToInitView::SignalAll { exec, signal }));
        let packet = ToInit::Sync { number: exec }.encode();
        prop_assert_eq!(ToInitView::decode(&packet), Ok(ToInitView::Sync { number: exec }));
    }

    #[test]
    fn nonsense_is_refused_or_read_but_never_a_panic(bytes in vec(any::<u8>(), 0..256)) {
        let _ = Launch::decode(&bytes);
        let _ = FromLauncher::decode(&bytes);
        let _ = ToInitView::decode(&bytes);
        let _ = FromInit::decode(&bytes);
        let _ = Hello::decode(&bytes);
    }

    #[test]
    fn a_cut_packet_is_refused(launch in launches(), cut in any::<prop::sample::Index>()) {
        let packet = launch.encode();
        let cut = cut.index(packet.len());
        prop_assert!(Launch::decode(&packet[..cut]).is_err());
    }
}
