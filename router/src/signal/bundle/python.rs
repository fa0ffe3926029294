//! How Python takes JSON values where the AiGentsy tools leave it to Python: truth, text, equality and order.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::json::{Value, to_repr};

/// Says whether Python takes a value for true; what is not there is false.
pub(super) fn truthy(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false) | Value::Int(0)) => false,
        Some(Value::Float(float)) => *float != 0.0,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(object)) => !object.is_empty(),
        Some(_) => true,
    }
}

/// Returns Python's `str()` of a value.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| to_repr(value), str::to_owned)
}

/// Returns what Python calls the type of a value.
pub(super) const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::BigInt(_) => "int",
        Value::Float(_) => "float",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// Says whether Python calls two values equal: `1`, `1.0` and `true` are.
pub(super) fn equal(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Null, Value::Null) => true,
        (Value::String(one), Value::String(two)) => one == two,
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| equal(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            // Names are looked up in an index: objects of bundles may be large.
            let others: HashMap<&str, &Value> = two.iter().collect();
            one.len() == two.len()
                && one
                    .iter()
                    .all(|(name, value)| others.get(name).is_some_and(|other| equal(value, other)))
        }
        _ => numbers(one, two) == Some(Ordering::Equal),
    }
}

/// Returns the order of two values; none where Python has none, and would fail.
pub(super) fn order(one: &Value, two: &Value) -> Option<Ordering> {
    match (one, two) {
        (Value::String(one), Value::String(two)) => Some(one.cmp(two)),
        (Value::Array(one), Value::Array(two)) => {
            let differ = one.iter().zip(two).find(|(one, two)| !equal(one, two));
            differ.map_or_else(|| Some(one.len().cmp(&two.len())), |(one, two)| order(one, two))
        }
        _ => numbers(one, two),
    }
}

/// Returns the order of two numbers, exact for integers of any size.
fn numbers(one: &Value, two: &Value) -> Option<Ordering> {
    match (integer(one), integer(two)) {
        (Some(one), Some(two)) => Some(integers(&one, &two)),
        _ => {
            let (float, other) = (as_float(one)?, as_float(two)?);
            // A float beyond the digits that it holds differs from an integer that it is near to.
            match float.partial_cmp(&other)? {
                Ordering::Equal => Some(exact(one, two)),
                order => Some(order),
            }
        }
    }
}

/// Returns the order of two numbers of which one is a float, and which are the same as floats.
fn exact(one: &Value, two: &Value) -> Ordering {
    let digits = |value: &Value| match value {
        Value::Float(float) => format!("{float:.0}"),
        other => integer(other).unwrap_or_default(),
    };
    let whole = |value: &Value| !matches!(value, Value::Float(float) if float.fract() != 0.0);
    if whole(one) && whole(two) { integers(&digits(one), &digits(two)) } else { Ordering::Equal }
}

fn integer(value: &Value) -> Option<String> {
    match value {
        Value::Bool(truth) => Some(u8::from(*truth).to_string()),
        Value::Int(integer) => Some(integer.to_string()),
        Value::BigInt(digits) => Some(digits.to_string()),
        _ => None,
    }
}

/// Returns the order of two integers by their digits.
fn integers(one: &str, two: &str) -> Ordering {
    let parts = |text: &str| match text.strip_prefix('-') {
        Some("0") | None => (false, text.trim_start_matches('-').to_owned()),
        Some(digits) => (true, digits.to_owned()),
    };
    let ((negative, one), (other_negative, two)) = (parts(one), parts(two));
    let larger = || one.len().cmp(&two.len()).then_with(|| one.cmp(&two));
    match (negative, other_negative) {
        (false, false) => larger(),
        (true, true) => larger().reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(float) => Some(*float),
        other => integer(other)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    #[test]
    fn values_compare_as_in_python() {
        let read = |text: &str| parse(text.as_bytes(), Limits::REQUEST).unwrap();
        for (one, two, expected) in [
            ("1", "true", Some(Ordering::Equal)),
            ("1.0", "1", Some(Ordering::Equal)),
            ("-0.0", "0", Some(Ordering::Equal)),
            ("0.5", "false", Some(Ordering::Greater)),
            ("-2", "-10", Some(Ordering::Greater)),
            ("9007199254740993", "9007199254740992.0", Some(Ordering::Greater)),
            ("123456789012345678901234567890", "5", Some(Ordering::Greater)),
            ("-123456789012345678901234567890", "1e300", Some(Ordering::Less)),
            (r#""a""#, r#""b""#, Some(Ordering::Less)),
            ("[1, 2]", "[1, 3]", Some(Ordering::Less)),
            ("[1]", "[1, 3]", Some(Ordering::Less)),
            (r#"["a"]"#, "[1]", None),
            (r#""1""#, "1", None),
            ("{}", "{}", None),
            ("null", "1", None),
        ] {
            let (one, two) = (read(one), read(two));
            assert_eq!(order(&one, &two), expected, "{one:?} {two:?}");
            let same = expected == Some(Ordering::Equal) || one == two;
            assert_eq!(equal(&one, &two), same, "{one:?} {two:?}");
        }
    }
}
