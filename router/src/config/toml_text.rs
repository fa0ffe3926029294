//! Values as text of TOML, which no terminal takes for commands.

use crate::json::{Object, Value, to_canonical};
use crate::python_text::{is_printable, visible};

/// Writes a document; before each part of the top stands a comment.
pub(super) fn document(root: &Object, comment: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for (key, value) in root.iter().filter(|(_, value)| !is_section(value)) {
        out.push_str(&format!("# {}\n{} = {}\n", visible(&comment(key)), name(key), text(value)));
    }
    for (key, value) in root.iter().filter(|(_, value)| is_section(value)) {
        out.push_str(&format!("\n# {}", visible(&comment(key))));
        section(&mut out, &name(key), value);
    }
    out
}

/// Tells whether a value has a header of its own: a table, or a list of nothing but tables.
fn is_section(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(items) => {
            !items.is_empty() && items.iter().all(|item| matches!(item, Value::Object(_)))
        }
        _ => false,
    }
}

fn section(out: &mut String, path: &str, value: &Value) {
    match value {
        Value::Object(table) => {
            out.push_str(&format!("\n[{path}]\n"));
            body(out, path, table);
        }
        Value::Array(items) => {
            for table in items.iter().filter_map(Value::as_object) {
                out.push_str(&format!("\n[[{path}]]\n"));
                body(out, path, table);
            }
        }
        _ => {}
    }
}

fn body(out: &mut String, path: &str, table: &Object) {
    for (key, value) in table.iter().filter(|(_, value)| !is_section(value)) {
        out.push_str(&format!("{} = {}\n", name(key), text(value)));
    }
    for (key, value) in table.iter().filter(|(_, value)| is_section(value)) {
        section(out, &format!("{path}.{}", name(key)), value);
    }
}

fn name(key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let bare = !key.is_empty() && key.bytes().all(is_bare);
    if bare { key.to_owned() } else { quoted(key) }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => to_canonical(value),
        // TOML has neither; nothing that was read from it gets here.
        Value::Null | Value::BigInt(_) => quoted(&to_canonical(value)),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", "))
        }
        Value::Object(table) => {
            let members =
                table.iter().map(|(key, value)| format!("{} = {}", name(key), text(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if is_printable(c) => out.push(c),
            c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter_map("finite", Value::float),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".{0,3}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(members in prop::collection::vec((".{0,3}", value()), 0..5)) {
            let mut root = Object::new();
            for (key, value) in members {
                root.insert(key, value);
            }
            let written = document(&root, |key| key.to_owned());
            let table: toml::Table = written.parse().unwrap();
            prop_assert_eq!(super::super::toml_value::object(&table).unwrap(), root);
        }
    }
}
