//! Roles and the classes of actions that each may carry out: frozen tables, never configuration.
//!
//! [`decide()`] is the only judge of a request. The policies of [`export`] are written from the same tables, for those
//! who have an engine of their own, and [`contract()`] is the document to which all of it is held.

mod contract;
mod decide;
pub mod export;

pub use contract::{
    CONTRACT_SHA256, Revision, contract, contract_sha256, contract_text, revisions,
};
pub use decide::{CONDITIONS, Condition, Decision, Need, Reason, Request, When, decide};

use std::sync::LazyLock;

use crate::digest::Digest;
use crate::json::{self, Object, Value};

/// The revision of the contract whose role table and conditions [`decide()`] holds requests to.
pub const VALIDATES: &str = "1.1.0";

/// The SHA-256 of the canonical text (RFC 8785) of [`table`].
pub const TABLE_SHA256: &str = "716d0873f8b85b3441eec9206539560bb1b06a3c5e344a64ec1afa8dfd8a17f9";

/// Returns the frozen table: the roles by name, each with a sorted list of its classes of actions.
#[must_use]
pub fn table() -> Value {
    let mut table = Object::new();
    for role in Role::ALL {
        let names = role.actions().into_iter().map(|class| Value::from(class.name())).collect();
        table.insert(role.name(), Value::Array(names));
    }
    Value::Object(table)
}

/// Returns the digest of the table, as evidence names it. A test holds it to [`TABLE_SHA256`].
#[must_use]
pub fn table_sha256() -> Digest {
    static DIGEST: LazyLock<Digest> = LazyLock::new(|| {
        // The table has no numbers.
        Digest::of(json::to_jcs(&table()).unwrap_or_default().as_bytes())
    });
    *DIGEST
}

/// A fixed partition of what may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Researches and retrieves; changes nothing.
    Scout,
    /// Executes within its workspace.
    Envoy,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Scout, Self::Envoy];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scout => "scout",
            Self::Envoy => "envoy",
        }
    }

    /// Returns the version of the adapter that carries out the role, which each of its outputs names. Another one needs a
    /// revision of the contract.
    #[must_use]
    pub const fn adapter_version(self) -> &'static str {
        match self {
            Self::Scout | Self::Envoy => "1.0.0",
        }
    }

    /// Finds a role by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Returns the classes of actions of the role, sorted by name.
    #[must_use]
    pub fn actions(self) -> Vec<ActionClass> {
        let mut actions: Vec<ActionClass> =
            ActionClass::ALL.into_iter().filter(|class| self.allows(*class)).collect();
        actions.sort_by_key(|class| class.name());
        actions
    }

    /// Tells whether the role may carry out actions of a class. No class belongs to two roles.
    #[must_use]
    pub fn allows(self, class: ActionClass) -> bool {
        class.role() == self
    }
}

/// What kind of thing an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActionClass {
    /// Searches the web.
    WebSearch,
    /// Fetches documents.
    DocRetrieval,
    /// Looks up data.
    DataLookup,
    /// Summarizes what was found.
    SummarizeSources,
    /// Finds names, dates and the like in a text.
    ExtractEntities,
    /// Turns a text into another.
    TransformText,
    /// Runs commands of a shell.
    ShellExec,
    /// Works on a repository.
    RepoOps,
    /// Runs tests.
    TestExec,
    /// Builds.
    BuildExec,
    /// Writes files.
    FileWrite,
    /// Packs what was built.
    ArtifactPack,
}

impl ActionClass {
    /// Every class.
    pub const ALL: [Self; 12] = [
        Self::WebSearch,
        Self::DocRetrieval,
        Self::DataLookup,
        Self::SummarizeSources,
        Self::ExtractEntities,
        Self::TransformText,
        Self::ShellExec,
        Self::RepoOps,
        Self::TestExec,
        Self::BuildExec,
        Self::FileWrite,
        Self::ArtifactPack,
    ];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WebSearch => "web_search",
            Self::DocRetrieval => "doc_retrieval",
            Self::DataLookup => "data_lookup",
            Self::SummarizeSources => "summarize_sources",
            Self::ExtractEntities => "extract_entities",
            Self::TransformText => "transform_text",
            Self::ShellExec => "shell_exec",
            Self::RepoOps => "repo_ops",
            Self::TestExec => "test_exec",
            Self::BuildExec => "build_exec",
            Self::FileWrite => "file_write",
            Self::ArtifactPack => "artifact_pack",
        }
    }

    /// Finds a class by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Returns whether actions of the class execute a program, whose exit code decides about success.
    #[must_use]
    pub const fn executes(self) -> bool {
        matches!(self, Self::ShellExec | Self::RepoOps | Self::TestExec | Self::BuildExec)
    }

    /// Returns the one role that may carry out such actions.
    #[must_use]
    pub const fn role(self) -> Role {
        match self {
            Self::WebSearch
            | Self::DocRetrieval
            | Self::DataLookup
            | Self::SummarizeSources
            | Self::ExtractEntities
            | Self::TransformText => Role::Scout,
            Self::ShellExec
            | Self::RepoOps
            | Self::TestExec
            | Self::BuildExec
            | Self::FileWrite
            | Self::ArtifactPack => Role::Envoy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_exactly_these() {
        let table = [
            (
                "scout",
                "web_search doc_retrieval data_lookup summarize_sources extract_entities \
                 transform_text",
            ),
            ("envoy", "shell_exec repo_ops test_exec build_exec file_write artifact_pack"),
        ];
        assert_eq!(Role::ALL.map(Role::name), table.map(|(role, _)| role));
        for (name, classes) in table {
            let role = Role::from_name(name).unwrap();
            let allowed = ActionClass::ALL.into_iter().filter(|class| role.allows(*class));
            let allowed: Vec<&str> = allowed.map(ActionClass::name).collect();
            assert_eq!(allowed, classes.split(' ').collect::<Vec<_>>());
        }
        for class in ActionClass::ALL {
            assert_eq!(ActionClass::from_name(class.name()), Some(class));
        }
        assert_eq!((Role::from_name("Scout"), ActionClass::from_name("")), (None, None));
    }

    #[test]
    fn the_table_is_the_one_that_is_pinned() {
        let text = json::to_jcs(&table()).unwrap();
        assert_eq!(
            text,
            r#"{"envoy":["artifact_pack","build_exec","file_write","repo_ops","shell_exec","test_exec"],"scout":["data_lookup","doc_retrieval","extract_entities","summarize_sources","transform_text","web_search"]}"#
        );
        assert_eq!(table_sha256(), Digest::of(text.as_bytes()));
        assert_eq!(table_sha256().to_string(), TABLE_SHA256);
    }
}
