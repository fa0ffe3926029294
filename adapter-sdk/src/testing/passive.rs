//! What a passive adapter must keep, as tests that any translator can run against itself.
//!
//! ```
//! use nexus_router_sdk::testing::passive::Kit;
//! use nexus_router_sdk::translate::target;
//! use nexus_router_sdk::translator::Translating;
//! use serde_json::{Value, json};
//!
//! # let documents = ["{\"messages\":[{\"content\":\"hello\",\"role\":\"user\"}],\"metadata\":{\"budget_units\":0,\"document_hash\":\"\",\"facet_version\":\"2.1.3\",\"host_profile_id\":\"\",\"mode\":\"exec\",\"policy_hash\":null,\"policy_version\":\"1\",\"profile\":\"core\",\"target_provider_id\":\"llama.cpp\"},\"tools\":[{\"function\":{\"description\":\"d\",\"name\":\"n\",\"parameters\":{\"properties\":{},\"required\":[],\"type\":\"object\"}},\"type\":\"function\"}]}".to_owned()];
//! let config = json!({ "api_version": "v1", "model": "local" });
//! let Value::Object(config) = config else { unreachable!() };
//! let translator = Translating::new(target::LLAMA_CPP, None, config).unwrap();
//! // Documents that it takes, and the way back from a payload to messages and tools.
//! Kit::new(&translator, documents)
//!     .assert_all(|payload| (payload["messages"].clone(), payload["tools"].clone()));
//! ```

mod negative;

use std::collections::BTreeMap;

use nexus_router_translate::{is_canonical, number, sha256};
use serde_json::Value;

use super::{Library, call};
use crate::translator::{RENDER, TOOL};
use crate::{Adapter, AdapterError, ErrorKind, Object};

/// The test set for one translator, and documents that it takes.
#[derive(Debug)]
pub struct Kit<'a, A> {
    adapter: &'a A,
    documents: Vec<String>,
}

impl<'a, A: Adapter> Kit<'a, A> {
    /// Makes the set.
    ///
    /// # Panics
    /// When there are no documents, or none has a tool.
    pub fn new(adapter: &'a A, documents: impl IntoIterator<Item = String>) -> Self {
        let documents: Vec<String> = documents.into_iter().collect();
        let has_tools =
            |text: &String| parsed(text)["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        assert!(documents.iter().any(has_tools), "one of the documents must have a tool");
        Self { adapter, documents }
    }

    /// Runs every test. `inverse` gives the messages and the tools of a payload, and must not be made of the
    /// same code as the translator.
    ///
    /// # Panics
    /// When the translator does not keep something; the text says what.
    pub fn assert_all(&self, inverse: impl Fn(&Value) -> (Value, Value)) {
        self.assert_declared();
        self.assert_canonical();
        self.assert_deterministic();
        self.assert_one_to_one(inverse);
        self.assert_injective();
        self.assert_metadata_unmapped();
        self.assert_nulls_kept();
        self.assert_negatives_refused();
    }

    /// It declares itself passive, and nothing that would reach out.
    ///
    /// # Panics
    /// When it does not.
    pub fn assert_declared(&self) {
        let passive = self.adapter.passive().expect("a translator declares itself passive");
        assert_eq!((passive.tool.as_str(), passive.method.as_str()), (TOOL, RENDER));
        let names: Vec<&str> = self.adapter.capabilities().iter().map(|c| c.name()).collect();
        assert!(!names.contains(&"external"), "a translator is never external");
    }

    /// Payloads are RFC 8785, the digests are theirs, and the document is named by its own.
    ///
    /// # Panics
    /// When a payload is not, or a digest is not.
    pub fn assert_canonical(&self) {
        for document in &self.documents {
            let output = self.rendered(document);
            let payload = text(&output, "payload");
            is_canonical(payload.as_bytes()).unwrap_or_else(|why| panic!("{why}: {payload}"));
            assert_eq!(text(&output, "sha256"), sha256(payload.as_bytes()));
            assert_eq!(text(&output, "canonical_sha256"), sha256(document.as_bytes()));
        }
    }

    /// The same bytes in give the same bytes out: again, in another order, on many threads. So do refusals.
    ///
    /// # Panics
    /// When an answer differs.
    pub fn assert_deterministic(&self) {
        let broken = self.documents.iter().map(|document| document.replacen(':', ": ", 1));
        let inputs: Vec<String> = self.documents.iter().cloned().chain(broken).collect();
        let answer = |input: &String| match self.render(input) {
            Ok(output) => serde_json::to_string(&output),
            Err(error) => serde_json::to_string(&error),
        };
        let answers = |order: &mut dyn Iterator<Item = &String>| -> Vec<String> {
            order.map(|input| answer(input).expect("answers are JSON")).collect()
        };
        let first = answers(&mut inputs.iter());
        let mut backwards = answers(&mut inputs.iter().rev());
        backwards.reverse();
        assert_eq!(first, backwards, "the answers depend on what was asked before");
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| answers(&mut inputs.iter()))).collect();
            for thread in threads {
                let others = thread.join().expect("a rendering panicked");
                assert_eq!(first, others, "the answers depend on the thread");
            }
        });
    }

    /// An inverse gives back what went in. Where the translator writes a text and a list of that one text alike, it may
    /// give either.
    ///
    /// # Panics
    /// When it gives something else.
    pub fn assert_one_to_one(&self, inverse: impl Fn(&Value) -> (Value, Value)) {
        for document in &self.documents {
            let payload = parsed(&self.payload(document));
            let (messages, tools) = inverse(&payload);
            let mut document = parsed(document);
            if document["messages"] != messages {
                document = self.without_single_lists(&document);
            }
            assert_eq!(messages, document["messages"], "messages are not one to one");
            assert_eq!(tools, document["tools"], "tools are not one to one");
        }
    }

    /// Documents with other messages or tools have other payloads; those with the same have the same. A text may be written
    /// like a list of that one text: both are one block.
    ///
    /// # Panics
    /// When two documents collide.
    pub fn assert_injective(&self) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        let mut payloads: BTreeMap<String, String> = BTreeMap::new();
        for text in self.documents.iter().flat_map(|document| variants(document)) {
            let Ok(output) = self.render(&text) else { continue };
            let document = self.without_single_lists(&parsed(&text));
            let said = jcs(&serde_json::json!([document["messages"], document["tools"]]));
            let payload = output["payload"].as_str().unwrap_or_default().to_owned();
            if let Some(other) = payloads.insert(payload.clone(), said.clone()) {
                assert_eq!(other, said, "two documents have one payload");
            }
            if let Some(other) = seen.insert(said, payload.clone()) {
                assert_eq!(other, payload, "one document has two payloads");
            }
        }
    }

    /// Whatever stands in the metadata, nulls included, the payload is the same.
    ///
    /// # Panics
    /// When a payload differs.
    pub fn assert_metadata_unmapped(&self) {
        for text in &self.documents {
            let mut document = parsed(text);
            let metadata = &mut document["metadata"];
            metadata["budget_units"] = 7.into();
            metadata["document_hash"] = "sha256:ff".into();
            metadata["host_profile_id"] = "other.v2".into();
            let null = metadata["policy_hash"].is_null();
            let hash = format!("sha256:{}", "f".repeat(64));
            metadata["policy_hash"] = if null { hash.into() } else { Value::Null };
            assert_eq!(self.payload(text), self.payload(&jcs(&document)), "metadata is mapped");
        }
    }

    /// Nulls and empty values within the parameters of tools stay where they are, or the tool is refused.
    ///
    /// # Panics
    /// When a payload lost one, or every document is refused.
    pub fn assert_nulls_kept(&self) {
        let planted = [Value::Null, serde_json::json!([]), serde_json::json!({}), "".into()];
        let mut kept = 0;
        for text in &self.documents {
            let document = parsed(text);
            for (tool, value) in document["tools"]
                .as_array()
                .into_iter()
                .flatten()
                .enumerate()
                .flat_map(|(tool, _)| planted.iter().map(move |value| (tool, value)))
            {
                for keyword in ["default", "enum"] {
                    let mut document = document.clone();
                    let parameters = &mut document["tools"][tool]["function"]["parameters"];
                    let inner = if keyword == "enum" {
                        serde_json::json!([value, "a"])
                    } else {
                        value.clone()
                    };
                    parameters["properties"]["planted"] = serde_json::json!({ keyword: inner });
                    let wanted = parameters.clone();
                    let Ok(output) = self.render(&jcs(&document)) else { continue };
                    let payload = parsed(output["payload"].as_str().unwrap_or_default());
                    assert!(holds(&payload, &wanted), "{wanted} is not in {payload}");
                    kept += 1;
                }
            }
        }
        assert!(kept > 0, "no document with a null was taken");
    }

    /// What no translator may take is refused, as an operational error with a code, a pointer and the rule.
    ///
    /// # Panics
    /// When something is taken, or refused in another way.
    pub fn assert_negatives_refused(&self) {
        for document in &self.documents {
            for (name, code, text) in negative::all(document) {
                let error = match self.render(&text) {
                    Ok(output) => panic!("{name} was taken: {output:?}"),
                    Err(error) => error,
                };
                assert_eq!(error.kind, ErrorKind::Operational, "{name}: {error}");
                assert_eq!(error.code, format!("X.nexus.{code}"), "{name}: {error}");
                for detail in ["pointer", "rule"] {
                    assert!(error.details[detail].is_string(), "{name}: no {detail}");
                }
                assert_eq!(Err(error), self.render(&text), "{name} is refused in two ways");
            }
        }
    }

    /// Renders a document.
    ///
    /// # Errors
    /// The translator's.
    pub fn render(&self, document: &str) -> Result<Object, AdapterError> {
        call(self.adapter, TOOL, RENDER, serde_json::json!({ "document": document }))
    }

    /// Returns a document with a text for each list of one text that the translator writes like the text.
    fn without_single_lists(&self, document: &Value) -> Value {
        let payload = |document: &Value| {
            self.render(&jcs(document)).ok().map(|output| output["payload"].clone())
        };
        let wanted = payload(document);
        let mut unlisted = document.clone();
        for place in 0..document["messages"].as_array().map_or(0, Vec::len) {
            let Some([item]) = document["messages"][place]["content"].as_array().map(Vec::as_slice)
            else {
                continue;
            };
            let mut changed = unlisted.clone();
            changed["messages"][place]["content"] = item["text"].clone();
            if payload(&changed) == wanted {
                unlisted = changed;
            }
        }
        unlisted
    }

    fn rendered(&self, document: &str) -> Object {
        self.render(document).unwrap_or_else(|error| panic!("{error}: {document}"))
    }

    fn payload(&self, document: &str) -> String {
        text(&self.rendered(document), "payload").to_owned()
    }
}

/// Asserts that a built library is deterministic in processes that differ in environment, time zone and working
/// directory, and works without network and files.
///
/// # Panics
/// When the check of the router does not pass.
pub fn assert_pure(library: &Library, config: &Value) {
    let validation = library.validate(config);
    validation.assert_ok();
    assert_eq!(validation.status("PASSIVE_PURE"), Some("pass"), "{:#}", validation.report);
}

/// Returns a document as if it had been compiled for another target.
///
/// # Panics
/// Never: what names no target is returned as it is.
#[must_use]
pub fn retargeted(document: &str, target: &str) -> String {
    let name = "\"target_provider_id\":\"";
    let Some((before, rest)) = document.split_once(name) else { return document.to_owned() };
    let Some((_, after)) = rest.split_once('"') else { return document.to_owned() };
    format!("{before}{name}{target}\"{after}")
}

/// Returns the RFC 8785 text of a value.
#[must_use]
pub fn jcs(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(jcs).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_by(|one, other| one.encode_utf16().cmp(other.encode_utf16()));
            let member =
                |name: &String| format!("{}:{}", Value::from(name.as_str()), jcs(&members[name]));
            let members: Vec<String> = names.into_iter().map(member).collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Number(written) if written.is_f64() => number(written.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

/// A document, and documents that differ from it in one thing.
fn variants(text: &str) -> Vec<String> {
    let document = parsed(text);
    let count = |list: &str| document[list].as_array().map_or(0, Vec::len);
    let mut all = vec![document.clone()];
    for place in 0..count("messages") {
        let mut changed = document.clone();
        let content = &mut changed["messages"][place]["content"];
        *content = match &*content {
            Value::String(text) => serde_json::json!([{ "type": "text", "text": text }]),
            Value::Array(items) if items.len() == 1 => items[0]["text"].clone(),
            other => other.clone(),
        };
        all.push(changed);
        let mut changed = document.clone();
        let doubled = changed["messages"][place].clone();
        changed["messages"]
            .as_array_mut()
            .into_iter()
            .for_each(|list| list.insert(place, doubled.clone()));
        all.push(changed);
    }
    for list in ["messages", "tools"] {
        let mut changed = document.clone();
        changed[list].as_array_mut().into_iter().for_each(|list| drop(list.pop()));
        all.push(changed);
    }
    all.iter().map(jcs).collect()
}

/// Says whether a value stands anywhere in another.
fn holds(value: &Value, wanted: &Value) -> bool {
    value == wanted
        || match value {
            Value::Array(items) => items.iter().any(|item| holds(item, wanted)),
            Value::Object(members) => members.values().any(|member| holds(member, wanted)),
            _ => false,
        }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn text<'o>(output: &'o Object, name: &str) -> &'o str {
    output[name].as_str().unwrap_or_else(|| panic!("{name} is no text"))
}
