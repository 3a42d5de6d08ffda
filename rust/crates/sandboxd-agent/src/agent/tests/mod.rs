//! The agent with a real launcher and real sandboxes, called as its servers call it.
//!
//! Needs root and a built `sandboxd-init` beside the test binary: `cargo build -p sandboxd-init`,
//! then `cargo test -p sandboxd-agent -- --ignored`.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use sandboxd_linux::cgroup::{Cgroups, Layout, Owner};
use sandboxd_proto::v1;

use super::{Agent, AgentConfig};
use crate::call::Answer;
use crate::capabilities::{Capabilities, Capability, Feature};
use crate::state::StateFolder;
use crate::templates::Templates;

mod ends;
mod limits;
mod run;
mod streams;
mod warm;

struct Live {
    agent: Agent,
    cgroups: Cgroups,
    _folder: tempfile::TempDir,
}

impl Live {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&folder.path().join("state")).unwrap();
        let templates = Templates::build(&state).unwrap();
        let owner = Owner::current().unwrap();
        let cgroups = Cgroups::set_up(&Layout::of_this_process().unwrap(), &owner);
        let controls = cgroups.controls();
        let features = [
            (Feature::UserNamespaces, true),
            (Feature::NetworkNamespaces, true),
            (Feature::Overlay, true),
            (Feature::IdRange, true),
            (Feature::MemoryLimit, controls.memory),
            (Feature::PidsLimit, controls.pids),
            (Feature::CpuLimit, controls.cpu),
            (Feature::DiskLimit, true),
            (Feature::CpuTimeLimit, cgroups.counts_cpu_time()),
        ];
        let capability = |(feature, available)| {
            let detail = String::new();
            Capability { feature, available, detail }
        };
        let capabilities = Capabilities::new(features.map(capability).to_vec());
        let test_binary = std::env::current_exe().unwrap();
        let init = test_binary.parent().unwrap().parent().unwrap().join("sandboxd-init");
        let config = AgentConfig { state, templates, capabilities, cgroups: cgroups.clone(), init };
        Self { agent: Agent::start(config).await.unwrap(), cgroups, _folder: folder }
    }

    async fn claim(&self, id: &str, limits: v1::Limits) -> v1::Sandbox {
        let request = v1::SandboxesClaimRequest {
            sandbox_id: id.to_owned(),
            template: "host".to_owned(),
            limits: Some(limits),
            ..Default::default()
        };
        self.agent.sandboxes_claim(request).await.unwrap().sandbox.unwrap()
    }

    async fn run(&self, exec_id: &str, command: v1::Command) -> Answer<v1::ExecRunResponse> {
        let request = v1::ExecRunRequest {
            sandbox_id: "a".to_owned(),
            exec_id: exec_id.to_owned(),
            command: Some(command),
            ..Default::default()
        };
        self.agent.exec_run(request).await
    }

    async fn end(self) {
        self.agent.shut_down().await;
        let left: Vec<PathBuf> =
            self.cgroups.trees().into_iter().filter(|tree| tree.exists()).collect();
        assert!(left.is_empty(), "cgroups are left behind: {left:?}");
    }
}

fn shell(line: &str) -> v1::Command {
    v1::Command { shell: Bytes::copy_from_slice(line.as_bytes()), ..Default::default() }
}

fn within(command: v1::Command, timeout: Duration) -> v1::Command {
    v1::Command { timeout_ns: Some(timeout.as_nanos().try_into().unwrap()), ..command }
}

fn program(name: &'static str) -> v1::Command {
    v1::Command { argv: vec![Bytes::from_static(name.as_bytes())], ..Default::default() }
}
