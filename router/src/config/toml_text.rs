//! Values as text of TOML, which no terminal takes for commands.

use crate::json::{Object, Value, to_canonical};
use crate::python_text::{is_printable, visible};

/// Writes a document; behind each setting stands a comment. A setting without a value is a comment as a whole, and left out
/// of the items of lists.
pub(super) fn document(root: &Object, comment: impl Fn(&str) -> String) -> String {
    let mut writer = Writer { out: String::new(), comment };
    writer.body("", "", root);
    writer.out
}

/// Calls `see` with the path of each setting.
pub(super) fn each_setting(root: &Object, see: &mut impl FnMut(&str)) {
    settings_of(root, "", see);
}

fn settings_of(table: &Object, path: &str, see: &mut impl FnMut(&str)) {
    for (key, value) in table.iter() {
        let path = below(path, key);
        match value {
            Value::Object(table) if !table.is_empty() => settings_of(table, &path, see),
            Value::Array(items) if is_section(value) => {
                for (index, table) in items.iter().filter_map(Value::as_object).enumerate() {
                    settings_of(table, &format!("{path}[{index}]"), see);
                }
            }
            _ => see(&path),
        }
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
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

struct Writer<C> {
    out: String,
    comment: C,
}

impl<C: Fn(&str) -> String> Writer<C> {
    /// Writes a value with a header; `path` is that of the setting, `header` as TOML writes it.
    fn section(&mut self, path: &str, header: &str, value: &Value) {
        match value {
            Value::Object(table) => {
                self.out.push_str(&format!("\n[{header}]\n"));
                self.body(path, header, table);
            }
            Value::Array(items) => {
                for (index, table) in items.iter().filter_map(Value::as_object).enumerate() {
                    self.out.push_str(&format!("\n[[{header}]]\n"));
                    self.body(&format!("{path}[{index}]"), header, table);
                }
            }
            _ => {}
        }
    }

    fn body(&mut self, path: &str, header: &str, table: &Object) {
        for (key, value) in table.iter().filter(|(_, value)| !is_section(value)) {
            let (path, key) = (below(path, key), name(key));
            let comment = visible(&(self.comment)(&path)).to_string();
            match value {
                Value::Null if path.contains('[') => {}
                Value::Null => self.out.push_str(&format!("# {key} is not set  # {comment}\n")),
                value => self.out.push_str(&format!("{key} = {}  # {comment}\n", text(value))),
            }
        }
        for (key, value) in table.iter().filter(|(_, value)| is_section(value)) {
            let header = below(header, &name(key));
            self.section(&below(path, key), &header, value);
        }
    }
}

fn name(key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let bare = !key.is_empty() && key.bytes().all(is_bare);
    if bare { key.to_owned() } else { quoted(key) }
}

pub(super) fn text(value: &Value) -> String {
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
