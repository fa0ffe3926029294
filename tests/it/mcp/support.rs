//! A client of MCP that hides nothing: requests that stand alone, and sessions.

use serde_json::{Value, json};

use crate::daemon::client::{Ask, Response, Wire};
use crate::daemon::support::Daemon;

/// An adapter that serves what the conformance suite calls, one that echoes, and tools of both.
pub const ADAPTERS: &str = r#"
default_adapter = "echo"
[[adapters]]
ref = "nexus_router_adapter_echo:create_adapter"
[[adapters]]
ref = "probe_adapters:many_calls"
id = "many"
[[adapters]]
ref = "conformance_adapter:create_adapter"
id = "conformance"
timeout_ms = 90000
[adapters.offer]
tools = ["*"]
resources = ["*"]
prompts = ["*"]
[[tools]]
name = "greet"
title = "Greet"
description = "Greets somebody."
adapter = "echo"
method = "hello"
input_schema = { type = "object", required = ["name"], properties = { name = { type = "string" } } }
[[tools]]
name = "hold"
description = "Holds the call."
adapter = "many"
tool = "t"
method = "hold"
[server]
requests_per_second = 0
"#;

/// The extension by which clients follow tasks.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Returns what every request of the stateless era says of its client.
pub fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// The capabilities of a client that follows tasks and answers questions.
pub fn able() -> Value {
    json!({ "elicitation": {}, "extensions": { TASKS: {} } })
}

/// Begins a request of the stateless era, with the headers that belong to it.
pub fn modern<'a>(daemon: &'a Daemon, method: &str, mut params: Value, client: &Value) -> Ask<'a> {
    let mut said = meta(client);
    if let Some(more) = params.get("_meta").and_then(Value::as_object) {
        for (key, value) in more {
            said[key] = value.clone();
        }
    }
    params["_meta"] = said;
    let name = ["name", "uri", "taskId"].into_iter().find_map(|key| params[key].as_str());
    let ask =
        plain(daemon, &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
            .header("MCP-Protocol-Version", "2026-07-28")
            .header("Mcp-Method", method);
    match name {
        Some(name) => ask.header("Mcp-Name", name),
        None => ask,
    }
}

/// Begins a request with a message as it is.
pub fn plain<'a>(daemon: &'a Daemon, message: &Value) -> Ask<'a> {
    daemon
        .post("/mcp", message)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
}

/// Sends a request, and returns all messages of the answer.
pub fn messages(ask: &Ask<'_>) -> Vec<Value> {
    read(&ask.begin().response())
}

/// Returns the messages of an answer, whether it is one or a stream.
pub fn read(response: &Response) -> Vec<Value> {
    let text = response.text();
    if response.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        return data.filter(|data| !data.is_empty()).map(parsed).collect();
    }
    vec![parsed(&text)]
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

/// Sends a request, and returns the last message, which is the answer.
pub fn answer(ask: &Ask<'_>) -> Value {
    messages(ask).pop().expect("an answer")
}

/// Calls a method of the stateless era, which must give a result.
pub fn result(daemon: &Daemon, method: &str, params: Value, client: &Value) -> Value {
    let answer = answer(&modern(daemon, method, params, client));
    assert!(answer["error"].is_null(), "{method}: {answer}");
    answer["result"].clone()
}

/// Calls a tool of the stateless era without any capability.
pub fn call(daemon: &Daemon, name: &str, arguments: &Value) -> Value {
    result(daemon, "tools/call", json!({ "name": name, "arguments": arguments }), &json!({}))
}

/// A session of the older era.
pub struct Session<'a> {
    daemon: &'a Daemon,
    token: String,
    pub id: String,
}

impl<'a> Session<'a> {
    /// Opens a session in the name of a token.
    pub fn open(daemon: &'a Daemon, token: &str) -> Self {
        let response = hello(daemon).by(token).begin().response();
        let id = response.header("mcp-session-id").expect("a session").to_owned();
        let session = Self { daemon, token: token.to_owned(), id };
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.send(&ready).begin().response().status, 202);
        session
    }

    /// Begins a message of the session.
    pub fn send(&self, message: &Value) -> Ask<'a> {
        self.with(plain(self.daemon, message))
    }

    fn with(&self, ask: Ask<'a>) -> Ask<'a> {
        ask.by(&self.token)
            .header("Mcp-Session-Id", &self.id)
            .header("MCP-Protocol-Version", "2025-11-25")
    }

    /// Begins a request of the session.
    pub fn ask(&self, method: &str, params: &Value) -> Ask<'a> {
        self.send(&json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }))
    }

    /// Opens the stream of what the session is told besides answers.
    pub fn stream(&self) -> Wire {
        let ask = self.daemon.get("/mcp").header("Accept", "text/event-stream");
        let mut wire = self.with(ask).begin();
        assert_eq!(wire.head().status, 200);
        wire
    }

    /// Ends the session.
    pub fn end(&self) -> u16 {
        self.with(self.daemon.ask("DELETE", "/mcp")).begin().response().status
    }
}

/// Begins the handshake of the older era.
pub fn hello(daemon: &Daemon) -> Ask<'_> {
    plain(
        daemon,
        &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } } }),
    )
}

/// Waits on a stream for a message of a method, and returns all methods until then.
pub fn heard(wire: &mut Wire, method: &str) -> Vec<String> {
    let mut methods = Vec::new();
    loop {
        let chunk = wire.chunk().expect("the stream ended");
        for line in String::from_utf8(chunk).unwrap().lines() {
            let Some(data) = line.strip_prefix("data: ").filter(|data| !data.is_empty()) else {
                continue;
            };
            let message = parsed(data);
            methods.push(message["method"].as_str().unwrap_or_default().to_owned());
            if message["method"] == method {
                return methods;
            }
        }
    }
}

/// Returns the runs of a daemon, the newest first.
pub fn runs(daemon: &Daemon) -> Vec<Value> {
    let runs = daemon.get("/v1/runs?limit=1000").ok();
    runs["runs"].as_array().unwrap().clone()
}
