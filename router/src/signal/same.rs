//! Which values Python calls equal: `1`, `1.0` and `true` are the same.

use crate::json::{Value, to_repr};

/// Returns a text that two values have in common if and only if Python calls them equal.
pub(super) fn identity(value: &Value) -> String {
    match value {
        Value::Bool(truth) => u8::from(*truth).to_string(),
        // All digits of a whole number are written, however large it is.
        Value::Float(float) if *float == 0.0 => "0".to_owned(),
        Value::Float(float) if float.fract() == 0.0 => format!("{float:.0}"),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(identity).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(object) => {
            let mut members: Vec<String> = object
                .iter()
                .map(|(name, member)| format!("{}:{}", to_repr(&name.into()), identity(member)))
                .collect();
            members.sort_unstable();
            format!("{{{}}}", members.join(","))
        }
        other => to_repr(other),
    }
}

/// Says whether Python calls two values equal, where what is absent is `None`.
pub(super) fn same(one: Option<&Value>, two: Option<&Value>) -> bool {
    let shown = |value: Option<&Value>| identity(value.unwrap_or(&Value::Null));
    one == two || shown(one) == shown(two)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    #[test]
    fn numbers_are_equal_by_their_size_alone() {
        let read = |text: &str| parse(text.as_bytes(), Limits::REQUEST).unwrap();
        for (one, two, equal) in [
            ("1", "1.0", true),
            ("1", "true", true),
            ("0", "-0.0", true),
            ("0", "false", true),
            ("1", "\"1\"", false),
            ("null", "0", false),
            ("1e22", "10000000000000000000000", true),
            ("1e23", "100000000000000000000000", false),
            ("9007199254740993", "9007199254740992.0", false),
            ("[1, {\"a\": 2, \"b\": [true]}]", "[1.0, {\"b\": [1], \"a\": 2.0}]", true),
            ("[\"a,b\"]", "[\"a\", \"b\"]", false),
            ("{\"a\": null}", "{}", false),
        ] {
            assert_eq!(same(Some(&read(one)), Some(&read(two))), equal, "{one} and {two}");
        }
        assert!(same(None, Some(&Value::Null)));
    }
}
