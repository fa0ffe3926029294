//! `nexus-router mcp`: nothing but the protocol on standard output, and gone when its client is.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::support::{ADAPTERS, meta};
use crate::daemon::support::Stage;

pub struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server {
    pub fn start(stage: &Stage, arguments: &[&str]) -> Self {
        let mut command: Command = stage.program();
        command.args(["mcp", "--config", "router.toml", "--data-dir", "data"]).args(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    pub fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn read(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.send(
            &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string(),
        );
        loop {
            let message = self.read();
            if message["id"] == 1 {
                return message;
            }
        }
    }

    /// Closes its input, and waits for its end.
    pub fn end(&mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn both_eras_are_spoken() {
    let stage = Stage::bare(ADAPTERS);
    let mut modern = Server::start(&stage, &[]);
    let params = json!({ "_meta": meta(&json!({})) });
    let info = modern.ask("server/discover", &params);
    assert!(info["result"]["capabilities"]["tools"].is_object(), "{info}");
    let greet =
        json!({ "name": "greet", "arguments": { "name": "Ada" }, "_meta": meta(&json!({})) });
    let answer = modern.ask("tools/call", &greet);
    assert_eq!(answer["result"]["structuredContent"]["args"]["name"], "Ada", "{answer}");
    assert_eq!(modern.end(), Some(0));

    let mut legacy = Server::start(&stage, &["--scope", "admin"]);
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    assert_eq!(legacy.ask("initialize", &hello)["result"]["protocolVersion"], "2025-11-25");
    legacy.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let list = legacy.ask("tools/list", &json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "nexus-router.run"), "{list}");
    assert_eq!(legacy.end(), Some(0));
}

#[test]
fn lines_that_are_nothing_do_not_end_it() {
    let stage = Stage::bare(ADAPTERS);
    let mut server = Server::start(&stage, &[]);
    let discover = json!({ "_meta": meta(&json!({})) });
    server.ask("server/discover", &discover);
    for line in ["", "{", "[]", "nonsense"] {
        server.send(line);
    }
    let mut answers = Vec::new();
    server.send(
        &json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": discover })
            .to_string(),
    );
    while answers.last().is_none_or(|last: &Value| last["id"] != 9) {
        answers.push(server.read());
    }
    assert!(answers.last().unwrap()["result"]["tools"].is_array());
    assert_eq!(server.end(), Some(0));
}

#[test]
fn who_says_nothing_leaves_nothing() {
    let stage = Stage::bare(ADAPTERS);
    assert_eq!(Server::start(&stage, &[]).end(), Some(0));
}
