//! What a tool of the suite is: its definition, and what a call of it does.

use nexus_router_sdk::{AdapterError, CallContext, Object, Tool, code};
use serde_json::Value;

use crate::changes::Changes;

/// The method of every tool.
pub(crate) const METHOD: &str = "call";

pub(crate) type Answer = Result<Object, AdapterError>;

/// A tool.
pub(crate) struct Fixture {
    pub(crate) tool: Tool,
    pub(crate) run: fn(&Call<'_>) -> Answer,
}

impl Fixture {
    /// Makes one whose output is what the protocol calls a result, with content blocks.
    pub(crate) fn new(name: &str, description: &str, run: fn(&Call<'_>) -> Answer) -> Self {
        Self { tool: Tool::new(name, description).content(), run }
    }

    /// Makes one whose output is a plain value.
    pub(crate) fn plain(name: &str, description: &str, run: fn(&Call<'_>) -> Answer) -> Self {
        Self { tool: Tool::new(name, description), run }
    }

    /// Sets the schema of the arguments.
    pub(crate) fn takes(self, schema: Value) -> Self {
        Self { tool: self.tool.input(schema), ..self }
    }

    /// Sets the schema of the output.
    pub(crate) fn gives(self, schema: Value) -> Self {
        Self { tool: self.tool.output(schema), ..self }
    }

    /// Says that it may ask its caller.
    pub(crate) fn interactive(self) -> Self {
        Self { tool: self.tool.interactive(), ..self }
    }

    /// Says that it may take long.
    pub(crate) fn long(self) -> Self {
        Self { tool: self.tool.long(), ..self }
    }
}

/// One call of a tool, a prompt or a resource.
pub(crate) struct Call<'a> {
    pub(crate) context: &'a CallContext,
    pub(crate) args: &'a Object,
    pub(crate) changes: &'a Changes,
}

impl Call<'_> {
    /// Returns an argument that must be a text.
    pub(crate) fn text(&self, name: &str) -> Result<&str, AdapterError> {
        text(self.args, name)
    }
}

/// Returns a member that must be a text.
pub(crate) fn text<'a>(args: &'a Object, name: &str) -> Result<&'a str, AdapterError> {
    args.get(name).and_then(Value::as_str).ok_or_else(|| {
        let message = format!("the argument {name} must be a text");
        AdapterError::operational(code::INVALID_ARGUMENT, message)
    })
}

/// Takes an object out of a literal.
pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => members,
        _ => Object::new(),
    }
}

pub(crate) fn not_found(what: &str, name: &str) -> AdapterError {
    AdapterError::operational(code::NOT_FOUND, format!("there is no {what} {name}"))
}
