//! A template, and the set of those an agent knows.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use sandboxd_linux::protocol::LayeredMount;
use sandboxd_proto::{CallError, ErrorCode, v1};

use super::host;
use crate::call::Answer;
use crate::lock::lock;
use crate::state::{StateFolder, unusable};

/// For what a claim leaves open. The disk of a sandbox lives in memory, so it counts against its
/// memory limit too.
const DEFAULTS: v1::Limits = v1::Limits {
    memory_bytes: Some(2 * 1024 * 1024 * 1024),
    pids: Some(1_024),
    cpu_millis: None,
    disk_bytes: Some(1024 * 1024 * 1024),
    output_bytes: None,
};

/// What a sandbox starts from.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) name: String,
    /// Pieces of the root, `/` first. See [`Templates::root`].
    root: Vec<LayeredMount>,
    /// Without capabilities, and with no_new_privs.
    pub(crate) hardened: bool,
    /// For what a claim leaves open. Applied where the host can enforce it.
    pub(crate) defaults: v1::Limits,
}

/// The templates of an agent. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Templates(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    templates: Vec<Arc<Template>>,
    /// Where layers are made.
    folder: PathBuf,
    /// Numbers of processors for which there is a layer.
    cpu_layers: Mutex<HashSet<usize>>,
}

impl Templates {
    /// Makes the layers of the built-in templates in the agent's folder.
    ///
    /// # Errors
    ///
    /// `state_unusable`, when they cannot be written.
    pub(crate) fn build(state: &StateFolder) -> Answer<Self> {
        let layer = state.own().join("host");
        let root = host::make("/".as_ref(), &layer).map_err(|error| unusable(&layer, &error))?;
        let template = |name: &str, hardened| {
            let (name, root) = (name.to_owned(), root.clone());
            Arc::new(Template { name, root, hardened, defaults: DEFAULTS })
        };
        Ok(Self(Arc::new(Shared {
            templates: vec![template("host", false), template("host-hardened", true)],
            folder: state.own().to_owned(),
            cpu_layers: Mutex::default(),
        })))
    }

    /// The template with this name.
    ///
    /// # Errors
    ///
    /// `unknown_template`, naming those that exist.
    pub(crate) fn get(&self, name: &str) -> Answer<Arc<Template>> {
        let found = self.0.templates.iter().find(|template| template.name == name);
        found.map(Arc::clone).ok_or_else(|| {
            let known = self.names().join(", ");
            let message = format!("no template is named {name:?}: use one of {known}");
            CallError::new(ErrorCode::UnknownTemplate, message)
        })
    }

    /// Their names, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.templates.iter().map(|template| template.name.clone()).collect()
    }

    /// The root of a sandbox that sees `cpus` processors: the template's, with a layer on top that
    /// says so to programs that read `/sys`. Makes that layer the first time (three small files).
    ///
    /// # Errors
    ///
    /// `state_unusable`, when the layer cannot be written.
    pub(crate) fn root(&self, template: &Template, cpus: usize) -> Answer<Vec<LayeredMount>> {
        let layer = self.0.folder.join(format!("cpus-{cpus}"));
        {
            let mut made = lock(&self.0.cpu_layers);
            if !made.contains(&cpus) {
                host::make_cpus(&layer, cpus).map_err(|error| unusable(&layer, &error))?;
                made.insert(cpus);
            }
        }
        let mut root = template.root.clone();
        if let Some(base) = root.first_mut() {
            base.layers.insert(0, layer);
        }
        Ok(root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates() -> (tempfile::TempDir, Templates) {
        let parent = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&parent.path().join("state")).unwrap();
        let templates = Templates::build(&state).unwrap();
        (parent, templates)
    }

    #[test]
    fn an_unknown_one_is_refused_naming_those_that_exist() {
        let (_parent, templates) = templates();
        let error = templates.get("hots").unwrap_err();
        assert_eq!(error.code, ErrorCode::UnknownTemplate);
        assert!(error.message.contains("host, host-hardened"), "{error}");
    }

    #[test]
    fn the_built_in_ones_differ_in_hardening_alone() {
        let (_parent, templates) = templates();
        let (host, hardened) =
            (templates.get("host").unwrap(), templates.get("host-hardened").unwrap());
        assert!(!host.hardened && hardened.hardened);
        assert_eq!(host.root, hardened.root);
        assert_eq!(host.defaults, hardened.defaults);
    }

    #[test]
    fn a_root_says_how_many_processors_there_are_on_top_of_everything() {
        let (_parent, templates) = templates();
        let host = templates.get("host").unwrap();
        for _ in 0..2 {
            let root = templates.root(&host, 2).unwrap();
            let online = root[0].layers[0].join("sys/devices/system/cpu/online");
            assert_eq!(std::fs::read_to_string(online).unwrap(), "0-1\n");
            assert_eq!(root[0].layers.len(), 2);
            assert_eq!(root[1..], host.root[1..]);
        }
    }
}
