//! The {{kind}} adapter: returns a text behind a prefix.
//!
//! What it does is an example. Replace the configuration, `call` and the tests by your own; the
//! README lists what has to agree.
#![forbid(unsafe_code)]

use nexus_router_sdk::{
    Adapter, AdapterError, CallContext, Capability, ConfigKey, Manifest, Object, ValueType, code,
    export_adapter,
};
use serde::Deserialize;
use serde_json::{Value, json};

const KIND: &str = "{{kind}}";
const CAPABILITIES: &[Capability] = &[Capability::Apply, Capability::DryRun];

/// What the router reads from the library without running it.
const MANIFEST: Manifest = Manifest::new(KIND, CAPABILITIES)
    .router_versions("{{router_versions}}")
    .config(&[ConfigKey::optional("prefix", ValueType::String, "What the text begins with")
        .default_json(r#""echo: ""#)])
    .error_codes(&[code::INVALID_ARGUMENT]);

/// The configuration. The router has checked it against the manifest and filled in the defaults.
#[derive(Deserialize)]
struct Config {
    prefix: String,
}

struct {{Type}}Adapter {
    adapter_id: String,
    prefix: String,
}

impl Adapter for {{Type}}Adapter {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        KIND
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    // The context knows the deadline, whether the call was cancelled, and whether it must only
    // pretend. This call is quick and has no effect, so it asks for none of them.
    fn call(
        &self,
        _context: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        // An expected failure. No secrets in its message and details: both are stored.
        let text = args.get("text").and_then(Value::as_str).ok_or_else(|| {
            AdapterError::operational(code::INVALID_ARGUMENT, "args.text must be a string")
                .details(json!({ "tool": tool, "method": method }))
        })?;
        Ok(Object::from_iter([
            ("tool".to_owned(), tool.into()),
            ("method".to_owned(), method.into()),
            ("text".to_owned(), format!("{}{text}", self.prefix).into()),
        ]))
    }
}

fn create_adapter(
    adapter_id: Option<&str>,
    Config { prefix }: Config,
) -> Result<{{Type}}Adapter, AdapterError> {
    let adapter_id = adapter_id.unwrap_or(KIND).to_owned();
    Ok({{Type}}Adapter { adapter_id, prefix })
}

export_adapter!(create_adapter, MANIFEST);

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::ErrorKind;
    use nexus_router_sdk::testing::call;

    fn config() -> Config {
        Config { prefix: "> ".to_owned() }
    }

    #[test]
    fn default_id_is_the_kind() {
        assert_eq!(create_adapter(None, config()).unwrap().adapter_id(), KIND);
    }

    #[test]
    fn custom_id_is_kept() {
        assert_eq!(create_adapter(Some("mine"), config()).unwrap().adapter_id(), "mine");
    }

    #[test]
    fn protocol_fields_are_as_declared() {
        let adapter = create_adapter(None, config()).unwrap();
        assert_eq!(adapter.adapter_kind(), KIND);
        assert_eq!(adapter.capabilities(), CAPABILITIES);
    }

    #[test]
    fn call_returns_an_object() {
        let adapter = create_adapter(None, config()).unwrap();
        let output = call(&adapter, "say", "once", json!({ "text": "hello" })).unwrap();
        let expected = json!({ "tool": "say", "method": "once", "text": "> hello" });
        assert_eq!(Value::Object(output), expected);
    }

    #[test]
    fn missing_text_is_an_operational_error() {
        let adapter = create_adapter(None, config()).unwrap();
        let error = call(&adapter, "say", "once", json!({})).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Operational);
        assert_eq!(error.code, code::INVALID_ARGUMENT);
        assert_eq!(error.details["tool"], "say");
    }
}
