//! The texts that programs in Python write besides the canonical one: with blanks, on many lines, and for messages.
//!
//! Only the formats of others need them: event hashes of signal bundles are taken over the spaced text, their files
//! are indented, and messages show a value by its `repr`.

use nexus_router_sdk::canonical;

use super::write::write_scalar;
use super::{Object, Value};
use crate::python_text;

/// Returns the text of `json.dumps(value, sort_keys=True)`: ASCII, a blank after each comma and each colon.
#[must_use]
pub fn to_spaced(value: &Value) -> String {
    let mut out = String::new();
    write_spaced(&mut out, value);
    out
}

fn write_spaced(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => canonical::write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_spaced(out, item);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (index, (name, member)) in object.sorted().into_iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                canonical::write_string(out, name.as_str());
                out.push_str(": ");
                write_spaced(out, member);
            }
            out.push('}');
        }
        scalar => write_scalar(out, scalar),
    }
}

/// Returns the text of `json.dumps(value, indent=2)`: ASCII, members in the order given.
#[must_use]
pub fn to_indented(value: &Value) -> String {
    let mut out = String::new();
    write_indented(&mut out, value, 0);
    out
}

fn write_indented(out: &mut String, value: &Value, level: usize) {
    let line = |out: &mut String, index: usize, level: usize| {
        out.push_str(if index > 0 { ",\n" } else { "\n" });
        out.extend(std::iter::repeat_n("  ", level));
    };
    match value {
        Value::String(text) => canonical::write_string(out, text),
        Value::Array(items) if items.is_empty() => out.push_str("[]"),
        Value::Object(object) if object.is_empty() => out.push_str("{}"),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                line(out, index, level + 1);
                write_indented(out, item, level + 1);
            }
            line(out, 0, level);
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (index, (name, member)) in object.iter().enumerate() {
                line(out, index, level + 1);
                canonical::write_string(out, name);
                out.push_str(": ");
                write_indented(out, member, level + 1);
            }
            line(out, 0, level);
            out.push('}');
        }
        scalar => write_scalar(out, scalar),
    }
}

/// Returns Python's `repr()` of a value, with integers of any size.
#[must_use]
pub fn to_repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(integer) => integer.to_string(),
        Value::BigInt(digits) => digits.to_string(),
        Value::Float(float) => canonical::float(*float),
        Value::String(text) => python_text::repr_str(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(to_repr).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(object) => members_repr(object),
    }
}

fn members_repr(object: &Object) -> String {
    let members: Vec<String> = object
        .iter()
        .map(|(name, value)| format!("{}: {}", python_text::repr_str(name), to_repr(value)))
        .collect();
    format!("{{{}}}", members.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, parse};
    use super::*;

    #[test]
    fn each_text_is_that_of_python() {
        let text = r#"{"b": [1, 2.50, {"é": null}], "a": {}, "c": [], "d": 123456789012345678901}"#;
        let value = parse(text.as_bytes(), Limits::REQUEST).unwrap();
        assert_eq!(
            to_spaced(&value),
            r#"{"a": {}, "b": [1, 2.5, {"\u00e9": null}], "c": [], "d": 123456789012345678901}"#
        );
        assert_eq!(
            to_repr(&value),
            "{'b': [1, 2.5, {'é': None}], 'a': {}, 'c': [], 'd': 123456789012345678901}"
        );
        let indented = "{\n  \"b\": [\n    1,\n    2.5,\n    {\n      \"\\u00e9\": null\n    }\n  ],\n  \"a\": {},\n  \
                        \"c\": [],\n  \"d\": 123456789012345678901\n}";
        assert_eq!(to_indented(&value), indented);
    }
}
