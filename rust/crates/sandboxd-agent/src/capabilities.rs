//! What this host can enforce, and what a claim may therefore ask for.
//!
//! Probed once, when the agent starts ([`crate::doctor`]); after that it is a fact that is reported
//! by `Sandboxes.Info` and asked by claims. A sandbox is never weaker than what was asked for: a
//! request that needs something missing is refused with [`Capabilities::require`].

use sandboxd_proto::{CallError, ErrorCode, v1};

use crate::call::Answer;

/// One thing that the host gives or does not give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    /// User namespaces can be made. Nothing works without.
    UserNamespaces,
    /// A sandbox has 65,536 ids; otherwise its root is its only one.
    IdRange,
    /// Layers show their files with the ids of the sandbox.
    IdmappedMounts,
    /// Overlays can be mounted in a user namespace. Nothing works without.
    Overlay,
    NetworkNamespaces,
    Seccomp,
    /// File calls can be kept beneath a root. Nothing works without.
    Openat2,
    MemoryLimit,
    PidsLimit,
    CpuLimit,
    DiskLimit,
    /// The CPU time of everything that an exec started can be read, and so be limited.
    CpuTimeLimit,
    /// Every process of an exec can be ended, whatever it did to hide.
    KillTree,
    StateFolder,
    /// Commands can see protected files, while nothing else in their sandbox runs.
    Grader,
}

impl Feature {
    /// Stable name on the wire; names are only ever added.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::UserNamespaces => "user.namespaces",
            Self::IdRange => "user.range",
            Self::IdmappedMounts => "mount.idmapped",
            Self::Overlay => "mount.overlay",
            Self::NetworkNamespaces => "network.namespaces",
            Self::Seccomp => "seccomp",
            Self::Openat2 => "files.openat2",
            Self::MemoryLimit => "limit.memory",
            Self::PidsLimit => "limit.pids",
            Self::CpuLimit => "limit.cpu",
            Self::DiskLimit => "limit.disk",
            Self::CpuTimeLimit => "limit.cpu_time",
            Self::KillTree => "kill.tree",
            Self::StateFolder => "state.folder",
            Self::Grader => "grader",
        }
    }
}

/// A feature with what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capability {
    pub(crate) feature: Feature,
    pub(crate) available: bool,
    /// How it is provided, or what is missing and what would provide it.
    pub(crate) detail: String,
}

/// Everything that was probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capabilities(Vec<Capability>);

impl Capabilities {
    pub(crate) fn new(probed: Vec<Capability>) -> Self {
        Self(probed)
    }

    /// Whether the host gives it. What was not probed is not given.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.find(feature).is_some_and(|found| found.available)
    }

    /// Checks that the host gives what a request needs.
    ///
    /// # Errors
    ///
    /// `unsupported`, with what is missing and what would provide it.
    pub(crate) fn require(&self, feature: Feature) -> Answer<()> {
        match self.find(feature) {
            Some(found) if found.available => Ok(()),
            found => {
                let detail = found.map_or("it was not probed", |found| found.detail.as_str());
                let message = format!("this host cannot give {}: {detail}", feature.name());
                Err(CallError::new(ErrorCode::Unsupported, message))
            }
        }
    }

    /// Ids that a sandbox gets: 65,536, or 1.
    pub(crate) fn id_count(&self) -> u32 {
        if self.has(Feature::IdRange) { 65_536 } else { 1 }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Capability> {
        self.0.iter()
    }

    /// As `Sandboxes.Info` reports it.
    pub(crate) fn to_wire(&self) -> Vec<v1::Capability> {
        let entry = |found: &Capability| v1::Capability {
            name: found.feature.name().to_owned(),
            available: found.available,
            detail: found.detail.clone(),
        };
        self.iter().map(entry).collect()
    }

    fn find(&self, feature: Feature) -> Option<&Capability> {
        self.iter().find(|found| found.feature == feature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capabilities(available: bool) -> Capabilities {
        let detail = "no memory controller: mount it".to_owned();
        Capabilities::new(vec![Capability { feature: Feature::MemoryLimit, available, detail }])
    }

    #[test]
    fn what_the_host_gives_is_granted() {
        assert_eq!(capabilities(true).require(Feature::MemoryLimit), Ok(()));
    }

    #[test]
    fn a_refusal_names_what_is_missing_and_what_would_provide_it() {
        let refusal = capabilities(false).require(Feature::MemoryLimit).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::Unsupported);
        assert!(refusal.message.contains("limit.memory"), "{refusal}");
        assert!(refusal.message.contains("mount it"), "{refusal}");
    }

    #[test]
    fn what_was_not_probed_is_not_granted() {
        assert!(capabilities(true).require(Feature::CpuLimit).is_err());
        assert_eq!(capabilities(true).id_count(), 1);
    }
}
