//! What an instance says of itself, and whether it keeps the protocol.

use std::collections::BTreeSet;

use nexus_router_sdk::{Capability, Object};
use serde_json::Value;

use super::error::Reason;

/// Longer ids and kinds are refused; they go into every event.
pub(crate) const MAX_NAME: usize = 256;

/// The protocol fields of an instance that keeps the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The identifier of the instance.
    pub adapter_id: String,
    /// The type identifier.
    pub adapter_kind: String,
    /// What it declares that it can do.
    pub capabilities: BTreeSet<Capability>,
    /// Whether a started call needs no thread while it waits.
    pub starts_at_once: bool,
    /// Whether it has a catalogue.
    pub catalog: bool,
}

/// Reads a description's text as an object, whatever its members are.
pub(crate) fn read_object(text: &str) -> Result<Object, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err("the description is not an object".to_owned()),
        Err(error) => Err(format!("the description is not JSON: {error}")),
    }
}

/// Admits a description, or says which rule it breaks.
pub(super) fn admit(text: &str) -> Result<Description, (Reason, String)> {
    let protocol = |problem: String| (Reason::ProtocolInvalid, problem);
    let members = read_object(text).map_err(protocol)?;
    if let Some(error) = members.get("error") {
        return Err(protocol(format!("the adapter could not describe itself: {error}")));
    }
    let name = |field: &str| match members.get(field) {
        None => Err(protocol(format!("the required field '{field}' is missing"))),
        Some(Value::String(name)) if is_name(name) => Ok(name.clone()),
        Some(_) => Err(protocol(format!(
            "'{field}' must be a non-empty string of at most {MAX_NAME} bytes without control characters"
        ))),
    };
    let (adapter_id, adapter_kind) = (name("adapter_id")?, name("adapter_kind")?);
    let capabilities = match members.get("capabilities") {
        None => return Err(protocol("the required field 'capabilities' is missing".to_owned())),
        Some(value) => capabilities(value).map_err(|text| (Reason::CapabilitiesInvalid, text))?,
    };
    let flag = |name| members.get(name).and_then(Value::as_bool).unwrap_or_default();
    let (starts_at_once, catalog) = (flag("starts_at_once"), flag("catalog"));
    Ok(Description { adapter_id, adapter_kind, capabilities, starts_at_once, catalog })
}

/// Says whether a text can be an id or a kind.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control)
}

fn capabilities(value: &Value) -> Result<BTreeSet<Capability>, String> {
    let Value::Array(items) = value else {
        return Err("capabilities must be an array of strings".to_owned());
    };
    let mut set = BTreeSet::new();
    for item in items {
        let name = item.as_str().ok_or("capabilities must contain only strings")?;
        let capability = Capability::from_name(name).ok_or_else(|| {
            let known: Vec<&str> = Capability::ALL.iter().map(|known| known.name()).collect();
            format!("capability '{name}' is not one of {}", known.join(", "))
        })?;
        if !set.insert(capability) {
            return Err(format!("capability '{name}' is declared twice"));
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_protocol_is_admitted() {
        let good = r#"{"adapter_id":"a","adapter_kind":"k","capabilities":["apply"],"later":1}"#;
        assert_eq!(admit(good).unwrap().capabilities, BTreeSet::from([Capability::Apply]));
        let long = format!(
            r#"{{"adapter_id":"{}","adapter_kind":"k","capabilities":[]}}"#,
            "x".repeat(300)
        );
        for (text, reason) in [
            ("", Reason::ProtocolInvalid),
            ("[]", Reason::ProtocolInvalid),
            (r#"{"adapter_id":"a","capabilities":[]}"#, Reason::ProtocolInvalid),
            (r#"{"adapter_id":"","adapter_kind":"k","capabilities":[]}"#, Reason::ProtocolInvalid),
            (
                r#"{"adapter_id":"a\n","adapter_kind":"k","capabilities":[]}"#,
                Reason::ProtocolInvalid,
            ),
            (r#"{"adapter_id":1,"adapter_kind":"k","capabilities":[]}"#, Reason::ProtocolInvalid),
            (&long, Reason::ProtocolInvalid),
            (r#"{"adapter_id":"a","adapter_kind":"k"}"#, Reason::ProtocolInvalid),
            (r#"{"error":{"code":"ADAPTER_PANICKED"}}"#, Reason::ProtocolInvalid),
            (
                r#"{"adapter_id":"a","adapter_kind":"k","capabilities":"apply"}"#,
                Reason::CapabilitiesInvalid,
            ),
            (
                r#"{"adapter_id":"a","adapter_kind":"k","capabilities":[1]}"#,
                Reason::CapabilitiesInvalid,
            ),
            (
                r#"{"adapter_id":"a","adapter_kind":"k","capabilities":["fly"]}"#,
                Reason::CapabilitiesInvalid,
            ),
            (
                r#"{"adapter_id":"a","adapter_kind":"k","capabilities":["apply","apply"]}"#,
                Reason::CapabilitiesInvalid,
            ),
        ] {
            assert_eq!(admit(text).unwrap_err().0, reason, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_admitted_or_refused(text in ".{0,80}") {
            drop(admit(&text));
        }
    }
}
