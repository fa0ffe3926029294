//! A server for tests: tools that do what no server should, in both eras. It runs in the test program that is
//! started again for it, or behind a listener of the test.

use std::collections::HashMap;
use std::io::{BufRead as _, Write as _};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

/// The variable that makes a server of the test program: `legacy` or `modern`.
pub(crate) const ROLE: &str = "MCP_TEST_SERVER";

/// Tools of every server.
const TOOLS: &[&str] = &[
    "echo",
    "progress",
    "wait",
    "cancelled",
    "crash",
    "grow",
    "fail",
    "garbage",
    "giant",
    "flood",
    "murmur",
    "ask",
    "gone",
    "deaf",
    "sulk",
];

/// One server.
#[derive(Debug, Default)]
pub(crate) struct Server {
    modern: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    grown: bool,
    cancelled: Vec<Value>,
    /// Calls that are never answered.
    waiting: usize,
    /// Calls that wait for an answer of the client, by the id of the question.
    asking: HashMap<String, Value>,
    listening: Option<Value>,
    followed: Vec<Value>,
}

impl Server {
    pub(crate) fn new(modern: bool) -> Self {
        Self { modern, state: Mutex::default() }
    }

    /// Takes a message, and says what it has to say to it.
    pub(crate) fn take(&self, message: &Value, say: &mut dyn FnMut(Value)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (method, id, params) = (message["method"].as_str(), &message["id"], &message["params"]);
        let Some(method) = method else {
            if let Some(call) = id.as_str().and_then(|id| state.asking.remove(id)) {
                say(answer(&call, &text(&message["result"].to_string(), message)));
            }
            return;
        };
        let result = match method {
            "initialize" if !self.modern => json!({
                "protocolVersion": params["protocolVersion"], "serverInfo": about(), "capabilities": offers(),
            }),
            "server/discover" if self.modern => json!({
                "supportedVersions": ["2026-07-28"], "serverInfo": about(), "capabilities": offers(),
                "ttlMs": 0, "cacheScope": "private",
            }),
            "notifications/cancelled" => {
                state.cancelled.push(params["requestId"].clone());
                return;
            }
            "tools/list" => tools(&state, params),
            "tools/call" => {
                drop(state);
                return self.call(message, say);
            }
            "resources/list" => {
                json!({ "resources": [{ "uri": "test://a", "name": "a", "x-own": 1 }] })
            }
            "resources/templates/list" => json!({
                "resourceTemplates": [{ "uriTemplate": "test://{name}", "name": "any" }],
            }),
            "resources/read" if params["uri"] == "test://a" => json!({
                "contents": [{ "uri": "test://a", "text": "A" }],
            }),
            "resources/read" => return say(error(id, -32002, "Resource not found")),
            "resources/subscribe" if !self.modern => {
                say(answer(id, &json!({})));
                let params = json!({ "uri": params["uri"] });
                return say(notification("notifications/resources/updated", &params));
            }
            "resources/unsubscribe" if !self.modern => json!({}),
            "subscriptions/listen" if self.modern => {
                let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
                let wanted = &params["notifications"];
                say(notification(
                    "notifications/subscriptions/acknowledged",
                    &json!({ "notifications": wanted, "_meta": meta }),
                ));
                state.listening = Some(id.clone());
                state.followed =
                    wanted["resourceSubscriptions"].as_array().cloned().unwrap_or_default();
                for uri in &state.followed {
                    let params = json!({ "uri": uri, "_meta": meta });
                    say(notification("notifications/resources/updated", &params));
                }
                return;
            }
            "prompts/list" => {
                json!({ "prompts": [{ "name": "greet", "arguments": [{ "name": "who" }] }] })
            }
            "prompts/get" if params["name"] == "greet" => json!({
                "messages": [{ "role": "user", "content": { "type": "text", "text": params["arguments"] } }],
            }),
            "prompts/get" => return say(error(id, -32602, "Prompt not found")),
            "completion/complete" => {
                json!({ "completion": { "values": ["ada"], "total": 1, "hasMore": false } })
            }
            _ if id.is_null() => return,
            _ => return say(error(id, -32601, "Method not found")),
        };
        say(answer(id, &self.complete(result)));
    }

    /// Makes a result one of its era.
    fn complete(&self, mut result: Value) -> Value {
        if self.modern && result.get("resultType").is_none() {
            result["resultType"] = "complete".into();
        }
        result
    }

    fn call(&self, message: &Value, say: &mut dyn FnMut(Value)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (id, params) = (&message["id"], &message["params"]);
        let result = match params["name"].as_str().unwrap_or_default() {
            "echo" => text("you said", params),
            "grown" if state.grown => text("at last", params),
            "progress" => {
                for done in [1, 2, 2, 3] {
                    let params = json!({
                        "progressToken": params["_meta"]["progressToken"], "progress": done, "total": 3,
                        "message": "step",
                    });
                    say(notification("notifications/progress", &params));
                }
                let line = json!({ "level": "warning", "logger": "test", "data": "careful now" });
                say(notification("notifications/message", &line));
                text("done", params)
            }
            "wait" => {
                state.waiting += 1;
                return;
            }
            // It hears nothing any more, and lives on.
            "deaf" => loop {
                std::thread::park();
            },
            "cancelled" => {
                text("so many", &json!({ "waiting": state.waiting, "cancelled": state.cancelled.len() }))
            }
            "crash" => leave(9),
            "grow" => {
                state.grown = true;
                let params = match &state.listening {
                    Some(id) => json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": id } }),
                    None => json!({}),
                };
                say(notification("notifications/tools/list_changed", &params));
                text("grown", &json!({}))
            }
            "sulk" => {
                let mut result = text("not today; password: hunter2", params);
                result["isError"] = true.into();
                result
            }
            "fail" => {
                let error = json!({ "code": -32050, "message": "no luck", "data": { "dice": 3 } });
                return say(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
            "garbage" => return say(answer(id, &json!("nothing of use"))),
            "giant" => text(&"x".repeat(17 << 20), &json!({})),
            "flood" => {
                for _ in 0..100_000 {
                    say(notification("notifications/nothing", &json!({})));
                }
                text("still here", &json!({}))
            }
            "murmur" => {
                let token = std::env::var("TOKEN").unwrap_or_default();
                eprintln!("a murmur of {token}");
                text("hush", &json!(std::env::vars().map(|(name, _)| name).collect::<Vec<_>>()))
            }
            "gone" => return say(error(id, -32602, "Unknown tool: gone")),
            "ask" if self.modern => match params.get("inputResponses") {
                Some(responses) => {
                    text("thanks", &json!({ "got": responses, "state": params["requestState"] }))
                }
                None if params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["elicitation"].is_null() => {
                    let data = json!({ "requiredCapabilities": { "elicitation": {} } });
                    let error = json!({ "code": -32021, "message": "cannot ask", "data": data });
                    return say(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                }
                None => json!({
                    "resultType": "input_required",
                    "inputRequests": { "who": { "method": "elicitation/create", "params": { "message": "who?" } } },
                    "requestState": "sealed",
                }),
            },
            "ask" => {
                state.asking.insert("q".to_owned(), id.clone());
                let schema = json!({ "type": "object", "properties": {} });
                let params = json!({ "message": "who?", "requestedSchema": schema });
                return say(json!({
                    "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params,
                }));
            }
            _ => return say(error(id, -32602, "Unknown tool")),
        };
        say(answer(id, &self.complete(result)));
    }
}

fn about() -> Value {
    json!({ "name": "test", "version": "1" })
}

fn offers() -> Value {
    json!({
        "tools": { "listChanged": true }, "prompts": {}, "completions": {}, "logging": {},
        "resources": { "subscribe": true },
    })
}

/// Lists tools in two pages, with members that no type knows.
fn tools(state: &State, params: &Value) -> Value {
    let grown = state.grown.then_some("grown");
    let all: Vec<Value> = TOOLS.iter().copied().chain(grown).map(|name| {
        let reads = name == "echo";
        json!({ "name": name, "inputSchema": { "type": "object" }, "icons": [{ "src": "i" }], "x-own": { "a": 1 },
            "annotations": { "readOnlyHint": reads } })
    }).collect();
    let (first, second) = all.split_at(5);
    if params["cursor"] == "more" {
        json!({ "tools": second, "ttlMs": 0, "cacheScope": "private" })
    } else {
        json!({ "tools": first, "nextCursor": "more", "ttlMs": 0, "cacheScope": "private" })
    }
}

fn text(text: &str, structured: &Value) -> Value {
    json!({
        "content": [{ "type": "text", "text": text, "x-own": 1 }, { "type": "hologram", "of": "tea" }],
        "structuredContent": structured, "_meta": { "test/a": 1 }, "x-own": [1.5, null],
    })
}

fn answer(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

fn notification(method: &str, params: &Value) -> Value {
    let mut message = Map::new();
    message.insert("jsonrpc".to_owned(), "2.0".into());
    message.insert("method".to_owned(), method.into());
    message.insert("params".to_owned(), params.clone());
    message.into()
}

/// Ends the process as a server does, which is not as a test does.
#[expect(clippy::exit, clippy::disallowed_methods, reason = "it is a program of its own")]
fn leave(status: i32) -> ! {
    std::process::exit(status)
}

/// Serves standard input and output, if the program was started for that. What the harness printed before
/// is what sloppy servers print, too.
pub(crate) fn serve_if_asked() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let server = Server::new(role == "modern");
    let mut output = std::io::stdout().lock();
    let mut say = |message: Value| {
        // Who has gone does not listen.
        if writeln!(output, "{message}").and_then(|()| output.flush()).is_err() {
            leave(0);
        }
    };
    say(Value::Null);
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        // It ends without a word, as some servers of the old era do.
        if role == "shy" && message["method"] == "server/discover" {
            leave(1);
        }
        server.take(&message, &mut say);
    }
    leave(0);
}
