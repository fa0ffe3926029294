//! An adapter that answers as the examples of an interface contract say.
//!
//! Its configuration has the contract as a text, and `instead`: members that it adds to every output.

use nexus_router_sdk::{Adapter, AdapterError, CallContext, Capability, Object, code};
use serde_json::Value;

pub(crate) const KIND: &str = "replays";

pub(crate) struct Replays {
    adapter_id: String,
    contract: Value,
    instead: Object,
}

impl Replays {
    pub(crate) fn new(adapter_id: Option<&str>, config: &Object) -> Result<Self, AdapterError> {
        let text = config.get("contract").and_then(Value::as_str).unwrap_or_default();
        let contract = serde_json::from_str(text).map_err(|error| {
            AdapterError::operational(code::CONFIG_REJECTED, format!("config.contract: {error}"))
        })?;
        let instead = config.get("instead").and_then(Value::as_object).cloned();
        Ok(Self {
            adapter_id: adapter_id.unwrap_or(KIND).to_owned(),
            contract,
            instead: instead.unwrap_or_default(),
        })
    }
}

/// Returns the arguments with the defaults of the schema where they have none.
fn filled(schema: &Value, args: &Object) -> Object {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let defaults = properties
        .filter_map(|(name, member)| Some((name.clone(), member.get("default")?.clone())));
    let mut filled: Object = defaults.collect();
    filled.extend(args.clone());
    filled
}

impl Adapter for Replays {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        KIND
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::Apply]
    }

    fn call(
        &self,
        _: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        let operation = &self.contract["operations"][method];
        let schema = &operation["input_schema"];
        let args = filled(schema, &args);
        let is_meant = |example: &&Value| {
            example["input"].as_object().is_some_and(|input| filled(schema, input) == args)
        };
        let example = operation["examples"].as_array().into_iter().flatten().find(is_meant);
        let Some(example) = example.filter(|_| tool == self.contract["adapter_id"]) else {
            let message = format!("{tool}.{method} has no such example");
            return Err(AdapterError::operational(code::INVALID_ARGUMENT, message));
        };
        if let Some(code) = example["error"].as_str() {
            return Err(AdapterError::operational(code, "as the example says"));
        }
        let mut output = example["output"].as_object().cloned().unwrap_or_default();
        output.extend(self.instead.clone());
        Ok(output)
    }
}
