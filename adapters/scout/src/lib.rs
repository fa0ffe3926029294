//! An adapter that searches, retrieves and works on text in the role of a scout.
//!
//! Its tools are the six classes of actions of that role, each with the method `call`; every output is whole in
//! the frozen form of the role.
//!
//! # What it reaches
//! Nothing. It declares no `external` and can be granted nothing. What it retrieves it asks the router for, by the
//! name of a source that the operator gave it (`[[adapters.sources]]`); the router decides, calls, records, and
//! hands over the answer without what differs between equal answers.
//!
//! # Determinism
//! `summarize_sources`, `extract_entities` and `transform_text` compute their output from their arguments alone:
//! the same arguments give the same bytes, on every machine and at any time. No model is asked.
#![forbid(unsafe_code)]

mod arguments;
mod catalog;
mod entities;
mod markup;
mod output;
mod retrieval;
mod summary;
mod transform;

use std::collections::BTreeMap;

use nexus_router_sdk::{
    Adapter, AdapterError, CallContext, Capability, Catalog, ConfigKey, Manifest, Object,
    ValueType, code, export_adapter,
};
use serde::Deserialize;

use crate::arguments::invalid;
use crate::output::Class;
use crate::retrieval::{Document, Search};

const KIND: &str = "scout";
const CAPABILITIES: &[Capability] = &[Capability::Apply];

/// A source did not do what it was asked for.
const SOURCE_FAILED: &str = "SOURCE_FAILED";

const MANIFEST: Manifest = Manifest::new(KIND, CAPABILITIES)
    .router_versions(">=1.2,<2")
    .config(&[
        ConfigKey::optional(
            "searches",
            ValueType::Object,
            "How sources of class web_search are asked and read, by their names: query and limit are \
             the names of arguments (no limit is sent if it is \"\"), hits is the JSON pointer of the \
             list of hits in the answer, and url, title and snippet are pointers within a hit. Absent \
             ones are query, limit, /results, /url, /title and /snippet",
        )
        .default_json("{}"),
        ConfigKey::optional(
            "documents",
            ValueType::Object,
            "Where in the answers of sources of class doc_retrieval the text, the title and the url \
             are, by the names of the sources: JSON pointers text, title and url. Without a text, the \
             content of an MCP result and the members text and content are tried",
        )
        .default_json("{}"),
    ])
    .error_codes(&[
        code::INVALID_ARGUMENT,
        code::UNSUPPORTED,
        code::TIMEOUT,
        code::CANCELLED,
        SOURCE_FAILED,
    ]);

/// The configuration.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    searches: BTreeMap<String, Search>,
    documents: BTreeMap<String, Document>,
}

/// The adapter.
pub struct Scout {
    adapter_id: String,
    config: Config,
}

impl Adapter for Scout {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        KIND
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn call(
        &self,
        context: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        let class = Class::from_name(tool).filter(|_| method == "call").ok_or_else(|| {
            let names = Class::ALL.map(Class::name).join(", ");
            invalid(format!(
                "there is no {tool}.{method}; the method is call, and the tools are {names}"
            ))
        })?;
        match class {
            Class::WebSearch => retrieval::search(context, &self.config.searches, args),
            Class::DocRetrieval => retrieval::document(context, &self.config.documents, args),
            Class::DataLookup => retrieval::look_up(context, args),
            Class::SummarizeSources => summary::summarize(args),
            Class::ExtractEntities => entities::extract(args),
            Class::TransformText => transform::transform(args),
        }
    }

    fn has_catalog(&self) -> bool {
        true
    }

    fn catalog(&self, _: &CallContext) -> Result<Catalog, AdapterError> {
        Ok(catalog::catalog())
    }
}

/// Makes the adapter.
///
/// # Errors
/// `CONFIG_REJECTED` when a pointer is none.
pub fn create_adapter(adapter_id: Option<&str>, config: Config) -> Result<Scout, AdapterError> {
    let searches = config.searches.iter().flat_map(|(name, one)| one.pointers(name));
    let documents = config.documents.iter().flat_map(|(name, one)| one.pointers(name));
    for (place, pointer) in searches.chain(documents) {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            let message = format!("{place} is no JSON pointer; write one such as /hits");
            return Err(AdapterError::operational(code::CONFIG_REJECTED, message));
        }
    }
    Ok(Scout { adapter_id: adapter_id.unwrap_or(KIND).to_owned(), config })
}

export_adapter!(create_adapter, MANIFEST);

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::testing::{call, manifest};
    use serde_json::json;

    #[test]
    fn manifest_is_that_of_the_instance_and_nothing_can_be_granted() {
        let (manifest, scout) = (manifest(&MANIFEST), create_adapter(None, Config::default()));
        let scout = scout.unwrap();
        assert_eq!(manifest["kind"], scout.adapter_kind());
        assert_eq!(manifest["capabilities"], json!(scout.capabilities()));
        assert!(!scout.capabilities().contains(&Capability::External));
    }

    #[test]
    fn only_the_six_classes_can_be_called() {
        let scout = create_adapter(None, Config::default()).unwrap();
        for (tool, method) in
            [("shell_exec", "call"), ("transform_text", "run"), ("", ""), ("WEB_SEARCH", "call")]
        {
            let error = call(&scout, tool, method, json!({})).unwrap_err();
            assert_eq!(error.code, code::INVALID_ARGUMENT, "{tool}.{method}");
            assert!(error.message.contains("transform_text"), "{error}");
        }
    }

    #[test]
    fn without_a_host_that_answers_nothing_is_retrieved() {
        let scout = create_adapter(None, Config::default()).unwrap();
        let args = json!({ "source": "docs", "input": {} });
        let error = call(&scout, "doc_retrieval", "call", args).unwrap_err();
        assert_eq!(error.code, code::UNSUPPORTED);
    }

    #[test]
    fn pointers_of_the_configuration_are_pointers() {
        let made = |config| create_adapter(None, serde_json::from_value(config).unwrap());
        assert!(made(json!({ "searches": { "web": { "hits": "/hits", "url": "" } } })).is_ok());
        for config in [
            json!({ "searches": { "web": { "hits": "hits" } } }),
            json!({ "documents": { "docs": { "text": "body" } } }),
        ] {
            let error = made(config).err().unwrap();
            assert_eq!(error.code, code::CONFIG_REJECTED);
        }
    }
}
