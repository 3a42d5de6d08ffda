//! The launcher as root on this machine: real namespaces, mounts and groups.
//!
//! Every test ends as a killed agent does and checks that nothing is left.

mod support;

use support::{Command, Host, Order, is_root};

#[test]
fn a_program_runs_and_its_output_and_exit_code_come_back() {
    if !is_root() {
        return;
    }
    let host = Host::start(0);
    let sandbox = host.launch(&Order::default());

    let ended = sandbox.run(&Command::new(&["/bin/true"]));
    assert_eq!((ended.code(), ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "", ""));

    let ended = sandbox.run(&Command::new(&["/bin/echo", "hello", "world"]));
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(0), "hello world\n"));

    let ended = sandbox.sh("echo out; echo err >&2; exit 7");
    assert_eq!(ended.code(), Some(7));
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("out\n", "err\n"));
    assert!(ended.cpu_nanos > 0 && ended.peak_kib > 0);

    host.end(sandbox);
    host.vanish();
}
