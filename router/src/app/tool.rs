//! The `nexus-router.*` tools: functions from JSON to JSON, the same for every shell.

mod adapters;
mod runs;

use super::{App, Error, Paths};
use crate::json::{self, Object, Value};

/// A tool.
#[derive(Clone, Copy)]
pub struct Tool {
    /// The stable id.
    pub id: &'static str,
    /// What it does, in one sentence.
    pub doc: &'static str,
    store: StorePath,
    call: fn(&App, Value) -> Result<Value, Error>,
}

/// Whether the request of a tool names a store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StorePath {
    /// It must.
    Required,
    /// It may; else it is the host's own.
    Optional,
    /// The tool needs none.
    None,
}

const fn tool(
    id: &'static str,
    store: StorePath,
    call: fn(&App, Value) -> Result<Value, Error>,
    doc: &'static str,
) -> Tool {
    Tool { id, doc, store, call }
}

/// Every tool.
pub const TOOLS: &[Tool] = &[
    tool("nexus-router.run", StorePath::Optional, runs::run, "Runs a plan, and records it."),
    tool(
        "nexus-router.inspect",
        StorePath::Required,
        runs::inspect,
        "Lists runs, the newest first.",
    ),
    tool(
        "nexus-router.replay",
        StorePath::Required,
        runs::replay,
        "Reads the record of a run again, and reports what cannot be true.",
    ),
    tool(
        "nexus-router.export",
        StorePath::Required,
        runs::export,
        "Writes a run as a bundle, which this router and the Python router import.",
    ),
    tool(
        "nexus-router.import",
        StorePath::Required,
        runs::import,
        "Stores the run of a bundle: all of it, or nothing.",
    ),
    tool("nexus-router.adapters", StorePath::None, adapters::list, "Lists the adapters."),
    tool(
        "nexus-router.validate_adapter",
        StorePath::None,
        adapters::validate,
        "Validates an adapter library.",
    ),
    tool(
        "nexus-router.inspect_adapter",
        StorePath::None,
        adapters::inspect,
        "Validates an adapter library, and reports everything that is known of it.",
    ),
    tool(
        "nexus-router.generate_adapter_docs",
        StorePath::None,
        adapters::docs,
        "Writes Markdown documentation of the adapters on the adapter path.",
    ),
];

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("id", &self.id).field("doc", &self.doc).finish()
    }
}

pub(super) fn call(app: &App, id: &str, mut request: Value) -> Result<Value, Error> {
    let Some(tool) = TOOLS.iter().find(|tool| tool.id == id) else {
        let scored = TOOLS.iter().map(|tool| (crate::near::likeness(id, tool.id), tool.id));
        let best = scored.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|best| best.0 > 0.8);
        return Err(Error::UnknownTool { id: id.to_owned(), meant: best.map(|best| best.1) });
    };
    if app.named.paths == Paths::Own
        && tool.store != StorePath::None
        && let Value::Object(members) = &mut request
    {
        if members.contains_key("db_path") {
            return Err(Error::Tool {
                message: "db_path is not taken here".to_owned(),
                pointer: "/db_path".to_owned(),
                hint: "leave it out: this host has one store".to_owned(),
            });
        }
        if tool.store == StorePath::Required {
            members.insert("db_path", app.db()?.to_string_lossy().into_owned());
        }
    }
    (tool.call)(app, request)
}

/// Takes the members out of the request of a tool that has no published schema.
struct Members {
    object: Object,
    known: &'static [&'static str],
}

impl Members {
    fn read(request: Value, known: &'static [&'static str]) -> Result<Self, Error> {
        let wrong =
            |message: String, pointer: String, hint: String| Error::Tool { message, pointer, hint };
        let type_name = request.type_name();
        let Some(object) = request.into_object() else {
            let message = format!("the request must be an object, not {type_name}");
            return Err(wrong(message, String::new(), allowed(known)));
        };
        if let Some(unknown) = object.keys().find(|key| !known.contains(key)) {
            let pointer = format!("/{}", json::pointer_segment(unknown));
            return Err(wrong(format!("unknown key {unknown:?}"), pointer, allowed(known)));
        }
        Ok(Self { object, known })
    }

    fn wrong(&self, key: &str, what: &str) -> Error {
        Error::Tool {
            message: format!("{key} {what}"),
            pointer: format!("/{key}"),
            hint: allowed(self.known),
        }
    }

    fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.object.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "must be a string")),
        }
    }

    fn object(&self, key: &str) -> Result<Option<&Object>, Error> {
        match self.object.get(key) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(self.wrong(key, "must be an object")),
        }
    }

    fn switch(&self, key: &str, default: Switch) -> Result<Switch, Error> {
        match self.object.get(key) {
            None => Ok(default),
            Some(Value::Bool(true)) => Ok(Switch::On),
            Some(Value::Bool(false)) => Ok(Switch::Off),
            Some(_) => Err(self.wrong(key, "must be true or false")),
        }
    }
}

/// A member that is true or false.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Switch {
    On,
    Off,
}

fn allowed(known: &[&str]) -> String {
    format!("the request may hold {}", known.join(", "))
}

#[cfg(test)]
mod tests;
