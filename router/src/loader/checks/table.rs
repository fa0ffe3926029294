//! The checks, as one table: report, documentation and tests are read off it.
//!
//! The first ten are those of the adapter specification, with the peer's statuses and messages. Ids may
//! be added, never renamed or removed.

use nexus_router_sdk::{Capability, Object, canonical};
use serde_json::Value;

use super::Strictness;
use super::passive::{self, Rehearsal, passive_pure};
use crate::loader::manifest;
use crate::loader::versions::{self, Support};
use crate::loader::wire::Observations;
use crate::loader::{Opened, description};
use crate::python_text;

/// A check of the table.
pub struct Check {
    /// The stable id.
    pub id: &'static str,
    /// What it proves.
    pub doc: &'static str,
    /// What to do when it fails.
    pub remedy: &'static str,
    pub(super) run: fn(&Candidate<'_>) -> Outcome,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Pass(String),
    Fail(String),
    Warn(String),
    Skip(String),
}

/// An opened library, as the checks see it.
pub(crate) struct Candidate<'a> {
    pub(super) opened: &'a Opened,
    pub(super) observations: &'a Observations,
    pub(super) strictness: Strictness,
    /// The members of the description, or what is wrong with it.
    pub(super) description: Result<Object, String>,
    /// What became of its examples, if it declares itself passive.
    pub(super) rehearsal: Option<Rehearsal>,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(
        opened: &'a Opened,
        observations: &'a Observations,
        strictness: Strictness,
        rehearsal: Option<Rehearsal>,
    ) -> Self {
        let description = description::read_object(&observations.description);
        Self { opened, observations, strictness, description, rehearsal }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.description.as_ref().ok().and_then(|members| members.get(name))
    }

    /// Returns the capabilities when they are an array of strings, sorted and each once.
    pub(crate) fn capabilities(&self) -> Option<Vec<String>> {
        let items = self.field("capabilities")?.as_array()?;
        let names: Option<Vec<String>> =
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
        names.map(sorted_set)
    }

    /// Returns the manifest when it is an object: anything else counts as absent, as with the peer.
    pub(crate) fn manifest(&self) -> Option<&Value> {
        self.opened.record.manifest.as_ref().filter(|manifest| manifest.is_object())
    }

    fn valid_manifest(&self) -> Option<&Value> {
        self.manifest().filter(|manifest| manifest::schema_errors(manifest).is_empty())
    }

    /// Returns the message of a check that has no manifest to look at.
    fn without_manifest(&self) -> Outcome {
        Outcome::Skip(if self.manifest().is_none() {
            "Skipped: no manifest present".to_owned()
        } else {
            "Skipped: manifest schema invalid".to_owned()
        })
    }
}

fn sorted_set(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

/// Every check, in the order in which they are reported.
pub const CHECKS: &[Check] = &[
    Check {
        id: "LOAD_OK",
        doc: "The library opens, its ABI fits, and its factory makes an instance.",
        remedy: "the message and its hint say what stands in the way",
        run: load_ok,
    },
    Check {
        id: "PROTOCOL_FIELDS",
        doc: "The instance has adapter_id, adapter_kind and capabilities, and can be called.",
        remedy: "implement every required method of the Adapter trait",
        run: protocol_fields,
    },
    Check {
        id: "ADAPTER_ID_FORMAT",
        doc: "adapter_id is a non-empty string.",
        remedy: "fall back to a default id when none is given",
        run: |candidate| name_format(candidate, "adapter_id"),
    },
    Check {
        id: "ADAPTER_KIND_FORMAT",
        doc: "adapter_kind is a non-empty string.",
        remedy: "return a constant such as \"http\"",
        run: |candidate| name_format(candidate, "adapter_kind"),
    },
    Check {
        id: "CAPABILITIES_TYPE",
        doc: "capabilities is a set of strings, and so is that of the manifest: none stands twice.",
        remedy: "return a list of Capability values, each once",
        run: capabilities_type,
    },
    Check {
        id: "CAPABILITIES_VALID",
        doc: "Only standard capabilities are declared (a warning when not strict).",
        remedy: "declare only apply, dry_run, external, timeout; propose new ones to the router",
        run: capabilities_valid,
    },
    Check {
        id: "MANIFEST_PRESENT",
        doc: "The library carries a manifest for the factory (a warning when absent).",
        remedy: "pass a Manifest to export_adapter!",
        run: manifest_present,
    },
    Check {
        id: "MANIFEST_SCHEMA",
        doc: "The manifest has the required fields with the right types.",
        remedy: "build the manifest with the SDK's Manifest constants",
        run: manifest_schema,
    },
    Check {
        id: "MANIFEST_KIND_MATCH",
        doc: "The manifest's kind is the instance's adapter_kind.",
        remedy: "use one constant for both",
        run: manifest_kind_match,
    },
    Check {
        id: "MANIFEST_CAPS_MATCH",
        doc: "The manifest's capabilities are the instance's.",
        remedy: "use one constant for both",
        run: manifest_caps_match,
    },
    Check {
        id: "ABI_COMPATIBLE",
        doc: "The metadata names the ABI that this router speaks.",
        remedy: "build the adapter again with an SDK for this router",
        run: abi_compatible,
    },
    Check {
        id: "ROUTER_VERSION_SUPPORTED",
        doc: "supported_router_versions (PEP 440) includes this router.",
        remedy: "widen the specifier, or use a release that supports this router",
        run: router_version_supported,
    },
    Check {
        id: "MANIFEST_FIELDS_KNOWN",
        doc: "The manifest is an object and has no fields beyond the specification.",
        remedy: "remove the fields: manifests cannot extend the specification",
        run: manifest_fields_known,
    },
    Check {
        id: "MANIFEST_DEFAULTS_TYPED",
        doc: "Every default in config_schema is of the declared type.",
        remedy: "correct the default, or the type",
        run: manifest_defaults_typed,
    },
    Check {
        id: "ERROR_CODES_FORMAT",
        doc: "Error codes are upper-case words joined by underscores, maybe behind X.NAME. of their owner.",
        remedy: "write codes such as CONNECTION_FAILED",
        run: error_codes_format,
    },
    Check {
        id: "CONFIG_ACCEPTED",
        doc: "The given configuration fits config_schema: nothing missing, unknown or of the wrong type.",
        remedy: "correct the configuration; inspect lists the parameters",
        run: config_accepted,
    },
    Check {
        id: "NO_SIDE_EFFECTS",
        doc: "Loading reaches nothing outside the process, and leaves threads, descriptors, environment, signals, timers, \
              limits and output alone.",
        remedy: "start threads and open files at the first call, not in constructors or the factory",
        run: no_side_effects,
    },
    Check {
        id: "INSTANCES_INDEPENDENT",
        doc: "A second instance describes itself as the first does, and outlives it.",
        remedy: "keep state in the instance, not in statics",
        run: instances_independent,
    },
    Check {
        id: "TRIED_CONFINED",
        doc: "The checks above ran under the full confinement (a warning when the kernel lacks a part).",
        remedy: "use a kernel with Landlock and seccomp",
        run: tried_confined,
    },
    Check {
        id: passive::ID,
        doc: "A passive adapter gives the same bytes in two processes with other surroundings.",
        remedy: "make answers of the arguments and the configuration alone: no time, environment, files or chance",
        run: passive_pure,
    },
];

fn load_ok(candidate: &Candidate<'_>) -> Outcome {
    Outcome::Pass(format!("Successfully loaded adapter from '{}'", candidate.opened.factory_ref))
}

fn protocol_fields(candidate: &Candidate<'_>) -> Outcome {
    if let Err(problem) = &candidate.description {
        return Outcome::Fail(problem.clone());
    }
    if let Some(error) = candidate.field("error") {
        let error = candidate.opened.scrub_value(error);
        return Outcome::Fail(format!("the adapter could not describe itself: {error}"));
    }
    let required = ["adapter_id", "adapter_kind", "capabilities"];
    let missing: Vec<&str> =
        required.into_iter().filter(|field| candidate.field(field).is_none()).collect();
    if missing.is_empty() {
        Outcome::Pass("All required protocol fields present and valid".to_owned())
    } else {
        Outcome::Fail(format!("Missing required fields: {}", missing.join(", ")))
    }
}

fn name_format(candidate: &Candidate<'_>, field: &str) -> Outcome {
    let value = candidate.field(field).unwrap_or(&Value::Null);
    match value.as_str() {
        Some(name) if description::is_name(name) => Outcome::Pass(format!("{field}='{name}'")),
        Some(name) if !name.is_empty() => Outcome::Fail(format!(
            "{field} must be at most {} bytes without control characters, got: {}",
            description::MAX_NAME,
            python_text::repr(&Value::from(name.chars().take(40).collect::<String>()))
        )),
        _ => Outcome::Fail(format!(
            "{field} must be non-empty string, got: {}",
            canonical::type_name(value)
        )),
    }
}

fn capabilities_type(candidate: &Candidate<'_>) -> Outcome {
    let value = candidate.field("capabilities").unwrap_or(&Value::Null);
    let Some(items) = value.as_array() else {
        let found = canonical::type_name(value);
        return Outcome::Fail(format!("capabilities must be iterable, got: {found}"));
    };
    let others: Vec<Value> = items.iter().filter(|item| !item.is_string()).cloned().collect();
    if !others.is_empty() {
        let others = python_text::repr(&Value::Array(others));
        return Outcome::Fail(format!("capabilities contains non-string values: {others}"));
    }
    let names: Vec<String> = items.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let of_manifest = candidate.manifest().map(manifest::repeated_capabilities);
    for (place, repeated) in [
        ("capabilities", manifest::repeated(&names)),
        ("the manifest's capabilities", of_manifest.unwrap_or_default()),
    ] {
        if !repeated.is_empty() {
            let repeated = python_text::list(&repeated);
            return Outcome::Fail(format!("{place} contains duplicates: {repeated}"));
        }
    }
    Outcome::Pass(format!("capabilities is valid set of {} strings", names.len()))
}

fn capabilities_valid(candidate: &Candidate<'_>) -> Outcome {
    let Some(names) = candidate.capabilities() else {
        return Outcome::Skip("Skipped due to CAPABILITIES_TYPE failure".to_owned());
    };
    let unknown: Vec<&String> =
        names.iter().filter(|name| Capability::from_name(name).is_none()).collect();
    if unknown.is_empty() {
        return Outcome::Pass(format!(
            "All capabilities are standard: {}",
            python_text::list(&names)
        ));
    }
    let message = format!("Unknown capabilities (not in spec): {}", python_text::list(&unknown));
    match candidate.strictness {
        Strictness::Strict => Outcome::Fail(message),
        Strictness::Lenient => Outcome::Warn(message),
    }
}

fn manifest_present(candidate: &Candidate<'_>) -> Outcome {
    let module = candidate.opened.factory_ref.module();
    if candidate.manifest().is_some() {
        Outcome::Pass(format!("ADAPTER_MANIFEST found in module '{module}'"))
    } else {
        Outcome::Warn(format!(
            "No ADAPTER_MANIFEST found in module '{module}' (optional but recommended)"
        ))
    }
}

fn manifest_schema(candidate: &Candidate<'_>) -> Outcome {
    let Some(manifest) = candidate.manifest() else { return candidate.without_manifest() };
    let errors = manifest::schema_errors(manifest);
    if errors.is_empty() {
        Outcome::Pass("Manifest schema is valid".to_owned())
    } else {
        Outcome::Fail(format!("Invalid manifest schema: {}", errors.join("; ")))
    }
}

fn manifest_kind_match(candidate: &Candidate<'_>) -> Outcome {
    let Some(manifest) = candidate.valid_manifest() else { return candidate.without_manifest() };
    let stated = manifest["kind"].as_str().unwrap_or_default();
    match candidate.field("adapter_kind").and_then(Value::as_str) {
        Some(kind) if kind == stated => {
            Outcome::Pass(format!("Manifest kind matches adapter_kind: '{kind}'"))
        }
        kind => Outcome::Fail(format!(
            "Manifest kind '{stated}' does not match adapter_kind '{}'",
            kind.unwrap_or_default()
        )),
    }
}

fn manifest_caps_match(candidate: &Candidate<'_>) -> Outcome {
    let Some(manifest) = candidate.valid_manifest() else { return candidate.without_manifest() };
    let Some(actual) = candidate.capabilities() else {
        return Outcome::Skip("Skipped due to CAPABILITIES_TYPE failure".to_owned());
    };
    let stated = manifest["capabilities"].as_array().into_iter().flatten();
    let stated = sorted_set(stated.filter_map(|name| name.as_str().map(str::to_owned)).collect());
    let only_in = |a: &[String], b: &[String]| -> Vec<String> {
        a.iter().filter(|name| !b.contains(name)).cloned().collect()
    };
    let (extra, missing) = (only_in(&stated, &actual), only_in(&actual, &stated));
    let mut parts = Vec::new();
    if !extra.is_empty() {
        parts.push(format!("extra in manifest: {}", python_text::list(&extra)));
    }
    if !missing.is_empty() {
        parts.push(format!("missing from manifest: {}", python_text::list(&missing)));
    }
    if parts.is_empty() {
        Outcome::Pass(format!(
            "Manifest capabilities match adapter: {}",
            python_text::list(&actual)
        ))
    } else {
        Outcome::Fail(format!("Manifest capabilities do not match adapter: {}", parts.join("; ")))
    }
}

fn abi_compatible(candidate: &Candidate<'_>) -> Outcome {
    let record = &candidate.opened.record;
    let ours = nexus_router_abi::ABI_VERSION;
    if record.abi == ours {
        Outcome::Pass(format!("ABI {ours}, built with SDK {}", record.sdk))
    } else {
        let (theirs, sdk) = (record.abi, &record.sdk);
        Outcome::Fail(format!("the metadata says ABI {theirs} (SDK {sdk}), this router has {ours}"))
    }
}

fn router_version_supported(candidate: &Candidate<'_>) -> Outcome {
    let view = candidate.opened.view.as_ref();
    let Some(specifier) = view.and_then(|view| view.supported_router_versions.as_deref()) else {
        return Outcome::Skip(
            "Skipped: the manifest states no supported_router_versions".to_owned(),
        );
    };
    let ours = versions::router_version();
    match versions::supports(specifier) {
        Support::Yes => Outcome::Pass(format!("Router {ours} is in '{specifier}'")),
        Support::No => Outcome::Fail(format!("Router {ours} is not in '{specifier}'")),
        Support::Invalid(problem) => {
            Outcome::Fail(format!("'{specifier}' is not a PEP 440 specifier: {problem}"))
        }
    }
}

fn manifest_fields_known(candidate: &Candidate<'_>) -> Outcome {
    let Some(manifest) = &candidate.opened.record.manifest else {
        return candidate.without_manifest();
    };
    if !manifest.is_object() {
        let found = manifest::json_type(manifest);
        return Outcome::Fail(format!("the manifest must be an object, got: {found}"));
    }
    none_of(
        "unknown fields",
        "Every field is in the specification",
        &manifest::unknown_fields(manifest),
    )
}

fn manifest_defaults_typed(candidate: &Candidate<'_>) -> Outcome {
    let Some(manifest) = candidate.manifest() else { return candidate.without_manifest() };
    none_of("wrong defaults", "Every default has its type", &manifest::default_errors(manifest))
}

fn error_codes_format(candidate: &Candidate<'_>) -> Outcome {
    let Some(manifest) = candidate.manifest() else { return candidate.without_manifest() };
    let malformed = manifest::malformed_error_codes(manifest);
    none_of("malformed error codes", "Every error code is well-formed", &malformed)
}

fn config_accepted(candidate: &Candidate<'_>) -> Outcome {
    let config = &candidate.opened.config;
    let findings: Vec<String> = config.findings.iter().map(ToString::to_string).collect();
    let given = config.config.len() - config.applied.len();
    let counted = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let defaults = counted(config.applied.len(), "default");
    let accepted = format!("{} given, {defaults} applied", counted(given, "key"));
    none_of("the config does not fit", &accepted, &findings)
}

fn no_side_effects(candidate: &Candidate<'_>) -> Outcome {
    let Observations { side_effects, denied, .. } = candidate.observations;
    let fine = "Loading left the process as it was";
    if side_effects.is_empty() && !denied.is_empty() {
        return Outcome::Warn(format!("{fine}; the sandbox denied {}", denied.join("; ")));
    }
    none_of("loading has side effects", fine, side_effects)
}

fn instances_independent(candidate: &Candidate<'_>) -> Outcome {
    match &candidate.observations.second_instance {
        None => Outcome::Pass("A second instance is like the first and outlives it".to_owned()),
        Some(difference) => Outcome::Fail(candidate.opened.scrub(difference)),
    }
}

fn tried_confined(candidate: &Candidate<'_>) -> Outcome {
    let confinement = &candidate.observations.confinement;
    let state = confinement.to_string();
    if !candidate.observations.is_observed {
        return Outcome::Warn(format!("{state}; side effects that it denied were not observed"));
    }
    if confinement.is_full() { Outcome::Pass(state) } else { Outcome::Warn(state) }
}

fn none_of(problem: &str, fine: &str, findings: &[String]) -> Outcome {
    if findings.is_empty() {
        Outcome::Pass(fine.to_owned())
    } else {
        Outcome::Fail(format!("{problem}: {}", findings.join("; ")))
    }
}
