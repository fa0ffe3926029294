//! Examples: read, contradictions, comparison with outputs.

use serde_json::{Value as Json, json};

use super::*;
use crate::interface::Interface;

fn contract(examples: &Json, fault_examples: &Json) -> Result<Interface, Vec<String>> {
    let document = json!({
        "format": "nexus-router.interface/1", "adapter_id": "shop", "version": "1.0.0", "description": "A shop.",
        "operations": { "buy": {
            "description": "Buys something.",
            "input_schema": { "type": "object", "properties": { "n": { "type": "integer" } } },
            "output_schema": { "type": "object", "properties": { "ok": { "type": "boolean" } } },
            "timeout_ms": 1000, "idempotent": false, "read_only": false,
            "failure_modes": [{ "code": "SOLD_OUT", "severity": "error", "halts": true, "description": "None is left." }],
            "volatile": ["/at"],
            "examples": examples, "fault_examples": fault_examples,
        } },
    });
    let shown = |findings: Vec<crate::interface::Finding>| {
        findings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    Interface::from_document(Value::from(&document)).map_err(shown)
}

#[test]
fn reads_conditions_and_descriptions() {
    let read = contract(
        &json!([{ "input": { "n": 1 }, "output": { "ok": true } }]),
        &json!([
            { "when": "the shop is closed", "input": { "n": 1 }, "output": { "ok": false } },
            { "when": "none is left", "input": { "n": 1 }, "error": "SOLD_OUT" },
        ]),
    );
    let buy = &read.unwrap().operations["buy"];
    assert_eq!(buy.failure_modes[0].description.as_deref(), Some("None is left."));
    let whens: Vec<&str> = buy.fault_examples.iter().map(|fault| fault.when.as_str()).collect();
    assert_eq!(whens, ["the shop is closed", "none is left"]);
    assert_eq!(buy.fault_examples[1].example.comes, Err("SOLD_OUT".to_owned()));
}

#[test]
fn refuses_two_outcomes_of_one_input() {
    for (second, is_refused) in [
        (json!({ "input": { "n": 1.0 }, "error": "SOLD_OUT" }), true),
        (json!({ "input": { "n": 1 }, "output": { "ok": false } }), true),
        (json!({ "input": { "n": 2 }, "error": "SOLD_OUT" }), false),
        (json!({ "input": { "n": 1 }, "output": { "ok": true, "at": 2 } }), false),
    ] {
        let first = json!({ "input": { "n": 1 }, "output": { "ok": true, "at": 1 } });
        let read = contract(&json!([first, second]), &json!([]));
        let findings = read.err().unwrap_or_default();
        assert_eq!(!findings.is_empty(), is_refused, "{second}: {findings:?}");
        assert!(
            findings.iter().all(|it| it.contains("/examples/1/input") && it.contains("example 0"))
        );
        // Under a condition the same input may have any outcome.
        let mut fault = second.clone();
        fault["when"] = json!("something is different");
        contract(&json!([first]), &json!([fault])).unwrap();
    }
}

#[test]
fn refuses_fault_examples_that_do_not_fit() {
    for (fault, place) in [
        (json!({ "input": {}, "error": "SOLD_OUT" }), "/fault_examples/0/when: is missing"),
        (json!({ "when": " ", "input": {}, "error": "SOLD_OUT" }), "/fault_examples/0/when: must"),
        (json!({ "when": "x", "input": {}, "error": "OTHER" }), "/fault_examples/0/error: OTHER"),
        (
            json!({ "when": "x", "input": { "n": "1" }, "error": "SOLD_OUT" }),
            "/fault_examples/0/input",
        ),
        (json!({ "when": "x", "input": {}, "output": { "ok": 1 } }), "/fault_examples/0/output"),
        (json!({ "when": "x", "input": {} }), "/fault_examples/0: must have either"),
        (json!({ "when": "x", "input": {}, "output": {}, "why": 1 }), "/fault_examples/0/why"),
    ] {
        let findings = contract(&json!([]), &json!([fault])).unwrap_err();
        assert!(findings.iter().any(|it| it.contains(place)), "{fault}: {findings:?}");
    }
    let plain = contract(&json!([{ "when": "x", "input": {}, "output": {} }]), &json!([]));
    assert!(plain.unwrap_err()[0].contains("/examples/0/when: is unknown"));
}

#[test]
fn output_may_have_more_than_its_example() {
    let compare = |output: Json, expected: Json| {
        let Value::Object(output) = Value::from(&output) else { panic!() };
        compare_output(&output, &Value::from(&expected), &["/at".to_owned(), "/b/0/c".to_owned()])
    };
    let shown = json!({ "a": 1, "at": 1, "b": [{ "c": 1 }, { "d": null }] });
    for output in [
        shown.clone(),
        json!({ "a": 1.0, "at": 9, "b": [{ "c": "other" }, { "d": null, "more": 1 }], "more": {} }),
    ] {
        assert_eq!(compare(output, shown.clone()), Ok(()));
    }
    for output in [
        json!({ "a": 2, "at": 1, "b": [{ "c": 1 }, { "d": null }] }),
        json!({ "a": 1, "b": [{ "c": 1 }, { "d": null }] }),
        json!({ "a": 1, "at": 1, "b": [{ "c": 1 }, {}] }),
        json!({ "a": 1, "at": 1, "b": [{ "c": 1 }] }),
        json!({ "a": 1, "at": 1, "b": [{ "c": 1 }, { "d": null }, 3] }),
        json!({ "a": 1, "at": 1, "b": {} }),
    ] {
        let told = compare(output.clone(), shown.clone());
        assert!(told.is_err_and(|it| it.contains("and not")), "{output}");
    }
}
