//! Everything that is wrong with a declaration, in the words of the AiGentsy tools.

use std::collections::HashSet;

use super::declaration::{CHANNELS, REQUIRED, STATUSES, contract_hash, input_schema_hash};
use super::pattern::{is_hash, is_id, is_pointer, is_semver, is_snake_case};
use super::same::identity;
use super::{types, validator};
use crate::json::{Object, Value, to_repr};
use crate::python_text;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The contract can be used.
    Warning,
    /// It cannot.
    Error,
}

/// Something that is wrong with a declaration, or worth knowing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is: a JSON pointer.
    pub pointer: String,
    /// What it is.
    pub message: String,
    /// What to do about it, if that does not follow from the place.
    advice: Option<&'static str>,
}

impl Finding {
    /// Makes an error.
    #[must_use]
    pub fn error(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, pointer.into(), message.into())
    }

    /// Makes a warning.
    #[must_use]
    pub fn warning(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, pointer.into(), message.into())
    }

    fn new(severity: Severity, pointer: String, message: String) -> Self {
        Self { severity, pointer, message, advice: None }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn advised(mut self, advice: &'static str) -> Self {
        self.advice = Some(advice);
        self
    }

    /// Returns what to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        if let Some(advice) = self.advice {
            return advice;
        }
        let key = self.pointer.strip_prefix('/').unwrap_or_default();
        match (key.split('/').next().unwrap_or_default(), self.severity) {
            (
                "adapter_contract_version"
                | "adapter_version"
                | "input_schema_version"
                | "validator_version"
                | "min_verifier_version",
                _,
            ) => "write three numbers with dots between them, like 1.0.0",
            ("adapter_id", _) => {
                "write two or more parts of small letters, digits and underscores with dots between them"
            }
            ("output_fields", _) => {
                "list the fields that the adapter gives, each once, in snake_case"
            }
            ("allowed_policy_fields", _) => "list fields of output_fields, each once",
            ("validator_name", Severity::Error) => "name the validator in snake_case",
            ("validator_name", Severity::Warning) => {
                "name starter_boolean_validator, or see that whoever evaluates has the validator"
            }
            ("field_types", _) => {
                "give each output field a type: boolean, integer, number, string, enum or timestamp"
            }
            ("input_schema_hash" | "contract_hash", _) => {
                "compute it anew with nexus-router contract rehash"
            }
            ("status", Severity::Error) => "write active, deprecated or revoked",
            ("status", Severity::Warning) => "adopt the contract that replaces it",
            ("supersedes" | "replaced_by", _) => "write ID@VERSION of a contract that there is",
            ("published_at", _) => "write a time like 2026-01-31T12:00:00Z",
            ("distribution_channel", _) => "write one of the four channels, or leave it out",
            _ => "nexus-router contract scaffold writes a contract that has all it needs",
        }
    }
}

/// Whose words are used: those of the author's tool, or those of the verifier, which are shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wording {
    /// Of the author's tool.
    Author,
    /// Of the verifier.
    Verifier,
}

/// The validator that the AiGentsy tools know.
const STARTER: &str = validator::STARTER.0;

/// Returns everything that is wrong with a declaration, errors before warnings.
#[must_use]
pub fn lint(declaration: &Object) -> Vec<Finding> {
    let mut findings = shape(declaration, Wording::Author);
    if REQUIRED.iter().any(|key| !declaration.contains_key(key)) {
        return findings;
    }
    if findings.is_empty() {
        compare(
            declaration,
            "input_schema_hash",
            input_schema_hash(declaration).ok(),
            &mut findings,
        );
        compare(declaration, "contract_hash", contract_hash(declaration).ok(), &mut findings);
    }
    let mut further = further(declaration);
    let mut warnings = validator(declaration, further.is_empty());
    lifecycle(declaration, &mut findings);
    warnings.extend(advice(declaration));
    findings.append(&mut warnings);
    findings.append(&mut further);
    // Stable: within errors and within warnings the order stays that of the AiGentsy tools.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Returns what is wrong with members that the AiGentsy tools do not know.
fn further(declaration: &Object) -> Vec<Finding> {
    let advised = |finding: Finding| match finding.pointer.as_str() {
        "/validator_name" | "/validator_version"
            if declaration.contains_key(types::FIELD_TYPES) =>
        {
            finding.advised("set it with nexus-router contract rehash")
        }
        "/validator_name" => finding.advised("add field_types, or name another validator"),
        _ => finding,
    };
    types::findings(declaration).into_iter().map(advised).collect()
}

/// Returns what is wrong with the form of a declaration; its hashes are not compared.
#[must_use]
pub fn shape(declaration: &Object, wording: Wording) -> Vec<Finding> {
    let missing: Vec<Finding> = REQUIRED
        .into_iter()
        .filter(|key| !declaration.contains_key(key))
        .map(|key| Finding::error("", format!("missing required field: {key}")))
        .collect();
    if !missing.is_empty() {
        return missing;
    }
    let mut findings = Vec::new();
    let text = |key: &str| declaration.get(key).and_then(Value::as_str);
    for key in
        ["adapter_contract_version", "adapter_version", "input_schema_version", "validator_version"]
    {
        if !text(key).is_some_and(is_semver) {
            findings.push(at(key, format!("{key} is not semver MAJOR.MINOR.PATCH")));
        }
    }
    if !text("adapter_id").is_some_and(is_id) {
        let example = match wording {
            Wording::Author => " (e.g. org.team.adapter)",
            Wording::Verifier => "",
        };
        findings.push(at("adapter_id", format!("adapter_id must be reverse-DNS style{example}")));
    }
    for key in ["output_fields", "allowed_policy_fields"] {
        fields(declaration, key, &mut findings);
    }
    if !text("validator_name").is_some_and(is_snake_case) {
        findings.push(at("validator_name", "validator_name must be snake_case"));
    }
    for key in ["input_schema_hash", "contract_hash"] {
        if !text(key).is_some_and(is_hash) {
            let form = match wording {
                Wording::Author => "64 lowercase hex chars",
                Wording::Verifier => "64 lowercase hex",
            };
            findings.push(at(key, format!("{key} is not a sha256 hex digest ({form})")));
        }
    }
    leaks(declaration, &mut findings);
    findings
}

fn at(key: &str, message: impl Into<String>) -> Finding {
    Finding::error(format!("/{key}"), message)
}

fn fields(declaration: &Object, key: &str, findings: &mut Vec<Finding>) {
    let Some(entries) = declaration.get(key).and_then(Value::as_array) else {
        findings.push(at(key, format!("{key} is not an array")));
        return;
    };
    if key == "output_fields" && entries.is_empty() {
        findings.push(at(key, "output_fields must have at least one entry"));
    }
    let mut seen = HashSet::new();
    if !entries.iter().all(|entry| seen.insert(identity(entry))) {
        findings.push(at(key, format!("{key} has duplicate entries")));
    }
    for (index, entry) in entries.iter().enumerate() {
        if !entry.as_str().is_some_and(is_snake_case) {
            let message = format!("{key} entry {} is not snake_case", to_repr(entry));
            findings.push(Finding::error(format!("/{key}/{index}"), message));
        }
    }
}

/// Finds the fields that may enter a policy although the adapter does not give them.
fn leaks(declaration: &Object, findings: &mut Vec<Finding>) {
    let given: HashSet<String> =
        entries(declaration, "output_fields").iter().map(identity).collect();
    let mut leaked: Vec<Value> = entries(declaration, "allowed_policy_fields");
    leaked.retain(|entry| !given.contains(&identity(entry)));
    leaked.sort_by_cached_key(|entry| entry.as_str().map_or_else(|| to_repr(entry), str::to_owned));
    leaked.dedup();
    if !leaked.is_empty() {
        let shown = to_repr(&Value::Array(leaked));
        let message = format!("allowed_policy_fields not in output_fields: {shown}");
        findings.push(at("allowed_policy_fields", message));
    }
}

/// Returns what the AiGentsy tools take for the entries of a list, also if it is none.
fn entries(declaration: &Object, key: &str) -> Vec<Value> {
    match declaration.get(key) {
        Some(Value::Array(entries)) => entries.clone(),
        Some(Value::String(text)) => text.chars().map(|c| c.to_string().into()).collect(),
        Some(Value::Object(object)) => object.keys().map(Value::from).collect(),
        _ => Vec::new(),
    }
}

fn compare(
    declaration: &Object,
    key: &str,
    recomputed: Option<String>,
    findings: &mut Vec<Finding>,
) {
    let declared = declaration.get(key).and_then(Value::as_str).unwrap_or_default();
    // A list that cannot be sorted is no list of names, which was told already.
    let Some(recomputed) = recomputed else { return };
    if declared != recomputed {
        let message = format!("{key} mismatch: declared '{declared}', recomputed '{recomputed}'");
        findings.push(at(key, message));
    }
}

/// Tells that a validator is not known here: it is neither that of booleans nor, if the types are `sound`, one of types.
fn validator(declaration: &Object, sound: bool) -> Vec<Finding> {
    let name = declaration.get("validator_name");
    let known = |name: &str| name == STARTER || sound && types::is_typed_name(name);
    if name.and_then(Value::as_str).is_some_and(known) {
        return Vec::new();
    }
    let message = format!(
        "validator_name {} is not in the locally-known set ['{STARTER}']; the runtime will register the contract but \
         evaluate_adapter will fail closed (route to require_review) unless the validator is registered server-side.",
        name.map(to_repr).unwrap_or_default()
    );
    vec![Finding::warning("/validator_name", message)]
}

/// Finds what is wrong with the keys that no hash covers.
fn lifecycle(declaration: &Object, findings: &mut Vec<Finding>) {
    let text = |value: &Value, rule: fn(&str) -> bool| value.as_str().is_some_and(rule);
    let mut hold =
        |key: &str, rule: &dyn Fn(&Value) -> bool, message: &dyn Fn(&Value) -> String| {
            if let Some(value) = declaration.get(key).filter(|value| !rule(value)) {
                findings.push(at(key, message(value)));
            }
        };
    hold("status", &|value| value.as_str().is_some_and(|it| STATUSES.contains(&it)), &|value| {
        format!("status must be one of {}; got {}", python_text::list(&STATUSES), to_repr(value))
    });
    for key in ["supersedes", "replaced_by"] {
        hold(key, &|value| text(value, is_pointer), &|_| {
            format!("{key} must be 'adapter_id@semver' (reverse-DNS id + @ + MAJOR.MINOR.PATCH)")
        });
    }
    hold("min_verifier_version", &|value| text(value, is_semver), &|_| {
        "min_verifier_version is not semver MAJOR.MINOR.PATCH".to_owned()
    });
    hold("published_at", &|value| text(value, |it| it.chars().count() >= 10), &|_| {
        "published_at must be an ISO-8601 string".to_owned()
    });
    hold(
        "distribution_channel",
        &|value| value.as_str().is_some_and(|it| CHANNELS.contains(&it)),
        &|_| format!("distribution_channel must be one of {}", CHANNELS.join(" | ")),
    );
}

/// Tells what became of a contract.
fn advice(declaration: &Object) -> Option<Finding> {
    let text = |key: &str| declaration.get(key).and_then(Value::as_str).filter(|it| !it.is_empty());
    let replacement = text("replaced_by").unwrap_or("(none declared)");
    let message = match (text("status")?, text("replaced_by")) {
        ("deprecated", _) => format!(
            "status=deprecated — recommend migrating to {replacement} for new work; existing bundles remain \
             replayable from their embedded declarations."
        ),
        ("revoked", _) => format!(
            "status=revoked — new adoption is blocked at evaluate_adapter (routes to unknown_adapter). Replacement: \
             {replacement}. Historical bundles remain replayable from their embedded declarations."
        ),
        ("active", Some(newer)) => format!(
            "status=active but replaced_by={newer} — this contract is superseded. Adoption is allowed; consider \
             migrating."
        ),
        _ => return None,
    };
    Some(Finding::warning("/status", message))
}
