//! The order of JSON numbers, exactly, whatever their size and kind.

use std::cmp::Ordering;

use crate::json::Value;

/// Returns how two numbers compare; nothing, if one of them is none.
pub(super) fn order(one: &Value, two: &Value) -> Option<Ordering> {
    match (one, two) {
        (Value::Int(one), Value::Int(two)) => Some(one.cmp(two)),
        (Value::Float(one), Value::Float(two)) => one.partial_cmp(two),
        (Value::Float(float), integer) => Some(beside(&decimal(integer)?, *float).reverse()),
        (integer, Value::Float(float)) => Some(beside(&decimal(integer)?, *float)),
        (one, two) => Some(integers(&decimal(one)?, &decimal(two)?)),
    }
}

/// Returns the digits of an integer, with a minus before those of a negative one.
fn decimal(value: &Value) -> Option<String> {
    match value {
        Value::Int(integer) => Some(integer.to_string()),
        Value::BigInt(digits) => Some(digits.to_string()),
        _ => None,
    }
}

/// Compares an integer to a float: to its whole part, all of whose digits are written, then to what is left of it.
fn beside(integer: &str, float: f64) -> Ordering {
    let whole = float.trunc();
    let digits = if whole == 0.0 { "0".to_owned() } else { format!("{whole:.0}") };
    integers(integer, &digits)
        .then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
}

fn integers(one: &str, two: &str) -> Ordering {
    let longer = |one: &str, two: &str| one.len().cmp(&two.len()).then_with(|| one.cmp(two));
    match (one.strip_prefix('-'), two.strip_prefix('-')) {
        (None, None) => longer(one, two),
        (Some(one), Some(two)) => longer(two, one),
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    #[test]
    fn numbers_of_any_size_and_kind_are_in_order() {
        let ascending = [
            "-1e300",
            "-100000000000000000000000",
            "-9223372036854775809",
            "-9223372036854775808",
            "-1.5",
            "-1",
            "-0.5",
            "0",
            "5e-324",
            "1",
            "1.0000000000000002",
            "9007199254740992.0",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808.0",
            "9223372036854775809",
            "1e23",
            "100000000000000000000000",
            "1e300",
        ];
        let values = ascending.map(|text| parse(text.as_bytes(), Limits::REQUEST).unwrap());
        for (at, one) in values.iter().enumerate() {
            for (other, two) in values.iter().enumerate() {
                // 1e23 is the float 99999999999999991611392.
                assert_eq!(order(one, two), Some(at.cmp(&other)), "{one:?} {two:?}");
            }
        }
        let (zero, nothing) = (Value::Float(-0.0), Value::from("1"));
        assert_eq!(order(&zero, &Value::Int(0)), Some(Ordering::Equal));
        assert_eq!(order(&nothing, &Value::Int(1)), None);
        assert_eq!(order(&Value::Float(1.0), &nothing), None);
        assert_eq!(order(&Value::Bool(true), &Value::Int(1)), None);
    }
}
