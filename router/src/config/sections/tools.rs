//! Reads which operations callers find under which names: `[[tools]]`, and `offer` of `[[adapters]]`.

use super::super::reader::Section;
use super::super::settings::{Offer, ToolEntry};
use super::super::toml_value;
use super::OWN_TOOLS;
use crate::json::Object;
use crate::role::ActionClass;

pub(super) fn tool(section: &Section<'_>) -> ToolEntry {
    let name = section.needed("name");
    if !is_name(&name) {
        let hint = "use letters, digits, _ . and -, 128 at most";
        section.wrong("name", "is no name for a tool", hint);
    } else if name.starts_with(OWN_TOOLS) {
        let message = format!("begins with {OWN_TOOLS}");
        section.wrong(
            "name",
            &message,
            "the router's own tools are called so: choose another name",
        );
    }
    let truth = |key| section.get(key).is_some().then(|| section.flag(key, false));
    ToolEntry {
        title: section.text("title"),
        description: section.needed("description"),
        adapter: section.needed("adapter"),
        tool: section.text("tool").unwrap_or_else(|| name.clone()),
        method: section.needed("method"),
        action_class: class(section),
        timeout: section.milliseconds("timeout_ms"),
        input_schema: schema(section, "input_schema"),
        output_schema: schema(section, "output_schema"),
        read_only: truth("read_only"),
        destructive: truth("destructive"),
        idempotent: truth("idempotent"),
        open_world: truth("open_world"),
        name,
    }
}

pub(super) fn offer(section: &Section<'_>) -> Offer {
    let prefix = section.text("prefix").unwrap_or_default();
    if !prefix.is_empty() && (!is_name(&prefix) || prefix.starts_with(OWN_TOOLS)) {
        let hint = "use letters, digits, _ . and -, such as \"files.\"";
        section.wrong("prefix", "cannot begin the name of a tool", hint);
    }
    Offer {
        tools: section.patterns("tools"),
        resources: section.patterns("resources"),
        prompts: section.patterns("prompts"),
        prefix,
        action_class: class(section),
    }
}

fn class(section: &Section<'_>) -> Option<ActionClass> {
    section.choice("action_class", &ActionClass::ALL.map(|class| (class.name(), class)))
}

/// Says whether a text can be the name of a tool.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    name.len() <= 128 && name.bytes().all(fits)
}

fn schema(section: &Section<'_>, key: &'static str) -> Option<Object> {
    let table = section.free(key)?;
    let hint = "write a JSON Schema as a table, such as { type = \"object\" }";
    let problem = match toml_value::object(table) {
        Ok(schema) => match crate::conform::Schema::read(&schema.to_serde().into()) {
            Ok(_) => return Some(schema),
            Err(problem) => problem,
        },
        Err(problem) => problem,
    };
    section.wrong(key, &format!("is no schema: {problem}"), hint);
    None
}
