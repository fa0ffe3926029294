//! What a publisher tells of itself: the manifest that it signed, its document, and its key, each as it is sent.

use super::declaration::LIMITS;
use super::discovery::Page;
use super::lint::Finding;
use super::manifest;
use crate::json::{self, Limits, Object, Value, to_canonical, to_indented};
use crate::key::PublicKey;

/// How large a manifest may be.
pub const MANIFEST_LIMITS: Limits = manifest::LIMITS;
/// How large the document of a publisher may be.
pub const PUBLISHER_LIMITS: Limits = LIMITS;
/// Where the manifest is found.
pub const MANIFEST_URL: &str = "/specs/adapter-contracts.manifest.json";
/// Where the key is found.
pub const KEY_URL: &str = "/protocol/merkle/public-key";
/// The only kind of key that there is.
const ALGORITHM: &str = "Ed25519";
/// Parts of names of what nobody means to publish.
const PRIVATE: [&str; 3] = ["private", "secret", "seed"];

/// The document of a publisher, and its key alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherPages {
    /// The document.
    pub document: Page,
    /// The key.
    pub key: Page,
}

/// Takes the text of a manifest, whose signatures are for those to verify who read it.
///
/// # Errors
/// When it is no JSON object, or too large.
pub fn manifest_page(text: Vec<u8>) -> Result<Page, Vec<Finding>> {
    object(&text, MANIFEST_LIMITS, "a manifest")?;
    Ok(Page::new(text))
}

impl PublisherPages {
    /// Takes the text of a publisher's document. What it says is sent as it is; it need not say where its manifest (if it
    /// `has_manifest`) and its key are found.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn read(text: Vec<u8>, has_manifest: bool) -> Result<Self, Vec<Finding>> {
        let mut document = object(&text, PUBLISHER_LIMITS, "the document of a publisher")?;
        let findings = findings(&document);
        if !findings.is_empty() {
            return Err(findings);
        }
        let mut key = Object::with_capacity(4);
        for (name, from) in [
            ("public_key_base64", "public_key_base64"),
            ("key_id", "publisher_key_id"),
            ("status", "status"),
        ] {
            if let Some(value) = document.get(from) {
                key.insert(name, value.clone());
            }
        }
        key.insert("algorithm", ALGORITHM);
        let manifest = has_manifest.then_some(("manifest_url", MANIFEST_URL));
        let known = [("algorithm", ALGORITHM), ("verify_url", KEY_URL)].into_iter().chain(manifest);
        let missing: Vec<(&str, &str)> =
            known.filter(|(name, _)| !document.contains_key(name)).collect();
        for (name, value) in &missing {
            document.insert(*name, *value);
        }
        let text = match missing.is_empty() {
            true => text,
            false => format!("{}\n", to_indented(&document.into())).into_bytes(),
        };
        Ok(Self { document: Page::new(text), key: Page::new(to_canonical(&key.into())) })
    }
}

fn object(text: &[u8], limits: Limits, what: &str) -> Result<Object, Vec<Finding>> {
    let value = json::parse(text, limits).map_err(|error| {
        vec![Finding::error(error.pointer(), format!("{}: {error}", error.code()))]
    })?;
    let kind = value.type_name();
    let wrong = || vec![Finding::error("", format!("{what} is a JSON object, and this is {kind}"))];
    value.into_object().ok_or_else(wrong)
}

fn findings(document: &Object) -> Vec<Finding> {
    let text = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut findings = Vec::new();
    let mut add = |key: &str, message: String| {
        findings.push(Finding::error(format!("/{key}"), message));
    };
    for key in ["publisher_id", "publisher_key_id"] {
        if text(key).is_empty() {
            add(key, format!("{key} is missing, or no text"));
        }
    }
    if format!("ed25519:{}", text("public_key_base64")).parse::<PublicKey>().is_err() {
        let message = "public_key_base64 is not the base64 of 32 bytes".to_owned();
        add("public_key_base64", message);
    }
    if document.get("algorithm").is_some_and(|it| it.as_str() != Some(ALGORITHM)) {
        add("algorithm", format!("algorithm is not {ALGORITHM}"));
    }
    if let Some(name) = private(document) {
        let message = format!("'{name}' looks like what must stay private, and would be published");
        findings.push(Finding::error("", message));
    }
    findings
}

/// Returns the name of a member, however deep, that looks private.
fn private(object: &Object) -> Option<&str> {
    object.iter().find_map(|(name, value)| {
        let lower = name.to_ascii_lowercase();
        let is_private = PRIVATE.iter().any(|part| lower.contains(part));
        if is_private { Some(name) } else { private_in(value) }
    })
}

fn private_in(value: &Value) -> Option<&str> {
    match value {
        Value::Object(object) => private(object),
        Value::Array(entries) => entries.iter().find_map(private_in),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

    fn document(more: &str) -> Vec<u8> {
        format!(
            r#"{{"publisher_id": "acme", "publisher_key_id": "k1", "public_key_base64": "{KEY}"{more}}}"#
        )
        .into_bytes()
    }

    fn text(page: &Page) -> &str {
        std::str::from_utf8(&page.body).unwrap()
    }

    #[test]
    fn what_a_document_leaves_out_is_added_and_else_it_is_sent_as_it_is() {
        let pages = PublisherPages::read(document(""), true).unwrap();
        let told = json::parse(&pages.document.body, PUBLISHER_LIMITS).unwrap();
        for (key, expected) in [
            ("publisher_id", "acme"),
            ("publisher_key_id", "k1"),
            ("public_key_base64", KEY),
            ("algorithm", "Ed25519"),
            ("verify_url", KEY_URL),
            ("manifest_url", MANIFEST_URL),
        ] {
            assert_eq!(told.get(key).and_then(Value::as_str), Some(expected), "{key}");
        }
        let expected =
            format!(r#"{{"algorithm":"Ed25519","key_id":"k1","public_key_base64":"{KEY}"}}"#);
        assert_eq!(text(&pages.key), expected);
        let without = PublisherPages::read(document(""), false).unwrap();
        assert!(!text(&without.document).contains("manifest_url"));
        let whole = document(
            r#",  "algorithm": "Ed25519", "status": "retired", "verify_url": "https://acme.example/key", "x": 1.50"#,
        );
        let pages = PublisherPages::read(whole.clone(), false).unwrap();
        assert_eq!(pages.document.body, whole);
        assert!(text(&pages.key).ends_with(r#","status":"retired"}"#));
    }

    #[test]
    fn what_is_no_document_is_refused_with_every_finding() {
        let short = document("").len() - 1;
        for (text, expected) in [
            (b"".to_vec(), 1),
            (b"[]".to_vec(), 1),
            (b"{}".to_vec(), 3),
            (document("")[..short].to_vec(), 1),
            (document(r#", "algorithm": "RSA""#), 1),
            (document(r#", "keys": [{"Private_Key": "x"}]"#), 1),
            (format!(r#"{{"publisher_id": 1, "public_key_base64": " {KEY}"}}"#).into_bytes(), 3),
        ] {
            let findings = PublisherPages::read(text.clone(), true).unwrap_err();
            assert_eq!(
                findings.len(),
                expected,
                "{}: {findings:?}",
                String::from_utf8_lossy(&text)
            );
        }
    }

    #[test]
    fn a_manifest_is_an_object_and_sent_as_it_is() {
        let text = b"{ \"contracts\" : [ ] }\n".to_vec();
        assert_eq!(manifest_page(text.clone()).unwrap().body, text);
        for text in ["", "[]", "null", "{\"a\": 1, \"a\": 2}", "{\"a\": NaN}"] {
            assert_eq!(manifest_page(text.into()).unwrap_err().len(), 1, "{text}");
        }
    }
}
