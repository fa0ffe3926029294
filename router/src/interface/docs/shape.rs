//! What a JSON Schema asks for, in a few words and in the rows of a table.

use std::collections::BTreeSet;

use crate::json::{self, Object, Value};
use crate::python_text::json_escaped;

/// Members of members are listed so deep; deeper ones are left to the contract itself.
const MAX_DEPTH: usize = 4;
/// Longer names are cut: they stand before the name of each of their members.
const MAX_NAME: usize = 64;

/// Keywords that narrow a type, as they are named in the schema.
const BOUNDS: [&str; 15] = [
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "contentEncoding",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// A member of an object, at whatever depth.
pub(super) struct Row<'a> {
    /// Its name; after those of the objects that it stands in, where `[]` is any item and `*` any member.
    pub(super) name: String,
    /// Its schema.
    pub(super) schema: &'a Value,
    /// Whether the object that it stands in must have it.
    pub(super) required: bool,
}

/// Returns the members that the schema of an object names, each followed by its own.
pub(super) fn rows(schema: &Value) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    gather(schema, "", 0, &mut rows);
    rows
}

fn gather<'a>(schema: &'a Value, path: &str, depth: usize, rows: &mut Vec<Row<'a>>) {
    let Some(schema) = schema.as_object() else { return };
    if depth >= MAX_DEPTH {
        return;
    }
    let required = required(schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, member) in properties.iter().flat_map(|properties| properties.iter()) {
        let place = if path.is_empty() { cut(name) } else { format!("{path}.{}", cut(name)) };
        let required = required.contains(name);
        rows.push(Row { name: place.clone(), schema: member, required });
        gather(member, &place, depth + 1, rows);
    }
    // What stands at the same place has no name that would count as depth; the parser bounds it.
    if let Some(items) = schema.get("items") {
        gather(items, &format!("{path}[]"), depth, rows);
    }
    if let Some(others) = schema.get("additionalProperties") {
        let path = if path.is_empty() { "*".to_owned() } else { format!("{path}.*") };
        gather(others, &path, depth, rows);
    }
    for choice in choices(schema) {
        gather(choice, path, depth, rows);
    }
}

/// Returns what a schema asks for, in a few words.
pub(super) fn shape(schema: &Value) -> String {
    let object = match schema {
        Value::Object(object) => object,
        Value::Bool(false) => return "nothing".to_owned(),
        _ => return "anything".to_owned(),
    };
    if object.get("not").is_some_and(accepts_all) {
        return "nothing".to_owned();
    }
    if let Some(target) = object.get("$ref").and_then(Value::as_str) {
        return format!("see {target}");
    }
    if let Some(value) = object.get("const") {
        return json_text(value);
    }
    if let Some(values) = object.get("enum").and_then(Value::as_array) {
        return either(values.iter().map(json_text));
    }
    let types = match object.get("type") {
        Some(Value::String(name)) => typed(name, object),
        Some(Value::Array(names)) => {
            either(names.iter().filter_map(Value::as_str).map(|name| typed(name, object)))
        }
        _ => either(choices(object).map(shape)),
    };
    let types = if types.is_empty() { "anything".to_owned() } else { types };
    let tuple = object.contains_key("prefixItems");
    let bounds = BOUNDS.iter().filter(|name| !(tuple && name.ends_with("Items")));
    let bounds: Vec<String> = bounds
        .filter_map(|name| object.get(name).map(|value| format!("{name} {}", plain(value))))
        .collect();
    if bounds.is_empty() { types } else { format!("{types} ({})", bounds.join(", ")) }
}

/// Returns true if a schema asks nothing of a value.
fn accepts_all(schema: &Value) -> bool {
    match schema {
        Value::Bool(accepts) => *accepts,
        Value::Object(object) => object.is_empty(),
        _ => false,
    }
}

fn typed(name: &str, schema: &Object) -> String {
    match name {
        "array" => array(schema),
        "object" => object(schema),
        _ => name.to_owned(),
    }
}

fn array(schema: &Object) -> String {
    if let Some(first) = schema.get("prefixItems").and_then(Value::as_array) {
        return format!("[{}]", first.iter().map(shape).collect::<Vec<_>>().join(", "));
    }
    match schema.get("items") {
        Some(items) => format!("array of {}", shape(items)),
        None => "array".to_owned(),
    }
}

fn object(schema: &Object) -> String {
    let required = required(schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut names: Vec<String> = properties
        .iter()
        .flat_map(|properties| properties.keys())
        .map(|name| cut(name) + if required.contains(name) { "" } else { "?" })
        .collect();
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => {}
        Some(others @ Value::Object(_)) if names.is_empty() => {
            return format!("object of {}", shape(others));
        }
        _ if names.is_empty() => return "object".to_owned(),
        _ => names.push("…".to_owned()),
    }
    format!("object {{{}}}", names.join(", "))
}

/// Returns the schemas of which a value fits one, or all.
fn choices(schema: &Object) -> impl Iterator<Item = &Value> {
    let lists = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|name| schema.get(name));
    lists.filter_map(Value::as_array).flatten()
}

fn required(schema: &Object) -> BTreeSet<&str> {
    let names = schema.get("required").and_then(Value::as_array).unwrap_or_default();
    names.iter().filter_map(Value::as_str).collect()
}

fn either(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(" or ")
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// Returns compact JSON on one line, with unprintable characters as escapes.
pub(super) fn json_text(value: &Value) -> String {
    json_escaped(&json::to_compact(value))
}

/// Returns a text without quotes, and everything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| json_text(value), str::to_owned)
}
