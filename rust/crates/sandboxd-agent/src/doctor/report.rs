//! `sandboxd-agent doctor`: the capabilities as text, without serving anything.

use std::fmt::Write as _;

use sandboxd_linux::cgroup::{Cgroups, Layout, Owner};

use super::probe;
use crate::capabilities::Capabilities;
use crate::cli::Doctor;
use crate::state::StateFolder;

/// Probes, leaves nothing behind, and returns what to print.
pub(crate) fn report(arguments: &Doctor) -> String {
    let state = StateFolder::open(&arguments.state.folder());
    let layout = Layout::of_this_process().unwrap_or_else(|_| Layout::parse("", ""));
    let cgroups = match Owner::current() {
        Ok(owner) => Cgroups::set_up(&layout, &owner),
        Err(_) => Cgroups::none(),
    };
    let capabilities = probe(&state, &cgroups, &layout);
    if let Err(error) = cgroups.remove() {
        tracing::warn!(%error, "cgroups are left behind");
    }
    if let Ok(state) = &state {
        state.remove();
    }
    if arguments.json { json(&capabilities) } else { text(&capabilities) }
}

fn text(capabilities: &Capabilities) -> String {
    let mut out = String::new();
    for found in capabilities.iter() {
        let word = if found.available { "ok" } else { "missing" };
        // Writing to a string does not fail.
        let _ = writeln!(out, "{:<8} {:<19} {}", word, found.feature.name(), found.detail);
    }
    out
}

fn json(capabilities: &Capabilities) -> String {
    let entries: Vec<String> = capabilities
        .iter()
        .map(|found| {
            format!(
                "  {{\"name\": \"{}\", \"available\": {}, \"detail\": \"{}\"}}",
                found.feature.name(),
                found.available,
                escaped(&found.detail)
            )
        })
        .collect();
    format!("[\n{}\n]\n", entries.join(",\n"))
}

/// A string as JSON has it, without its quotes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            letter if u32::from(letter) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::{Capability, Feature};

    #[test]
    fn details_with_quotes_and_newlines_are_still_json() {
        let detail = "state folder \"/a\\b\"\nis gone".to_owned();
        let found = Capability { feature: Feature::StateFolder, available: false, detail };
        assert_eq!(
            json(&Capabilities::new(vec![found])),
            "[\n  {\"name\": \"state.folder\", \"available\": false, \"detail\": \
             \"state folder \\\"/a\\\\b\\\"\\u000ais gone\"}\n]\n"
        );
    }
}
