//! Values of TOML as values of JSON, which is what adapters are configured with.

use crate::json::{Object, Value};

/// Turns a table into an object. Dates become their text.
///
/// # Errors
/// With the key of a number that JSON does not have.
pub(super) fn object(table: &toml::Table) -> Result<Object, String> {
    let members = table.iter();
    members.map(|(key, member)| Ok((key.clone(), value(key, member)?))).collect()
}

fn value(key: &str, value: &toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(integer) => (*integer).into(),
        toml::Value::Float(float) => {
            Value::float(*float).ok_or_else(|| format!("'{key}' is not a finite number"))?
        }
        toml::Value::Boolean(truth) => (*truth).into(),
        toml::Value::Datetime(moment) => moment.to_string().into(),
        toml::Value::Array(items) => {
            let items = items.iter().map(|item| self::value(key, item));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        toml::Value::Table(table) => object(table)?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_counterpart() {
        let text = "a = 1\nb = 1.5\nc = [true, 'x']\nd = 2026-11-16\n[e.'$secret']\n";
        let object = object(&text.parse().unwrap()).unwrap();
        let expected = r#"{"a":1,"b":1.5,"c":[true,"x"],"d":"2026-11-16","e":{"$secret":{}}}"#;
        assert_eq!(crate::json::to_canonical(&object.into()), expected);
        assert!(super::object(&"[a]\nb = [nan]".parse().unwrap()).unwrap_err().contains("'b'"));
    }
}
