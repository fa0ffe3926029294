//! The texts of a value: canonical for digests, compact for adapters, pretty for people.

use std::fmt::Write as _;

use nexus_router_sdk::canonical;

use super::name::Name;
use super::object::{FEW, sort};
use super::plain::plain_len;
use super::{Object, Value};
use crate::python_text;

/// Returns the canonical text: ASCII without blanks, members sorted by the code points of their names.
///
/// It is the text over which the Python router takes its digests; [`nexus_router_sdk::canonical`]
/// describes it.
#[must_use]
pub fn to_canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(&mut out, value);
    out
}

/// Appends the canonical text of a value.
pub fn write_canonical(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => canonical::write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index);
                write_canonical(out, item);
            }
            out.push(']');
        }
        Value::Object(object) => write_canonical_object(out, object),
        scalar => write_scalar(out, scalar),
    }
}

/// Appends the canonical text of an object.
pub fn write_canonical_object(out: &mut String, object: &Object) {
    let members = object.members();
    out.push('{');
    // What was stored is sorted already; then nothing is allocated.
    if members.is_sorted_by(|one, next| one.0.as_bytes() < next.0.as_bytes()) {
        write_canonical_members(out, members.iter());
    } else if members.len() <= FEW {
        // Most objects are small, and are put into order without allocating, too.
        let mut few = [&members[0]; FEW];
        let few = &mut few[..members.len()];
        few.iter_mut().zip(members).for_each(|(place, member)| *place = member);
        sort(few);
        write_canonical_members(out, few.iter().copied());
    } else {
        write_canonical_members(out, object.sorted().into_iter());
    }
    out.push('}');
}

fn write_canonical_members<'a>(out: &mut String, members: impl Iterator<Item = &'a (Name, Value)>) {
    for (index, (name, value)) in members.enumerate() {
        separate(out, index);
        canonical::write_string(out, name.as_str());
        out.push(':');
        write_canonical(out, value);
    }
}

/// Appends the canonical text of a string, with its quotes.
pub fn write_canonical_str(out: &mut String, text: &str) {
    canonical::write_string(out, text);
}

/// Returns the compact text: no blanks, members in the order given, only what JSON demands escaped.
#[must_use]
pub fn to_compact(value: &Value) -> String {
    let mut out = String::new();
    write_compact(&mut out, value);
    out
}

/// Appends the compact text of a value.
pub fn write_compact(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => write_plain_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index);
                write_compact(out, item);
            }
            out.push(']');
        }
        Value::Object(object) => write_compact_object(out, object),
        scalar => write_scalar(out, scalar),
    }
}

/// Appends the compact text of an object.
pub fn write_compact_object(out: &mut String, object: &Object) {
    out.push('{');
    for (index, (name, member)) in object.iter().enumerate() {
        separate(out, index);
        write_plain_string(out, name);
        out.push(':');
        write_compact(out, member);
    }
    out.push('}');
}

/// Returns the text for people: indented by two blanks, members in the order given, and every
/// character that could steer a terminal or hide as an escape.
#[must_use]
pub fn to_pretty(value: &Value) -> String {
    let mut out = String::new();
    write_pretty(&mut out, value, 0);
    python_text::json_escaped(&out)
}

fn write_pretty(out: &mut String, value: &Value, level: usize) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index);
                break_line(out, level + 1);
                write_pretty(out, item, level + 1);
            }
            break_line(out, level);
            out.push(']');
        }
        Value::Object(object) if !object.is_empty() => {
            out.push('{');
            for (index, (name, member)) in object.iter().enumerate() {
                separate(out, index);
                break_line(out, level + 1);
                write_plain_string(out, name);
                out.push_str(": ");
                write_pretty(out, member, level + 1);
            }
            break_line(out, level);
            out.push('}');
        }
        other => write_compact(out, other),
    }
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push(',');
    }
}

fn break_line(out: &mut String, level: usize) {
    out.push('\n');
    for _ in 0..level {
        out.push_str("  ");
    }
}

/// Appends what every form writes alike; texts and containers have no such form.
pub(super) fn write_scalar(out: &mut String, value: &Value) {
    match value {
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Int(integer) => {
            // Writing to a string cannot fail.
            let _: std::fmt::Result = write!(out, "{integer}");
        }
        Value::BigInt(digits) => out.push_str(digits),
        Value::Float(float) => canonical::write_float(out, *float),
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            out.push_str("null");
        }
    }
}

pub(super) fn write_plain_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    loop {
        let (plain, tail) = rest.split_at(plain_len(rest.as_bytes()));
        out.push_str(plain);
        let mut characters = tail.chars();
        let Some(character) = characters.next() else { break };
        canonical::write_escape(out, character);
        rest = characters.as_str();
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::tests::{any_value, read};
    use super::super::{Limits, parse};
    use super::*;
    use proptest::prelude::*;

    fn golden(name: &str) -> String {
        let path = format!("{}/../tests/golden/nexus/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    const NO_NUMBER: &str = "JSON_NOT_FINITE";
    const NO_CHARACTER: &str = "JSON_LONE_SURROGATE";
    const NO_ONE_MEANING: &str = "JSON_DUPLICATE_KEY";

    /// What Python reads and we refuse, since it is not JSON, not text, or read differently elsewhere.
    const REFUSED: [(&str, &str); 10] = [
        ("1e400", NO_NUMBER),
        ("-1e400", NO_NUMBER),
        ("NaN", NO_NUMBER),
        ("Infinity", NO_NUMBER),
        ("-Infinity", NO_NUMBER),
        ("[NaN]", NO_NUMBER),
        (r#""\ud800""#, NO_CHARACTER),
        (r#""\ude00\ud83d""#, NO_CHARACTER),
        (r#"{"a":1,"a":2}"#, NO_ONE_MEANING),
        (r#"{"\ud800":1,"\ue000":2,"\ud83d\ude00":3}"#, NO_CHARACTER),
    ];

    #[test]
    fn canonical_text_is_that_of_python() {
        let (mut same, mut invalid, mut refused) = (0, 0, Vec::new());
        for line in golden("canonical.jsonl").lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let input = case["in"].as_str().unwrap();
            let parsed = parse(input.as_bytes(), Limits::default());
            if let Some(exception) = REFUSED.iter().find(|(text, _)| *text == input) {
                assert!(case["out"].is_string(), "Python refuses {input} too");
                assert_eq!(parsed.unwrap_err().code(), exception.1, "{input}");
                refused.push(*exception);
            } else if let Some(expected) = case["out"].as_str() {
                let text = to_canonical(&parsed.unwrap());
                assert_eq!(text, expected, "canonical text of {input}");
                let digest = crate::Digest::of(text.as_bytes()).to_string();
                assert!(digest.ends_with(case["sha256"].as_str().unwrap()), "digest of {input}");
                same += 1;
            } else {
                assert_eq!(parsed.unwrap_err().code(), "JSON_SYNTAX", "{input}");
                invalid += 1;
            }
        }
        assert_eq!(refused, REFUSED);
        assert_eq!((same, invalid), (64, 25));
    }

    #[test]
    fn floats_are_read_and_written_as_in_python() {
        let mut count = 0;
        for line in golden("floats.txt").lines() {
            let (bits, text) = line.split_once(' ').unwrap();
            let Value::Float(float) = read(text) else { panic!("{text} is not a float") };
            assert_eq!(format!("{:016x}", float.to_bits()), bits, "{text}");
            assert_eq!(to_canonical(&Value::Float(float)), text, "bits {bits}");
            count += 1;
        }
        assert_eq!(count, 3000);
    }

    #[test]
    fn compact_text_keeps_order_and_characters() {
        let value =
            read(r#"{ "b" : [1, 2.50, "\u00e9\u2028\u007f"], "a": {"\"\\\/\n\u0001": null} }"#);
        let expected = "{\"b\":[1,2.5,\"é\u{2028}\u{7f}\"],\"a\":{\"\\\"\\\\/\\n\\u0001\":null}}";
        assert_eq!(to_compact(&value), expected);
    }

    #[test]
    fn pretty_text_is_indented_and_cannot_steer_a_terminal() {
        let value = read(r#"{"b":[1,[],{}],"a":{"é\u001b\u009b\u202e\n":true}}"#);
        let expected = "{\n  \"b\": [\n    1,\n    [],\n    {}\n  ],\n  \"a\": {\n    \
                        \"é\\u001b\\u009b\\u202e\\n\": true\n  }\n}";
        assert_eq!(to_pretty(&value), expected);
    }

    proptest! {
        #[test]
        fn every_text_reads_back(value in any_value()) {
            for text in [to_canonical(&value), to_compact(&value), to_pretty(&value)] {
                let read = parse(text.as_bytes(), Limits::default());
                prop_assert_eq!(read.as_ref(), Ok(&value), "{}", text);
                prop_assert_eq!(to_canonical(&read.unwrap()), to_canonical(&value));
            }
            prop_assert!(to_canonical(&value).is_ascii());
        }

        #[test]
        fn canonical_text_does_not_depend_on_the_order(
            members in prop::collection::btree_map(any::<String>(), any_value(), 0..20)
        ) {
            let sorted: Object = members.clone().into_iter().collect();
            let reversed: Object = members.into_iter().rev().collect();
            prop_assert_eq!(to_canonical(&sorted.into()), to_canonical(&reversed.into()));
        }

        #[test]
        fn canonical_text_is_that_of_the_sdk(value in any_value()) {
            let there = value.to_serde();
            prop_assert_eq!(to_canonical(&Value::from(&there)), canonical::to_string(&there));
        }
    }
}
