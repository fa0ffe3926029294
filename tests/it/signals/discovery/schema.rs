//! The published schema of contracts, judged by a validator that is not ours, against lint and the golden contracts.

use boon::{Compiler, SchemaIndex, Schemas};
use nexus_router::json::{Limits, Object, Value as Json, parse, to_compact};
use nexus_router::schema::ADAPTER_CONTRACT;
use nexus_router::signal::{Severity, Wording, builtins, lint, read, rehash, scaffold, shape};
use serde_json::Value;

use crate::signals::transcript::golden;
use crate::support::World;

struct Judge(Schemas, SchemaIndex);

impl Judge {
    fn new() -> Self {
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        let place = "https://schemas.invalid/contract";
        compiler.add_resource(place, serde_json::from_str(ADAPTER_CONTRACT.text).unwrap()).unwrap();
        let index = compiler.compile(place, &mut schemas).unwrap();
        Self(schemas, index)
    }

    fn accepts(&self, declaration: &Object) -> bool {
        self.0.validate(&Json::Object(declaration.clone()).to_serde(), self.1).is_ok()
    }
}

/// Returns every text in a value that is a declaration, or at least an object.
fn declarations(value: &Value, found: &mut Vec<Object>) {
    match value {
        Value::String(text) => found.extend(read(text.as_bytes()).ok()),
        Value::Array(entries) => entries.iter().for_each(|it| declarations(it, found)),
        Value::Object(members) => {
            members.values().for_each(|it| declarations(it, found));
            if members.contains_key("adapter_id") && members.contains_key("output_fields") {
                found.extend(read(value.to_string().as_bytes()).ok());
            }
        }
        _ => {}
    }
}

/// Says whether a finding is one that no schema can tell.
fn is_beyond(message: &str) -> bool {
    message.contains("not in output_fields") || message.contains(" mismatch: declared ")
}

#[test]
fn the_schema_says_of_golden_contracts_what_lint_says() {
    let judge = Judge::new();
    let (mut clean, mut wrong) = (0, 0);
    for file in [
        "cli_lint.json",
        "cli_bump.json",
        "cli_scaffold.json",
        "cli_fuzz.json",
        "hash_contracts.json",
        "verify_adapter.json",
    ] {
        let mut found = Vec::new();
        declarations(&golden(file), &mut found);
        assert!(!found.is_empty(), "{file}");
        for declaration in found {
            let shown = to_compact(&declaration.clone().into());
            let accepted = judge.accepts(&declaration);
            let errors: Vec<String> = lint(&declaration)
                .into_iter()
                .filter(|it| it.severity == Severity::Error)
                .map(|it| it.message)
                .collect();
            let sayable = errors.iter().any(|message| !is_beyond(message));
            assert_eq!(accepted, !sayable, "{file}: {shown}: {errors:?}");
            clean += usize::from(errors.is_empty());
            wrong += usize::from(!shape(&declaration, Wording::Author).is_empty());
        }
    }
    assert!(clean > 50 && wrong > 50, "{clean} {wrong}");
}

#[test]
fn contracts_with_types_are_described_too() {
    let judge = Judge::new();
    for contract in builtins() {
        assert!(judge.accepts(&contract.declaration), "{}", contract.pointer());
    }
    let typed = |types: &str| {
        let mut contract = scaffold("acme.x", "1.0.0", "a").unwrap();
        contract.insert("field_types", parse(types.as_bytes(), Limits::REQUEST).unwrap());
        rehash(&mut contract).unwrap();
        contract
    };
    for (types, good) in [
        (r#"{"a": {"type": "boolean"}}"#, true),
        (r#"{"a": {"type": "integer", "minimum": 0, "maximum": 99999999999999999999}}"#, true),
        (r#"{"a": {"type": "number", "minimum": 0.5, "finite": true}}"#, true),
        (r#"{"a": {"type": "string", "min_length": 1, "max_length": 2}}"#, true),
        (r#"{"a": {"type": "enum", "values": ["x", "y"]}}"#, true),
        (r#"{"a": {"type": "timestamp", "not_before": "2026-01-01T00:00:00Z"}}"#, true),
        (r#"{"a": {"type": "timestamp", "not_after": "2026-01-01T00:00:00.5+01:00"}}"#, true),
        (r#"{"a": {"type": "float"}}"#, false),
        (r#"{"a": {"type": "boolean", "x": 1}}"#, false),
        (r#"{"a": {"type": "integer", "minimum": 0.5}}"#, false),
        (r#"{"a": {"type": "number", "finite": false}}"#, false),
        (r#"{"a": {"type": "string", "min_length": -1}}"#, false),
        (r#"{"a": {"type": "enum"}}"#, false),
        (r#"{"a": {"type": "enum", "values": ["x", "x"]}}"#, false),
        (r#"{"a": {"type": "timestamp", "not_before": "2026-01-01"}}"#, false),
        (r#"{"a": {}}"#, false),
        (r#"{"a": 1}"#, false),
        (r#"{"A": {"type": "boolean"}}"#, false),
        ("[]", false),
    ] {
        let contract = typed(types);
        assert_eq!(lint(&contract).is_empty(), good, "{types}: {:?}", lint(&contract));
        assert_eq!(judge.accepts(&contract), good, "{types}");
    }
    let mut unbound = typed(r#"{"a": {"type": "boolean"}}"#);
    unbound.remove("field_types");
    assert!(!judge.accepts(&unbound) && !lint(&unbound).is_empty());
    let mut other = typed(r#"{"a": {"type": "boolean"}}"#);
    other.insert("validator_name", "starter_boolean_validator");
    assert!(!judge.accepts(&other) && !lint(&other).is_empty());
}

#[test]
fn the_schema_is_printed_and_served_as_one_text() {
    let run = World::new().run(&["schema", "adapter_contract.v1"]);
    assert_eq!((run.code(), run.stdout().trim_end()), (0, ADAPTER_CONTRACT.text.trim_end()));
    let daemon = crate::daemon::support::Daemon::start("", &[]);
    let served = daemon.get("/specs/adapter-contract.schema.json").by_nobody().send();
    assert_eq!(served.header("content-type"), Some("application/schema+json"));
    assert_eq!(served.text(), ADAPTER_CONTRACT.text);
}
