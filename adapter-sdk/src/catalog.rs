//! What an adapter offers to callers: tools with their schemas, resources and prompts.
//!
//! An adapter that has a catalogue returns it from [`Adapter::catalog`](crate::Adapter::catalog). The
//! operator says what of it callers see; every call then goes through the gate like any other. Definitions
//! are those of the Model Context Protocol, member for member, so that nothing is lost on the way.
//!
//! | what callers do | call that the adapter gets | args | output |
//! |---|---|---|---|
//! | call a tool | the tool's own `tool` and `method` | the arguments | any object, or a `CallToolResult` if [`Tool::content`] |
//! | read a resource | `resources`, `read` | `uri` | a `ReadResourceResult` |
//! | follow a resource | `resources`, `subscribe` and `unsubscribe` | `uri` | anything |
//! | get a prompt | `prompts`, `get` | `name`, `arguments` | a `GetPromptResult` |
//! | complete an argument | `completion`, `complete` | `ref`, `argument`, `context` | `values`, `total`, `hasMore` |

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Object;

/// Everything that an adapter offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// The tools.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// `Resource` objects: `uri`, `name`, and what else is known.
    #[serde(default)]
    pub resources: Vec<Object>,
    /// `ResourceTemplate` objects: `uriTemplate`, `name`, and what else is known.
    #[serde(default)]
    pub resource_templates: Vec<Object>,
    /// `Prompt` objects: `name`, `arguments`, and what else is known.
    #[serde(default)]
    pub prompts: Vec<Object>,
    /// Whether arguments of prompts and templates can be completed.
    #[serde(default)]
    pub completes: bool,
    /// Whether resources can be followed; [`Host::resource_updated`](crate::Host::resource_updated) tells
    /// of their changes.
    #[serde(default)]
    pub subscribes: bool,
}

impl Catalog {
    /// The call by which the router asks for the catalogue; authors never see it.
    pub const CALL: (&'static str, &'static str) = ("nexus-router", "catalog");
    /// The call that reads a resource.
    pub const READ: (&'static str, &'static str) = ("resources", "read");
    /// The call that follows a resource.
    pub const SUBSCRIBE: (&'static str, &'static str) = ("resources", "subscribe");
    /// The call that no longer follows a resource.
    pub const UNSUBSCRIBE: (&'static str, &'static str) = ("resources", "unsubscribe");
    /// The call that gets a prompt.
    pub const PROMPT: (&'static str, &'static str) = ("prompts", "get");
    /// The call that completes an argument.
    pub const COMPLETE: (&'static str, &'static str) = ("completion", "complete");
}

/// One tool of a catalogue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The tool of the call that carries it out.
    pub tool: String,
    /// The method of that call.
    pub method: String,
    /// The `Tool` object: `name`, `inputSchema`, and what else is known.
    pub definition: Object,
    /// Whether the output is a `CallToolResult` with content blocks, instead of a plain value.
    #[serde(default)]
    pub content: bool,
    /// Whether a call may ask its caller for input; see [`CallContext::input`](crate::CallContext::input).
    #[serde(default)]
    pub interactive: bool,
    /// Whether a call may take so long that callers had better follow it as a task.
    #[serde(default)]
    pub long: bool,
}

impl Tool {
    /// Makes a tool that takes no arguments, carried out by `tool` and the method `call`.
    #[must_use]
    pub fn new(name: &str, description: &str) -> Self {
        let definition = serde_json::json!({
            "name": name,
            "description": description,
            "inputSchema": { "type": "object", "additionalProperties": false },
        });
        let definition = definition.as_object().cloned().unwrap_or_default();
        Self {
            tool: name.to_owned(),
            method: "call".to_owned(),
            definition,
            content: false,
            interactive: false,
            long: false,
        }
    }

    /// Names the call that carries it out.
    #[must_use]
    pub fn operation(mut self, tool: &str, method: &str) -> Self {
        tool.clone_into(&mut self.tool);
        method.clone_into(&mut self.method);
        self
    }

    /// Sets any member of the definition, such as `title` or `annotations`.
    #[must_use]
    pub fn with(mut self, member: &str, value: Value) -> Self {
        self.definition.insert(member.to_owned(), value);
        self
    }

    /// Sets the JSON Schema of the arguments.
    #[must_use]
    pub fn input(self, schema: Value) -> Self {
        self.with("inputSchema", schema)
    }

    /// Sets the JSON Schema of the output, which the router then holds it to.
    #[must_use]
    pub fn output(self, schema: Value) -> Self {
        self.with("outputSchema", schema)
    }

    /// Says that the output is a `CallToolResult`.
    #[must_use]
    pub fn content(mut self) -> Self {
        self.content = true;
        self
    }

    /// Says that a call may ask its caller for input.
    #[must_use]
    pub fn interactive(mut self) -> Self {
        self.interactive = true;
        self
    }

    /// Says that a call may take long.
    #[must_use]
    pub fn long(mut self) -> Self {
        self.long = true;
        self
    }

    /// Returns the name that callers use.
    #[must_use]
    pub fn name(&self) -> &str {
        self.definition.get("name").and_then(Value::as_str).unwrap_or_default()
    }
}

/// What a call knows of the one who made it: what it can be asked, and what it answered before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    /// Answers to the requests of [`AdapterError::input_required`](crate::AdapterError::input_required), by
    /// their names there.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub inputs: Object,
    /// The state that stood in the same error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The caller's `ClientCapabilities`.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub client: Object,
}
