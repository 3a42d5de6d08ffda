//! The calls of `Sandboxes`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sandboxd_proto::{CallError, ErrorCode, v1};

use super::SandboxRoot;
use super::sandbox::Sandbox;
use super::spec::{Spec, check_id, fingerprint};
use super::table::{Claim, Find};
use crate::agent::Agent;
use crate::call::Answer;
use crate::lock::lock;

/// How long a release waits until nothing runs any more. Killing goes on after that.
const RELEASE_PATIENCE: Duration = Duration::from_secs(30);

impl Agent {
    /// What this agent is and what its host can enforce.
    pub(crate) async fn sandboxes_info(
        &self,
        _request: v1::SandboxesInfoRequest,
    ) -> Answer<v1::SandboxesInfoResponse> {
        let host = self.host();
        Ok(v1::SandboxesInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            capabilities: host.capabilities.to_wire(),
            sandboxes: u32::try_from(lock(&host.table).live_count()).unwrap_or(u32::MAX),
            templates: host.templates.names(),
            counters: Some(host.counters.to_wire()),
        })
    }

    /// The sandboxes that carry all labels of the request, oldest first.
    pub(crate) async fn sandboxes_list(
        &self,
        request: v1::SandboxesListRequest,
    ) -> Answer<v1::SandboxesListResponse> {
        let wanted = |sandbox: &v1::Sandbox| {
            request.labels.iter().all(|(key, value)| sandbox.labels.get(key) == Some(value))
        };
        let table = lock(&self.host().table);
        let mut sandboxes: Vec<_> = table.live().map(|sandbox| sandbox.summary()).collect();
        if request.include_ended {
            sandboxes.extend(table.epitaphs().filter_map(|epitaph| epitaph.summary.clone()));
        }
        if request.include_warm {
            sandboxes.extend(table.unclaimed().map(|sandbox| sandbox.summary()));
        }
        drop(table);
        sandboxes.retain(wanted);
        sandboxes.sort_by_key(|sandbox| sandbox.created_unix_ns);
        Ok(v1::SandboxesListResponse { sandboxes })
    }

    /// Makes a sandbox, takes a warm one, or finds the one of the same claim, and answers when it is
    /// ready. Dropping the future does not undo the claim.
    pub(crate) async fn sandboxes_claim(
        &self,
        request: v1::SandboxesClaimRequest,
    ) -> Answer<v1::SandboxesClaimResponse> {
        check_id("sandbox_id", &request.sandbox_id)?;
        let host = self.host();
        let id: Arc<str> = request.sandbox_id.as_str().into();
        let fingerprint = fingerprint(&request);
        let spec = Spec::new(request, &host.templates, &host.capabilities)?;
        let number = host.next_number.fetch_add(1, Ordering::Relaxed);
        let new = Sandbox::new(Arc::clone(&id), number, Arc::new(spec), Arc::clone(&host.counters));
        let template = new.spec.template.name.clone();
        let fit = |warm: &Arc<Sandbox>| warm.bind(&new);
        let claim = lock(&host.table).claim(
            &id,
            fingerprint,
            &template,
            Arc::clone(&new),
            Instant::now(),
            fit,
        );
        let sandbox = match claim {
            Claim::New => {
                self.begin(&new)?;
                self.start_clocks(&new);
                host.counters.sandboxes_claimed.add(1);
                new
            }
            Claim::Warm(warm) => {
                self.start_clocks(&warm);
                host.counters.sandboxes_claimed.add(1);
                warm
            }
            Claim::Known(sandbox) => sandbox,
            Claim::Conflict | Claim::Ended(_) | Claim::Full => return Err(self.refusal(&id, claim)),
        };
        sandbox.ready().await?;
        Ok(v1::SandboxesClaimResponse { sandbox: Some(sandbox.summary()) })
    }

    /// Makes a sandbox that waits for a claim, or finds the one of the same order, and answers when it
    /// is ready. Dropping the future does not undo it.
    pub(crate) async fn sandboxes_warm(
        &self,
        request: v1::SandboxesWarmRequest,
    ) -> Answer<v1::SandboxesWarmResponse> {
        check_id("sandbox_id", &request.sandbox_id)?;
        let host = self.host();
        let id: Arc<str> = request.sandbox_id.as_str().into();
        // As a claim that asks for nothing: what is not asked for is what claims find it with.
        let template =
            v1::SandboxesClaimRequest { template: request.template, ..Default::default() };
        let spec = Spec::new(template, &host.templates, &host.capabilities)?;
        let template: Arc<str> = spec.template.name.as_str().into();
        let number = host.next_number.fetch_add(1, Ordering::Relaxed);
        let new =
            Sandbox::ahead(Arc::clone(&id), number, Arc::new(spec), Arc::clone(&host.counters));
        let claim = lock(&host.table).warm(&id, &template, Arc::clone(&new));
        let sandbox = match claim {
            Claim::New => {
                self.begin(&new)?;
                new
            }
            Claim::Known(sandbox) | Claim::Warm(sandbox) => sandbox,
            Claim::Conflict | Claim::Ended(_) | Claim::Full => return Err(self.refusal(&id, claim)),
        };
        sandbox.ready().await?;
        Ok(v1::SandboxesWarmResponse { sandbox: Some(sandbox.summary()) })
    }

    /// Why nothing was entered under an id.
    fn refusal(&self, id: &str, claim: Claim<Arc<Sandbox>>) -> CallError {
        match claim {
            Claim::Ended(error) => error,
            Claim::Full => {
                let count = lock(&self.host().table).live_count();
                let message =
                    format!("agent has {count} sandboxes, as many as it can: release some");
                CallError::new(ErrorCode::ResourceExhausted, message)
            }
            Claim::Conflict | Claim::New | Claim::Warm(_) | Claim::Known(_) => {
                let message =
                    format!("sandbox_id {id:?} is taken by another claim: choose another");
                CallError::new(ErrorCode::InvalidArgument, message)
            }
        }
    }

    /// Ends a sandbox, and answers when nothing of it runs any more.
    pub(crate) async fn sandboxes_release(
        &self,
        request: v1::SandboxesReleaseRequest,
    ) -> Answer<v1::SandboxesReleaseResponse> {
        let found = {
            let table = lock(&self.host().table);
            match table.find(&request.sandbox_id) {
                Find::Known(sandbox) => Some(sandbox),
                Find::Ended(_) | Find::Unknown => table.find_warm(&request.sandbox_id),
            }
        };
        let Some(sandbox) = found else {
            return Ok(v1::SandboxesReleaseResponse { released: false });
        };
        let message = format!("sandbox {:?} was closed", &*sandbox.id);
        let released = sandbox.end(CallError::new(ErrorCode::SandboxClosed, message));
        // Nobody is told less than the truth if this takes longer: what is left is being killed.
        let _ = tokio::time::timeout(RELEASE_PATIENCE, sandbox.gone()).await;
        Ok(v1::SandboxesReleaseResponse { released })
    }

    /// Where file calls in a sandbox are made. Waits until the sandbox is ready.
    ///
    /// # Errors
    ///
    /// Why there is no such sandbox, or none any more.
    pub(crate) async fn sandbox_root(&self, sandbox_id: &str) -> Answer<SandboxRoot> {
        let sandbox = self.sandbox(sandbox_id)?;
        let enclosure = sandbox.ready().await?;
        sandbox.execs().touch(Instant::now());
        let cwd = if sandbox.spec.cwd.is_empty() {
            enclosure.identity("", &sandbox.spec)?.directory.clone()
        } else {
            sandbox.spec.cwd.clone()
        };
        let root = Arc::clone(&enclosure.root);
        Ok(SandboxRoot { root, ids: enclosure.ids, cwd, uploads: sandbox.uploads().clone() })
    }

    /// The sandbox with this id, whether it is ready or not.
    ///
    /// # Errors
    ///
    /// Why there is none, or none any more.
    pub(crate) fn sandbox(&self, sandbox_id: &str) -> Answer<Arc<Sandbox>> {
        match lock(&self.host().table).find(sandbox_id) {
            Find::Known(sandbox) => Ok(sandbox),
            Find::Ended(error) => Err(error),
            Find::Unknown => {
                let shown: String = sandbox_id.chars().take(64).collect();
                let message = format!("agent has no sandbox {shown:?}");
                Err(CallError::new(ErrorCode::SandboxNotFound, message))
            }
        }
    }
}
