//! Text as Python writes it, for messages that must read like those of the Python router.
//!
//! A [`Value`] cannot hold integers beyond 64 bits, so these arrive here as floats already.

use nexus_router_sdk::canonical;
use serde_json::Value;

/// Returns Python's `repr()` of a value: `True`, `None`, `'x'`, `{'a': [1, 1e+16]}`.
#[must_use]
pub(crate) fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

/// Returns Python's `repr()` of a text: `'x'`, or `"it's"` when that saves an escape.
#[must_use]
pub(crate) fn repr_str(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_quoted(&mut out, text);
    out
}

/// Returns Python's `str()` of a value: a text as it is, anything else as its [`repr`].
#[must_use]
pub(crate) fn str(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

/// Returns a list of texts in Python's form: `['a', 'b']`.
#[must_use]
pub(crate) fn list<S: AsRef<str>>(items: &[S]) -> String {
    let mut out = String::from("[");
    for (index, item) in items.iter().enumerate() {
        separate(&mut out, index);
        write_quoted(&mut out, item.as_ref());
    }
    out.push(']');
    out
}

/// Returns a text on one line, with every character that could steer a terminal or hide made visible.
///
/// These are the characters that Python's `repr` escapes (controls, line breaks, direction marks,
/// blanks other than the space), in the same spelling. Quotes and backslashes stay as they are.
#[must_use]
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        write_visible(&mut out, c);
    }
    out
}

/// Returns JSON text in which every character that is not printable is an escape. Line ends stay.
pub(crate) fn json_escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_printable(c) || c == '\n' {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// Says whether Python prints a character as it is: `str.isprintable`.
#[must_use]
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    // The standard library has the same table, but shows it only through `escape_debug`. The leading
    // letter keeps combining marks from being escaped for beginning the text.
    let mut bytes = [b'a', 0, 0, 0, 0];
    let len = c.encode_utf8(&mut bytes[1..]).len();
    std::str::from_utf8(&bytes[..=len]).is_ok_and(|pair| pair.escape_debug().nth(1) == Some(c))
}

fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => out.push_str(&canonical::float(float)),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => write_quoted(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index);
                write_repr(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (key, item)) in members.iter().enumerate() {
                separate(out, index);
                write_quoted(out, key);
                out.push_str(": ");
                write_repr(out, item);
            }
            out.push('}');
        }
    }
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push_str(", ");
    }
}

fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        if c == quote || c == '\\' {
            out.push('\\');
            out.push(c);
        } else {
            write_visible(out, c);
        }
    }
    out.push(quote);
}

fn write_visible(out: &mut String, c: char) {
    match (c, u32::from(c)) {
        ('\t', _) => out.push_str("\\t"),
        ('\n', _) => out.push_str("\\n"),
        ('\r', _) => out.push_str("\\r"),
        (c, _) if is_printable(c) => out.push(c),
        (_, point @ ..=0xff) => out.push_str(&format!("\\x{point:02x}")),
        (_, point @ ..=0xffff) => out.push_str(&format!("\\u{point:04x}")),
        (_, point) => out.push_str(&format!("\\U{point:08x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn repr_is_that_of_python() {
        for (value, expected) in [
            (json!(null), "None"),
            (json!(true), "True"),
            (json!(false), "False"),
            (json!(-7), "-7"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!(1.0), "1.0"),
            (json!(1e16), "1e+16"),
            (json!(1e-5), "1e-05"),
            (json!(-0.0), "-0.0"),
            (json!(""), "''"),
            (json!("x"), "'x'"),
            (json!("it's"), r#""it's""#),
            (json!("say \"hi\""), r#"'say "hi"'"#),
            (json!("it's \"hi\""), r#"'it\'s "hi"'"#),
            (json!("a\\b"), r"'a\\b'"),
            (json!("\t\r\n\0\u{1b}[31m\u{7f}"), r"'\t\r\n\x00\x1b[31m\x7f'"),
            (json!("é✓\u{301}😀"), "'é✓\u{301}😀'"),
            (json!("\u{a0}\u{ad}\u{85}"), r"'\xa0\xad\x85'"),
            (json!("\u{202e}\u{2028}\u{feff}\u{e000}"), r"'\u202e\u2028\ufeff\ue000'"),
            (json!("\u{e0001}\u{10ffff}"), r"'\U000e0001\U0010ffff'"),
            (json!([]), "[]"),
            (json!({}), "{}"),
            (json!({"a": [1, "x", null]}), "{'a': [1, 'x', None]}"),
            (json!({"b": 1, "a'": {}}), r#"{'b': 1, "a'": {}}"#),
        ] {
            assert_eq!(repr(&value), expected, "{value}");
        }
    }

    #[test]
    fn str_leaves_text_alone() {
        assert_eq!(str(&json!("it's\n")), "it's\n");
        assert_eq!(str(&json!(["a"])), "['a']");
        assert_eq!(str(&json!(true)), "True");
    }

    #[test]
    fn list_quotes_each_item() {
        assert_eq!(list::<&str>(&[]), "[]");
        assert_eq!(list(&["apply", "dry_run"]), "['apply', 'dry_run']");
        assert_eq!(list(&["it's".to_owned()]), r#"["it's"]"#);
    }

    #[test]
    fn visible_text_cannot_steer_a_terminal() {
        assert_eq!(visible("a\u{1b}[2J\nb\\'\u{9b}"), r"a\x1b[2J\nb\'\x9b");
        assert_eq!(visible("plain – é 漢"), "plain – é 漢");
    }

    proptest! {
        #[test]
        fn every_text_becomes_printable(text in any::<String>()) {
            prop_assert!(repr_str(&text).chars().all(is_printable));
            prop_assert!(visible(&text).chars().all(is_printable));
        }
    }
}
