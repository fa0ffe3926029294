//! The sections of `router.toml` as the program uses them, with their defaults.

mod cache;
mod contracts;
mod evidence;
mod policy;
mod secrets;
mod signals;
mod sources;
mod store;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::pattern::Pattern;
use crate::digest::Digest;
use crate::grant::{Feature, Grants, Isolation};
use crate::json::Object;
use crate::role::{ActionClass, Role};
use crate::secret::{Secrets, Source};
use crate::share::ShareLimits;

pub use cache::CacheSettings;
pub use contracts::{ContractSettings, Outputs};
pub use evidence::EvidenceSettings;
pub use policy::{
    Annotation, ApprovalSettings, Effect, PolicyDefault, PolicySettings, Property, Rule,
};
pub use secrets::{SecretBinding, SecretEntry};
pub use signals::SignalSettings;
pub use sources::SourceEntry;
pub use store::{KeyReference, StoreSettings};

/// An adapter that is to be loaded.
#[derive(Clone, Default)]
pub struct AdapterEntry {
    /// The factory: `module:function`.
    pub factory_ref: String,
    /// The id of the instance, instead of the adapter's own default.
    pub id: Option<String>,
    /// The configuration, in which `{"$secret": "NAME"}` stands for a secret.
    pub config: Object,
    /// The digest that the library file must have.
    pub pin: Option<Digest>,
    /// Calls that it carries out at once, instead of what holds for all adapters.
    pub calls: Option<usize>,
    /// How long a call of it may take, instead of what holds for all adapters.
    pub timeout: Option<Duration>,
    /// Whether it has a circuit breaker, instead of what holds for all adapters.
    pub breaker: Option<bool>,
    /// Where it runs, instead of where all adapters do.
    pub isolation: Option<Isolation>,
    /// Its worker processes, instead of as many as all adapters have.
    pub processes: Option<usize>,
    /// Bytes of address space of each, instead of what holds for all adapters.
    pub memory: Option<u64>,
    /// What it may reach, if it declares `external`.
    pub grants: Grants,
    /// What of its catalogue callers see.
    pub offer: Offer,
    /// Whether annotation rules believe the hints of its catalogue.
    pub trust_hints: bool,
    /// The contract that it keeps, instead of that of its own id.
    pub interface: Option<String>,
    /// The signal contract that its outputs are held to: `ID` or `ID@VERSION`.
    pub signal: Option<String>,
    /// Where the fields of that contract are in an output: a JSON pointer, instead of the whole output.
    pub signal_fields: Option<String>,
    /// The acceptance policy that decides, instead of that of `[signals]`.
    pub acceptance: Option<PathBuf>,
    /// The role whose output it gives, whole: it is held to that, and the router adds nothing.
    pub role: Option<Role>,
    /// What it may ask the router to fetch for it.
    pub sources: Vec<SourceEntry>,
}

/// What of an adapter's catalogue callers see: everything that a pattern fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Tools, by their names in the catalogue.
    pub tools: Vec<Pattern>,
    /// Resources and templates of resources, by URI.
    pub resources: Vec<Pattern>,
    /// Prompts, by their names in the catalogue.
    pub prompts: Vec<Pattern>,
    /// Stands before the names of tools and prompts.
    pub prefix: String,
    /// What kind of thing the tools do.
    pub action_class: Option<ActionClass>,
}

impl Offer {
    /// Returns the offer of a whole adapter, which holds for adapters that are discovered.
    #[must_use]
    pub fn everything() -> Self {
        let all = || Pattern::new("*").into_iter().collect();
        Self { tools: all(), resources: all(), prompts: all(), ..Self::default() }
    }

    /// Returns whether the offer has no pattern at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.resources.is_empty() && self.prompts.is_empty()
    }
}

impl AdapterEntry {
    /// The ref of the adapter that is part of the router and runs every call in a sandbox of its own.
    pub const ENVOY_REF: &str = "builtin:envoy";

    /// Returns the configuration without what looks like a secret.
    #[must_use]
    pub fn shown_config(&self) -> Object {
        let secrets = Secrets::empty()
            .with_hidden_values(crate::secret::secret_values(&self.config.to_serde()));
        secrets.redact_object(&self.config).unwrap_or_else(|| self.config.clone())
    }
}

// By hand: a configuration may hold secrets as they are.
impl std::fmt::Debug for AdapterEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { factory_ref, id, config: _, pin, calls, timeout, breaker, .. } = self;
        let Self { isolation, processes, memory, grants, offer, trust_hints, interface, .. } = self;
        let Self { signal, signal_fields, acceptance, role, sources, .. } = self;
        f.debug_struct("AdapterEntry")
            .field("factory_ref", factory_ref)
            .field("id", id)
            .field("config", &self.shown_config())
            .field("pin", pin)
            .field("calls", calls)
            .field("timeout", timeout)
            .field("breaker", breaker)
            .field("isolation", isolation)
            .field("processes", processes)
            .field("memory", memory)
            .field("grants", grants)
            .field("offer", offer)
            .field("trust_hints", trust_hints)
            .field("interface", interface)
            .field("signal", signal)
            .field("signal_fields", signal_fields)
            .field("acceptance", acceptance)
            .field("role", role)
            .field("sources", sources)
            .finish()
    }
}

/// The processes in which adapters run, and what becomes of those that crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Where adapters run that do not say it themselves.
    pub isolation: Isolation,
    /// Processes of each adapter.
    pub processes: usize,
    /// Bytes of address space of each process.
    pub memory: u64,
    /// How long a process may take until its adapter can be called.
    pub start_timeout: Duration,
    /// How long the load of all adapters together may take. Those that take longer fail.
    pub load_timeout: Duration,
    /// So many crashes within the window put an adapter into quarantine.
    pub crashes: usize,
    /// For how long a crash counts.
    pub crash_window: Duration,
    /// For how long an adapter in quarantine is not started again.
    pub quarantine: Duration,
    /// Whether adapters have to pass every check of the gate.
    pub require_valid: bool,
    /// Parts of the kernel that may be missing. What they would have held back is then not held back.
    pub accept_missing: Vec<Feature>,
}

impl Workers {
    /// The most processes of one adapter.
    pub const MAX_PROCESSES: usize = 64;
    /// The least bytes of address space with which a process can begin.
    pub const MIN_MEMORY: u64 = 64 * 1024 * 1024;
    /// The most bytes of address space: a tebibyte.
    pub const MAX_MEMORY: u64 = 1024 * 1024 * 1024 * 1024;
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            isolation: Isolation::Worker,
            processes: 1,
            memory: 2048 * 1024 * 1024,
            start_timeout: Duration::from_secs(10),
            load_timeout: Duration::from_secs(60),
            crashes: 5,
            crash_window: Duration::from_secs(600),
            quarantine: Duration::from_secs(600),
            require_valid: true,
            accept_missing: Vec::new(),
        }
    }
}

/// What may be under way at once, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Runs that may be under way at once.
    pub runs_in_flight: usize,
    /// Runs of one token under way at once. Absent means half of all, rounded up.
    pub runs_per_token: Option<usize>,
    /// Calls of one token that wait for one adapter at once.
    pub queued_per_token: usize,
    /// Event bytes that the runs of one token may add to the store per hour; 0 means no limit.
    pub stored_bytes_per_hour: u64,
    /// Calls that one adapter carries out at once. Absent means what suits the adapter.
    pub calls_per_adapter: Option<usize>,
    /// How long a call may take, if neither its step nor its run says.
    pub call_timeout: Duration,
    /// Bytes of the record of one run.
    pub run_record_bytes: usize,
    /// Bytes of a store in memory.
    pub memory_store_bytes: usize,
}

impl Default for RunLimits {
    fn default() -> Self {
        let shares = ShareLimits::default();
        Self {
            runs_in_flight: 16_384,
            runs_per_token: shares.runs_per_token,
            queued_per_token: shares.queued_per_token,
            stored_bytes_per_hour: shares.stored_bytes_per_hour,
            calls_per_adapter: None,
            call_timeout: Duration::from_secs(300),
            run_record_bytes: 64 * 1024 * 1024,
            memory_store_bytes: crate::store::MEMORY_BYTES,
        }
    }
}

impl RunLimits {
    /// Calls that an adapter carries out at once when each of them needs a thread.
    pub const BLOCKING_CALLS: usize = 64;

    /// Returns the shares of each token.
    #[must_use]
    pub const fn shares(&self) -> ShareLimits {
        ShareLimits {
            runs_per_token: self.runs_per_token,
            queued_per_token: self.queued_per_token,
            stored_bytes_per_hour: self.stored_bytes_per_hour,
        }
    }
}

/// What becomes of runs that were left behind by a process that is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recover {
    /// They go on, where that is safe.
    #[default]
    Resume,
    /// They are ended.
    End,
    /// They stay as they are.
    Leave,
}

impl Recover {
    /// Every choice, with its name.
    pub const ALL: &[(&'static str, Self)] =
        &[("resume", Self::Resume), ("end", Self::End), ("leave", Self::Leave)];
}

/// What the daemon takes from clients, and for how long it waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Names besides localhost under which clients reach it.
    pub allowed_hosts: Vec<String>,
    /// Origins of browsers that may call.
    pub allowed_origins: Vec<String>,
    /// Connections at once.
    pub connections: usize,
    /// Connections of one token at once. Absent means half of all, rounded up.
    pub connections_per_token: Option<usize>,
    /// Event streams at once.
    pub streams: usize,
    /// Event streams of one token at once.
    pub streams_per_token: usize,
    /// Bytes of one request's body.
    pub body_bytes: usize,
    /// Bytes of one imported bundle.
    pub bundle_bytes: usize,
    /// Bytes of bodies, parsed values and answers in memory at once.
    pub memory_bytes: usize,
    /// Percent of these bytes that one token may use.
    pub token_memory_percent: usize,
    /// Bodies that one token may be sending at once.
    pub token_bodies: usize,
    /// Time to send the head of a request.
    pub header_timeout: Duration,
    /// Time to send the body of a request.
    pub body_timeout: Duration,
    /// How long calls may go on after the daemon was told to stop.
    pub drain: Duration,
    /// Requests per second and token; 0 means that there is no limit.
    pub requests_per_second: u32,
    /// Requests that a token may make at once, after a pause.
    pub burst: u32,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            connections: 1024,
            connections_per_token: None,
            streams: 256,
            streams_per_token: 64,
            body_bytes: 16 * 1024 * 1024,
            bundle_bytes: 64 * 1024 * 1024,
            memory_bytes: 256 * 1024 * 1024,
            token_memory_percent: 25,
            token_bodies: 64,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            requests_per_second: 1000,
            burst: 2000,
        }
    }
}

impl Server {
    /// Returns the connections of one token at once.
    #[must_use]
    pub fn token_connections(&self) -> usize {
        self.connections_per_token.unwrap_or(self.connections.div_ceil(2))
    }
}

/// A name for an adapter's operation.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolEntry {
    /// The name that callers use.
    pub name: String,
    /// The name for people.
    pub title: Option<String>,
    /// What it does, for callers.
    pub description: String,
    /// The adapter's id.
    pub adapter: String,
    /// The adapter's tool.
    pub tool: String,
    /// The tool's method.
    pub method: String,
    /// What kind of thing it does.
    pub action_class: Option<ActionClass>,
    /// How long a call may take.
    pub timeout: Option<Duration>,
    /// The JSON Schema of the arguments, instead of the adapter's own.
    pub input_schema: Option<Object>,
    /// The JSON Schema of the output, instead of the adapter's own.
    pub output_schema: Option<Object>,
    /// Whether it changes nothing, instead of what the adapter says; and so on.
    pub read_only: Option<bool>,
    /// Whether what it changes may be lost.
    pub destructive: Option<bool>,
    /// Whether to do it twice is as good as once.
    pub idempotent: Option<bool>,
    /// Whether it reaches things that nobody here knows.
    pub open_world: Option<bool>,
}

/// What holds for one token besides what it was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEntry {
    /// The token's name.
    pub name: String,
    /// The role that narrows it.
    pub role: Option<Role>,
    /// Requests per second, instead of those of all tokens; 0 means that there is no limit.
    pub requests_per_second: Option<u32>,
    /// Requests at once after a pause, instead of those of all tokens.
    pub burst: Option<u32>,
}

/// How MCP is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mcp {
    /// Sessions of the older era at once.
    pub sessions: usize,
    /// How long a session may be silent before it is ended.
    pub session_idle: Duration,
}

impl Default for Mcp {
    fn default() -> Self {
        Self { sessions: 1024, session_idle: Duration::from_secs(300) }
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Directives: a level, and levels of targets, such as `info,nexus_router::store=debug`.
    pub level: String,
    /// The form of a line.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Text }
    }
}

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object per line.
    Json,
}

impl LogFormat {
    /// Every form, with its name.
    pub const ALL: &[(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

/// Where traces are exported to.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// The collector; without one nothing is exported.
    pub otlp_endpoint: Option<String>,
    /// The name under which the daemon appears there.
    pub service_name: String,
    /// The share of traces that is exported, from 0 to 1.
    pub sample_ratio: f64,
    /// Headers of the export; the values are secrets.
    pub headers: BTreeMap<String, Source>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            otlp_endpoint: None,
            service_name: "nexus-router".to_owned(),
            sample_ratio: 1.0,
            headers: BTreeMap::new(),
        }
    }
}
