//! Holds pins to a manifest, and contracts to the pins: the gate for continuous integration.

use std::collections::HashMap;

use super::super::declaration::contract_hash;
use super::super::entry::{entry_name, entry_status, text};
use super::super::lint::lint;
use super::super::manifest::{Rules, entries, verify};
use super::super::{Finding, Severity};
use super::PinFile;
use crate::json::Object;

/// Something that the gate found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinFinding {
    /// How bad it is.
    pub severity: Severity,
    /// Its name.
    pub code: &'static str,
    /// The contract, `ID@VERSION`; empty for the manifest.
    pub name: String,
    /// The file, if it is about one.
    pub file: Option<String>,
    /// What it is.
    pub message: String,
}

/// The name of the finding that ends with an exit code of its own.
pub(crate) const REVOKED: &str = "revoked";

/// A contract that is used, and the file in which it is.
#[derive(Clone, Debug)]
pub struct Contract {
    /// The file.
    pub file: String,
    /// The contract.
    pub declaration: Object,
}

/// What the gate lets through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gate {
    /// Pins of deprecated contracts.
    pub deprecated: bool,
    /// Pins of revoked contracts that were made to look at them.
    pub revoked: bool,
}

/// Holds pins to a manifest, and contracts to pins.
///
/// # Errors
/// Everything in the manifest that is no entry.
pub fn check(
    pins: &PinFile,
    manifest: &Object,
    contracts: &[Contract],
    rules: &Rules<'_>,
    gate: Gate,
) -> Result<Vec<PinFinding>, Vec<String>> {
    let report = verify(manifest, rules)?;
    let entries = entries(manifest)?;
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        places.entry(entry_name(entry)).or_default().push(at);
    }
    let mut about_entries: HashMap<usize, Vec<&Finding>> = HashMap::new();
    let mut found = Vec::new();
    for finding in &report.findings {
        match place_of(finding) {
            Some(place) => about_entries.entry(place).or_default().push(finding),
            None => found.push(PinFinding {
                severity: if rules.strict { Severity::Error } else { finding.severity },
                code: "manifest",
                name: String::new(),
                file: None,
                message: finding.message.clone(),
            }),
        }
    }
    for pin in pins.pins() {
        let name = entry_name(pin);
        let Some(places) = places.get(&name) else {
            found.push(about(&name, "not_in_manifest", "it is pinned, and not in the manifest"));
            continue;
        };
        // All entries of one name count: what one of them says is not undone by another.
        for finding in places.iter().filter_map(|place| about_entries.get(place)).flatten() {
            let severity = if rules.strict { Severity::Error } else { finding.severity };
            found.push(PinFinding { severity, ..about(&name, "entry", &finding.message) });
        }
        let mut of_pin = Vec::new();
        for place in places {
            hold(&name, pin, entries[*place], gate, &mut of_pin);
        }
        of_pin.dedup();
        found.append(&mut of_pin);
    }
    let mut by_id: HashMap<&str, Vec<&Object>> = HashMap::new();
    for pin in pins.pins() {
        by_id.entry(text(pin, "adapter_id").unwrap_or_default()).or_default().push(pin);
    }
    for contract in contracts {
        let id = text(&contract.declaration, "adapter_id").unwrap_or_default();
        hold_contract(contract, by_id.get(id).map(Vec::as_slice).unwrap_or_default(), &mut found);
    }
    Ok(found)
}

/// Returns the entry that a finding is about.
fn place_of(finding: &Finding) -> Option<usize> {
    finding.pointer.strip_prefix("/contracts/")?.split('/').next()?.parse().ok()
}

fn about(name: &str, code: &'static str, message: &str) -> PinFinding {
    PinFinding {
        severity: Severity::Error,
        code,
        name: name.to_owned(),
        file: None,
        message: message.to_owned(),
    }
}

/// Holds a pin to its entry.
fn hold(name: &str, pin: &Object, entry: &Object, gate: Gate, found: &mut Vec<PinFinding>) {
    let differs = |key: &str| pin.get(key) != entry.get(key);
    if differs("contract_hash") {
        let message = format!(
            "contract_hash: pinned is {}, and the manifest has {}",
            text(pin, "contract_hash").unwrap_or("none"),
            text(entry, "contract_hash").unwrap_or("none")
        );
        found.push(about(name, "contract_hash_differs", &message));
    }
    if text(pin, "entry_hash").is_none_or(str::is_empty) {
        let message = "the pin was made without a manifest, or of an entry without a hash, so that nothing of it was \
                       verified; pin it again with --manifest";
        found.push(about(name, "pin_not_verified", message));
    } else if differs("entry_hash") {
        let message = "its entry changed since it was pinned; look at it, and pin it again";
        found.push(about(name, "entry_hash_differs", message));
    }
    let newer = text(entry, "replaced_by").filter(|newer| !newer.is_empty());
    let newer = newer.map(|newer| format!("; its replacement is {newer}")).unwrap_or_default();
    match entry_status(entry) {
        Some("revoked") => {
            let is_inspected = gate.revoked && text(pin, "status") == Some("revoked");
            let severity = if is_inspected { Severity::Warning } else { Severity::Error };
            let message = format!("it is revoked{newer}");
            found.push(PinFinding { severity, ..about(name, REVOKED, &message) });
        }
        Some("deprecated") => {
            let severity = if gate.deprecated { Severity::Warning } else { Severity::Error };
            let message = format!("it is deprecated{newer}");
            found.push(PinFinding { severity, ..about(name, "deprecated", &message) });
        }
        Some(_) if !newer.is_empty() => {
            let message = format!("it is superseded{newer}");
            let severity = Severity::Warning;
            found.push(PinFinding { severity, ..about(name, "superseded", &message) });
        }
        _ => {}
    }
}

/// Holds a contract to its pin, which is among those of its id.
fn hold_contract(contract: &Contract, pins: &[&Object], found: &mut Vec<PinFinding>) {
    let name = entry_name(&contract.declaration);
    let mut tell = |code: &'static str, message: &str| {
        let file = Some(contract.file.clone());
        found.push(PinFinding { file, ..about(&name, code, message) });
    };
    for finding in lint(&contract.declaration) {
        if finding.severity == Severity::Error {
            tell("contract_wrong", &finding.message);
        }
    }
    let Some(pin) = pins.iter().find(|pin| entry_name(pin) == name) else {
        let others: Vec<&str> =
            pins.iter().filter_map(|pin| text(pin, "adapter_version")).collect();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!("; pinned is {}", others.join(", ")),
        };
        return tell("not_pinned", &format!("it is used, and not pinned{others}"));
    };
    match contract_hash(&contract.declaration) {
        Ok(hash) if text(pin, "contract_hash") == Some(&hash) => {}
        Ok(hash) => {
            let pinned = text(pin, "contract_hash").unwrap_or("none");
            let message = format!("the file has the contract_hash {hash}, and pinned is {pinned}");
            tell("contract_differs", &message);
        }
        Err(error) => tell("contract_wrong", &error.to_string()),
    }
}
