//! The author's test set, run against our own translators, and against some that do what they may not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use nexus_router_sdk::testing::passive::Kit;
use nexus_router_sdk::translator::Translating;
use nexus_router_sdk::{Adapter, AdapterError, CallContext, Capability, Object, Passive};
use serde_json::Value;

use crate::inverse::inverse;
use crate::support::{accepted, json, translators};
use nexus_router_translate::{Target, target};

fn adapter(target: &'static Target) -> Translating {
    let config = json("bindings.json")[target.id].as_object().unwrap().clone();
    Translating::new(target, None, config).unwrap()
}

#[test]
fn every_translator_passes_the_whole_set() {
    for (target, translator) in translators() {
        let documents = accepted(&translator).into_iter().map(|(_, text, _)| text);
        Kit::new(&adapter(target), documents).assert_all(|payload| inverse(target.id, payload));
    }
}

type Rendered = Result<Object, AdapterError>;

/// A translator that does something that it may not, to its output or instead of a refusal.
struct Helpful {
    inner: Translating,
    calls: AtomicU32,
    help: fn(&str, u32, Rendered) -> Rendered,
}

impl Adapter for Helpful {
    fn adapter_id(&self) -> &str {
        self.inner.adapter_id()
    }

    fn adapter_kind(&self) -> &str {
        self.inner.adapter_kind()
    }

    fn capabilities(&self) -> &[Capability] {
        self.inner.capabilities()
    }

    fn call(
        &self,
        context: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        let document = args["document"].as_str().unwrap().to_owned();
        let count = self.calls.fetch_add(1, Ordering::Relaxed);
        (self.help)(&document, count, self.inner.call(context, tool, method, args))
    }

    fn passive(&self) -> Option<Passive> {
        self.inner.passive()
    }
}

fn rewritten(mut output: Object, change: impl Fn(&str) -> String) -> Object {
    let payload = change(output["payload"].as_str().unwrap());
    output["sha256"] = nexus_router_translate::sha256(payload.as_bytes()).into();
    output["payload"] = payload.into();
    output
}

#[test]
fn whoever_helps_is_found_out() {
    type Help = fn(&str, u32, Result<Object, AdapterError>) -> Result<Object, AdapterError>;
    let helps: [(&str, Help); 6] = [
        ("counts", |_, count, answer| {
            answer.map(|output| rewritten(output, |p| p.replace("local", &format!("local{count}"))))
        }),
        ("trims", |_, _, answer| {
            answer.map(|output| rewritten(output, |p| p.replace("questions.\"", "questions\"")))
        }),
        ("drops nulls", |_, _, answer| {
            answer.map(|output| rewritten(output, |p| p.replace("null,", "")))
        }),
        ("adds blanks", |_, _, answer| {
            answer.map(|output| rewritten(output, |p| p.replace(",\"model\"", ", \"model\"")))
        }),
        ("maps metadata", |document, _, answer| {
            let hash = document.split("document_hash\":\"").nth(1).unwrap_or("").get(..9);
            let hash = hash.unwrap_or("").to_owned();
            answer.map(|output| rewritten(output, |p| p.replace("local", &format!("local{hash}"))))
        }),
        ("takes newer versions", |_, _, answer| match answer {
            Err(error) if error.code == "X.nexus.VERSION_UNSUPPORTED" => Ok(Object::new()),
            answer => answer,
        }),
    ];
    let target = target::LLAMA_CPP;
    let (_, translator) = translators().find(|(known, _)| known.id == target.id).unwrap();
    let documents: Vec<String> =
        accepted(&translator).into_iter().map(|(_, text, _)| text).collect();
    for (name, help) in helps {
        let helpful = Helpful { inner: adapter(target), calls: AtomicU32::new(0), help };
        let kit = Kit::new(&helpful, documents.clone());
        let judged = catch_unwind(AssertUnwindSafe(|| {
            kit.assert_all(|payload: &Value| inverse(target.id, payload));
        }));
        assert!(judged.is_err(), "a translator that {name} passed");
    }
}
