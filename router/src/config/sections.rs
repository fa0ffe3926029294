//! Reads every section of `router.toml`. A key is known because it is asked for here or in a file below, and nowhere else.

mod breaker;
mod contracts;
mod evidence;
mod policy;
mod secrets;
mod signals;
mod sources;
mod tools;
mod workers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};

use super::file::ConfigFile;
use super::listener::{Listener, TlsFiles, address};
use super::reader::Section;
use super::settings::{
    AdapterEntry, CacheSettings, KeyReference, Log, LogFormat, Mcp, Recover, RunLimits, Server,
    StoreSettings, Telemetry, TokenEntry,
};
use super::toml_value;
use crate::role::Role;
use crate::secret::Source;

/// Tools of the router itself begin so.
const OWN_TOOLS: &str = "nexus-router.";

/// The store that is gone with its process.
const IN_MEMORY: &str = ":memory:";

/// Reads the whole table. Paths are relative to `base`.
pub(super) fn config(root: &Section<'_>, base: &Path) -> ConfigFile {
    let path = |text: String| base.join(text);
    let mut listeners = root.each("listeners", |section| listener(section, base));
    if listeners.is_empty() {
        listeners.push(Listener::default());
    }
    let workers = root.within("workers", workers::workers);
    let limits = RunLimits::default();
    let config = ConfigFile {
        source: None,
        adapter_path: root.texts("adapter_path").into_iter().map(path).collect(),
        data_dir: root.text("data_dir").map(path),
        db: root.text("db").map(|db| if db == IN_MEMORY { db.into() } else { path(db) }),
        discover: root.flag("discover", false),
        require_all: root.flag("require_all", false),
        default_adapter: root.text("default_adapter"),
        recover: root.choice("recover", Recover::ALL).unwrap_or_default(),
        secrets: secrets::secrets(root, base),
        adapters: root.each("adapters", |section| {
            let entry = signals::of_adapter(section, base, adapter(section));
            let entry = evidence::of_adapter(section, entry);
            let entry = workers::place(section, base, workers.isolation, entry);
            sources::of_adapter(section, workers.isolation, entry)
        }),
        limits: root.within("limits", |section| RunLimits {
            runs_in_flight: section.count("runs_in_flight").unwrap_or(limits.runs_in_flight),
            runs_per_token: section.count("runs_per_token"),
            queued_per_token: section.count("queued_per_token").unwrap_or(limits.queued_per_token),
            stored_bytes_per_hour: section
                .number("stored_bytes_per_hour")
                .unwrap_or(limits.stored_bytes_per_hour),
            calls_per_adapter: section.count("calls_per_adapter"),
            call_timeout: section
                .positive("call_timeout_ms")
                .map_or(limits.call_timeout, Duration::from_millis),
            run_record_bytes: section.count("run_record_bytes").unwrap_or(limits.run_record_bytes),
            memory_store_bytes: section
                .count("memory_store_bytes")
                .unwrap_or(limits.memory_store_bytes),
        }),
        breaker: root.within("breaker", breaker::breaker),
        cache: root.within("cache", cache),
        workers,
        listeners,
        server: root.within("server", server),
        policy: root.within("policy", policy::policy),
        contracts: root.within("contracts", |section| contracts::contracts(section, base)),
        signals: root.within("signals", |section| signals::signals(section, base)),
        evidence: root.within("evidence", |section| evidence::evidence(section, base)),
        store: root.within("store", |section| store(section, base)),
        mcp: root.within("mcp", |section| Mcp {
            sessions: section.count("sessions").unwrap_or(Mcp::default().sessions),
            session_idle: section
                .milliseconds("session_idle_ms")
                .unwrap_or(Mcp::default().session_idle),
        }),
        tools: root.each("tools", tools::tool),
        tokens: root.each("tokens", token),
        log: root.within("log", log),
        telemetry: root.within("telemetry", |section| telemetry(section, base)),
    };
    refuse_twins(root, "tools", config.tools.iter().map(|tool| tool.name.as_str()));
    refuse_twins(root, "tokens", config.tokens.iter().map(|token| token.name.as_str()));
    config
}

/// Refuses items of a list that have the name of an earlier one.
fn refuse_twins<'a>(root: &Section<'_>, list: &str, names: impl Iterator<Item = &'a str>) {
    let mut seen = BTreeMap::new();
    for (index, name) in names.enumerate().filter(|(_, name)| !name.is_empty()) {
        if let Some(first) = seen.get(name) {
            let message = format!("has the name of {list}[{first}]");
            root.wrong(&format!("{list}[{index}]"), &message, "give each its own name");
        } else {
            seen.insert(name, index);
        }
    }
}

fn cache(section: &Section<'_>) -> CacheSettings {
    let max = section.positive("max_mb").map(|mebibytes| mebibytes.saturating_mul(1024 * 1024));
    CacheSettings { max_bytes: max.unwrap_or(CacheSettings::default().max_bytes) }
}

fn store(section: &Section<'_>, base: &Path) -> StoreSettings {
    let wrong = |why: &str| {
        section.wrong("key", why, "write key = \"env:VARIABLE\" or key = \"file:PATH\"");
    };
    let text = section.text("key");
    let source = text.and_then(|text| secrets::source(&text, base, wrong));
    let origin = section.origin("key");
    StoreSettings { key: source.map(|source| KeyReference { source, origin }) }
}

fn sources(section: &Section<'_>, key: &'static str, base: &Path) -> BTreeMap<String, Source> {
    let hint = "write NAME = \"env:VARIABLE\" or NAME = \"file:PATH\"";
    let mut sources = BTreeMap::new();
    for (name, value) in section.free(key).into_iter().flatten() {
        let place = format!("{key}.{name}");
        let wrong = |why: &str| section.wrong(&place, why, hint);
        match value.as_str() {
            Some(text) => {
                let source = secrets::source(text, base, wrong);
                sources.extend(source.map(|source| (name.clone(), source)));
            }
            None => wrong("is not a text"),
        }
    }
    sources
}

fn adapter(section: &Section<'_>) -> AdapterEntry {
    let config = section.free("config").map(toml_value::object).transpose();
    let config = config.unwrap_or_else(|message| {
        let hint = "JSON, in which adapters are configured, has no such number";
        section.wrong("config", &format!("cannot be used: {message}"), hint);
        None
    });
    let pin = section.text("pin").and_then(|pin| {
        let pin = pin.parse().ok();
        if pin.is_none() {
            let hint = "`sha256sum FILE` prints it: 64 hexadecimal digits";
            section.wrong("pin", "is not a SHA-256", hint);
        }
        pin
    });
    AdapterEntry {
        factory_ref: section.needed("ref"),
        id: section.text("id"),
        config: config.unwrap_or_default(),
        pin,
        calls: section.count("calls"),
        timeout: section.positive("timeout_ms").map(Duration::from_millis),
        breaker: section.switch("breaker"),
        offer: section.within("offer", tools::offer),
        trust_hints: section.flag("trust_hints", false),
        interface: section.text("interface"),
        ..AdapterEntry::default()
    }
}

fn listener(section: &Section<'_>, base: &Path) -> Listener {
    let default = Listener::default();
    let address = section.text("address").and_then(|text| {
        let address = address(&text);
        if address.is_none() {
            let hint =
                "such as 127.0.0.1:7433, [::1]:7433 or localhost:7433; names are not looked up";
            section.wrong("address", "is not HOST:PORT", hint);
        }
        address
    });
    let file = |key| section.text(key).map(|text| base.join(text));
    let tls = match (file("tls_cert"), file("tls_key")) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
        (None, None) => None,
        (cert, _) => {
            let (given, missing) = match cert {
                Some(_) => ("tls_cert", "tls_key"),
                None => ("tls_key", "tls_cert"),
            };
            let message = format!("stands without {missing}");
            section.wrong(given, &message, &format!("give {missing} too, or leave out both"));
            None
        }
    };
    Listener {
        address: address.unwrap_or(default.address),
        tokens: section.flag("tokens", default.tokens),
        tls,
        allow_remote_plaintext: section.flag("allow_remote_plaintext", false),
        allow_remote_without_tokens: section.flag("allow_remote_without_tokens", false),
    }
}

fn server(section: &Section<'_>) -> Server {
    let default = Server::default();
    let server = Server {
        allowed_hosts: section.texts("allowed_hosts"),
        allowed_origins: section.texts("allowed_origins"),
        connections: section.count("connections").unwrap_or(default.connections),
        connections_per_token: section.count("connections_per_token"),
        streams: section.count("streams").unwrap_or(default.streams),
        streams_per_token: section.count("streams_per_token").unwrap_or(default.streams_per_token),
        body_bytes: section.count("body_bytes").unwrap_or(default.body_bytes),
        bundle_bytes: section.count("bundle_bytes").unwrap_or(default.bundle_bytes),
        memory_bytes: section.count("memory_bytes").unwrap_or(default.memory_bytes),
        token_memory_percent: section
            .count("token_memory_percent")
            .unwrap_or(default.token_memory_percent),
        token_bodies: section.count("token_bodies").unwrap_or(default.token_bodies),
        header_timeout: section.milliseconds("header_timeout_ms").unwrap_or(default.header_timeout),
        body_timeout: section.milliseconds("body_timeout_ms").unwrap_or(default.body_timeout),
        drain: section.milliseconds("drain_ms").unwrap_or(default.drain),
        requests_per_second: section
            .rate("requests_per_second", false)
            .unwrap_or(default.requests_per_second),
        burst: section.rate("burst", true).unwrap_or(default.burst),
    };
    let (largest, together) = (server.body_bytes.max(server.bundle_bytes), server.memory_bytes);
    if together < largest {
        // The one that somebody wrote.
        let key = match (section.get("memory_bytes"), server.body_bytes == largest) {
            (Some(_), _) => "memory_bytes",
            (None, true) => "body_bytes",
            (None, false) => "bundle_bytes",
        };
        let message =
            format!("does not fit: one body may have {largest} bytes, and all at once {together}");
        let hint = "raise memory_bytes, or lower body_bytes and bundle_bytes";
        section.wrong(key, &message, hint);
    }
    if server.token_memory_percent > 100 {
        let message = format!("is {}, more than 100", server.token_memory_percent);
        section.wrong("token_memory_percent", &message, "write a number from 1 to 100");
    }
    for (index, host) in server.allowed_hosts.iter().enumerate() {
        if !is_host(host) {
            let hint = "such as router.example.com, without http:// and without a path";
            section.wrong(&format!("allowed_hosts[{index}]"), "is no name of a host", hint);
        }
    }
    for (index, origin) in server.allowed_origins.iter().enumerate() {
        if !web_address(origin).is_some_and(is_host) {
            let hint = "such as https://console.example.com, without a path";
            section.wrong(&format!("allowed_origins[{index}]"), "is no origin", hint);
        }
    }
    server
}

/// Returns what follows `http://` or `https://`.
fn web_address(text: &str) -> Option<&str> {
    text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))
}

/// Tells whether a text is a host, perhaps with a port, and nothing else.
fn is_host(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

fn token(section: &Section<'_>) -> TokenEntry {
    TokenEntry {
        name: section.needed("name"),
        role: section.choice("role", &Role::ALL.map(|role| (role.name(), role))),
        requests_per_second: section.rate("requests_per_second", false),
        burst: section.rate("burst", true),
    }
}

fn log(section: &Section<'_>) -> Log {
    let level = section.text("level").filter(|text| {
        let fits = are_directives(text);
        if !fits {
            let hint = "write off, error, warn, info, debug or trace, and TARGET=LEVEL for parts, \
                        such as info,nexus_router::store=debug";
            section.wrong("level", "is neither a level nor a list of directives", hint);
        }
        fits
    });
    Log {
        level: level.unwrap_or_else(|| Log::default().level),
        format: section.choice("format", LogFormat::ALL).unwrap_or_default(),
    }
}

/// Tells whether a text is a list of directives. A lone word must be a level: the parser would take a
/// misspelt one for a target, and be silent about all others.
fn are_directives(text: &str) -> bool {
    let is_plain = |part: &str| part.contains('=') || part.parse::<LevelFilter>().is_ok();
    text.split(',').all(is_plain) && text.parse::<Targets>().is_ok()
}

fn telemetry(section: &Section<'_>, base: &Path) -> Telemetry {
    let default = Telemetry::default();
    let endpoint = section.text("otlp_endpoint").filter(|text| {
        let authority = web_address(text).and_then(|rest| rest.split(['/', '?', '#']).next());
        let fits = authority.is_some_and(is_host);
        if !fits {
            let hint = "such as http://127.0.0.1:4318; a password belongs in telemetry.headers";
            section.wrong("otlp_endpoint", "is no address of a collector", hint);
        }
        fits
    });
    let headers = sources(section, "headers", base);
    for name in headers.keys().filter(|name| http::HeaderName::try_from(*name).is_err()) {
        section.wrong(
            &format!("headers.{name}"),
            "is no name of a header",
            "such as Authorization",
        );
    }
    Telemetry {
        otlp_endpoint: endpoint,
        service_name: section.text("service_name").unwrap_or(default.service_name),
        sample_ratio: section.ratio("sample_ratio").unwrap_or(default.sample_ratio),
        headers,
    }
}

/// Returns the directory to which paths of a file are relative.
pub(super) fn base(file: Option<&Path>) -> std::io::Result<PathBuf> {
    match file {
        Some(file) => {
            let absolute = std::path::absolute(file)?;
            Ok(absolute.parent().unwrap_or(Path::new("/")).to_owned())
        }
        None => std::env::current_dir(),
    }
}
