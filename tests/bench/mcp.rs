//! What calls cost over MCP, beside a bare server of the same library in the same run.
//!
//! `cargo bench --bench mcp` starts both servers as processes of their own and prints one line per figure
//! with its goal; `-- --smoke` only shows that everything runs. `NEXUS_ROUTER_BENCH_DIR` names the directory
//! whose disk is measured.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and fails loudly"
)]

#[allow(dead_code, unreachable_pub, reason = "two benchmarks share it, and each needs a part")]
#[path = "daemon.rs"]
mod daemon;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use daemon::{Daemon, Load, ask, load, told};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};

const CLIENTS: usize = 32;
/// The argument with which this program is the bare server.
const BARE: &str = "--bare-server";

/// Tools of three adapters: in the router's process, in a worker, and in a worker with effects outside, so
/// that a call is on disk before it is made and before it is answered.
const TOOLS: &str = r#"
[[adapters]]
ref = "nexus_router_adapter_echo:create_adapter"
id = "inline"
isolation = "inline"
[[adapters]]
ref = "nexus_router_adapter_echo:create_adapter"
id = "worker"
[[adapters]]
ref = "probe_adapters:fake"
id = "external"
isolation = "inline"
config = { capabilities = ["apply", "external"] }
[[tools]]
name = "inline"
description = "Echoes."
adapter = "inline"
method = "echo"
[[tools]]
name = "worker"
description = "Echoes."
adapter = "worker"
method = "echo"
[[tools]]
name = "external"
description = "Echoes."
adapter = "external"
method = "echo"
"#;

fn main() {
    if std::env::args().any(|argument| argument == BARE) {
        return serve_bare();
    }
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let calls = if smoke { 320 } else { 60_000 };
    let directory = match std::env::var_os("NEXUS_ROUTER_BENCH_DIR") {
        Some(base) => tempfile::tempdir_in(base).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let place = directory.path();
    let bare = Bare::start();
    let router = Daemon::start(place, ":memory:", TOOLS);
    for era in [Era::Sessions, Era::Stateless] {
        beside(era, &bare, &router, calls);
    }
    drop((bare, router));
    durable(place, calls);
}

/// How a call is written.
#[derive(Clone, Copy)]
enum Era {
    /// 2025-11-25: each client has a session, and gets a stream.
    Sessions,
    /// 2026-07-28: each request stands alone, and gets an answer.
    Stateless,
}

impl Era {
    const fn name(self) -> &'static str {
        match self {
            Self::Sessions => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }

    /// Makes the request of each client, with a session for it if it needs one.
    fn requests(self, address: SocketAddr, tool: &str, clients: usize) -> Vec<Vec<u8>> {
        (0..clients).map(|_| self.request(address, tool)).collect()
    }

    fn request(self, address: SocketAddr, tool: &str) -> Vec<u8> {
        let mut params = json!({ "name": tool, "arguments": { "path": "/tmp/a.txt" } });
        match self {
            Self::Stateless => {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                let headers = format!(
                    "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"
                );
                post(&headers, &call("tools/call", &params))
            }
            Self::Sessions => {
                let hello = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": { "name": "bench", "version": "1" },
                });
                let answer = ask(address, &post("", &call("initialize", &hello)));
                let session = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
                let session = session.unwrap_or_else(|| panic!("no session: {answer}")).trim();
                let headers =
                    format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
                let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
                let answer = ask(address, &post(&headers, &ready));
                assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
                post(&headers, &call("tools/call", &params))
            }
        }
    }
}

fn call(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn post(headers: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Calls with the store in memory, beside the bare server.
fn beside(era: Era, bare: &Bare, router: &Daemon, calls: usize) {
    let name = era.name();
    let of_bare =
        |clients, calls| load(bare.address, &era.requests(bare.address, "echo", clients), calls);
    let of_router =
        |tool, clients, calls| router.load(&era.requests(router.address, tool, clients), calls);
    // Each path is warmed before anything is measured.
    of_bare(CLIENTS, calls / 10);
    of_router("inline", CLIENTS, calls / 10);
    let one: Load = of_bare(1, calls / 10);
    told(&format!("{name} bare server, 1 client (baseline)"), &one, "");
    for tool in ["inline", "worker"] {
        let ours = of_router(tool, 1, calls / 10);
        let more = ours.p50.saturating_sub(one.p50).as_secs_f64() * 1e6;
        let note = format!("p50 +{more:.0} us; goal +300");
        told(&format!("{name} {tool} echo, memory, 1 client"), &ours, &note);
    }
    let many = of_bare(CLIENTS, calls);
    told(&format!("{name} bare server, 32 clients (baseline)"), &many, "");
    for tool in ["inline", "worker"] {
        let ours = of_router(tool, CLIENTS, calls);
        let ratio = ours.per_second / many.per_second;
        let note = format!("{ratio:.2} of bare; goal 0.50");
        told(&format!("{name} {tool} echo, memory, 32 clients"), &ours, &note);
    }
}

/// Calls with the store on disk.
fn durable(place: &Path, calls: usize) {
    let db = place.join("mcp.db");
    let router = Daemon::start(place, db.to_str().unwrap(), TOOLS);
    let era = Era::Stateless;
    let requests = |tool, clients| era.requests(router.address, tool, clients);
    router.load(&requests("inline", CLIENTS), calls / 10);
    for (tool, commits) in [("inline", "1 commit"), ("external", "2 commits")] {
        let one = router.load(&requests(tool, 1), calls / 20);
        let note = "goal p50 1000 us, floor 2500";
        told(&format!("durable {tool} echo ({commits}), 1 client"), &one, note);
        let many = router.load(&requests(tool, CLIENTS), calls);
        let note = "goal 5000, floor 2000";
        told(&format!("durable {tool} echo ({commits}), 32 clients"), &many, note);
    }
}

/// The bare server, in a process of its own.
struct Bare {
    child: Child,
    address: SocketAddr,
}

impl Bare {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(BARE)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, address: line.trim().parse().unwrap() }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A server with one tool and nothing else.
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(CallToolResult::structured(arguments).into())
    }
}

/// Serves it as the library's users do, but for the delay of small packets, and with plain answers where the
/// protocol has them.
fn serve_bare() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let config = StreamableHttpServerConfig::default().with_json_response(true);
        let sessions = Arc::new(LocalSessionManager::default());
        let service = StreamableHttpService::new(|| Ok(Echo), sessions, config);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let service = hyper_util::service::TowerToHyperService::new(service.clone());
            drop(tokio::spawn(async move {
                let io = hyper_util::rt::TokioIo::new(stream);
                let connection = hyper::server::conn::http1::Builder::new()
                    .timer(hyper_util::rt::TokioTimer::new())
                    .header_read_timeout(Duration::from_secs(3600))
                    .serve_connection(io, service);
                drop(connection.await);
            }));
        }
    });
}
