//! Turns a text into another, by named operations, one after the other.

use nexus_router_sdk::{AdapterError, Object};
use serde_json::{Value, json};

use crate::arguments::{Arguments, MAX_TEXT, invalid};
use crate::markup;
use crate::output::{Class, output};

/// The most operations of one call.
const MOST: usize = 32;

type Operation = fn(&str) -> Result<String, AdapterError>;

/// Every operation, by its name.
pub(crate) const OPERATIONS: &[(&str, Operation)] = &[
    ("collapse_whitespace", |text| Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))),
    ("html_to_text", |text| Ok(markup::from_html(text))),
    ("json_compact", |text| Ok(read(text)?.to_string())),
    ("json_pretty", |text| {
        serde_json::to_string_pretty(&read(text)?).map_err(|error| invalid(error.to_string()))
    }),
    ("lower", |text| Ok(text.to_lowercase())),
    ("markdown_to_text", |text| Ok(markup::from_markdown(text))),
    ("normalize_newlines", |text| Ok(text.replace("\r\n", "\n").replace('\r', "\n"))),
    ("reverse_lines", |text| Ok(by_line(text, |lines| lines.reverse()))),
    ("sort_lines", |text| Ok(by_line(text, |lines| lines.sort_unstable()))),
    ("strip_blank_lines", |text| {
        Ok(by_line(text, |lines| lines.retain(|line| !line.trim().is_empty())))
    }),
    ("trim", |text| Ok(text.trim().to_owned())),
    ("unique_lines", |text| {
        let mut seen = std::collections::HashSet::new();
        Ok(text.lines().filter(|line| seen.insert(*line)).collect::<Vec<_>>().join("\n"))
    }),
    ("upper", |text| Ok(text.to_uppercase())),
];

fn by_line(text: &str, change: impl FnOnce(&mut Vec<&str>)) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    change(&mut lines);
    lines.join("\n")
}

fn read(text: &str) -> Result<Value, AdapterError> {
    serde_json::from_str(text).map_err(|error| invalid(format!("the text is no JSON: {error}")))
}

/// Carries out a call.
pub(crate) fn transform(args: Object) -> Result<Object, AdapterError> {
    let mut args = Arguments::new(args);
    let (mut text, names) = (args.needed("text")?, args.list("operations")?);
    args.end()?;
    if names.len() > MOST {
        return Err(invalid(format!("there are {} operations; the most are {MOST}", names.len())));
    }
    for name in &names {
        let named = OPERATIONS.iter().find(|(known, _)| name.as_str() == Some(*known));
        let Some((_, operation)) = named else {
            let known: Vec<&str> = OPERATIONS.iter().map(|(known, _)| *known).collect();
            return Err(invalid(format!(
                "there is no operation {name}; there are {}",
                known.join(", ")
            )));
        };
        text = operation(&text)?;
        if text.len() > 4 * MAX_TEXT {
            return Err(invalid(format!("{name} makes a text of {} bytes", text.len())));
        }
    }
    let result = json!({ "text": text, "operations": names });
    Ok(output(Class::TransformText, result, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transformed(text: &str, operations: &[&str]) -> Result<String, AdapterError> {
        let args = json!({ "text": text, "operations": operations });
        let output = transform(args.as_object().cloned().unwrap())?;
        Ok(output["result"]["text"].as_str().unwrap().to_owned())
    }

    #[test]
    fn every_operation_does_what_its_name_says() {
        for (operation, given, expected) in [
            ("collapse_whitespace", " a\t b\n\nc ", "a b c"),
            ("html_to_text", "<b>x</b>", "x"),
            ("json_compact", "{ \"b\": 1, \"a\": [ 1.50 ] }", "{\"b\":1,\"a\":[1.5]}"),
            ("json_pretty", "{\"a\":1}", "{\n  \"a\": 1\n}"),
            ("lower", "ÄB", "äb"),
            ("markdown_to_text", "# A", "A"),
            ("normalize_newlines", "a\r\nb\rc", "a\nb\nc"),
            ("reverse_lines", "a\nb", "b\na"),
            ("sort_lines", "b\na\nC", "C\na\nb"),
            ("strip_blank_lines", "a\n \n\nb", "a\nb"),
            ("trim", " a \n", "a"),
            ("unique_lines", "a\nb\na", "a\nb"),
            ("upper", "straße", "STRASSE"),
        ] {
            assert_eq!(transformed(given, &[operation]).unwrap(), expected, "{operation}");
        }
        let names: Vec<&str> = OPERATIONS.iter().map(|(name, _)| *name).collect();
        assert!(names.is_sorted(), "{names:?}");
    }

    #[test]
    fn operations_follow_each_other() {
        assert_eq!(
            transformed("B\nA\nA", &["lower", "unique_lines", "sort_lines"]).unwrap(),
            "a\nb"
        );
        assert_eq!(transformed("x", &[]).unwrap(), "x");
    }

    #[test]
    fn what_cannot_be_done_is_told() {
        let error = transformed("x", &["eval"]).unwrap_err();
        assert!(error.message.contains("\"eval\"; there are collapse_whitespace"), "{error}");
        assert!(transformed("x", &["json_pretty"]).unwrap_err().message.contains("no JSON"));
        let many = vec!["trim"; MOST + 1];
        assert!(transformed("x", &many).unwrap_err().message.contains("the most are 32"));
        let deep = "[".repeat(100_000);
        assert!(transformed(&deep, &["json_compact"]).is_err());
        let long = "x".repeat(MAX_TEXT + 1);
        assert!(transformed(&long, &[]).unwrap_err().message.contains("the limit is"));
    }
}
