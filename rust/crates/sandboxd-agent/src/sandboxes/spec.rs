//! What a claim asks for, checked, and completed from the template.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use sandboxd_proto::{CallError, ErrorCode, v1};

use super::limits;
use super::table::Fingerprint;
use crate::call::Answer;
use crate::capabilities::{Capabilities, Feature};
use crate::exec::{Claimed, check_directory, check_variable, parse_user};
use crate::templates::{Template, Templates};

/// Lifetime of a sandbox whose claim names none.
const DEFAULT_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Longest name of a sandbox or an exec; also the kernel's limit on host names.
const MAX_ID: usize = 64;

const MAX_LABELS: usize = 64;
const MAX_LABEL_LENGTH: usize = 256;

/// Length of all variables of a claim together. Half of what the kernel takes for a program, so that
/// arguments have room too.
const MAX_ENVIRONMENT: usize = 1024 * 1024;

/// What every sandbox is made of.
const NEEDED: [Feature; 3] =
    [Feature::UserNamespaces, Feature::NetworkNamespaces, Feature::Overlay];

/// A claim that can be served.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) template: Arc<Template>,
    pub(crate) limits: v1::Limits,
    pub(crate) ttl: Duration,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Empty: the user's home.
    pub(crate) cwd: Vec<u8>,
    /// Empty: the sandbox's root.
    pub(crate) user: String,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Spec {
    /// Checks a claim.
    ///
    /// # Errors
    ///
    /// `unknown_template`, `unsupported`, or `invalid_argument` naming the field.
    pub(crate) fn new(
        request: v1::SandboxesClaimRequest,
        templates: &Templates,
        capabilities: &Capabilities,
    ) -> Answer<Self> {
        let template = templates.get(&request.template)?;
        NEEDED.iter().try_for_each(|feature| capabilities.require(*feature))?;
        let requested = request.limits.unwrap_or_default();
        let limits = limits::effective(&requested, &template.defaults, capabilities)?;
        let duration = |field: &str, nanoseconds: Option<u64>| match nanoseconds {
            Some(0) => Err(invalid(format!("{field} is 0: leave it out, or give more than 0"))),
            other => Ok(other.map(Duration::from_nanos)),
        };
        let ttl = duration("ttl_ns", request.ttl_ns)?.unwrap_or(DEFAULT_TTL);
        let idle_timeout = duration("idle_timeout_ns", request.idle_timeout_ns)?;
        let mut length = 0;
        for variable in &request.env {
            check_variable(&variable.name, &variable.value)?;
            length += variable.name.len() + variable.value.len() + 2;
        }
        if length > MAX_ENVIRONMENT {
            return Err(invalid(format!("env has {length} bytes, above {MAX_ENVIRONMENT}")));
        }
        check_directory("cwd", &request.cwd)?;
        parse_user(&request.user)?;
        let labels = &request.labels;
        let long = |text: &String| text.len() > MAX_LABEL_LENGTH;
        if labels.len() > MAX_LABELS
            || labels.iter().any(|(k, v)| k.is_empty() || long(k) || long(v))
        {
            return Err(invalid(format!(
                "labels: at most {MAX_LABELS}, with names and values of at most \
                 {MAX_LABEL_LENGTH} bytes, and no empty names"
            )));
        }
        let environment = request.env.into_iter();
        Ok(Self {
            template,
            limits,
            ttl,
            idle_timeout,
            environment: environment.map(|v| (v.name.to_vec(), v.value.to_vec())).collect(),
            cwd: request.cwd.to_vec(),
            user: request.user,
            labels: request.labels,
        })
    }

    /// What of it goes into the environment of commands.
    pub(crate) fn claimed(&self) -> Claimed<'_> {
        let cpus = self.limits.cpu_millis.map(limits::cpu_count);
        Claimed { environment: &self.environment, cpus }
    }
}

/// Checks a name that a caller chose.
///
/// # Errors
///
/// `invalid_argument`, naming `field`.
pub(crate) fn check_id(field: &str, id: &str) -> Answer<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if (1..=MAX_ID).contains(&id.len()) && id.bytes().all(allowed) {
        return Ok(());
    }
    let shown: String = id.chars().take(MAX_ID).collect();
    Err(invalid(format!(
        "{field} {shown:?}: use 1 to {MAX_ID} of the characters A-Z a-z 0-9 _ . -"
    )))
}

/// Tells one claim from another.
pub(crate) fn fingerprint(request: &v1::SandboxesClaimRequest) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    let v1::SandboxesClaimRequest {
        sandbox_id: _,
        template,
        limits,
        ttl_ns,
        idle_timeout_ns,
        env,
        cwd,
        user,
        labels,
    } = request;
    (template, limits, ttl_ns, idle_timeout_ns, env, cwd, user, labels).hash(&mut hasher);
    hasher.finish()
}

fn invalid(message: impl Into<String>) -> CallError {
    CallError::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_plain() {
        for id in ["a", "A-1_b.c", &"x".repeat(64)] {
            check_id("sandbox_id", id).unwrap();
        }
        for id in ["", "a/b", "a b", "é", "..\n", &"x".repeat(65)] {
            let error = check_id("sandbox_id", id).unwrap_err();
            assert!(error.message.contains("sandbox_id"), "{error}");
        }
    }

    #[test]
    fn l4_a_claim_is_known_again_by_all_that_it_asks_for() {
        let label = |key: &str| (key.to_owned(), "x".to_owned());
        let claim = || v1::SandboxesClaimRequest {
            template: "host".to_owned(),
            labels: ["a", "b", "c"].map(label).into(),
            ..Default::default()
        };
        assert_eq!(fingerprint(&claim()), fingerprint(&claim()), "labels have no order");
        let other = v1::SandboxesClaimRequest { ttl_ns: Some(1), ..claim() };
        assert_ne!(fingerprint(&claim()), fingerprint(&other));
    }
}
