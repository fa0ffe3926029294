//! What callers are told of the tools.

use nexus_router_sdk::{Catalog, Tool};
use serde_json::{Value, json};

use crate::output::Class;
use crate::transform;

pub(crate) fn catalog() -> Catalog {
    let tools = Class::ALL.map(|class| {
        let (description, properties, required) = described(class);
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        let annotations = json!({ "readOnlyHint": true, "idempotentHint": true });
        Tool::new(class.name(), description).input(schema).with("annotations", annotations)
    });
    Catalog { tools: tools.to_vec(), ..Catalog::default() }
}

fn described(class: Class) -> (&'static str, Value, Value) {
    let source =
        json!({ "type": "string", "description": "The source; not needed if there is only one." });
    let text = json!({ "type": "string" });
    match class {
        Class::WebSearch => (
            "Searches with a source, and returns what it found by rank.",
            json!({ "query": text, "source": source,
                "limit": { "type": "integer", "minimum": 1, "maximum": 100 } }),
            json!(["query"]),
        ),
        Class::DocRetrieval => (
            "Retrieves a document from a source.",
            json!({ "source": source, "input": { "type": "object" } }),
            json!([]),
        ),
        Class::DataLookup => (
            "Looks up data at a source.",
            json!({ "source": source, "input": { "type": "object" } }),
            json!([]),
        ),
        Class::SummarizeSources => (
            "Summarizes texts by their weightiest sentences. The same texts give the same summary.",
            json!({
                "sources": { "type": "array", "maxItems": 100, "items": { "anyOf": [
                    text,
                    { "type": "object", "properties": { "text": text, "title": text, "url": text },
                      "required": ["text"], "additionalProperties": false },
                ] } },
                "sentences": { "type": "integer", "minimum": 1, "maximum": 50 },
            }),
            json!(["sources"]),
        ),
        Class::ExtractEntities => (
            "Finds dates, e-mail addresses, URLs, numbers and names in a text, by their form.",
            json!({ "text": text }),
            json!(["text"]),
        ),
        Class::TransformText => {
            let names: Vec<&str> = transform::OPERATIONS.iter().map(|(name, _)| *name).collect();
            (
                "Turns a text into another, by named operations, one after the other.",
                json!({ "text": text, "operations":
                    { "type": "array", "maxItems": 32, "items": { "enum": names } } }),
                json!(["text", "operations"]),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_a_tool_that_only_reads() {
        let catalog = catalog();
        let names: Vec<&str> = catalog.tools.iter().map(Tool::name).collect();
        assert_eq!(names, Class::ALL.map(Class::name));
        for tool in &catalog.tools {
            assert_eq!((tool.tool.as_str(), tool.method.as_str()), (tool.name(), "call"));
            assert_eq!(tool.definition["annotations"]["readOnlyHint"], true);
        }
    }
}
