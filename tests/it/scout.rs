//! Scouts at work: what they retrieve goes through the router, and everything they do leaves evidence.

mod crowd;
mod hostile;
mod lacking;
mod mcp;
mod retrieving;
mod revoked;
mod rules;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use nexus_router::access::{NewToken, Scope};
use nexus_router::role::Role;
use nexus_router::seal::trust_path;
use serde_json::{Value, json};

use crate::daemon::support::{Daemon, Stage, plan};

/// What the service wants to see, and no scout ever sees.
pub const KEY: &str = "library-key-7391";

/// A service of documents, and what it was asked.
pub struct Service {
    pub address: SocketAddr,
    pub asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Service {
    /// Answers until the test ends.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let heard = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), heard) = (stream, Arc::clone(&heard)) else { return };
                std::thread::spawn(move || converse(stream, &heard));
            }
        });
        Self { address, asked }
    }

    pub fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }
}

/// Serves a connection until it is closed.
fn converse(stream: TcpStream, heard: &Mutex<Vec<(String, Value)>>) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        let (mut path, mut length, mut known) = (String::new(), 0, false);
        while reader.read_line(&mut line).unwrap_or(0) > 2 {
            let lower = line.to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("POST ") {
                path = rest.split(' ').next().unwrap_or_default().to_owned();
            } else if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            } else if lower.starts_with("authorization:") {
                known = line.trim_end().ends_with(KEY);
            }
            line.clear();
        }
        if path.is_empty() {
            return;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let args: Value = serde_json::from_slice(&body).unwrap_or_default();
        let number = {
            let mut heard = heard.lock().unwrap();
            heard.push((path.clone(), args.clone()));
            heard.len()
        };
        let (status, answer) = if known { answer(&path, &args, number) } else { (401, json!({})) };
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        if reader.get_mut().write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}

/// Answers with what is the same every time, and with what is not.
fn answer(path: &str, args: &Value, number: usize) -> (u16, Value) {
    let hit = |n: usize| json!({ "url": format!("https://{n}.example/"), "title": format!("Hit {n}"), "snippet": args["q"] });
    match path {
        "/documents/get" => (
            200,
            json!({ "text": format!("Document {}", args["id"]), "language": args["language"],
                "request_id": format!("r{number}"), "meta": { "served": number },
                "key": format!("you sent Bearer {KEY}, and the key is {KEY}") }),
        ),
        "/index/search" => (200, json!({ "hits": [hit(2), hit(1), hit(3)], "took": number })),
        "/data/rows" => (200, json!({ "rows": [[1, "a"], [2, "b"]], "created_at": number })),
        "/documents/slow" => {
            std::thread::sleep(std::time::Duration::from_secs(20));
            (200, json!({}))
        }
        "/documents/notes" => (
            200,
            json!({ "text": "The password: hunter2 applies.", "model": "m1", "cost": 3,
                "seed": number, "meta": { "served": number } }),
        ),
        "/documents/large" => (200, json!({ "text": "x".repeat(9 << 20) })),
        _ => (503, json!({ "message": "closed" })),
    }
}

/// Returns a configuration with a scout, and with an adapter that asks what it is told to.
pub fn config(service: &Service) -> String {
    let source = |name: &str, class: &str, tool: &str, method: &str, more: &str| {
        format!(
            "[[adapters.sources]]\nname = \"{name}\"\nadapter = \"library\"\ntool = \"{tool}\"\n\
             method = \"{method}\"\naction_class = \"{class}\"\n{more}\n"
        )
    };
    let sources = [
        source(
            "docs",
            "doc_retrieval",
            "documents",
            "get",
            "args = { language = \"en\" }\nvolatile = [\"/meta/served\"]",
        ),
        source("slow", "doc_retrieval", "documents", "slow", ""),
        source("closed", "doc_retrieval", "documents", "closed", ""),
        source("large", "doc_retrieval", "documents", "large", ""),
        source("notes", "doc_retrieval", "documents", "notes", "volatile = [\"/meta/served\"]"),
        source("web", "web_search", "index", "search", "volatile = [\"/took\"]"),
        source("rows", "data_lookup", "data", "rows", ""),
    ]
    .concat();
    let address = service.address;
    format!(
        r#"
default_adapter = "scout"
[[adapters]]
id = "scout"
ref = "nexus_router_adapter_scout:create_adapter"
role = "scout"
offer = {{ tools = ["*"], prefix = "scout." }}
config = {{ searches = {{ web = {{ query = "q", hits = "/hits" }} }} }}
{sources}
[[adapters]]
id = "asker"
ref = "probe_adapters:asker"
role = "scout"
offer = {{ tools = ["*"] }}
{sources}
[[adapters]]
id = "library"
ref = "nexus_router_adapter_http:create_adapter"
config = {{ base_url = "http://{address}", headers = {{ authorization = "Bearer {KEY}" }}, max_response_bytes = 100000000 }}
grants = {{ connect = ["{address}"] }}
[[adapters]]
id = "echo"
ref = "nexus_router_adapter_echo:create_adapter"
"#
    )
}

/// Starts a daemon with tokens for both roles.
pub fn daemon(config: &str) -> Daemon {
    let mut stage = Stage::new(config);
    for role in Role::ALL {
        stage.token_as(NewToken {
            name: role.name().to_owned(),
            scope: Scope::Apply,
            role: Some(role),
            sees: nexus_router::access::Visibility::Own,
            expires_at: None,
        });
    }
    stage.start(&[])
}

/// Makes the request for a run of one step.
pub fn request(adapter_id: &str, tool: &str, args: Value) -> Value {
    let mut plan = plan(adapter_id, tool, "call");
    plan["plan_override"][0]["call"]["args"] = args;
    plan
}

/// Has a scout do something, and returns the run.
pub fn run(daemon: &Daemon, adapter_id: &str, tool: &str, args: Value) -> Value {
    daemon.post("/v1/runs", &request(adapter_id, tool, args)).by("scout").send().json()
}

/// Returns the directory of the evidence of a run's only step.
pub fn evidence(daemon: &Daemon, run: &Value) -> PathBuf {
    let run_id = run["run"]["run_id"].as_str().unwrap_or_else(|| panic!("{run}"));
    daemon.stage.path("data/sealed/evidence").join(run_id).join("step-1")
}

/// Returns the log of what a run's only step asked for.
pub fn broker_log(daemon: &Daemon, run: &Value) -> Vec<Value> {
    let file = evidence(daemon, run).join("outputs/broker.jsonl");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asserts that everything sealed is genuine.
pub fn assert_genuine(daemon: &Daemon) {
    let root = daemon.stage.path("data/sealed");
    let mut command = daemon.stage.program();
    command.args(["evidence", "verify", "--trust"]).arg(trust_path(&root)).arg(&root);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
}
