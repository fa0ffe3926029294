//! Tools as callers see them: a name for one operation of one adapter.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::ToolEntry;
use crate::json::{Object, Value};
use crate::policy::Classes;
use crate::registry::{self, Registry};
use crate::request::{self, Mode, Request};
use crate::role::ActionClass;

/// A tool.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// The name that callers use.
    pub name: String,
    /// What it does, for callers.
    pub description: String,
    /// The adapter that carries it out.
    pub adapter_id: String,
    /// The tool that the adapter is asked for.
    pub tool: String,
    /// The method of that tool.
    pub method: String,
    /// What kind of action it is, which roles go by.
    pub action_class: Option<ActionClass>,
    /// How long a call may take.
    pub timeout: Option<Duration>,
}

/// A tool names an adapter that is not there.
#[derive(Debug, thiserror::Error)]
#[error("tool {tool}: there is no adapter {}", self.adapter())]
pub struct Error {
    /// The tool.
    pub tool: String,
    /// What the registry says; its text is a part of ours.
    pub error: registry::Error,
}

impl Error {
    fn adapter(&self) -> &str {
        match &self.error {
            registry::Error::Unknown { adapter_id, .. } => adapter_id,
            _ => "",
        }
    }
}

/// The tools of a router, by name.
#[derive(Clone, Debug, Default)]
pub struct Tools(BTreeMap<String, ToolSpec>);

impl Tools {
    /// Takes the tools of a configuration.
    ///
    /// # Errors
    /// When one of them names an adapter that is not there.
    pub fn new(entries: &[ToolEntry], registry: &Registry) -> Result<Self, Error> {
        let spec = |entry: &ToolEntry| {
            let found = registry.get(&entry.adapter);
            found.map_err(|error| Error { tool: entry.name.clone(), error })?;
            let spec = ToolSpec {
                name: entry.name.clone(),
                description: entry.description.clone(),
                adapter_id: entry.adapter.clone(),
                tool: entry.tool.clone(),
                method: entry.method.clone(),
                action_class: entry.action_class,
                timeout: entry.timeout,
            };
            Ok((entry.name.clone(), spec))
        };
        entries.iter().map(spec).collect::<Result<_, _>>().map(Self)
    }

    /// Finds a tool.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.0.get(name)
    }

    /// Lists the tools by name.
    pub fn iter(&self) -> impl Iterator<Item = &ToolSpec> {
        self.0.values()
    }

    /// Returns the classes of the operations behind the tools. Two tools of one operation and different
    /// classes would make the class a matter of luck, so such an operation has none.
    #[must_use]
    pub fn classes(&self) -> Classes {
        let mut classes: BTreeMap<_, Option<ActionClass>> = BTreeMap::new();
        for spec in self.iter() {
            let key = (spec.adapter_id.clone(), spec.tool.clone(), spec.method.clone());
            classes
                .entry(key)
                .and_modify(|class| {
                    *class = class.filter(|class| Some(*class) == spec.action_class);
                })
                .or_insert(spec.action_class);
        }
        classes.into_iter().filter_map(|(key, class)| Some((key, class?))).collect()
    }
}

impl ToolSpec {
    /// Makes the run of one step that a call of the tool is.
    ///
    /// # Errors
    /// When the arguments cannot be those of a step.
    pub fn request(
        &self,
        mode: Mode,
        args: Object,
        idempotency_key: Option<&str>,
    ) -> Result<Request, request::Error> {
        let mut call = Object::with_capacity(3);
        call.insert("tool", self.tool.as_str());
        call.insert("method", self.method.as_str());
        call.insert("args", args);
        let mut dispatch = Object::with_capacity(1);
        dispatch.insert("adapter_id", self.adapter_id.as_str());
        let mut step = Object::with_capacity(5);
        step.insert("step_id", "call");
        step.insert("intent", format!("call {}", self.name));
        step.insert("call", call);
        step.insert("dispatch", dispatch);
        if let Some(timeout) = self.timeout {
            let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            step.insert("timeout_ms", timeout.max(1));
        }
        let mut policy = Object::with_capacity(1);
        policy.insert("allow_apply", mode == Mode::Apply);
        let mut request = Object::with_capacity(5);
        request.insert("goal", format!("call {}", self.name));
        request.insert("mode", mode.name());
        request.insert("policy", policy);
        request.insert("plan_override", vec![Value::Object(step)]);
        if let Some(key) = idempotency_key {
            request.insert("idempotency_key", key);
        }
        Request::read(request.into())
    }

    /// Returns the form that callers get.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(6);
        object.insert("name", self.name.as_str());
        object.insert("description", self.description.as_str());
        object.insert("adapter_id", self.adapter_id.as_str());
        object.insert("tool", self.tool.as_str());
        object.insert("method", self.method.as_str());
        object.insert("action_class", self.action_class.map(ActionClass::name));
        object.into()
    }
}
