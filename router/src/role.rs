//! Roles and the classes of actions that each may carry out: frozen tables, never configuration.

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

    /// Finds a role by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
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
}
