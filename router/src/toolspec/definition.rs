//! What callers are told of a tool: schemas, hints, and whatever else its adapter or the operator says.

use std::sync::Arc;

use nexus_router_sdk::{Capability, Object, Tool};
use serde_json::{Value, json};

use crate::config::ToolEntry;
use crate::conform::Schema;
use crate::loader::Adapter;
use crate::policy::{Contract, Hint};

/// What callers are told of a tool.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The name for people.
    pub title: Option<String>,
    /// The JSON Schema of the arguments.
    pub input_schema: Arc<Object>,
    /// The JSON Schema of the output, which it is held to.
    pub output_schema: Option<Arc<Object>>,
    /// What a call may do, as far as anybody says.
    pub hints: Hint,
    /// The hints by which rules go.
    pub trusted_hints: Hint,
    /// Members of the adapter's own definition that the router only passes on.
    pub more: Object,
    /// Whether the output is a `CallToolResult`.
    pub content: bool,
    /// Whether a call may ask its caller for input.
    pub interactive: bool,
    /// Whether a call may take so long that callers had better follow it as a task.
    pub long: bool,
    /// Whether calls of it can be made at all.
    pub applies: bool,
    /// Whether its adapter may have effects outside.
    pub external: bool,
    /// Whether headers of a request repeat arguments, and have to be compared with them.
    pub repeats_in_headers: bool,
    /// The schemas as the gate uses them.
    pub contract: Arc<Contract>,
}

/// Source of the hints by which rules go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintTrust {
    /// The catalogue of the adapter, which may be written by somebody else.
    Catalogue,
    /// The router: the capabilities of the adapter, which it enforces.
    RouterOnly,
}

/// Members of a definition that are read; the others are passed on.
const READ: [&str; 6] =
    ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

impl Definition {
    /// Takes the definition of a catalogued tool.
    pub(super) fn catalogued(
        tool: &Tool,
        adapter: &Adapter,
        trust: HintTrust,
    ) -> Result<Self, String> {
        let definition = &tool.definition;
        let object = |key: &str| definition.get(key).and_then(Value::as_object).cloned();
        let input_schema = object("inputSchema").unwrap_or_else(anything);
        let output_schema = object("outputSchema");
        let annotations = object("annotations").unwrap_or_default();
        let hint = |name: &str| annotations.get(name).and_then(Value::as_bool);
        let own = by_capabilities(adapter);
        let hints = Hint {
            read_only: hint("readOnlyHint").or(own.read_only),
            destructive: hint("destructiveHint").or(own.destructive),
            idempotent: hint("idempotentHint").or(own.idempotent),
            open_world: hint("openWorldHint").or(own.open_world),
        };
        let trusted_hints = match trust {
            HintTrust::Catalogue => hints,
            HintTrust::RouterOnly => own,
        };
        let text = |from: &Object, key: &str| from.get(key)?.as_str().map(str::to_owned);
        let title = text(definition, "title").or_else(|| text(&annotations, "title"));
        let more = definition.iter().filter(|(key, _)| !READ.contains(&key.as_str()));
        let contract = contract(Some(&input_schema), output_schema.as_ref(), tool.content)?;
        Ok(Self {
            title,
            hints,
            trusted_hints,
            more: more.map(|(key, value)| (key.clone(), value.clone())).collect(),
            content: tool.content,
            interactive: tool.interactive,
            long: tool.long,
            applies: adapter.capabilities().contains(&Capability::Apply),
            external: adapter.capabilities().contains(&Capability::External),
            repeats_in_headers: repeats_in_headers(&input_schema),
            contract: Arc::new(contract),
            input_schema: Arc::new(input_schema),
            output_schema: output_schema.map(Arc::new),
        })
    }

    /// Takes what the operator says of a tool, and for the rest what the adapter does.
    pub(super) fn configured(
        entry: &ToolEntry,
        adapter: &Adapter,
        catalogued: Option<&Tool>,
        trust: HintTrust,
    ) -> Result<Self, String> {
        let said = catalogued.map(|tool| Self::catalogued(tool, adapter, trust)).transpose()?;
        let own = by_capabilities(adapter);
        let stated = |base: Hint| Hint {
            read_only: entry.read_only.or(base.read_only),
            destructive: entry.destructive.or(base.destructive),
            idempotent: entry.idempotent.or(base.idempotent),
            open_world: entry.open_world.or(base.open_world),
        };
        let hints = stated(said.as_ref().map_or(own, |said| said.hints));
        let trusted_hints = stated(said.as_ref().map_or(own, |said| said.trusted_hints));
        let given = |schema: &Option<crate::json::Object>| {
            schema.as_ref().map(|schema| Arc::new(schema.to_serde()))
        };
        let (input, output) = (given(&entry.input_schema), given(&entry.output_schema));
        let mut definition = match said {
            Some(said) => said,
            None => Self {
                title: None,
                input_schema: Arc::new(anything()),
                output_schema: None,
                hints: Hint::default(),
                trusted_hints: Hint::default(),
                more: Object::new(),
                content: false,
                interactive: false,
                long: false,
                applies: adapter.capabilities().contains(&Capability::Apply),
                external: adapter.capabilities().contains(&Capability::External),
                repeats_in_headers: false,
                contract: Arc::default(),
            },
        };
        if input.is_some() || output.is_some() {
            let input = input.unwrap_or(definition.input_schema);
            let output = output.or(definition.output_schema);
            let contract = contract(Some(&input), output.as_deref(), definition.content)?;
            definition.contract = Arc::new(contract);
            definition.repeats_in_headers = repeats_in_headers(&input);
            (definition.input_schema, definition.output_schema) = (input, output);
        }
        let title = entry.title.clone().or(definition.title);
        Ok(Self { title, hints, trusted_hints, ..definition })
    }
}

/// An adapter that reaches nothing outside changes nothing there. Of one that does, nothing is known.
fn by_capabilities(adapter: &Adapter) -> Hint {
    let external = adapter.capabilities().contains(&Capability::External);
    match external {
        true => Hint::default(),
        false => Hint {
            read_only: Some(true),
            destructive: Some(false),
            idempotent: None,
            open_world: Some(false),
        },
    }
}

/// Says whether a schema names a header for an argument, at any depth.
pub(super) fn repeats_in_headers(schema: &Object) -> bool {
    let below = |value: &Value| match value {
        Value::Object(members) => repeats_in_headers(members),
        Value::Array(items) => items.iter().filter_map(Value::as_object).any(repeats_in_headers),
        _ => false,
    };
    schema.contains_key("x-mcp-header") || schema.values().any(below)
}

fn anything() -> Object {
    json!({ "type": "object" }).as_object().cloned().unwrap_or_default()
}

fn contract(
    input: Option<&Object>,
    output: Option<&Object>,
    content: bool,
) -> Result<Contract, String> {
    let read = |what: &str, schema: &Object| {
        Schema::read(&Value::Object(schema.clone()))
            .map_err(|error| format!("the schema of its {what} cannot be used: {error}"))
    };
    // Every object fits this one, so there is nothing to look at.
    let input = input.filter(|schema| **schema != anything());
    Ok(Contract {
        input: input.map(|schema| read("arguments", schema)).transpose()?,
        output: output.map(|schema| read("output", schema)).transpose()?,
        content,
    })
}
