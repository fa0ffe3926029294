//! Every setting in force, in the form of `router.toml` and without secrets, and where each was said.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::document::Origins;
use super::error::Origin;
use super::file::ConfigFile;
use super::listener::Listener;
use super::settings::{
    AdapterEntry, Annotation, ContractSettings, EvidenceSettings, LogFormat, Offer, Outputs,
    PolicyDefault, PolicySettings, Recover, Rule, RunLimits, SecretBinding, SecretEntry, Server,
    SignalSettings, SourceEntry, Telemetry, TokenEntry, ToolEntry, Workers,
};
use super::toml_text;
use crate::breaker::BreakerSettings;
use crate::condition::Condition;
use crate::grant::{Grants, Isolation};
use crate::interface::{ApproverKey, Approvers, ContractTrust};
use crate::json::{Object, Value};
use crate::role::{ActionClass, Role};
use crate::secret::Source;

impl ConfigFile {
    /// Returns every setting in force, as `router.toml` would say it; one without a value is null. What is secret by its key
    /// or its form is hidden, and of secrets only the references are shown.
    #[must_use]
    pub fn to_json(&self) -> Object {
        let mut all = Shown::default();
        all.list("adapter_path", self.adapter_path.iter().map(|file| path(file).into()));
        all.put("data_dir", self.data_dir.as_deref().map(path));
        all.put("db", self.db.as_deref().map(path));
        all.put("discover", Some(self.discover));
        all.put("require_all", Some(self.require_all));
        all.put("default_adapter", self.default_adapter.as_deref());
        all.put("recover", Some(name_of(Recover::ALL, self.recover)));
        all.table("secrets", secrets(&self.secrets));
        all.table("limits", limits(&self.limits));
        all.table("breaker", breaker(&self.breaker));
        all.table("cache", {
            let mut cache = Shown::default();
            cache.put("max_mb", Some(mebibytes(self.cache.max_bytes)));
            cache
        });
        all.table("workers", workers(&self.workers));
        all.table("server", server(&self.server));
        all.table("store", {
            let mut store = Shown::default();
            store.put("key", self.store.key.as_ref().map(|key| key.source.to_string()));
            store
        });
        all.table("mcp", {
            let mut mcp = Shown::default();
            mcp.put("sessions", Some(self.mcp.sessions));
            mcp.put("session_idle_ms", Some(milliseconds(self.mcp.session_idle)));
            mcp
        });
        all.table("policy", policy(&self.policy));
        all.table("contracts", contracts(&self.contracts));
        all.table("signals", signals(&self.signals));
        all.table("evidence", evidence(&self.evidence));
        all.table("log", {
            let mut log = Shown::default();
            log.put("level", Some(self.log.level.as_str()));
            log.put("format", Some(name_of(LogFormat::ALL, self.log.format)));
            log
        });
        all.table("telemetry", telemetry(&self.telemetry));
        all.list("listeners", self.listeners.iter().map(listener));
        all.list("adapters", self.adapters.iter().map(adapter));
        all.list("tools", self.tools.iter().map(tool));
        all.list("tokens", self.tokens.iter().map(token));
        all.0
    }

    /// Returns the same as TOML; behind each setting stands where it was said.
    #[must_use]
    pub(crate) fn to_toml(&self, origins: &Origins) -> String {
        toml_text::document(&self.to_json(), |setting| self.source_of(origins, setting))
    }

    /// Returns where each setting was said, by its path: `default`, a line of the file, or a variable.
    #[must_use]
    pub(crate) fn sources(&self, origins: &Origins) -> Object {
        let mut sources = Object::new();
        toml_text::each_setting(&self.to_json(), &mut |setting| {
            sources.insert(setting, self.source_of(origins, setting));
        });
        sources
    }

    fn source_of(&self, origins: &Origins, setting: &str) -> String {
        match origins.exact(setting) {
            Origin::Default => "default".to_owned(),
            Origin::Variable(name) => name.clone(),
            Origin::File { line, .. } => {
                let file = self.source.as_deref().map_or_else(String::new, path);
                format!("{file}:{line}")
            }
        }
    }
}

/// A table that is being put together.
#[derive(Default)]
struct Shown(Object);

impl Shown {
    fn put(&mut self, key: &str, value: Option<impl Into<Value>>) {
        self.0.insert(key, value.map_or(Value::Null, Into::into));
    }

    fn table(&mut self, key: &str, table: Self) {
        self.0.insert(key, table.0);
    }

    fn list(&mut self, key: &str, items: impl Iterator<Item = Value>) {
        self.0.insert(key, items.collect::<Vec<_>>());
    }
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], wanted: T) -> &'static str {
    names.iter().find(|(_, value)| *value == wanted).map_or("", |(name, _)| name)
}

fn references(sources: &BTreeMap<String, Source>) -> Shown {
    let mut shown = Shown::default();
    for (name, source) in sources {
        shown.put(name, Some(source.to_string()));
    }
    shown
}

fn secrets(secrets: &BTreeMap<String, SecretEntry>) -> Shown {
    let mut shown = Shown::default();
    for (name, SecretEntry { source, binding }) in secrets {
        let Some(SecretBinding { adapters, tools, tokens }) = binding else {
            shown.put(name, Some(source.to_string()));
            continue;
        };
        let mut secret = Shown::default();
        secret.put("from", Some(source.to_string()));
        let bound = [("adapters", adapters), ("tools", tools), ("tokens", tokens)];
        // An empty list would be refused.
        for (key, patterns) in bound.into_iter().filter(|(_, patterns)| !patterns.is_empty()) {
            secret.list(key, patterns.iter().map(|pattern| pattern.as_str().into()));
        }
        shown.table(name, secret);
    }
    shown
}

fn limits(limits: &RunLimits) -> Shown {
    let mut shown = Shown::default();
    shown.put("runs_in_flight", Some(limits.runs_in_flight));
    shown.put("runs_per_token", Some(limits.shares().runs_of_token(limits.runs_in_flight)));
    shown.put("queued_per_token", Some(limits.queued_per_token));
    shown.put("stored_bytes_per_hour", Some(limits.stored_bytes_per_hour));
    shown.put("calls_per_adapter", limits.calls_per_adapter);
    shown.put("call_timeout_ms", Some(milliseconds(limits.call_timeout)));
    shown.put("run_record_bytes", Some(limits.run_record_bytes));
    shown.put("memory_store_bytes", Some(limits.memory_store_bytes));
    shown
}

fn breaker(breaker: &BreakerSettings) -> Shown {
    let mut shown = Shown::default();
    shown.put("enabled", Some(breaker.enabled));
    shown.put("failures", Some(i64::from(breaker.failures)));
    shown.put("pause_ms", Some(milliseconds(breaker.pause)));
    shown.put("max_pause_ms", Some(milliseconds(breaker.max_pause)));
    shown
}

fn workers(workers: &Workers) -> Shown {
    let mut shown = Shown::default();
    shown.put("isolation", Some(workers.isolation.name()));
    shown.put("processes", Some(workers.processes));
    shown.put("memory_mb", Some(mebibytes(workers.memory)));
    shown.put("start_timeout_ms", Some(milliseconds(workers.start_timeout)));
    shown.put("load_timeout_ms", Some(milliseconds(workers.load_timeout)));
    shown.put("crashes", Some(workers.crashes));
    shown.put("crash_window_ms", Some(milliseconds(workers.crash_window)));
    shown.put("quarantine_ms", Some(milliseconds(workers.quarantine)));
    shown.put("require_valid", Some(workers.require_valid));
    shown.list("accept_missing", workers.accept_missing.iter().map(|it| it.name().into()));
    shown
}

fn mebibytes(bytes: u64) -> i64 {
    i64::try_from(bytes / (1024 * 1024)).unwrap_or(i64::MAX)
}

fn server(server: &Server) -> Shown {
    let mut shown = Shown::default();
    shown.list("allowed_hosts", server.allowed_hosts.iter().map(|text| text.as_str().into()));
    shown.list("allowed_origins", server.allowed_origins.iter().map(|text| text.as_str().into()));
    shown.put("connections", Some(server.connections));
    shown.put("connections_per_token", Some(server.token_connections()));
    shown.put("streams", Some(server.streams));
    shown.put("streams_per_token", Some(server.streams_per_token));
    shown.put("body_bytes", Some(server.body_bytes));
    shown.put("bundle_bytes", Some(server.bundle_bytes));
    shown.put("memory_bytes", Some(server.memory_bytes));
    shown.put("token_memory_percent", Some(server.token_memory_percent));
    shown.put("token_bodies", Some(server.token_bodies));
    shown.put("header_timeout_ms", Some(milliseconds(server.header_timeout)));
    shown.put("body_timeout_ms", Some(milliseconds(server.body_timeout)));
    shown.put("drain_ms", Some(milliseconds(server.drain)));
    shown.put("requests_per_second", Some(server.requests_per_second));
    shown.put("burst", Some(server.burst));
    shown
}

fn policy(policy: &PolicySettings) -> Shown {
    let mut shown = Shown::default();
    shown.put("apply", Some(policy.apply));
    shown.put("max_steps", Some(policy.max_steps));
    shown.put("max_run_ms", Some(milliseconds(policy.max_run)));
    shown.put("default", policy.default.map(PolicyDefault::name));
    shown.table("approvals", {
        let mut approvals = Shown::default();
        approvals.put("expire_s", Some(policy.approvals.expire.as_secs()));
        approvals.put("by_caller", Some(policy.approvals.by_caller));
        approvals
    });
    shown.list("rules", policy.rules.iter().map(rule));
    shown
}

fn rule(rule: &Rule) -> Value {
    let mut shown = Shown::default();
    shown.put("id", rule.id.as_deref());
    shown.put("effect", Some(rule.effect.name()));
    let patterns = [
        ("adapter", &rule.adapter),
        ("tool", &rule.tool),
        ("method", &rule.method),
        ("token", &rule.token),
    ];
    for (key, pattern) in patterns {
        shown.put(key, pattern.as_ref().map(|pattern| pattern.as_str()));
    }
    shown.put("action_class", rule.action_class.map(ActionClass::name));
    shown.put("annotation", rule.annotation.map(Annotation::name));
    shown.put("when", rule.when.as_ref().map(Condition::as_str));
    shown.put("reason", rule.reason.as_deref());
    shown.0.into()
}

fn telemetry(telemetry: &Telemetry) -> Shown {
    let mut shown = Shown::default();
    shown.put("otlp_endpoint", telemetry.otlp_endpoint.as_deref());
    shown.put("service_name", Some(telemetry.service_name.as_str()));
    if let Some(ratio) = Value::float(telemetry.sample_ratio) {
        shown.0.insert("sample_ratio", ratio);
    }
    shown.table("headers", references(&telemetry.headers));
    shown
}

fn contracts(contracts: &ContractSettings) -> Shown {
    let mut shown = Shown::default();
    shown.put("interfaces", contracts.interfaces.as_deref().map(path));
    shown.put("tools", contracts.tools.as_deref().map(path));
    let ContractTrust { approvers: Approvers { authors, reviewers }, anchors } = &contracts.trust;
    for (name, keys) in [("authors", authors), ("reviewers", reviewers)] {
        shown.list(name, keys.iter().map(approver));
    }
    let mut heads = Shown::default();
    for (id, head) in anchors {
        heads.put(id, Some(head.to_string()));
    }
    shown.table("anchors", heads);
    shown.put("outputs", Some(name_of(Outputs::ALL, contracts.outputs)));
    shown.put("required", Some(contracts.required));
    shown
}

fn approver(known: &ApproverKey) -> Value {
    if known.is_unlimited() {
        return known.key.to_string().into();
    }
    let mut shown = Shown::default();
    shown.put("key", Some(known.key.to_string()));
    shown.put("from", known.from.map(|from| from.to_string()));
    shown.put("until", known.until.map(|until| until.to_string()));
    shown.0.into()
}

fn signals(signals: &SignalSettings) -> Shown {
    let mut shown = Shown::default();
    shown.put("directory", signals.directory.as_deref().map(path));
    shown.put("policy", signals.policy.as_deref().map(path));
    shown.put("manifest", signals.manifest.as_deref().map(path));
    shown.put("publisher", signals.publisher.as_deref().map(path));
    shown
}

fn evidence(evidence: &EvidenceSettings) -> Shown {
    let mut shown = Shown::default();
    shown.put("seal", Some(evidence.seal));
    shown.put("directory", evidence.directory.as_deref().map(path));
    shown
}

pub(super) fn listener(listener: &Listener) -> Value {
    let mut shown = Shown::default();
    shown.put("address", Some(listener.address.to_string()));
    shown.put("tokens", Some(listener.tokens));
    shown.put("tls_cert", listener.tls.as_ref().map(|files| path(&files.cert)));
    shown.put("tls_key", listener.tls.as_ref().map(|files| path(&files.key)));
    shown.put("allow_remote_plaintext", Some(listener.allow_remote_plaintext));
    shown.put("allow_remote_without_tokens", Some(listener.allow_remote_without_tokens));
    shown.0.into()
}

fn adapter(adapter: &AdapterEntry) -> Value {
    let mut shown = Shown::default();
    shown.put("ref", Some(adapter.factory_ref.as_str()));
    shown.put("id", adapter.id.as_deref());
    shown.put("pin", adapter.pin.map(|pin| pin.to_string()));
    shown.put("calls", adapter.calls);
    shown.put("timeout_ms", adapter.timeout.map(milliseconds));
    shown.put("breaker", adapter.breaker);
    shown.put("isolation", adapter.isolation.map(Isolation::name));
    shown.put("processes", adapter.processes);
    shown.put("memory_mb", adapter.memory.map(mebibytes));
    shown.table("config", Shown(adapter.shown_config()));
    shown.table("grants", grants(&adapter.grants));
    shown.put("interface", adapter.interface.as_deref());
    shown.put("signal", adapter.signal.as_deref());
    shown.put("signal_fields", adapter.signal_fields.as_deref());
    shown.put("acceptance", adapter.acceptance.as_deref().map(path));
    shown.put("role", adapter.role.map(Role::name));
    shown.put("trust_hints", Some(adapter.trust_hints));
    shown.table("offer", offer(&adapter.offer));
    shown.list("sources", adapter.sources.iter().map(source));
    shown.0.into()
}

fn source(source: &SourceEntry) -> Value {
    let mut shown = Shown::default();
    shown.put("name", Some(source.name.as_str()));
    shown.put("adapter", Some(source.adapter.as_str()));
    shown.put("tool", Some(source.tool.as_str()));
    shown.put("method", Some(source.method.as_str()));
    shown.put("action_class", Some(source.action_class.name()));
    shown.table("args", Shown(source.shown_args()));
    shown.list("volatile", source.volatile.iter().map(|pointer| pointer.as_str().into()));
    shown.put("timeout_ms", source.timeout.map(milliseconds));
    shown.0.into()
}

fn grants(grants: &Grants) -> Shown {
    let mut shown = Shown::default();
    shown.list("connect", grants.connect.iter().map(|endpoint| endpoint.to_string().into()));
    for (key, paths) in [("read", &grants.read), ("write", &grants.write), ("run", &grants.run)] {
        shown.list(key, paths.iter().map(|file| path(file).into()));
    }
    shown.list("env", grants.env.iter().map(|name| name.as_str().into()));
    shown
}

fn offer(offer: &Offer) -> Shown {
    let mut shown = Shown::default();
    for (key, patterns) in
        [("tools", &offer.tools), ("resources", &offer.resources), ("prompts", &offer.prompts)]
    {
        shown.list(key, patterns.iter().map(|pattern| pattern.as_str().into()));
    }
    shown.put("prefix", Some(offer.prefix.as_str()).filter(|prefix| !prefix.is_empty()));
    shown.put("action_class", offer.action_class.map(|class| class.name()));
    shown
}

fn tool(tool: &ToolEntry) -> Value {
    let mut shown = Shown::default();
    shown.put("name", Some(tool.name.as_str()));
    shown.put("title", tool.title.as_deref());
    shown.put("description", Some(tool.description.as_str()));
    shown.put("adapter", Some(tool.adapter.as_str()));
    shown.put("tool", Some(tool.tool.as_str()));
    shown.put("method", Some(tool.method.as_str()));
    shown.put("action_class", tool.action_class.map(|class| class.name()));
    shown.put("timeout_ms", tool.timeout.map(milliseconds));
    shown.put("read_only", tool.read_only);
    shown.put("destructive", tool.destructive);
    shown.put("idempotent", tool.idempotent);
    shown.put("open_world", tool.open_world);
    shown.put("input_schema", tool.input_schema.clone());
    shown.put("output_schema", tool.output_schema.clone());
    shown.0.into()
}

fn token(token: &TokenEntry) -> Value {
    let mut shown = Shown::default();
    shown.put("name", Some(token.name.as_str()));
    shown.put("role", token.role.map(|role| role.name()));
    shown.put("requests_per_second", token.requests_per_second);
    shown.put("burst", token.burst);
    shown.0.into()
}

#[cfg(test)]
mod tests;
