//! The configuration: what the manifest says of it, and how it is checked.

use std::collections::BTreeMap;
use std::time::Duration;

use nexus_router_sdk::{AdapterError, ConfigKey, ValueType, code};
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method};
use url::{Host, Url};

use crate::target::{Base, parse_host};

/// The keys, as the manifest lists them.
pub(crate) const KEYS: &[ConfigKey] = &[
    ConfigKey::required(
        "base_url",
        ValueType::String,
        "URL below which tools live, http or https; userinfo is sent as basic authorization",
    ),
    ConfigKey::optional(
        "http_method",
        ValueType::String,
        "POST, which sends the arguments as a JSON body, or GET, which sends them as the query: each a \
         text, a number, true or false, or a list of these",
    )
    .default_json(r#""POST""#),
    ConfigKey::optional(
        "paths",
        ValueType::Object,
        "Paths below base_url of calls that do not live at tool/method, by the name tool.method: \
         {\"web.search\": \"search\"}",
    )
    .default_json("{}"),
    ConfigKey::optional(
        "timeout_s",
        ValueType::Number,
        "Seconds that a call may take in total, from the name lookup to the last byte",
    )
    .default_json("30.0"),
    ConfigKey::optional(
        "headers",
        ValueType::Object,
        "Headers of every request; names are compared without case, values are text",
    )
    .default_json("{}"),
    ConfigKey::optional(
        "max_response_bytes",
        ValueType::Number,
        "Bytes that a response body may have",
    )
    .default_json("10485760"),
    ConfigKey::optional(
        "allowed_hosts",
        ValueType::Array,
        "Hosts that requests may go to, also by redirect; only the host of base_url if left out",
    ),
    ConfigKey::optional(
        "follow_redirects",
        ValueType::Number,
        "Redirects that a call may follow; headers other than Accept, Content-Type and User-Agent \
         do not go to another origin",
    )
    .default_json("0"),
    ConfigKey::optional(
        "pool_max_idle",
        ValueType::Number,
        "Connections that are kept open between calls",
    )
    .default_json("16"),
];

const MAX_TIMEOUT_S: f64 = 86_400.0;
const MAX_RESPONSE_BYTES: u64 = 1 << 30;
const MAX_REDIRECTS: u64 = 20;
const MAX_IDLE: u64 = 1024;

/// Headers that frame the request; the client writes them.
const FRAMING: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "keep-alive",
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
    base_url: Value,
    #[serde(default)]
    http_method: Option<Value>,
    #[serde(default)]
    paths: Map<String, Value>,
    #[serde(default = "default_timeout_s")]
    timeout_s: Number,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default = "default_max_response_bytes")]
    max_response_bytes: Number,
    #[serde(default)]
    allowed_hosts: Option<Vec<Value>>,
    #[serde(default = "default_follow_redirects")]
    follow_redirects: Number,
    #[serde(default = "default_pool_max_idle")]
    pool_max_idle: Number,
}

fn default_timeout_s() -> Number {
    // Written as in the manifest, because errors show the number as it was given.
    Number::from_f64(30.0).unwrap_or_else(|| 30.into())
}

fn default_max_response_bytes() -> Number {
    10_485_760.into()
}

fn default_follow_redirects() -> Number {
    0.into()
}

fn default_pool_max_idle() -> Number {
    16.into()
}

/// The configuration after every check.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) base: Base,
    pub(crate) http_method: Method,
    /// Where calls live that do not live where all others do, by tool and method.
    paths: BTreeMap<String, Url>,
    pub(crate) timeout: Duration,
    /// The number of seconds as it was given, for messages.
    pub(crate) timeout_s: Number,
    /// The headers for the origin of the base URL.
    pub(crate) headers: HeaderMap,
    /// The headers for any other origin.
    pub(crate) foreign_headers: HeaderMap,
    pub(crate) max_response_bytes: u64,
    allowed_hosts: Vec<Host>,
    pub(crate) follow_redirects: usize,
    pub(crate) pool_max_idle: usize,
}

impl Config {
    /// Checks everything.
    ///
    /// # Errors
    /// `CONFIG_REJECTED`, with the key in the details and no value that could be a secret.
    pub(crate) fn check(self) -> Result<Settings, AdapterError> {
        let base_url = self.base_url.as_str().ok_or("must be a string".to_owned());
        let base =
            base_url.and_then(Base::parse).map_err(|problem| rejected("base_url", &problem))?;
        let allowed_hosts = allowed_hosts(&base, self.allowed_hosts)
            .map_err(|problem| rejected("allowed_hosts", &problem))?;
        let headers =
            headers(&base, &self.headers).map_err(|problem| rejected("headers", &problem))?;
        let http_method = match self.http_method.as_ref().map(Value::as_str) {
            None | Some(Some("POST")) => Method::POST,
            Some(Some("GET")) => Method::GET,
            Some(_) => return Err(rejected("http_method", "must be \"POST\" or \"GET\"")),
        };
        let paths = paths(&base, &self.paths).map_err(|problem| rejected("paths", &problem))?;
        Ok(Settings {
            http_method,
            paths,
            timeout: timeout(&self.timeout_s)?,
            timeout_s: self.timeout_s,
            foreign_headers: foreign(&headers),
            headers,
            max_response_bytes: whole(
                "max_response_bytes",
                &self.max_response_bytes,
                1,
                MAX_RESPONSE_BYTES,
            )?,
            allowed_hosts,
            follow_redirects: count("follow_redirects", &self.follow_redirects, MAX_REDIRECTS)?,
            pool_max_idle: count("pool_max_idle", &self.pool_max_idle, MAX_IDLE)?,
            base,
        })
    }
}

impl Settings {
    /// Returns the URL of a tool's method.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a name that cannot stand in one.
    pub(crate) fn endpoint(&self, tool: &str, method: &str) -> Result<Url, AdapterError> {
        // Without paths, which is the rule, no name is put together.
        let named = (!self.paths.is_empty()).then(|| self.paths.get(&format!("{tool}.{method}")));
        match named.flatten() {
            Some(url) => Ok(url.clone()),
            None => self.base.endpoint(tool, method),
        }
    }

    /// Says whether requests may go to this host.
    pub(crate) fn allows(&self, host: &Host<&str>) -> bool {
        self.allowed_hosts.iter().any(|allowed| allowed == host)
    }
}

fn paths(base: &Base, given: &Map<String, Value>) -> Result<BTreeMap<String, Url>, String> {
    let place = |(name, path): (&String, &Value)| {
        let named = |problem: &str| format!("[{name:?}] {problem}");
        if !name.contains('.') {
            return Err(named(
                "must be the name of a tool and of its method, with a dot between them",
            ));
        }
        let path = path.as_str().ok_or_else(|| named("must be a path"))?;
        let url = base.place(path).map_err(|problem| named(&problem))?;
        Ok((name.clone(), url))
    };
    given.iter().map(place).collect()
}

fn rejected(key: &str, problem: &str) -> AdapterError {
    AdapterError::operational(code::CONFIG_REJECTED, format!("config.{key} {problem}"))
        .details(serde_json::json!({ "key": key }))
}

fn timeout(seconds: &Number) -> Result<Duration, AdapterError> {
    seconds
        .as_f64()
        .filter(|seconds| *seconds > 0.0 && *seconds <= MAX_TIMEOUT_S)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|timeout| !timeout.is_zero())
        .ok_or_else(|| {
            let problem = format!("must be above 0 and at most {MAX_TIMEOUT_S}, not {seconds}");
            rejected("timeout_s", &problem)
        })
}

fn whole(key: &str, number: &Number, least: u64, most: u64) -> Result<u64, AdapterError> {
    // 1e6 is a whole number, too; every one up to `most` is exact as a float.
    let value = number.as_u64().or_else(|| whole_float(number.as_f64()?));
    value.filter(|value| (least..=most).contains(value)).ok_or_else(|| {
        rejected(key, &format!("must be a whole number from {least} to {most}, not {number}"))
    })
}

fn whole_float(float: f64) -> Option<u64> {
    let fits = float.fract() == 0.0 && (0.0..=2.0_f64.powi(53)).contains(&float);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    fits.then_some(float as u64)
}

fn count(key: &str, number: &Number, most: u64) -> Result<usize, AdapterError> {
    whole(key, number, 0, most).map(|value| usize::try_from(value).unwrap_or(usize::MAX))
}

fn allowed_hosts(base: &Base, given: Option<Vec<Value>>) -> Result<Vec<Host>, String> {
    let Some(given) = given else { return Ok(vec![base.host().clone()]) };
    let mut hosts = Vec::with_capacity(given.len());
    for (index, entry) in given.iter().enumerate() {
        let host = entry.as_str().and_then(parse_host);
        hosts.push(host.ok_or_else(|| format!("[{index}] is not a host without scheme and port"))?);
    }
    if hosts.contains(base.host()) {
        Ok(hosts)
    } else {
        Err("does not list the host of base_url, so no request could be made".to_owned())
    }
}

fn headers(base: &Base, given: &Map<String, Value>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name: HeaderName =
            name.parse().map_err(|_| format!("has the name {name:?}, which no header can have"))?;
        if FRAMING.contains(&name.as_str()) {
            return Err(format!("must not set {name}, which the client writes itself"));
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
    if let Some(authorization) = base.authorization()
        && headers.insert(AUTHORIZATION, authorization.clone()).is_some()
    {
        return Err("sets authorization, and so does the userinfo of base_url".to_owned());
    }
    for (name, value) in [
        (CONTENT_TYPE, "application/json"),
        (ACCEPT, "application/json"),
        (USER_AGENT, concat!("nexus-router-adapter-http/", env!("CARGO_PKG_VERSION"))),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    Ok(headers)
}

/// Any header of the configuration may hold a secret, so another origin gets only these.
fn foreign(headers: &HeaderMap) -> HeaderMap {
    let kept = [CONTENT_TYPE, ACCEPT, USER_AGENT];
    kept.into_iter().filter_map(|name| Some((name.clone(), headers.get(&name)?.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(config: Value) -> Result<Settings, AdapterError> {
        serde_json::from_value::<Config>(config).expect("known keys").check()
    }

    fn with(key: &str, value: Value) -> Result<Settings, AdapterError> {
        let mut config = json!({ "base_url": "http://h.example" });
        config[key] = value;
        check(config)
    }

    #[test]
    fn defaults_are_those_of_the_manifest() {
        let manifest = nexus_router_sdk::testing::manifest(&crate::MANIFEST);
        let mut filled = json!({ "base_url": "http://h.example" });
        for (key, entry) in manifest["config_schema"].as_object().unwrap() {
            assert_ne!(entry["description"], "", "{key}");
            if let Some(default) = entry.get("default") {
                filled[key] = default.clone();
            }
        }
        let filled = format!("{:?}", check(filled).unwrap());
        let bare = check(json!({ "base_url": "http://h.example" })).unwrap();
        assert_eq!(format!("{bare:?}"), filled);
        assert_eq!(bare.timeout_s.to_string(), "30.0");
        assert_eq!(bare.max_response_bytes, 10 << 20);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for (key, values) in [
            ("timeout_s", vec![json!(0), json!(-1), json!(1e300), json!(1e-12), json!(86_401)]),
            ("max_response_bytes", vec![json!(0), json!(1.5), json!(-1), json!(1e300)]),
            ("follow_redirects", vec![json!(-1), json!(21), json!(0.5)]),
            ("pool_max_idle", vec![json!(-1), json!(1025)]),
        ] {
            for value in values {
                let error = with(key, value.clone()).expect_err(key);
                assert_eq!(
                    (error.code.as_str(), &error.details["key"]),
                    ("CONFIG_REJECTED", &json!(key))
                );
            }
        }
        assert_eq!(with("max_response_bytes", json!(1e6)).unwrap().max_response_bytes, 1_000_000);
        assert_eq!(with("timeout_s", json!(5)).unwrap().timeout_s.to_string(), "5");
    }

    #[test]
    fn some_calls_may_live_elsewhere_below_the_base() {
        let settings = with("paths", json!({ "web.search": "/search" })).unwrap();
        let path = |tool, method| settings.endpoint(tool, method).unwrap().path().to_owned();
        assert_eq!(path("web", "search"), "/search");
        assert_eq!(path("web", "find"), "/web/find");
        for wrong in [json!({ "search": "x" }), json!({ "a.b": 1 }), json!({ "a.b": "../x" })] {
            let error = with("paths", wrong).unwrap_err();
            assert_eq!(
                (error.code.as_str(), &error.details["key"]),
                ("CONFIG_REJECTED", &json!("paths"))
            );
        }
    }

    #[test]
    fn only_two_methods_are_known() {
        assert_eq!(with("http_method", json!("GET")).unwrap().http_method, Method::GET);
        for wrong in [json!("get"), json!("DELETE"), json!(1)] {
            let error = with("http_method", wrong).unwrap_err();
            assert_eq!(error.code, code::CONFIG_REJECTED);
        }
    }

    #[test]
    fn header_names_are_compared_without_case() {
        let given = with("headers", json!({ "ACCEPT": "a/b", "x-KEY": "ü" })).unwrap();
        assert_eq!(given.headers[ACCEPT], "a/b");
        assert_eq!(given.headers["x-key"].as_bytes(), "ü".as_bytes());
        assert_eq!(given.headers.len(), 4);
        assert_eq!(given.foreign_headers.len(), 3);
        assert!(given.foreign_headers.get("x-key").is_none());
    }

    #[test]
    fn bad_headers_are_refused_without_their_value() {
        for headers in [
            json!({ "X-Key": 98765 }),
            json!({ "X-Key": ["98765"] }),
            json!({ "X-Key": "98765\r\nEvil: 1" }),
            json!({ "X Key": "98765" }),
            json!({ "": "98765" }),
            json!({ "X-Key": "98765", "x-key": "98765" }),
            json!({ "Content-Length": "98765" }),
            json!({ "transfer-encoding": "98765" }),
        ] {
            let error = with("headers", headers).unwrap_err();
            let text = serde_json::to_string(&error).unwrap();
            assert!(error.code == code::CONFIG_REJECTED && !text.contains("98765"), "{text}");
        }
    }

    #[test]
    fn two_authorizations_are_refused() {
        let base_url = "http://u:secret@h";
        let error = check(json!({ "base_url": base_url, "headers": { "authorization": "x" } }));
        assert!(error.unwrap_err().message.contains("userinfo"));
        assert!(
            check(json!({ "base_url": base_url })).unwrap().headers.contains_key(AUTHORIZATION)
        );
    }

    #[test]
    fn the_host_of_the_base_must_be_allowed() {
        assert!(with("allowed_hosts", json!(["other", "H.EXAMPLE"])).is_ok());
        for hosts in [json!([]), json!(["other"]), json!(["h.example:80"]), json!([1])] {
            assert_eq!(with("allowed_hosts", hosts).unwrap_err().code, code::CONFIG_REJECTED);
        }
    }

    #[test]
    fn a_base_url_of_another_type_is_refused_without_quoting_it() {
        let error = with("base_url", json!({ "password": "secret" })).unwrap_err();
        assert_eq!(error.message, "config.base_url must be a string");
    }
}
