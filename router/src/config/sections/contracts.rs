//! Reads `[contracts]`: where contracts and registered tools are, and who approves breaking ones.

use std::path::Path;

use crate::config::reader::Section;
use crate::config::settings::{ContractSettings, Outputs};
use crate::interface::Approvers;
use crate::key::PublicKey;

pub(super) fn contracts(section: &Section<'_>, base: &Path) -> ContractSettings {
    let path = |key| section.text(key).map(|text| base.join(text));
    ContractSettings {
        interfaces: path("interfaces"),
        tools: path("tools"),
        approvers: Approvers {
            authors: keys(section, "authors"),
            reviewers: keys(section, "reviewers"),
        },
        outputs: section.choice("outputs", Outputs::ALL).unwrap_or_default(),
        required: section.flag("required", false),
    }
}

fn keys(section: &Section<'_>, name: &'static str) -> Vec<PublicKey> {
    let keys = section.texts(name).into_iter().enumerate().filter_map(|(index, text)| {
        let key = text.parse();
        if key.is_err() {
            let hint = "nexus-router interface keygen prints it: ed25519: and base64";
            section.wrong(&format!("{name}[{index}]"), "is no public key", hint);
        }
        key.ok()
    });
    keys.collect()
}
