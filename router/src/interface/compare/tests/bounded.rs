//! Schemas that would take long to compare.

use serde_json::json;

use super::*;

#[test]
fn what_is_too_much_is_one_major_change() {
    let bomb = |last: serde_json::Value| {
        let mut schema = json!({ "$ref": "#/$defs/d0", "$defs": {} });
        for n in 0..40 {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            schema["$defs"][format!("d{n}")] =
                json!({ "anyOf": [{ "allOf": [next, next] }, { "not": next }, next] });
        }
        schema["$defs"]["d40"] = last;
        schema
    };
    narrows(&bomb(json!({ "minimum": 1 })), &bomb(json!({ "minimum": 2 })));
    let wide = |first: usize| {
        let branches: Vec<_> = (first..first + 1_000).map(|n| json!({ "const": n })).collect();
        json!({ "anyOf": branches })
    };
    let message = narrows(&wide(0), &wide(5_000));
    let listed = |first: usize| json!({ "enum": (first..first + 20_000).collect::<Vec<_>>() });
    let changes = schemas(&listed(0), &listed(100_000));
    assert_eq!(changes.last().unwrap().message, "is too much to compare", "{message}");
    assert!(changes.len() < 1_100);
    let deep =
        |kind: &str| (0..1_000).fold(json!({ "type": kind }), |inner, _| json!({ "items": inner }));
    assert_eq!(narrows(&deep("string"), &deep("null")), "is too much to compare");
}

#[test]
fn hostile_schemas_are_compared_in_bounded_time() {
    let bounded = |old: &serde_json::Value, new: &serde_json::Value| {
        let (old, new) = (Value::from(old), Value::from(new));
        let begun = std::time::Instant::now();
        for (old, new) in [(&old, &new), (&new, &old)] {
            let (changes, steps) = Walk::new(old, new, false, walk::MAX_STEPS).run("");
            assert!(changes.len() < 1_100, "{}", changes.len());
            assert!(steps <= walk::MAX_STEPS + proof::MAX_STEPS, "{steps}");
            assert_eq!(required_bump(&compare_outputs(old, new, "")), Some(Class::Major));
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    };
    // Alternatives of alternatives, each of which the proof would have to try.
    let split = |last: i64| {
        let pair =
            |n: i64| json!({ "anyOf": [{ "not": { "const": n } }, { "not": { "const": -n } }] });
        let all: Vec<_> = (1..40).map(pair).collect();
        json!({ "allOf": all, "minimum": last })
    };
    bounded(&split(1), &split(2));
    let variants = |from: usize, keyword: &str| {
        let one = |n: usize| json!({ "properties": { "kind": { "enum": [n, n + 1] } }, "required": ["kind"] });
        json!({ keyword: (from..from + 300).map(one).collect::<Vec<_>>() })
    };
    bounded(&variants(0, "oneOf"), &variants(1, "oneOf"));
    bounded(&variants(0, "anyOf"), &variants(1, "oneOf"));
    let around = |n: usize| {
        let all: Vec<_> =
            (n..n + 200).map(|n| json!({ "properties": { n.to_string(): {} } })).collect();
        json!({ "anyOf": all, "unevaluatedProperties": false })
    };
    bounded(&around(0), &around(1));
    let patterns = |n: usize| {
        let all: serde_json::Map<_, _> =
            (n..n + 200).map(|n| (format!("^a{{{n}}}"), json!({ "maximum": n }))).collect();
        json!({ "patternProperties": all, "additionalProperties": false })
    };
    bounded(&patterns(0), &patterns(1));
    let wide = |n: usize| {
        let all: serde_json::Map<_, _> =
            (n..n + 5_000).map(|n| (n.to_string(), json!({ "default": n }))).collect();
        json!({ "properties": all, "required": [n.to_string()], "additionalProperties": false })
    };
    bounded(&wide(0), &wide(1));
    let negated = |n: i64| {
        (0..200).fold(json!({ "const": n }), |inner, _| json!({ "not": { "not": inner } }))
    };
    bounded(&negated(1), &negated(2));
    let back = |n: i64| json!({ "anyOf": [{ "$ref": "#" }, { "not": { "$ref": "#/$defs/a" } }], "minimum": n, "$defs": { "a": { "not": { "$ref": "#" }, "maximum": n } } });
    bounded(&back(1), &back(2));
    let defaults = |n: i64| {
        let mut schema = json!({ "$ref": "#/$defs/d0", "default": n, "$defs": { "d40": {} } });
        for n in 0..40 {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            schema["$defs"][format!("d{n}")] = json!({ "properties": { "a": next, "b": next } });
        }
        schema
    };
    bounded(&defaults(2), &defaults(1));
}
