//! The hashes of a contract computed anew in its text, which else stays as its author wrote it.

use super::declaration::{Unordered, read, rehash};
use crate::json::{Object, to_indented};

/// The keys that follow from others.
const KEYS: [&str; 4] =
    ["validator_name", "validator_version", "input_schema_hash", "contract_hash"];

/// Returns the text of a contract with both hashes computed anew, and the contract that it says; none if the hashes are
/// right already. The text keeps its form if both hashes stand in it as texts, else it is written anew.
///
/// # Errors
/// When a list of fields cannot be sorted.
pub fn rehash_text(
    text: &str,
    declaration: &Object,
) -> Result<Option<(String, Object)>, Unordered> {
    let mut wanted = declaration.clone();
    rehash(&mut wanted)?;
    if wanted == *declaration {
        return Ok(None);
    }
    let text_of = |object: &Object, key: &str| Some(object.get(key)?.as_str()?.to_owned());
    let mended = KEYS
        .into_iter()
        .filter(|key| declaration.get(key) != wanted.get(key))
        .try_fold(text.to_owned(), |text, key| {
            replaced(&text, key, &text_of(declaration, key)?, &text_of(&wanted, key)?)
        });
    // Whatever was replaced, the text is taken only if it says what it shall say.
    let right = |text: &String| read(text.as_bytes()).is_ok_and(|got| got == wanted);
    let text = mended.filter(right).unwrap_or_else(|| to_indented(&wanted.clone().into()) + "\n");
    Ok(Some((text, wanted)))
}

/// Replaces the text of a member where it stands; none if it does not stand in exactly one place.
fn replaced(text: &str, key: &str, old: &str, new: &str) -> Option<String> {
    let (name, value) = (format!("\"{key}\""), format!("\"{old}\""));
    let mut places = text.match_indices(&name).filter_map(|(at, _)| {
        let rest = text[at + name.len()..].trim_start().strip_prefix(':')?.trim_start();
        rest.starts_with(&value).then_some(text.len() - rest.len())
    });
    let (at, None) = (places.next()?, places.next()) else { return None };
    Some(format!("{}\"{new}\"{}", &text[..at], &text[at + value.len()..]))
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, lint, scaffold};
    use super::*;
    use crate::json::Value;

    fn rehashed(text: &str) -> Option<(String, Object)> {
        rehash_text(text, &read(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn an_edited_contract_keeps_its_form() {
        let contract = scaffold("acme.x", "1.0.0", "a,b").unwrap();
        let text =
            to_indented(&contract.into()).replace("\"_comment\": \"", "\"_comment\":   \"é ");
        assert_eq!(rehashed(&text), None);
        let edited = text.replace("\"b\"", "\"c\"");
        let (mended, contract) = rehashed(&edited).unwrap();
        assert_eq!(lint(&contract), []);
        assert_eq!(read(mended.as_bytes()), Ok(contract));
        let differ = mended.lines().zip(edited.lines()).filter(|(one, two)| one != two).count();
        assert_eq!((differ, mended.lines().count()), (2, edited.lines().count()));
    }

    #[test]
    fn types_are_bound_by_the_validator_that_is_set() {
        let mut contract = scaffold("acme.x", "1.0.0", "a,b").unwrap();
        let types = r#"{"a": {"type": "boolean"}, "b": {"type": "integer", "minimum": 0}}"#;
        contract.insert("field_types", Value::Object(read(types.as_bytes()).unwrap()));
        let text = to_indented(&contract.clone().into());
        let told = |contract: &Object| -> Vec<(Severity, String)> {
            lint(contract).into_iter().map(|it| (it.severity, it.pointer)).collect()
        };
        assert_eq!(told(&contract), [(Severity::Error, "/validator_name".to_owned())]);
        let (mended, contract) = rehashed(&text).unwrap();
        assert_eq!(lint(&contract), []);
        let differ = mended.lines().zip(text.lines()).filter(|(one, two)| one != two).count();
        assert_eq!((differ, rehashed(&mended)), (3, None));
        // Another type is another validator, which no hash of before covers.
        let (again, other) = rehashed(&mended.replace("\"minimum\": 0", "\"minimum\": 1")).unwrap();
        assert!(lint(&other).is_empty() && again != mended);
        assert_ne!(other.get("input_schema_hash"), contract.get("input_schema_hash"));
        // Types that are none are bound too, and told.
        let (_, wrong) = rehashed(&mended.replace("\"integer\"", "\"float\"")).unwrap();
        assert_eq!(
            told(&wrong),
            [
                (Severity::Error, "/field_types/b/type".to_owned()),
                (Severity::Warning, "/validator_name".to_owned())
            ]
        );
    }

    #[test]
    fn what_has_no_place_for_its_hashes_is_written_anew() {
        for text in [
            r#"{"output_fields": ["a"]}"#,
            r#"{"contract_hash": null, "input_schema_hash": ""}"#,
            r#"{"contract_hash": "", "x": {"contract_hash": ""}, "input_schema_hash": ""}"#,
            r#"{"contract\u005fhash": "", "input_schema_hash": "\"contract_hash\": \"\""}"#,
        ] {
            let (mended, contract) = rehashed(text).unwrap();
            assert_eq!(mended, to_indented(&contract.clone().into()) + "\n");
            assert_eq!(rehashed(&mended), None);
        }
        let (mended, _) = rehashed(r#"{"contract_hash":"","input_schema_hash":"" }"#).unwrap();
        assert!(
            mended.starts_with("{\"contract_hash\":\"") && mended.ends_with("\" }"),
            "{mended}"
        );
    }
}
