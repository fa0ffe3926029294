//! What each rule looks for. A function has the name of its rule.

use super::document::ToolDocument;
use super::gate::{Known, Subject};
use super::parts::{ExecutionMode, ResourceClass};
use super::reader::{meant, shown};
use crate::interface::{
    Change, Class, Interface, Operation, compare_outputs, compare_schemas, is_adapter_id,
};
use crate::json::Value;

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Where, as a JSON pointer.
    pub(super) pointer: String,
    /// What; the remedy of the rule is added.
    pub(super) message: String,
}

/// What was found: none if the rule does not apply, and nothing if it is kept.
pub(super) type Found = Option<Vec<Fault>>;

/// Names of addresses of services, which only adapters know.
const ADDRESSES: [&str; 8] = [
    "SUPABASE_URL",
    "QDRANT_URL",
    "MEILISEARCH_HOST",
    "R2_ENDPOINT",
    "PROMETHEUS_URL",
    "LOKI_URL",
    "GRAFANA_URL",
    "LIVEKIT_URL",
];

/// What the name of a credential has in it that opens a database without an adapter.
const OF_DATABASES: [&str; 4] =
    ["DB_PASSWORD", "DB_CONNECTION", "DATABASE_URL", "SUPABASE_PASSWORD"];

fn fault(pointer: impl Into<String>, message: impl Into<String>) -> Vec<Fault> {
    vec![Fault { pointer: pointer.into(), message: message.into() }]
}

/// Says nothing if all is well.
fn unless(kept: bool, pointer: &str, message: impl FnOnce() -> String) -> Found {
    Some(if kept { Vec::new() } else { fault(pointer, message()) })
}

impl<'a> Subject<'a> {
    /// Returns the tool spec, if it is of this mode.
    fn of_mode(&self, mode: ExecutionMode) -> Option<&'a ToolDocument> {
        self.document.filter(|document| document.execution_mode == mode)
    }

    fn is(&self, mode: ExecutionMode) -> bool {
        self.fragment.execution_mode == Some(mode)
    }

    /// Returns the adapter, where one may be named.
    fn adapter_id(&self) -> Option<&'a str> {
        let named = self.fragment.adapter_id.as_deref();
        named.filter(|_| !self.is(ExecutionMode::Local))
    }

    /// Returns the contract of the adapter, if there is one.
    fn contract(&self, known: &Known<'a>) -> Option<&'a Interface> {
        known.interfaces.get(self.adapter_id()?)
    }

    /// Returns the operation with its contract, if there is one.
    fn operation(&self, known: &Known<'a>) -> Option<(&'a Interface, &'a Operation)> {
        let contract = self.contract(known)?;
        let operation = contract.operations.get(self.fragment.adapter_operation.as_deref()?)?;
        Some((contract, operation))
    }
}

/// A document that was read has the form; see [`super::gate::unreadable`].
pub(super) fn toolspec_schema(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    subject.document.map(|_| Vec::new())
}

pub(super) fn local_control_only(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    let class = subject.of_mode(ExecutionMode::Local)?.resource_class;
    unless(class == ResourceClass::Control, "/resource_class", || {
        format!("a local tool has the resource_class {}, and must have control", class.name())
    })
}

pub(super) fn remote_requires_target(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    let target = &subject.of_mode(ExecutionMode::Remote)?.execution_target;
    unless(target.is_some(), "/execution_target", || {
        "a remote tool has no execution_target".to_owned()
    })
}

pub(super) fn execution_target_incomplete(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    let target = subject.of_mode(ExecutionMode::Remote)?.execution_target.as_ref()?;
    let parts = [("provider", &target.provider), ("service", &target.service)];
    let missing = parts
        .into_iter()
        .filter(|(_, text)| text.as_deref().is_none_or(|text| text.trim().is_empty()));
    let told = missing.flat_map(|(name, _)| {
        fault(format!("/execution_target/{name}"), format!("execution_target has no {name}"))
    });
    Some(told.collect())
}

pub(super) fn remote_not_control(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    let class = subject.of_mode(ExecutionMode::Remote)?.resource_class;
    unless(class != ResourceClass::Control, "/resource_class", || {
        "a remote tool has the resource_class control, and must have compute or state".to_owned()
    })
}

pub(super) fn local_no_direct_cloud_db(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    let effects = subject.of_mode(ExecutionMode::Local)?.side_effects.iter().enumerate();
    let told = effects.filter(|(_, effect)| effect.effect_type.is_of_databases()).flat_map(
        |(index, effect)| {
            let message = format!("a local tool has the side effect {}", effect.effect_type.name());
            fault(format!("/side_effects/{index}/effect_type"), message)
        },
    );
    Some(told.collect())
}

pub(super) fn local_no_direct_db_connection(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    let names = subject.of_mode(ExecutionMode::Local)?.credentials_required.iter().enumerate();
    // Only the part that is known is told, as the rest of the name may be more than a name.
    let told = names.filter_map(|(index, name)| {
        let part = OF_DATABASES.into_iter().find(|part| name.contains(part))?;
        let message = format!("a local tool asks for a credential of a database ({part})");
        Some(Fault { pointer: format!("/credentials_required/{index}"), message })
    });
    Some(told.collect())
}

pub(super) fn remote_no_local_effects(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    let effects = subject.of_mode(ExecutionMode::Remote)?.side_effects.iter().enumerate();
    let told = effects.filter(|(_, effect)| effect.effect_type.is_of_this_machine()).flat_map(
        |(index, effect)| {
            let message =
                format!("a remote tool has the side effect {}", effect.effect_type.name());
            fault(format!("/side_effects/{index}/effect_type"), message)
        },
    );
    Some(told.collect())
}

pub(super) fn remote_requires_adapter(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    subject.is(ExecutionMode::Remote).then_some(())?;
    unless(subject.fragment.adapter_id.is_some(), "/adapter_id", || {
        "a remote tool names no adapter".to_owned()
    })
}

pub(super) fn invalid_adapter_id(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    let id = subject.adapter_id()?;
    unless(is_adapter_id(id), "/adapter_id", || {
        format!("the adapter_id is {}, which does not match ^[a-z0-9-]+$", shown(id))
    })
}

pub(super) fn local_tools_no_adapter(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    let Subject { fragment, .. } = subject;
    subject.is(ExecutionMode::Local).then_some(())?;
    let members = [
        ("adapter_id", fragment.adapter_id.is_some()),
        ("adapter_operation", fragment.adapter_operation.is_some()),
        ("adapter_contract_version", fragment.adapter_contract_version.is_some()),
    ];
    let told = members.into_iter().filter(|(_, said)| *said).flat_map(|(name, _)| {
        fault(format!("/{name}"), format!("a local tool has no adapter, and this one has {name}"))
    });
    Some(told.collect())
}

pub(super) fn unknown_adapter(subject: &Subject<'_>, known: &Known<'_>) -> Found {
    // One that cannot be an id is told as such.
    let id = subject.adapter_id().filter(|id| is_adapter_id(id))?;
    // One that does not hold is told as such.
    if known.unfrozen.is_some_and(|unfrozen| unfrozen.contains(id)) {
        return None;
    }
    unless(known.interfaces.contains_key(id), "/adapter_id", || {
        let meant = meant(id, known.interfaces.keys().map(String::as_str));
        format!("there is no interface contract of an adapter {}; {meant}", shown(id))
    })
}

pub(super) fn adapter_requires_operation(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    let id = subject.adapter_id()?;
    unless(subject.fragment.adapter_operation.is_some(), "/adapter_operation", || {
        format!("the tool names the adapter {} and no operation of it", shown(id))
    })
}

/// Tells what is wrong with an operation that its contract does not have.
fn missing(subject: &Subject<'_>, contract: &Interface) -> Option<String> {
    let operation = subject.fragment.adapter_operation.as_deref()?;
    if contract.operations.contains_key(operation) {
        return None;
    }
    let meant = meant(operation, contract.operations.keys().map(String::as_str));
    let Interface { adapter_id, version, .. } = contract;
    let shown = shown(operation);
    Some(format!("the contract {version} of '{adapter_id}' has no operation {shown}; {meant}"))
}

/// Says whether the contract may have dropped what the tool was written for: only a major version may.
fn has_moved_on(subject: &Subject<'_>, contract: &Interface) -> bool {
    contract.version.major > subject.fragment.contract_version().major
}

pub(super) fn invalid_adapter_operation(subject: &Subject<'_>, known: &Known<'_>) -> Found {
    subject.fragment.adapter_operation.as_ref()?;
    let contract = subject.contract(known).filter(|contract| !has_moved_on(subject, contract))?;
    let told = missing(subject, contract);
    Some(told.map(|message| fault("/adapter_operation", message)).unwrap_or_default())
}

pub(super) fn operation_removed(subject: &Subject<'_>, known: &Known<'_>) -> Found {
    subject.fragment.adapter_operation.as_ref()?;
    let contract = subject.contract(known).filter(|contract| has_moved_on(subject, contract))?;
    let told = missing(subject, contract).map(|message| {
        let meant = subject.fragment.contract_version();
        fault("/adapter_operation", format!("{message}; the tool was written for {meant}"))
    });
    Some(told.unwrap_or_default())
}

pub(super) fn no_direct_cloud_urls(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    let names = subject.document?.credentials_required.iter().enumerate();
    let told =
        names.filter(|(_, name)| ADDRESSES.contains(&name.as_str())).flat_map(|(index, name)| {
            let message = format!("the tool asks for {name}, the address of a service");
            fault(format!("/credentials_required/{index}"), message)
        });
    Some(told.collect())
}

pub(super) fn contract_version_mismatch(subject: &Subject<'_>, known: &Known<'_>) -> Found {
    let contract = subject.contract(known)?;
    let (there, meant) = (&contract.version, subject.fragment.contract_version());
    let kept =
        there.major == meant.major && (there.minor, there.patch) >= (meant.minor, meant.patch);
    unless(kept, "/adapter_contract_version", || {
        let said = match subject.fragment.adapter_contract_version {
            Some(_) => "",
            None => " (it names none)",
        };
        let id = &contract.adapter_id;
        let why = if there.major == meant.major {
            "which is older"
        } else {
            "which is another major version"
        };
        format!(
            "the tool is written for {meant}{said}, and the contract of '{id}' is {there}, {why}"
        )
    })
}

pub(super) fn contract_not_frozen(subject: &Subject<'_>, known: &Known<'_>) -> Found {
    let id = subject.adapter_id().filter(|id| is_adapter_id(id))?;
    let contract = subject.contract(known);
    let drifted = known.unfrozen.is_some_and(|unfrozen| unfrozen.contains(id));
    if contract.is_none() && !drifted {
        return None;
    }
    unless(!drifted, "/adapter_id", || match contract {
        Some(Interface { version, .. }) => {
            format!("the contract {version} of '{id}' is not the one that was locked")
        }
        None => {
            format!("the contract of '{id}' does not hold; nexus-router interface verify tells why")
        }
    })
}

pub(super) fn browser_not_executed(subject: &Subject<'_>, _: &Known<'_>) -> Found {
    subject.fragment.execution_mode?;
    unless(!subject.is(ExecutionMode::Browser), "/execution_mode", || {
        "the tool has the execution_mode browser".to_owned()
    })
}

pub(super) fn unknown_local_operation(subject: &Subject<'_>, known: &Known<'_>) -> Found {
    let target = subject.of_mode(ExecutionMode::Local)?.execution_target.as_ref();
    let service = target.and_then(|target| target.service.as_deref());
    let is_known = service.is_some_and(|service| known.builtins.contains(&service));
    unless(is_known, "/execution_target/service", || {
        let meant = meant(service.unwrap_or_default(), known.builtins.iter().copied());
        match service {
            Some(service) => format!("the router has no operation {}; {meant}", shown(service)),
            None => format!("a local tool names no operation of the router; {meant}"),
        }
    })
}

pub(super) fn input_schema_incompatible(subject: &Subject<'_>, known: &Known<'_>) -> Found {
    let document = subject.document?;
    let (contract, operation) = subject.operation(known)?;
    let said = &document.input_schema;
    // Who says no more than that it takes an object leaves it to the contract, which callers are shown.
    if is_any_object(said) {
        return Some(Vec::new());
    }
    let changes = compare_schemas(said, &operation.input_schema, "/input_schema");
    Some(refused(contract, &changes))
}

/// What the tool promises to take, and the contract refuses.
pub(super) fn refused(contract: &Interface, changes: &[Change]) -> Vec<Fault> {
    let Interface { adapter_id, version, .. } = contract;
    let major = changes.iter().filter(|change| change.class == Class::Major);
    let told = major.map(|change| Fault {
        pointer: change.pointer.clone(),
        message: format!(
            "the contract {version} of '{adapter_id}' refuses what the tool promises to take: {}",
            change.message
        ),
    });
    told.collect()
}

pub(super) fn output_schema_incompatible(subject: &Subject<'_>, known: &Known<'_>) -> Found {
    let document = subject.document?;
    let (contract, operation) = subject.operation(known)?;
    let said = &document.output_schema;
    // Any object may be all that a tool promises; whatever the contract gives is one.
    let changes = if is_any_object(said) {
        Vec::new()
    } else {
        compare_outputs(said, &operation.output_schema, "/output_schema")
    };
    let same = changes.iter().all(|change| change.class != Class::Major);
    unless(same, "/output_schema", || {
        let Interface { adapter_id, version, .. } = contract;
        format!("output_schema is another than that of the contract {version} of '{adapter_id}'")
    })
}

fn is_any_object(schema: &Value) -> bool {
    schema.as_object().is_some_and(|schema| schema.len() == 1)
        && schema.get("type").and_then(Value::as_str) == Some("object")
}
