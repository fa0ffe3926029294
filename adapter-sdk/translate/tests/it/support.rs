//! The golden documents, and translators with the bindings of the goldens.

use std::path::{Path, PathBuf};

use nexus_router_sdk::testing::passive::{self, jcs};
use nexus_router_translate::{Refusal, Setting, Target, Translator, target};
use serde_json::Value;

/// The directory of the golden data.
pub(crate) fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/facet")
}

pub(crate) fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(golden().join(name)).unwrap()).unwrap()
}

/// The canonical documents by name, as they are.
pub(crate) fn canonical() -> Vec<(String, String)> {
    let listed = json("manifest.json");
    let listed = listed["vectors"].as_array().unwrap();
    assert!(listed.len() >= 20, "the documents are there");
    listed
        .iter()
        .map(|vector| {
            let file = golden().join(vector["file"].as_str().unwrap());
            let text = std::fs::read_to_string(file).unwrap();
            assert_eq!(nexus_router_translate::sha256(text.as_bytes()), vector["sha256"]);
            (vector["id"].as_str().unwrap().to_owned(), text)
        })
        .collect()
}

/// A document as if it had been compiled for another target.
pub(crate) fn retargeted(text: &str, target: &str) -> String {
    passive::retargeted(text, target)
}

pub(crate) fn settings(binding: &Value) -> Vec<(String, Setting)> {
    let setting = |value: &Value| match value {
        Value::String(text) => Setting::Text(text.clone()),
        Value::Bool(flag) => Setting::Flag(*flag),
        value => match (value.as_u64(), value.as_f64()) {
            (Some(whole), _) => Setting::Number(whole),
            (None, Some(decimal)) => Setting::Decimal(decimal),
            (None, None) => Setting::Other,
        },
    };
    let members = binding.as_object().unwrap().iter();
    members.map(|(name, value)| (name.clone(), setting(value))).collect()
}

pub(crate) fn translator(target: &'static Target) -> Translator {
    Translator::new(target, settings(&json("bindings.json")[target.id])).unwrap()
}

/// Every target with its translator.
pub(crate) fn translators() -> impl Iterator<Item = (&'static Target, Translator)> {
    target::ALL.iter().map(|target| (*target, translator(target)))
}

/// Every document that a target takes, compiled for it, with its payload.
pub(crate) fn accepted(translator: &Translator) -> Vec<(String, String, String)> {
    let documents = canonical().into_iter().filter_map(|(id, text)| {
        let text = retargeted(&text, translator.target().id);
        let payload = translator.render(text.as_bytes()).ok()?.payload;
        Some((id, text, payload))
    });
    let accepted: Vec<_> = documents.collect();
    assert!(accepted.len() >= 10, "{} takes documents", translator.target().id);
    accepted
}

/// The document that most tests change: it has messages of all roles but the last, and tools.
pub(crate) fn base(target: &str) -> Value {
    let (_, text) = canonical().swap_remove(0);
    serde_json::from_str(&retargeted(&text, target)).unwrap()
}

pub(crate) fn render(translator: &Translator, document: &Value) -> Result<String, Refusal> {
    translator.render(jcs(document).as_bytes()).map(|rendered| rendered.payload)
}

/// Asserts that every translator refuses a document by the same rule at the same place.
pub(crate) fn all_refuse(change: impl Fn(&mut Value), code: &str, pointer: &str) {
    for (target, translator) in translators() {
        let mut document = base(target.id);
        change(&mut document);
        let refusal = render(&translator, &document).unwrap_err();
        let told = (refusal.rule.code, refusal.pointer.as_str());
        assert_eq!(told, (format!("X.nexus.{code}").as_str(), pointer), "{}: {refusal}", target.id);
    }
}
