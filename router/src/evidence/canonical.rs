//! Canonical bytes: RFC 8785, narrowed to where every program writes the same.
//!
//! Control documents (specs, manifests, summaries, rejections, plans) hold no fractions and only ASCII keys. In
//! that domain RFC 8785 is byte for byte what Python writes with sorted keys and without blanks, so digests of
//! the original hold. What adapters give may hold fractions.

use super::finding::{Finding, below};
use crate::digest::Digest;
use crate::json::{self, Limits, Value};

/// What a sealed document may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// No fractions, keys of ASCII, exact integers.
    Control,
    /// Numbers that every program reads as the same.
    Payload,
}

/// The largest integer of which neither neighbour is read as the same double.
pub const LARGEST: i64 = (1 << 53) - 1;

/// Returns the canonical text of a value.
///
/// # Errors
/// When the value holds what its domain does not have: `fraction`, `inexact_number`, `key_not_ascii`.
pub fn text(value: &Value, domain: Domain) -> Result<String, Finding> {
    check(value, domain)?;
    json::to_jcs(value)
        .map_err(|error| Finding::new("inexact_number", &error.0, "", error.to_string()))
}

/// Returns the digest of the canonical text.
///
/// # Errors
/// As [`text`].
pub fn digest(value: &Value, domain: Domain) -> Result<Digest, Finding> {
    text(value, domain).map(|text| Digest::of(text.as_bytes()))
}

/// Reads canonical text: any other text of the same value is refused.
///
/// # Errors
/// `not_json`, `not_canonical`, and those of [`text`].
pub fn read(bytes: &[u8], limits: Limits, domain: Domain) -> Result<Value, Finding> {
    let value = parse(bytes, limits)?;
    if text(&value, domain)?.as_bytes() != bytes {
        let message =
            "the bytes are not the canonical text of what they say; write it after RFC 8785";
        return Err(Finding::new("not_canonical", "", "", message));
    }
    Ok(value)
}

/// Reads JSON in any form.
pub(super) fn parse(bytes: &[u8], limits: Limits) -> Result<Value, Finding> {
    json::parse(bytes, limits).map_err(|error| {
        let message = format!("{error}; {}", error.hint());
        Finding::new("not_json", error.code(), error.pointer(), message)
    })
}

/// Checks that a value is in its domain.
///
/// # Errors
/// With the first place that is not.
pub fn check(value: &Value, domain: Domain) -> Result<(), Finding> {
    walk(value, domain).map_err(|outside| {
        let pointer =
            outside.path.iter().rev().fold(String::new(), |place, step| below(&place, step));
        Finding::new(outside.word, &pointer, pointer.as_str(), outside.message)
    })
}

struct Outside {
    word: &'static str,
    message: String,
    /// How to get there, innermost first.
    path: Vec<String>,
}

impl Outside {
    #[cold]
    fn new(word: &'static str, message: String) -> Box<Self> {
        Box::new(Self { word, message, path: Vec::new() })
    }

    #[cold]
    fn inside(mut self: Box<Self>, step: String) -> Box<Self> {
        self.path.push(step);
        self
    }
}

fn walk(value: &Value, domain: Domain) -> Result<(), Box<Outside>> {
    let inexact = |number: &str| {
        Err(Outside::new(
            "inexact_number",
            format!(
                "the integer {number} is beyond 2^53-1, where programs disagree; write it as a text"
            ),
        ))
    };
    match value {
        Value::Int(integer) if !(-LARGEST..=LARGEST).contains(integer) => {
            inexact(&integer.to_string())
        }
        Value::BigInt(digits) => inexact(&super::finding::shown(digits)),
        Value::Float(float) if domain == Domain::Control => Err(Outside::new(
            "fraction",
            format!("{float} is no integer, and control documents hold no others"),
        )),
        // Such a double is written as an integer, which nobody reads back exactly.
        #[expect(clippy::cast_precision_loss, reason = "the bound is exact as a double")]
        Value::Float(float)
            if float.fract() == 0.0 && float.abs() > LARGEST as f64 && float.abs() < 1e21 =>
        {
            inexact(&format!("{float}"))
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, domain).map_err(|outside| outside.inside(index.to_string()))?;
            }
            Ok(())
        }
        Value::Object(object) => {
            for (name, value) in object {
                if domain == Domain::Control && !name.is_ascii() {
                    let message = "keys of control documents are ASCII".to_owned();
                    return Err(Outside::new("key_not_ascii", message).inside(name.to_owned()));
                }
                walk(value, domain).map_err(|outside| outside.inside(name.to_owned()))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes(), Limits::REQUEST).unwrap()
    }

    #[test]
    fn what_programs_disagree_about_is_told_with_its_place() {
        for (given, domain, expected) in [
            (r#"{"a":[1,{"b/c":9007199254740992}]}"#, Domain::Payload, "inexact_number:/a/1/b~1c"),
            ("-9007199254740992", Domain::Payload, "inexact_number"),
            ("123456789012345678901234567890", Domain::Payload, "inexact_number"),
            ("[1e20]", Domain::Payload, "inexact_number:/0"),
            ("[1.0]", Domain::Control, "fraction:/0"),
            (r#"{"ä":1}"#, Domain::Control, "key_not_ascii:/ä"),
        ] {
            assert_eq!(text(&value(given), domain).unwrap_err().reason, expected, "{given}");
        }
        for (given, domain, expected) in [
            ("9007199254740991", Domain::Control, "9007199254740991"),
            ("[1e21, 1.0, -0.0, 1e-7]", Domain::Payload, "[1e+21,1,0,1e-7]"),
            (r#"{"ä": "ö", "a": 1}"#, Domain::Payload, r#"{"a":1,"ä":"ö"}"#),
        ] {
            assert_eq!(text(&value(given), domain).unwrap(), expected);
        }
    }

    #[test]
    fn only_canonical_text_is_read() {
        let reason = |text: &str| {
            read(text.as_bytes(), Limits::REQUEST, Domain::Control).unwrap_err().reason
        };
        assert!(read(br#"{"a":1,"b":[]}"#, Limits::REQUEST, Domain::Control).is_ok());
        for other in [
            r#"{"b":[],"a":1}"#,
            r#"{"a": 1,"b":[]}"#,
            "{\"a\":1,\"b\":[]}\n",
            r#""\u0041""#,
            r#""\/""#,
        ] {
            assert_eq!(reason(other), "not_canonical", "{other}");
        }
        assert_eq!(reason(r#"{"a":1,"a":1}"#), "not_json:JSON_DUPLICATE_KEY");
        assert_eq!(reason(r#"{"a":1.5}"#), "fraction:/a");
        assert_eq!(reason(""), "not_json:JSON_SYNTAX");
    }

    /// Control documents of ASCII, without the one character that Python escapes only when asked for ASCII.
    fn control() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-LARGEST..=LARGEST).prop_map(Value::from),
            "[\\x00-\\x7e]{0,12}".prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec(("[\\x00-\\x7e]{0,8}", inner), 0..8)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn control_documents_are_what_python_writes(value in control()) {
            prop_assert_eq!(text(&value, Domain::Control).unwrap(), json::to_canonical(&value));
        }

        #[test]
        fn canonical_text_reads_back(value in control()) {
            let text = text(&value, Domain::Control).unwrap();
            prop_assert_eq!(read(text.as_bytes(), Limits::REQUEST, Domain::Control).unwrap(), value);
        }
    }
}
