//! What runs cost over HTTP, beside what the same machine does without it in the same run.
//!
//! `cargo bench --bench http` starts the daemon as a user would and prints one line per figure with its
//! goal; `-- --smoke` only shows that everything runs. `NEXUS_ROUTER_BENCH_DIR` names the directory whose
//! disk is measured.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and fails loudly"
)]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nexus_router::Registry;
use nexus_router::loader::Adapter;
use nexus_router::request::Request;
use nexus_router::router::{Options, Router};
use nexus_router::store::Store;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const CLIENTS: usize = 32;
const PLAN: &str = r#"{"goal":"bench","plan_override":[{"step_id":"s0","intent":"do","call":{"tool":"files","method":"read","args":{"path":"/tmp/a.txt"}}}]}"#;

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (runs, starts) = if smoke { (500, 2) } else { (100_000, 20) };
    let directory = match std::env::var_os("NEXUS_ROUTER_BENCH_DIR") {
        Some(base) => tempfile::tempdir_in(base).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let place = directory.path();
    let only = std::env::args().skip_while(|argument| argument != "--only").nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("start") {
        starting(place, starts);
    }
    if wanted("memory") {
        in_memory(place, runs);
    }
    if wanted("disk") {
        on_disk(place, runs);
    }
}

/// A daemon, started as a user would.
struct Daemon {
    child: Child,
    address: SocketAddr,
    ready: Duration,
}

impl Daemon {
    fn start(place: &Path, db: &str) -> Self {
        let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let config = place.join("router.toml");
        let text = format!(
            "adapter_path = [{built:?}]\n[server]\nrequests_per_second = 0\n\
             [[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\n",
        );
        std::fs::write(&config, text).unwrap();
        let started = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_nexus-router"))
            .args(["serve", "--listen", "127.0.0.1:0", "--no-tokens", "--db", db, "--config"])
            .arg(config)
            .arg("--data-dir")
            .arg(place.join("data"))
            .env("NEXUS_ROUTER_CACHE_DIR", place.join("cache"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.find_map(|line| {
            let line = line.unwrap();
            let at = line.find("http://")?;
            Some(line[at + 7..].split_whitespace().next()?.to_owned())
        });
        let ready = started.elapsed();
        Self { child, address: url.unwrap().parse().unwrap(), ready }
    }

    /// Returns the time that the daemon's threads have worked; other work on the machine is not in it.
    fn worked(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// Puts load on the daemon, and counts its work.
    fn load(&self, request: &[u8], clients: usize, requests: usize) -> Load {
        let before = self.worked();
        let load = load(self.address, request, clients, requests);
        let work = (self.worked() - before) / u32::try_from(requests).unwrap();
        Load { work, ..load }
    }

    fn resident_mb(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

struct Load {
    per_second: f64,
    p50: Duration,
    p99: Duration,
    /// What the daemon worked per request.
    work: Duration,
}

fn post() -> Vec<u8> {
    format!(
        "POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{PLAN}",
        PLAN.len()
    )
    .into_bytes()
}

/// Sends a request again and again over keep-alive connections, from one thread.
fn load(address: SocketAddr, request: &[u8], clients: usize, requests: usize) -> Load {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let left = AtomicUsize::new(requests);
    let begun = Instant::now();
    let mut times: Vec<Duration> = runtime.block_on(async {
        let clients = (0..clients).map(|_| client(address, request, &left));
        futures_util::future::join_all(clients).await.into_iter().flatten().collect()
    });
    let per_second = times.len() as f64 / begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    Load { per_second, p50, p99, work: Duration::ZERO }
}

async fn client(address: SocketAddr, request: &[u8], left: &AtomicUsize) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut times = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
    {
        let sent = Instant::now();
        stream.write_all(request).await.unwrap();
        let (mut filled, mut needed) = (0, None);
        while needed.is_none_or(|needed| filled < needed) {
            let read = stream.read(&mut buffer[filled..]).await.unwrap();
            assert!(read > 0, "the daemon closed the connection");
            filled += read;
            needed = needed.or_else(|| length(&buffer[..filled]));
        }
        assert!(
            buffer.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&buffer[..filled])
        );
        times.push(sent.elapsed());
    }
    times
}

/// Returns how long an answer is, if its head is there.
fn length(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&answer[..head]).unwrap();
    let line = text.lines().find(|line| line.starts_with("content-length:")).unwrap();
    Some(head + line["content-length:".len()..].trim().parse::<usize>().unwrap())
}

fn told(what: &str, load: &Load, note: &str) {
    println!(
        "{what:<44} {:>8.0} /s   p50 {:>6.0} us   p99 {:>6.0} us   work {:>4.0} us   {note}",
        load.per_second,
        load.p50.as_secs_f64() * 1e6,
        load.p99.as_secs_f64() * 1e6,
        load.work.as_secs_f64() * 1e6,
    );
}

/// Time until the daemon answers, and what it takes while it does nothing.
fn starting(place: &Path, starts: usize) {
    let mut times: Vec<Duration> = (0..starts)
        .map(|_| Daemon::start(place, place.join("start.db").to_str().unwrap()).ready)
        .collect();
    times.sort_unstable();
    let daemon = Daemon::start(place, place.join("start.db").to_str().unwrap());
    // One answer, so that everything is there that the first one brings.
    daemon.load(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n", 1, 1);
    println!(
        "ready after {:.0} ms (median of {starts}; goal 100), idle {:.1} MB resident (goal 25)",
        times[times.len() / 2].as_secs_f64() * 1e3,
        daemon.resident_mb(),
    );
}

/// Runs on a store in memory, beside answers that need no store.
fn in_memory(place: &Path, runs: usize) {
    let daemon = Daemon::start(place, ":memory:");
    let health = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    daemon.load(&post(), CLIENTS, runs / 10);
    let bare = daemon.load(health, CLIENTS, runs);
    told("GET /healthz, 32 clients (baseline)", &bare, "");
    let one = daemon.load(&post(), 1, runs / 10);
    told("1-step dry run, memory, 1 client", &one, "");
    let many = daemon.load(&post(), CLIENTS, runs);
    let ratio = many.per_second / bare.per_second;
    told(
        "1-step dry run, memory, 32 clients",
        &many,
        &format!("{ratio:.2} of bare; goal 20000, floor 8000"),
    );
    println!("after that {:.1} MB resident, with the runs in memory", daemon.resident_mb());
}

/// Runs on disk, beside the same without HTTP.
fn on_disk(place: &Path, runs: usize) {
    let own = without_http(place, runs);
    let daemon = Daemon::start(place, place.join("http.db").to_str().unwrap());
    daemon.load(&post(), CLIENTS, runs / 10);
    let one = daemon.load(&post(), 1, runs / 50);
    told("1-step dry run, disk, 1 client", &one, "");
    let many = daemon.load(&post(), CLIENTS, runs);
    let ratio = many.per_second / own;
    println!("{:<44} {own:>8.0} /s", "the same 32 at once without HTTP (baseline)");
    told("1-step dry run, disk, 32 clients", &many, &format!("{ratio:.2} of that; goal 0.50"));
}

/// Returns how many runs per second 32 tasks get out of the router itself.
fn without_http(place: &Path, runs: usize) -> f64 {
    let store = Store::open(&place.join("own.db")).unwrap();
    let mut registry = Registry::new("null");
    registry.register(Adapter::null()).unwrap();
    let router = Router::new(store, registry, Options::default()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let round = |count: usize| {
        let begun = Instant::now();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let router = router.clone();
                    tokio::spawn(async move {
                        for _ in 0..count / CLIENTS {
                            router.run(Request::parse(PLAN.as_bytes()).unwrap()).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        (count / CLIENTS * CLIENTS) as f64 / begun.elapsed().as_secs_f64()
    };
    round(runs / 10);
    round(runs)
}
