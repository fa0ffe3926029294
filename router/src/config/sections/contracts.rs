//! Reads `[contracts]`: where contracts and registered tools are, who approves breaking ones, and what anchors them.

use std::path::Path;

use crate::clock::Timestamp;
use crate::config::reader::Section;
use crate::config::settings::{ContractSettings, Outputs};
use crate::interface::{Anchors, ApproverKey, Approvers, ContractTrust, is_adapter_id};
use crate::key::PublicKey;

/// The remedy for what is not a public key.
const KEY_HINT: &str = "nexus-router interface keygen prints it: ed25519: and base64";

pub(super) fn contracts(section: &Section<'_>, base: &Path) -> ContractSettings {
    let path = |key| section.text(key).map(|text| base.join(text));
    let approvers =
        Approvers { authors: keys(section, "authors"), reviewers: keys(section, "reviewers") };
    ContractSettings {
        interfaces: path("interfaces"),
        tools: path("tools"),
        trust: ContractTrust { approvers, anchors: anchors(section) },
        outputs: section.choice("outputs", Outputs::ALL).unwrap_or_default(),
        required: section.flag("required", false),
    }
}

/// Reads a list of keys: each a text, or a table with `key`, `from` and `until`.
fn keys(section: &Section<'_>, name: &'static str) -> Vec<ApproverKey> {
    let Some(value) = section.get(name) else { return Vec::new() };
    let hint =
        "write [\"ed25519:…\"], or [{ key = \"ed25519:…\", until = \"2027-01-31T00:00:00Z\" }]";
    let Some(items) = value.as_array() else {
        section.wrong(name, "must be a list of keys", hint);
        return Vec::new();
    };
    let keys = items.iter().enumerate().filter_map(|(index, item)| {
        let place = format!("{name}[{index}]");
        match item {
            toml::Value::String(text) => key(section, &place, text).map(ApproverKey::from),
            toml::Value::Table(table) => section.inside(&section.path(&place), table, limited_key),
            _ => {
                section.wrong(&place, "is neither a text nor a table", hint);
                None
            }
        }
    });
    keys.collect()
}

fn key(section: &Section<'_>, place: &str, text: &str) -> Option<PublicKey> {
    let key = text.parse().ok();
    if key.is_none() {
        section.wrong(place, "is not a public key", KEY_HINT);
    }
    key
}

fn limited_key(section: &Section<'_>) -> Option<ApproverKey> {
    let text = section.needed("key");
    let key = if text.is_empty() { None } else { key(section, "key", &text) };
    let (from, until) = (moment(section, "from"), moment(section, "until"));
    if from.is_some() && until.is_some() && from >= until {
        section.wrong("until", "is not after from", "the key would never be valid");
    }
    Some(ApproverKey { key: key?, from, until })
}

/// Reads a moment: a text, or a date and time of TOML with an offset.
fn moment(section: &Section<'_>, name: &'static str) -> Option<Timestamp> {
    let value = section.get(name)?;
    let text = match value {
        toml::Value::String(text) => text.clone(),
        other => other.as_datetime().map(ToString::to_string).unwrap_or_default(),
    };
    let moment = Timestamp::parse(&text);
    if moment.is_none() {
        let hint = "write it as 2027-01-31T00:00:00Z";
        section.wrong(name, "is not a date and time with an offset", hint);
    }
    moment
}

fn anchors(section: &Section<'_>) -> Anchors {
    let mut anchors = Anchors::new();
    for (id, value) in section.free("anchors").into_iter().flatten() {
        let place = format!("anchors.{id}");
        if !is_adapter_id(id) {
            section.wrong(&place, "is not the id of a contract", "an id matches ^[a-z0-9-]+$");
            continue;
        }
        match value.as_str().and_then(|text| text.parse().ok()) {
            Some(head) => drop(anchors.insert(id.clone(), head)),
            None => section.wrong(
                &place,
                "is not a SHA-256 in lower-case hexadecimal",
                "nexus-router interface anchors prints the line",
            ),
        }
    }
    anchors
}
