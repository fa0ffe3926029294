//! Reads the text of a call that wants an answer and nothing else. Anything else is none.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};
use rmcp::model::{ClientCapabilities, JsonObject, ProtocolVersion, RequestId};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::Era;
use crate::mcp::STATELESS;
use crate::trace::TraceContext;

const METHOD: &str = "tools/call";
const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// What such a call says.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: RequestId,
    pub(super) era: Era,
    pub(super) name: String,
    pub(super) arguments: Option<JsonObject>,
    pub(super) key: Option<String>,
    pub(super) trace: Option<TraceContext>,
}

impl Call {
    pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        let accept = headers.get(ACCEPT)?.to_str().ok()?;
        let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
        if !accept.contains("application/json")
            || !accept.contains("text/event-stream")
            || !kind.starts_with("application/json")
        {
            return None;
        }
        let Members(message) = serde_json::from_slice::<Members<Message<'_>>>(body).ok()?;
        let Members(Params { name, arguments, meta }) = message.params;
        let Members(meta) = meta.unwrap_or_default();
        if message.jsonrpc != "2.0" || message.method != METHOD || meta.wants_to_hear() {
            return None;
        }
        let version = sole(headers, &VERSION_HEADER)?;
        let era = match meta.version.as_deref() {
            Some(STATELESS) => {
                let said = [version, sole(headers, &METHOD_HEADER)?, sole(headers, &NAME_HEADER)?];
                let meant = [Some(STATELESS), Some(METHOD), Some(&*name)];
                let client = meta.capabilities.filter(|client| !client.supports_tasks());
                (said == meant && client.is_some()).then_some(Era::Stateless)?
            }
            Some(_) => return None,
            None => {
                let known = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str);
                let mut older = known.filter(|known| *known < STATELESS);
                version
                    .is_none_or(|said| older.any(|known| known == said))
                    .then_some(Era::Sessions)?
            }
        };
        Some(Self {
            id: message.id,
            era,
            name: name.into_owned(),
            arguments,
            key: meta.key.map(Cow::into_owned),
            trace: meta.traceparent.as_deref().and_then(TraceContext::parse).map(|it| it.child()),
        })
    }
}

/// Returns the value of a header, which may be absent; none if it stands twice or is no text.
#[expect(clippy::option_option, reason = "absent and unfit are two things")]
fn sole<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Some(None),
        (Some(value), None) => value.to_str().ok().map(Some),
        (Some(_), Some(_)) => None,
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    id: RequestId,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Members<Params<'a>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Params<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    arguments: Option<JsonObject>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<Members<Meta<'a>>>,
}

/// What the protocol and the router know of a request's `_meta`. Whatever else is there is for others.
#[derive(Default, serde::Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
    #[serde(default, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<ClientCapabilities>,
    #[serde(default, rename = "io.modelcontextprotocol/logLevel")]
    level: Option<IgnoredAny>,
    #[serde(default, rename = "progressToken")]
    progress: Option<IgnoredAny>,
    #[serde(borrow, default, rename = "nexus-router/idempotencyKey")]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    traceparent: Option<Cow<'a, str>>,
}

impl Meta<'_> {
    const fn wants_to_hear(&self) -> bool {
        self.level.is_some() || self.progress.is_some()
    }
}

/// Something that is written as an object. A list would be taken for its members in their order.
#[derive(Default)]
struct Members<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(Object(PhantomData)).map(Members)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::{Value, json};

    use super::*;

    const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    const CLIENT: &str = "io.modelcontextprotocol/clientCapabilities";

    fn headers(more: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in more {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn stateless() -> HeaderMap {
        headers(&[
            ("mcp-protocol-version", STATELESS),
            ("mcp-method", METHOD),
            ("mcp-name", "greet"),
        ])
    }

    fn message(meta: &Value) -> Value {
        let params = json!({ "name": "greet", "arguments": { "a": 1 }, "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": 1, "method": METHOD, "params": params })
    }

    fn read(headers: &HeaderMap, message: &Value) -> Option<Call> {
        Call::read(headers, message.to_string().as_bytes())
    }

    #[test]
    fn a_call_that_is_written_as_it_should_be_is_read() {
        let meta = json!({ VERSION: STATELESS, CLIENT: {}, "nexus-router/idempotencyKey": "k",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "other": [1] });
        let call = read(&stateless(), &message(&meta)).unwrap();
        assert_eq!((call.era, call.name.as_str()), (Era::Stateless, "greet"));
        assert_eq!((call.id, call.key.as_deref()), (RequestId::Number(1), Some("k")));
        assert_eq!(call.trace.unwrap().trace_id_text(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(Value::from(call.arguments.unwrap()), json!({ "a": 1 }));
        for version in [&[][..], &[("mcp-protocol-version", "2025-06-18")]] {
            let call = read(&headers(version), &message(&json!({}))).unwrap();
            assert_eq!(call.era, Era::Sessions);
        }
    }

    #[test]
    fn what_is_anything_else_is_left_to_the_library() {
        let meta = json!({ VERSION: STATELESS, CLIENT: {} });
        assert!(read(&stateless(), &message(&meta)).is_some());
        for (key, value) in [
            (VERSION, json!("2027-01-01")),
            (VERSION, json!(1)),
            (VERSION, json!(null)),
            (CLIENT, json!(null)),
            (CLIENT, json!([])),
            (CLIENT, json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })),
            ("progressToken", json!(0)),
            ("io.modelcontextprotocol/logLevel", json!("info")),
            ("traceparent", json!(1)),
        ] {
            let mut meta = meta.clone();
            meta[key] = value;
            assert!(read(&stateless(), &message(&meta)).is_none(), "{meta}");
        }
        for (pointer, value) in [
            ("/jsonrpc", json!("1.0")),
            ("/id", json!(null)),
            ("/method", json!("tools/list")),
            ("/params", json!(["greet", {}, meta])),
            ("/params/name", json!("other")),
            ("/params/arguments", json!([])),
            ("/params/_meta", json!([STATELESS, {}])),
        ] {
            let mut message = message(&meta);
            *message.pointer_mut(pointer).unwrap() = value;
            assert!(read(&stateless(), &message).is_none(), "{message}");
        }
        for (place, key) in [("", "more"), ("/params", "task"), ("/params", "requestState")] {
            let mut message = message(&meta);
            message.pointer_mut(place).unwrap()[key] = json!({});
            assert!(read(&stateless(), &message).is_none(), "{message}");
        }
        let text = message(&meta).to_string();
        assert!(Call::read(&stateless(), format!("[{text}]").as_bytes()).is_none());
        assert!(
            Call::read(&stateless(), text.replace("{\"jsonrpc", "{\"id\":2,\"jsonrpc").as_bytes())
                .is_none()
        );
    }

    #[test]
    fn headers_that_say_something_else_are_left_to_the_library() {
        let alone = message(&json!({ VERSION: STATELESS, CLIENT: {} }));
        for name in ["mcp-protocol-version", "mcp-method", "mcp-name", "accept", "content-type"] {
            let mut gone = stateless();
            gone.remove(name);
            assert!(read(&gone, &alone).is_none(), "{name}");
            let mut other = stateless();
            other.insert(name, HeaderValue::from_static("other"));
            assert!(read(&other, &alone).is_none(), "{name}");
        }
        for name in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
            let mut twice = stateless();
            twice.append(name, twice[name].clone());
            assert!(read(&twice, &alone).is_none(), "{name}");
        }
        for version in [STATELESS, "2025-01-01", "é"] {
            let mut headers = headers(&[]);
            headers.insert("mcp-protocol-version", HeaderValue::from_str(version).unwrap());
            assert!(read(&headers, &message(&json!({}))).is_none(), "{version}");
        }
    }
}
