//! The parts of a tool spec, as types.

use crate::json::Object;

/// Makes an enumeration of words, each with its text.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$what])* $variant,)+
        }

        impl $name {
            /// Every text.
            pub const NAMES: &[&str] = &[$($word),+];

            /// Returns the text.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Finds what a text names.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

words! {
    /// Where a tool is carried out.
    ExecutionMode {
        /// By the router itself.
        Local = "local",
        /// By an adapter.
        Remote = "remote",
        /// In a browser; nothing here does that.
        Browser = "browser",
    }
}

words! {
    /// How what a tool did is undone.
    RollbackStrategy {
        /// It is not.
        None = "none",
        /// By doing the opposite.
        Compensating = "compensating",
        /// By going back to what was kept.
        Snapshot = "snapshot",
    }
}

words! {
    /// What a tool works on.
    ResourceClass {
        /// The system itself.
        Control = "control",
        /// Computation.
        Compute = "compute",
        /// Data that lasts.
        State = "state",
    }
}

words! {
    /// What kind of thing a tool does to the world.
    ///
    /// The first eight are those of the published schema of tool specs. The others stand only in its rules,
    /// which could refuse nothing if they could not be said.
    EffectType {
        /// Writes a file.
        FileWrite = "file_write",
        /// Removes a file.
        FileDelete = "file_delete",
        /// Asks something over the network.
        NetworkRequest = "network_request",
        /// Changes a state.
        StateMutation = "state_mutation",
        /// Starts a service again.
        ServiceRestart = "service_restart",
        /// Writes to a database.
        DatabaseWrite = "database_write",
        /// Uses a credential.
        CredentialAccess = "credential_access",
        /// Writes to a log.
        LogGeneration = "log_generation",
        /// Reads from a database.
        DatabaseRead = "database_read",
        /// Searches among vectors.
        VectorSearch = "vector_search",
        /// Searches among texts.
        FulltextSearch = "fulltext_search",
        /// Runs something in a container of this machine.
        DockerExec = "docker_exec",
        /// Writes a file of this machine.
        FileWriteLocal = "file_write_local",
        /// Starts a process of this machine.
        ProcessSpawn = "process_spawn",
    }
}

impl EffectType {
    /// Says whether it reaches into a database, of whatever kind.
    #[must_use]
    pub const fn is_of_databases(self) -> bool {
        matches!(
            self,
            Self::DatabaseWrite | Self::DatabaseRead | Self::VectorSearch | Self::FulltextSearch
        )
    }

    /// Says whether it touches the machine that the router runs on.
    #[must_use]
    pub const fn is_of_this_machine(self) -> bool {
        matches!(self, Self::DockerExec | Self::FileWriteLocal | Self::ProcessSpawn)
    }
}

/// Something that a tool does to the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideEffect {
    /// Of what kind.
    pub effect_type: EffectType,
    /// What it is.
    pub description: String,
    /// Whether it can be undone.
    pub reversible: bool,
    /// What is affected.
    pub scope: Option<String>,
}

/// Where a tool is carried out, in more detail. What must be there is a matter of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionTarget {
    /// What kind of place, such as `cloud`.
    pub mode: Option<String>,
    /// Who runs it.
    pub provider: Option<String>,
    /// Where in the world.
    pub region: Option<String>,
    /// Which service there; for a local tool, the built-in operation.
    pub service: Option<String>,
}

/// What must be there for a tool to work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependencies {
    /// Other tools, by id.
    pub tools: Vec<String>,
    /// Services that must run.
    pub services: Vec<String>,
    /// `memory_mb`, `cpu_cores` and `disk_mb`, as far as they are said.
    pub minimum_resources: Object,
}

/// What must hold around a call, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// Before it.
    pub pre_conditions: Vec<String>,
    /// After it.
    pub post_conditions: Vec<String>,
    /// All the time.
    pub invariants: Vec<String>,
}
