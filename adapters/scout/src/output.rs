//! The frozen form of a scout's output.

use nexus_router_sdk::Object;
use serde_json::Value;

/// The classes of actions that a scout carries out. They are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    WebSearch,
    DocRetrieval,
    DataLookup,
    SummarizeSources,
    ExtractEntities,
    TransformText,
}

impl Class {
    pub(crate) const ALL: [Self; 6] = [
        Self::WebSearch,
        Self::DocRetrieval,
        Self::DataLookup,
        Self::SummarizeSources,
        Self::ExtractEntities,
        Self::TransformText,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::WebSearch => "web_search",
            Self::DocRetrieval => "doc_retrieval",
            Self::DataLookup => "data_lookup",
            Self::SummarizeSources => "summarize_sources",
            Self::ExtractEntities => "extract_entities",
            Self::TransformText => "transform_text",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

/// The version of what a scout does, which the contract of the roles names: another one needs a revision of it.
const VERSION: &str = "1.0.0";

/// Returns the output of an action that was carried out.
pub(crate) fn output(class: Class, result: Value, sources: Vec<Value>) -> Object {
    let members: [(&str, Value); 7] = [
        ("adapter_role", "scout".into()),
        ("adapter_version", VERSION.into()),
        ("action_class", class.name().into()),
        ("ok", true.into()),
        ("result", result),
        ("sources", sources.into()),
        ("errors", Value::Array(Vec::new())),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
