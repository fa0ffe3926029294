//! Memory of the daemon after attacks on it, and the time of a well-behaved client during them.
//!
//! `cargo bench --bench attacks` starts a daemon for each attack and prints its peak memory (VmHWM), its memory some
//! time later, and the p99 of small runs of another client. `-- --smoke` only shows that everything runs.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

#[allow(dead_code, unreachable_pub, reason = "benchmarks share it, and each needs a part")]
#[path = "daemon.rs"]
mod daemon;

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use daemon::Daemon;

const ADAPTERS: &str = "[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\n\
    [[adapters]]\nref = \"probe_adapters:sized\"\n";
const PLAN: &str = r#"{"goal":"bench","plan_override":[{"step_id":"s0","intent":"do","call":{"tool":"files","method":"read","args":{"path":"/tmp/a.txt"}}}]}"#;
/// Time until memory that was returned is not counted any more.
const AFTERWARDS: Duration = Duration::from_millis(500);

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let scale = if smoke { 100 } else { 1 };
    attack("48 unread GETs of a 16.7 MB run", smoke, |daemon| {
        let run_id = run(daemon, &plan(1, 16_700_000 / scale));
        let request = format!("GET /v1/runs/{run_id} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        (0..48).map(|_| send(daemon, request.as_bytes())).collect()
    });
    attack("48 unread POSTs with answers of 16.7 MB", smoke, |daemon| {
        let request = post("/v1/runs", &plan(1, 16_700_000 / scale));
        (0..48).map(|_| send(daemon, &request)).collect()
    });
    attack("plan of 60 steps with 9.4 MB each, and its GET", smoke, |daemon| {
        let run_id = run(daemon, &plan(60, 9_400_000 / scale));
        let request = format!(
            "GET /v1/runs/{run_id} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        );
        let mut stream = send(daemon, request.as_bytes());
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
        Vec::new()
    });
    attack("MCP message of 8 M zeros", smoke, |daemon| {
        let zeros = "0,".repeat(8_000_000 / scale);
        let message = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"x\",\
             \"arguments\":{{\"a\":[{zeros}0]}}}}}}"
        );
        drop(answer(send(daemon, &post("/mcp", &message))));
        Vec::new()
    });
    attack("16 bodies of 16 MiB that do not arrive", smoke, |daemon| {
        let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                    content-length: 16777216\r\n\r\n{";
        (0..16).map(|_| send(daemon, head.as_bytes())).collect()
    });
}

fn attack(name: &str, smoke: bool, begin: impl Fn(&Daemon) -> Vec<TcpStream> + Sync) {
    let directory = tempfile::tempdir().unwrap();
    let db = directory.path().join("runs.db");
    let daemon = Daemon::start(directory.path(), db.to_str().unwrap(), ADAPTERS);
    let idle = daemon.resident_mb();
    let small = [post("/v1/runs", PLAN)];
    let requests = if smoke { 10 } else { 2000 };
    let (open, load) = std::thread::scope(|scope| {
        let open = scope.spawn(|| begin(&daemon));
        let load = daemon.load(&small, requests);
        (open.join().unwrap(), load)
    });
    let later = daemon.load(&small, requests);
    let p99 = load.p99.max(later.p99);
    drop(open);
    std::thread::sleep(AFTERWARDS);
    let (peak, after) = (daemon.peak_mb(), daemon.resident_mb());
    println!(
        "{name:<50} idle {idle:6.1} MB  peak {peak:6.1} MB  after {after:6.1} MB  p99 {p99:.1?}  \
         (goals: peak 400 MB, p99 100 ms)"
    );
}

/// Returns a plan of steps that answer so many bytes each.
fn plan(steps: usize, bytes: usize) -> String {
    let mut text = String::from(
        "{\"goal\":\"g\",\"mode\":\"apply\",\"policy\":{\"allow_apply\":true},\
         \"dispatch\":{\"adapter_id\":\"sized\"},\"plan_override\":[",
    );
    for step in 0..steps {
        let comma = if step > 0 { "," } else { "" };
        let call = format!("{{\"tool\":\"t\",\"method\":\"m\",\"args\":{{\"bytes\":{bytes}}}}}");
        write!(text, "{comma}{{\"step_id\":\"s{step}\",\"intent\":\"\",\"call\":{call}}}").unwrap();
    }
    text + "]}"
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + body).into_bytes()
}

fn send(daemon: &Daemon, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(daemon.address).unwrap();
    stream.write_all(request).unwrap();
    stream
}

/// Carries out a plan, and returns the id of its run.
fn run(daemon: &Daemon, plan: &str) -> String {
    let head = answer(send(daemon, &post("/v1/runs", plan)));
    let (_, id) = head.split_once("location: /v1/runs/").unwrap();
    id.lines().next().unwrap().trim().to_owned()
}

/// Reads an answer to its end, and returns its head.
fn answer(mut stream: TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.trim().parse::<u64>().unwrap());
    std::io::copy(&mut stream.take(length), &mut std::io::sink()).unwrap();
    head
}
