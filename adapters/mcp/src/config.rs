//! The configuration: what the manifest says of it, and how it is checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use nexus_router_sdk::{AdapterError, ConfigKey, ValueType, code};
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use url::Url;

/// The keys, as the manifest lists them.
pub(crate) const KEYS: &[ConfigKey] = &[
    ConfigKey::optional(
        "command",
        ValueType::Array,
        "The program of the server and its arguments, for one that speaks over standard input and output; \
         this or url",
    ),
    ConfigKey::optional(
        "url",
        ValueType::String,
        "The endpoint of the server, http or https, for one that speaks over streamable HTTP; this or command",
    ),
    ConfigKey::optional(
        "env",
        ValueType::Object,
        "Variables that are added to the program's environment, which otherwise has PATH, HOME, LANG, LC_ALL, \
         TZ and TMPDIR",
    )
    .default_json("{}"),
    ConfigKey::optional("cwd", ValueType::String, "The directory in which the program runs"),
    ConfigKey::optional(
        "headers",
        ValueType::Object,
        "Headers of every request, such as Authorization; values are text",
    )
    .default_json("{}"),
    ConfigKey::optional(
        "timeout_ms",
        ValueType::Number,
        "Milliseconds in which the server must be up and have answered the first request",
    )
    .default_json("30000"),
    ConfigKey::optional(
        "protocol",
        ValueType::String,
        "The version of the protocol, or auto: the newest that both sides know",
    )
    .default_json(r#""auto""#),
];

/// Variables that the program gets from the environment of the host.
pub(crate) const INHERITED: &[&str] = &["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"];

const MAX_TIMEOUT_MS: u64 = 600_000;

/// The versions that can be spoken, oldest first.
const VERSIONS: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN];

/// The first version without a handshake.
pub(crate) const MODERN: &str = "2026-07-28";

/// Headers that the protocol or its framing writes.
const OWN_HEADERS: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The configuration as it is given.
///
/// Values that may hold secrets are read without a type, so that no error of the reader quotes them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    #[serde(default)]
    command: Option<Vec<Value>>,
    #[serde(default)]
    url: Option<Value>,
    #[serde(default)]
    env: Map<String, Value>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default = "default_timeout_ms")]
    timeout_ms: Number,
    #[serde(default = "default_protocol")]
    protocol: String,
}

fn default_timeout_ms() -> Number {
    30_000.into()
}

fn default_protocol() -> String {
    "auto".to_owned()
}

/// The configuration after every check.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) place: Place,
    /// The time for a connection to be made.
    pub(crate) timeout: Duration,
    pub(crate) protocol: Protocol,
}

/// Where the server is.
#[derive(Debug)]
pub(crate) enum Place {
    /// A program that is started here.
    Program(Program),
    /// An endpoint that is connected to.
    Endpoint(Endpoint),
}

/// A program that speaks over its standard input and output.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: Option<PathBuf>,
}

/// An endpoint of streamable HTTP.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
}

/// Which version of the protocol is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The newest that both sides know.
    Auto,
    /// The one without a handshake.
    Modern,
    /// An earlier one.
    Legacy(String),
}

impl Config {
    /// Checks everything.
    ///
    /// # Errors
    /// `CONFIG_REJECTED`, with the key in the details and no value that could be a secret.
    pub(crate) fn check(self) -> Result<Settings, AdapterError> {
        let place = match (self.command, self.url) {
            (Some(_), Some(_)) => {
                return Err(rejected("url", "and config.command are both given; one is needed"));
            }
            (None, None) => {
                return Err(rejected("command", "or config.url is needed"));
            }
            (Some(command), None) => {
                if !self.headers.is_empty() {
                    return Err(rejected("headers", "are for config.url, not for config.command"));
                }
                Place::Program(program(&command, self.env, self.cwd)?)
            }
            (None, Some(url)) => {
                if !self.env.is_empty() {
                    return Err(rejected("env", "is for config.command, not for config.url"));
                }
                if self.cwd.is_some() {
                    return Err(rejected("cwd", "is for config.command, not for config.url"));
                }
                let url = endpoint(&url).map_err(|problem| rejected("url", problem))?;
                let headers =
                    headers(&self.headers).map_err(|problem| rejected("headers", &problem))?;
                Place::Endpoint(Endpoint { url, headers })
            }
        };
        Ok(Settings {
            place,
            timeout: timeout(&self.timeout_ms)?,
            protocol: protocol(&self.protocol)?,
        })
    }
}

impl Settings {
    /// Returns what the adapter is called if nobody names it: the program or the host.
    pub(crate) fn name(&self) -> String {
        match &self.place {
            Place::Program(program) => {
                program.program.rsplit('/').next().unwrap_or_default().to_owned()
            }
            Place::Endpoint(endpoint) => endpoint.url.host_str().unwrap_or_default().to_owned(),
        }
    }

    /// Returns the values that must be shown nowhere.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let texts: Vec<String> = match &self.place {
            Place::Program(program) => program.env.values().cloned().collect(),
            Place::Endpoint(endpoint) => {
                let values = endpoint.headers.values().filter_map(|value| value.to_str().ok());
                // What is secret of `Bearer X` is X.
                values.flat_map(|value| value.split(' ')).map(ToOwned::to_owned).collect()
            }
        };
        // A short text is no secret, and would black out half of every line.
        texts.into_iter().filter(|text| text.len() >= 8).collect()
    }
}

fn rejected(key: &str, problem: &str) -> AdapterError {
    AdapterError::operational(code::CONFIG_REJECTED, format!("config.{key} {problem}"))
        .details(serde_json::json!({ "key": key }))
}

fn program(
    command: &[Value],
    env: Map<String, Value>,
    cwd: Option<String>,
) -> Result<Program, AdapterError> {
    let words: Option<Vec<String>> = command
        .iter()
        .map(|word| word.as_str().filter(|word| !word.contains('\0')).map(ToOwned::to_owned))
        .collect();
    let words = words.ok_or_else(|| rejected("command", "must hold texts without NUL"))?;
    let Some((program, args)) = words.split_first().filter(|(program, _)| !program.is_empty())
    else {
        return Err(rejected("command", "must begin with a program"));
    };
    let mut variables = BTreeMap::new();
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(rejected("env", "has a name that no variable can have"));
        }
        let Value::String(value) = value else {
            return Err(rejected("env", &format!("has a value for {name} that is not text")));
        };
        if value.contains('\0') {
            return Err(rejected("env", &format!("has a value for {name} with NUL")));
        }
        variables.insert(name, value);
    }
    if cwd.as_deref().is_some_and(|cwd| cwd.is_empty() || cwd.contains('\0')) {
        return Err(rejected("cwd", "must be the path of a directory"));
    }
    let cwd = cwd.map(PathBuf::from);
    Ok(Program { program: program.clone(), args: args.to_vec(), env: variables, cwd })
}

fn endpoint(url: &Value) -> Result<Url, &'static str> {
    let url = url.as_str().ok_or("must be text")?;
    let mut url = Url::parse(url).map_err(|_| "must be a URL")?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("must be an http or https URL");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a name or password; use config.headers for Authorization");
    }
    url.set_fragment(None);
    Ok(url)
}

fn headers(given: &Map<String, Value>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name: HeaderName =
            name.parse().map_err(|_| format!("has the name {name:?}, which no header can have"))?;
        if OWN_HEADERS.contains(&name.as_str()) {
            return Err(format!("must not set {name}, which the adapter writes itself"));
        }
        let mut value = value
            .as_str()
            .and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok())
            .ok_or_else(|| format!("has a value for {name} that no header can have"))?;
        value.set_sensitive(true);
        if headers.insert(&name, value).is_some() {
            return Err(format!("names {name} twice"));
        }
    }
    Ok(headers)
}

fn timeout(millis: &Number) -> Result<Duration, AdapterError> {
    let whole = millis.as_u64().filter(|millis| (1..=MAX_TIMEOUT_MS).contains(millis));
    whole.map(Duration::from_millis).ok_or_else(|| {
        let problem = format!("must be a whole number from 1 to {MAX_TIMEOUT_MS}, not {millis}");
        rejected("timeout_ms", &problem)
    })
}

fn protocol(name: &str) -> Result<Protocol, AdapterError> {
    match name {
        "auto" => Ok(Protocol::Auto),
        MODERN => Ok(Protocol::Modern),
        known if VERSIONS.contains(&known) => Ok(Protocol::Legacy(known.to_owned())),
        _ => Err(rejected("protocol", &format!("must be auto or one of {}", VERSIONS.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(config: Value) -> Result<Settings, AdapterError> {
        serde_json::from_value::<Config>(config).expect("known keys").check()
    }

    #[test]
    fn defaults_are_those_of_the_manifest() {
        let manifest = nexus_router_sdk::testing::manifest(&crate::MANIFEST);
        let mut filled = json!({ "command": ["server"] });
        for (key, entry) in manifest["config_schema"].as_object().unwrap() {
            assert_ne!(entry["description"], "", "{key}");
            if let Some(default) = entry.get("default") {
                filled[key] = default.clone();
            }
        }
        let filled = format!("{:?}", check(filled).unwrap());
        let bare = format!("{:?}", check(json!({ "command": ["server"] })).unwrap());
        assert_eq!(bare, filled);
    }

    #[test]
    fn what_cannot_be_is_refused_without_values() {
        for (key, config) in [
            ("command", json!({})),
            ("command", json!({ "command": [] })),
            ("command", json!({ "command": [""] })),
            ("command", json!({ "command": ["a", 98765] })),
            ("url", json!({ "command": ["a"], "url": "http://h" })),
            ("url", json!({ "url": 98765 })),
            ("url", json!({ "url": "ftp://h" })),
            ("url", json!({ "url": "http://u:98765@h" })),
            ("url", json!({ "url": "mailto:98765" })),
            ("env", json!({ "command": ["a"], "env": { "K": 98765 } })),
            ("env", json!({ "command": ["a"], "env": { "K=": "98765" } })),
            ("env", json!({ "command": ["a"], "env": { "K": "98765\0" } })),
            ("env", json!({ "url": "http://h", "env": { "K": "98765" } })),
            ("cwd", json!({ "url": "http://h", "cwd": "/" })),
            ("cwd", json!({ "command": ["a"], "cwd": "" })),
            ("headers", json!({ "command": ["a"], "headers": { "k": "98765" } })),
            ("headers", json!({ "url": "http://h", "headers": { "k": 98765 } })),
            ("headers", json!({ "url": "http://h", "headers": { "k": "98765\r\n" } })),
            ("headers", json!({ "url": "http://h", "headers": { "k": "98765", "K": "98765" } })),
            ("headers", json!({ "url": "http://h", "headers": { "mcp-session-id": "98765" } })),
            ("timeout_ms", json!({ "url": "http://h", "timeout_ms": 0 })),
            ("timeout_ms", json!({ "url": "http://h", "timeout_ms": 1e9 })),
            ("protocol", json!({ "url": "http://h", "protocol": "2025-01-01" })),
        ] {
            let error = check(config.clone()).expect_err(&config.to_string());
            assert_eq!(
                (error.code.as_str(), &error.details["key"]),
                (code::CONFIG_REJECTED, &json!(key)),
                "{config}"
            );
            assert!(!serde_json::to_string(&error).unwrap().contains("98765"), "{config}");
        }
    }

    #[test]
    fn a_name_is_made_of_what_is_there() {
        let name = |config| check(config).unwrap().name();
        assert_eq!(name(json!({ "command": ["/usr/bin/server", "x"] })), "server");
        assert_eq!(name(json!({ "url": "https://mcp.example:444/mcp" })), "mcp.example");
    }

    #[test]
    fn values_of_env_and_headers_are_secrets() {
        let url = json!({ "url": "http://h", "headers": { "Authorization": "Bearer abcdefghi" } });
        assert_eq!(check(url).unwrap().secrets(), ["abcdefghi"]);
        let env = json!({ "command": ["a"], "env": { "A": "short", "B": "long enough" } });
        assert_eq!(check(env).unwrap().secrets(), ["long enough"]);
    }

    #[test]
    fn versions_are_told_apart() {
        let protocol = |name| {
            check(json!({ "url": "http://h", "protocol": name })).map(|it| it.protocol).unwrap()
        };
        assert_eq!(protocol("auto"), Protocol::Auto);
        assert_eq!(protocol("2026-07-28"), Protocol::Modern);
        assert_eq!(protocol("2025-06-18"), Protocol::Legacy("2025-06-18".to_owned()));
    }
}
