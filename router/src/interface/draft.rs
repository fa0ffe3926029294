//! A contract for an adapter that has none: from what the adapter says of itself, and from examples of calls.
//!
//! It is a beginning for its author, who knows better what an operation means than anybody can guess: schemas
//! are as narrow as the examples, and nothing is said to be idempotent.

use std::collections::BTreeSet;

use nexus_router_sdk::Tool;

use super::document::FORMAT;
use super::finding::{Finding, Findings, below};
use crate::json::{Object, Value};

/// How long a drafted operation may take, in milliseconds.
const TIMEOUT_MS: i64 = 30_000;

/// What a contract is drafted from.
#[derive(Debug)]
pub struct Draft<'a> {
    /// The adapter.
    pub adapter_id: &'a str,
    /// The first version.
    pub version: &'a str,
    /// What the adapter is for.
    pub description: &'a str,
    /// Whether it reaches anything outside.
    pub external: bool,
    /// The error codes that it declares.
    pub error_codes: &'a [String],
    /// The tools of its catalogue, if it has one.
    pub tools: &'a [Tool],
    /// Examples of calls: by operation, a list of objects with `input`, and `output` or `error`; or an object with
    /// `tool`, `method` and `examples`.
    pub examples: &'a Object,
}

impl Draft<'_> {
    /// Makes the contract.
    ///
    /// # Errors
    /// With what is wrong with the examples, or when there is nothing to make operations of.
    pub fn contract(&self) -> Result<Value, Vec<Finding>> {
        let mut findings = Findings::default();
        let mut operations = Object::new();
        for tool in self.tools {
            let mut operation = self.operation(&tool.tool, &tool.method);
            if let Some(text) = tool.definition.get("description").and_then(|text| text.as_str()) {
                operation.insert("description", text);
            }
            for (from, to) in [("inputSchema", "input_schema"), ("outputSchema", "output_schema")] {
                if let Some(schema) = tool.definition.get(from) {
                    operation.insert(to, Value::from(schema));
                }
            }
            operations.insert(operation_name(tool.name()), operation);
        }
        for (name, said) in self.examples.iter() {
            self.add_examples(&mut operations, name, said, &mut findings);
        }
        for (_, operation) in operations.iter_mut() {
            let Value::Object(operation) = operation else { continue };
            for schema in ["input_schema", "output_schema"] {
                if !operation.contains_key(schema) {
                    operation.insert(schema, any_object());
                }
            }
        }
        if operations.is_empty() {
            let message = "the adapter has no catalogue, so its operations have to come from examples: give \
                           --examples a file such as {\"hello\": [{\"input\": {}, \"output\": {}}]}";
            findings.add("", "INTERFACE_MALFORMED", message);
        }
        let mut contract = Object::new();
        contract.insert("format", FORMAT);
        contract.insert("adapter_id", self.adapter_id);
        contract.insert("version", self.version);
        contract.insert("description", self.description);
        contract.insert("operations", operations);
        findings.or(contract.into())
    }

    fn operation(&self, tool: &str, method: &str) -> Object {
        let mut operation = Object::new();
        operation.insert("description", format!("Calls {tool}.{method}."));
        operation.insert("tool", tool);
        operation.insert("method", method);
        operation.insert("timeout_ms", TIMEOUT_MS);
        operation.insert("idempotent", false);
        operation.insert("read_only", !self.external);
        let mode = |code: &String| {
            let mut mode = Object::with_capacity(3);
            mode.insert("code", code.as_str());
            mode.insert("severity", "error");
            mode.insert("halts", true);
            Value::Object(mode)
        };
        operation.insert("failure_modes", self.error_codes.iter().map(mode).collect::<Vec<_>>());
        operation
    }

    fn add_examples(
        &self,
        operations: &mut Object,
        name: &str,
        said: &Value,
        findings: &mut Findings,
    ) {
        let place = below("", name);
        let text = |key: &str| said.get(key).and_then(Value::as_str);
        let (tool, method) =
            (text("tool").unwrap_or(self.adapter_id), text("method").unwrap_or(name));
        let Some(examples) = said.as_array().or_else(|| said.get("examples")?.as_array()) else {
            let message = "must be a list of examples, or an object with tool, method and examples";
            return findings.add(place, "INTERFACE_MALFORMED", message);
        };
        let known = operations.contains_key(name);
        let mut operation = match operations.remove(name) {
            Some(Value::Object(operation)) => operation,
            _ => self.operation(tool, method),
        };
        if !known {
            let each = |key| examples.iter().filter_map(move |example| example.get(key));
            operation.insert("input_schema", of_objects(each("input")));
            operation.insert("output_schema", of_objects(each("output")));
        }
        operation.insert("examples", Value::Array(examples.to_vec()));
        operations.insert(name, operation);
    }
}

/// Makes the name of an operation of that of a tool.
fn operation_name(tool: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let name: String = tool.chars().map(fits).collect();
    let first = name.chars().next();
    if first.is_some_and(|first| first.is_ascii_lowercase()) { name } else { format!("op_{name}") }
}

fn any_object() -> Value {
    let mut schema = Object::new();
    schema.insert("type", "object");
    schema.into()
}

/// Makes the schema of arguments or outputs, which are objects also where there is no example.
fn of_objects<'a>(values: impl Iterator<Item = &'a Value>) -> Value {
    let values: Vec<&Value> = values.collect();
    if values.is_empty() { any_object() } else { schema_of(&values) }
}

/// Makes the narrowest schema that all values fit, of types, members and items.
fn schema_of(values: &[&Value]) -> Value {
    let mut types: BTreeSet<&str> = values.iter().map(|value| value.type_name()).collect();
    if types.contains("number") {
        types.remove("integer");
    }
    let mut schema = Object::new();
    let types: Vec<Value> = types.into_iter().map(Value::from).collect();
    match <[Value; 1]>::try_from(types) {
        Ok([only]) => schema.insert("type", only),
        Err(several) => schema.insert("type", Value::Array(several)),
    }
    let objects: Vec<&Object> = values.iter().filter_map(|value| value.as_object()).collect();
    if !objects.is_empty() {
        let names: BTreeSet<&str> = objects.iter().flat_map(|object| object.keys()).collect();
        let mut properties = Object::new();
        let mut required = Vec::new();
        for name in names {
            let members: Vec<&Value> =
                objects.iter().filter_map(|object| object.get(name)).collect();
            if members.len() == objects.len() {
                required.push(Value::from(name));
            }
            properties.insert(name, schema_of(&members));
        }
        schema.insert("properties", properties);
        schema.insert("required", required);
        schema.insert("additionalProperties", false);
    }
    let arrays = values.iter().filter_map(|value| value.as_array());
    let items: Vec<&Value> = arrays.flatten().collect();
    if !items.is_empty() {
        schema.insert("items", schema_of(&items));
    }
    schema.into()
}
