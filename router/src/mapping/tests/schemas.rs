//! The published schemas of interface contracts, locks and tool specs, against their readers.

use crate::conform::Schema;
use crate::json::{self, Limits, Object, Value};

fn read(text: &str) -> Value {
    json::parse(text.as_bytes(), Limits::REQUEST).unwrap()
}

fn check(name: &str, value: &Value) -> Result<(), String> {
    thread_local! {
        static COMPILED: std::cell::RefCell<Vec<(String, Schema)>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    COMPILED.with_borrow_mut(|compiled| {
        if !compiled.iter().any(|(known, _)| known == name) {
            let text = crate::schema::find(name).unwrap().text;
            let schema = Schema::read(&serde_json::from_str(text).unwrap()).unwrap();
            compiled.push((name.to_owned(), schema));
        }
        let (_, schema) = compiled.iter().find(|(known, _)| known == name).unwrap();
        schema.check(&value.to_serde()).map_err(|misfit| misfit.to_string())
    })
}

fn accepts(name: &str, value: &Value) -> bool {
    check(name, value).is_ok()
}

#[track_caller]
fn must_accept(name: &str, value: &Value) {
    assert_eq!(check(name, value), Ok(()), "{}", json::to_compact(value));
}

fn spoilers() -> Vec<Value> {
    read(r#"[null, true, 0, -1, 1.5, "", " ", "x", "X y", [], [1], {}, {"x": 1}]"#)
        .as_array()
        .unwrap()
        .to_vec()
}

/// Returns every value that comes of one change to one part of a value.
fn spoiled(value: &Value, spoilers: &[Value]) -> Vec<Value> {
    let mut found = spoilers.to_vec();
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                for part in spoiled(item, spoilers) {
                    let mut items = items.clone();
                    items[index] = part;
                    found.push(items.into());
                }
            }
        }
        Value::Object(object) => {
            let changed = |change: &dyn Fn(&mut Object)| {
                let mut object = object.clone();
                change(&mut object);
                Value::from(object)
            };
            found.push(changed(&|object| object.insert("unknown", true)));
            for (key, member) in object.iter() {
                found.push(changed(&|object| drop(object.remove(key))));
                for part in spoiled(member, spoilers) {
                    found.push(changed(&|object| object.insert(key, part.clone())));
                }
            }
        }
        _ => {}
    }
    found
}

/// Returns a contract that has every member.
fn contract() -> Value {
    read(
        r#"{"format": "nexus-router.interface/1", "adapter_id": "shop", "version": "1.0.0", "description": "Sells.",
            "operations": {"buy": {"description": "Buys.", "tool": "shop", "method": "buy",
                "input_schema": {"type": "object"}, "output_schema": {"type": "object"}, "timeout_ms": 5,
                "retry": {"attempts": 2, "base_ms": 1, "max_ms": 2}, "idempotent": true, "read_only": false,
                "failure_modes": [{"code": "GONE", "severity": "error", "halts": true}], "volatile": ["/at"],
                "examples": [{"input": {}, "output": {}}, {"input": {}, "error": "GONE"}]}}}"#,
    )
}

#[test]
fn schema_of_contracts_agrees_with_their_reader() {
    const SCHEMA: &str = "nexus-router.interface.v1";
    for contract in crate::interface::frozen() {
        must_accept(SCHEMA, &contract.document);
    }
    must_accept(SCHEMA, &contract());
    let mut refused = 0;
    for spoiled in spoiled(&contract(), &spoilers()) {
        // The reader looks at more than a schema can say.
        if !accepts(SCHEMA, &spoiled) {
            refused += 1;
            let read = crate::interface::Interface::from_document(spoiled.clone());
            assert!(read.is_err(), "{}", json::to_compact(&spoiled));
        }
    }
    assert!(refused > 100, "{refused} documents were refused");
}

#[test]
fn schema_of_locks_accepts_what_is_written() {
    use crate::interface::{Capacity, Interface, Lock, Revision, SignOff, Tested};
    let directory = tempfile::tempdir().unwrap();
    let key = crate::key::SigningKey::create(&directory.path().join("key")).unwrap();
    let digest = crate::digest::Digest::of(b"library");
    let mut revision = Revision {
        adapter_id: "shop".to_owned(),
        version: semver::Version::new(1, 0, 0),
        previous: None,
        contract: Interface::from_document(contract()).ok(),
        approvals: Vec::new(),
        tested: Some(Tested {
            operations: vec!["buy".to_owned()],
            library: digest,
            at: "t".to_owned(),
        }),
    };
    let now = crate::clock::Timestamp::from_millis(0);
    for (capacity, at) in [(Capacity::Author, Some(now)), (Capacity::Reviewer, None)] {
        let signed = SignOff::new(&revision, capacity, &key, at);
        revision.approvals.push(signed);
    }
    let removed = Revision { contract: None, previous: Some(digest), ..revision.clone() };
    let lock = Lock { revisions: vec![revision, removed] };
    let text = lock.to_text();
    let document = read(&text);
    must_accept("nexus-router.interface_lock.v1", &document);
    for spoiled in spoiled(&document, &spoilers()) {
        if !accepts("nexus-router.interface_lock.v1", &spoiled) {
            let text = json::to_compact(&spoiled);
            assert!(Lock::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}

#[test]
fn schema_of_tool_specs_agrees_with_their_reader() {
    use crate::mapping::{
        EffectType, ExecutionMode, ResourceClass, RollbackStrategy, ToolDocument,
    };
    let spec = read(
        r#"{"tool_id": "greet", "version": "1.0.0", "description": "Greets somebody by name.",
            "input_schema": {"type": "object"}, "output_schema": {"type": "object"},
            "execution_mode": "remote", "credentials_required": ["API_KEY"],
            "side_effects": [{"effect_type": "file_write", "description": "d", "reversible": true, "scope": "s"}],
            "rollback_strategy": "none", "timeout_seconds": 5, "resource_class": "compute",
            "adapter_id": "echo", "adapter_operation": "hello", "adapter_contract_version": "1.0.0",
            "execution_target": {"mode": "remote", "provider": "nexus", "region": "r", "service": "echo"},
            "dependencies": {"tools": ["t"], "services": ["s"],
                "minimum_resources": {"memory_mb": 1, "cpu_cores": 0.5, "disk_mb": 1}},
            "validation": {"pre_conditions": ["a"], "post_conditions": ["b"], "invariants": ["c"]},
            "metadata": {"action_class": "data_lookup"}}"#,
    );
    must_accept("nexus-router.tool_spec.v1", &spec);
    for spoiled in spoiled(&spec, &spoilers()) {
        if !accepts("nexus-router.tool_spec.v1", &spoiled) {
            let read = ToolDocument::from_document(spoiled.clone());
            assert!(read.is_err(), "{}", json::to_compact(&spoiled));
        }
    }
    let schema = read(crate::schema::find("tool_spec.v1").unwrap().text);
    let names = |pointer: &str| -> Vec<String> {
        let names = schema.pointer(pointer).unwrap().as_array().unwrap().iter();
        names.map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let effects = "/properties/side_effects/items/properties/effect_type/enum";
    assert_eq!(names(effects), EffectType::NAMES);
    assert_eq!(names("/properties/execution_mode/enum"), ExecutionMode::NAMES);
    assert_eq!(names("/properties/resource_class/enum"), ResourceClass::NAMES);
    assert_eq!(names("/properties/rollback_strategy/enum"), RollbackStrategy::NAMES);
}
