//! An adapter that declares itself passive and notices what its configuration says: then it is not.

use nexus_router_sdk::{
    Adapter, AdapterError, CallContext, Capability, ConfigKey, Manifest, Object, Passive, ValueType,
};
use serde_json::{Value, json};

pub(crate) const KIND: &str = "passive";

const NOTICES: ConfigKey = ConfigKey::optional(
    "notices",
    ValueType::String,
    "environment, directory, time, process or nothing; and refuses for what it refuses by it",
);

pub(crate) const MANIFEST: Manifest = Manifest::new(KIND, &[Capability::Apply, Capability::DryRun])
    .router_versions(">=1.2,<2")
    .config(&[NOTICES.default_json("\"nothing\"")]);

pub(crate) struct Noticing {
    adapter_id: String,
    notices: String,
}

impl Noticing {
    pub(crate) fn new(adapter_id: Option<&str>, config: &Object) -> Self {
        let notices = config.get("notices").and_then(Value::as_str).unwrap_or("nothing");
        Self { adapter_id: adapter_id.unwrap_or(KIND).to_owned(), notices: notices.to_owned() }
    }

    fn noticed(&self) -> String {
        match self.notices.as_str() {
            "environment" | "refuses" => format!("{:?}", std::env::var_os("TZ")),
            "directory" => format!("{:?}", std::env::current_dir()),
            "time" => format!("{:?}", std::time::SystemTime::now()),
            "process" => std::process::id().to_string(),
            _ => String::new(),
        }
    }
}

impl Adapter for Noticing {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        KIND
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::Apply, Capability::DryRun]
    }

    fn call(
        &self,
        _: &CallContext,
        _: &str,
        _: &str,
        mut args: Object,
    ) -> Result<Object, AdapterError> {
        if self.notices == "refuses" && args.contains_key("refuse") {
            return Err(AdapterError::operational("X.test.NO", self.noticed()));
        }
        if self.notices != "refuses" {
            args.insert("noticed".to_owned(), self.noticed().into());
        }
        Ok(args)
    }

    fn passive(&self) -> Option<Passive> {
        let example = |args: Value| args.as_object().cloned().unwrap_or_default();
        Some(Passive {
            tool: "t".to_owned(),
            method: "m".to_owned(),
            examples: vec![example(json!({ "a": 1 })), example(json!({ "refuse": true }))],
            declares: json!({ "answers": ["what", "it", "is", "given"] }),
        })
    }
}
