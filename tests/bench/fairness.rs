//! Latency of a well-behaved token while another token, or a stranger, takes as much as it gets.
//!
//! `cargo bench --bench fairness` prints p50 and p99 of a good client alone and during each attack, with the goal of 100 ms
//! for p99; `-- --smoke` only shows that everything runs; `-- --only NAME` runs one attack.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and fails loudly"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nexus_router::access::{self, NewToken, Scope, Visibility};
use nexus_router::clock::Clock;

/// An adapter that makes one call of five milliseconds at a time, and one that answers at once.
const ADAPTERS: &str = r#"
default_adapter = "echo"
[[adapters]]
ref = "nexus_router_adapter_echo:create_adapter"
offer = { tools = ["*"] }
[[adapters]]
ref = "probe_adapters:fake"
id = "slow"
isolation = "inline"
calls = 1
offer = { tools = ["*"] }
[adapters.config]
responses = [
    { tool = "t", method = "slow", behaviour = { sleep_ms = 5 } },
    { tool = "t", method = "hold", behaviour = { sleep_ms = 600000 } }]
[server]
requests_per_second = 0
connections = 512
"#;

const LIMIT: Duration = Duration::from_secs(60);

struct Daemon {
    child: Child,
    address: SocketAddr,
    crowd: String,
    good: String,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let only = std::env::args().skip_while(|argument| argument != "--only").nth(1);
    let size = if smoke { Size::SMOKE } else { Size::FULL };
    type Attack = fn(&Daemon, Size) -> Crowd;
    let attacks: [(&str, &str, Attack); 6] = [
        ("queue", "slow", queued_runs),
        ("bodies", "echo", unsent_bodies),
        ("redaction", "echo", redacted_texts),
        ("streams", "echo", event_streams),
        ("dry", "echo", dry_runs),
        ("strangers", "echo", idle_strangers),
    ];
    for (name, adapter_id, attack) in attacks {
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let daemon = start(directory.path());
        let alone = good_client(&daemon, adapter_id, size.requests);
        let crowd = attack(&daemon, size);
        let during = good_client(&daemon, adapter_id, size.requests);
        let note = crowd.end();
        let show = |(p50, p99): (Duration, Duration)| {
            let (p50, p99) = (p50.as_secs_f64() * 1e3, p99.as_secs_f64() * 1e3);
            format!("p50 {p50:>7.2} ms  p99 {p99:>7.2} ms")
        };
        println!("{name:<10} alone   {}", show(alone));
        println!("{name:<10} during  {}  (goal p99 100 ms)  {note}", show(during));
    }
}

#[derive(Clone, Copy)]
struct Size {
    /// Requests of the good client.
    requests: usize,
    /// Runs that the crowd queues.
    queued: usize,
    /// Dry runs, and bytes of each.
    dry: (usize, usize),
    strangers: usize,
}

impl Size {
    const FULL: Self = Self { requests: 400, queued: 3000, dry: (24, 10_000_000), strangers: 4096 };
    const SMOKE: Self = Self { requests: 20, queued: 100, dry: (4, 100_000), strangers: 600 };
}

fn start(place: &Path) -> Daemon {
    let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let config = place.join("router.toml");
    std::fs::write(&config, format!("adapter_path = [{built:?}]\n{ADAPTERS}")).unwrap();
    std::fs::create_dir(place.join("data")).unwrap();
    let token = |name: &str| {
        let new = NewToken {
            name: name.to_owned(),
            scope: Scope::Apply,
            role: None,
            sees: Visibility::Own,
            expires_at: None,
        };
        let file = place.join("data/tokens.json");
        access::create(&file, &new, Clock::System.now()).unwrap().1.as_str().to_owned()
    };
    let (crowd, good) = (token("crowd"), token("good"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_nexus-router"))
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
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
    Daemon { child, address: url.unwrap().parse().unwrap(), crowd, good }
}

fn plan(adapter_id: &str, mode: &str, text: &str) -> String {
    format!(
        r#"{{"goal":"bench","mode":"{mode}","policy":{{"allow_apply":{}}},"dispatch":{{"adapter_id":"{adapter_id}"}},"plan_override":[{{"step_id":"s0","intent":"do","call":{{"tool":"t","method":"slow","args":{{"text":"{text}"}}}}}}]}}"#,
        mode == "apply"
    )
}

fn request(method: &str, path: &str, token: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends a request on a new connection, and returns the answer.
fn ask(address: SocketAddr, request: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(request)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Calls an adapter again and again, each time on a new connection, and returns p50 and p99.
fn good_client(daemon: &Daemon, adapter_id: &str, requests: usize) -> (Duration, Duration) {
    let request = request("POST", "/v1/runs", &daemon.good, &plan(adapter_id, "apply", "hello"));
    let mut times: Vec<Duration> = (0..requests)
        .map(|_| {
            let sent = Instant::now();
            let answer = ask(daemon.address, &request).unwrap();
            assert!(answer.contains("\"COMPLETED\""), "{answer}");
            sent.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[requests / 2], times[requests * 99 / 100])
}

/// An attack under way.
struct Crowd {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
    held: Vec<TcpStream>,
    refused: Arc<AtomicUsize>,
}

impl Crowd {
    fn new() -> Self {
        Self {
            stop: Arc::default(),
            threads: Vec::new(),
            held: Vec::new(),
            refused: Arc::default(),
        }
    }

    /// Repeats something on a thread until the attack ends. It returns false if it was refused.
    fn repeat(&mut self, mut act: impl FnMut() -> bool + Send + 'static) {
        let (stop, refused) = (Arc::clone(&self.stop), Arc::clone(&self.refused));
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if !act() {
                    refused.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }));
    }

    fn end(self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        format!("{} held, {} refused", self.held.len(), self.refused.load(Ordering::Relaxed))
    }
}

/// Thousands of runs of one token wait for the same adapter, and more come all the time.
fn queued_runs(daemon: &Daemon, size: Size) -> Crowd {
    let body = plan("slow", "apply", "crowd");
    let queue = request("POST", "/v1/runs?wait=false", &daemon.crowd, &body);
    let (address, mut crowd) = (daemon.address, Crowd::new());
    let accepted = |answer: std::io::Result<String>| {
        answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 202"))
    };
    for _ in 0..size.queued {
        if !accepted(ask(address, &queue)) {
            crowd.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
    crowd.repeat(move || accepted(ask(address, &queue)));
    crowd
}

/// One token opens as many event streams as it gets, of a run that goes on.
fn event_streams(daemon: &Daemon, _size: Size) -> Crowd {
    let body = plan("slow", "apply", "crowd").replace("\"slow\",\"args\"", "\"hold\",\"args\"");
    let begin = request("POST", "/v1/runs?wait=false", &daemon.crowd, &body);
    let run = ask(daemon.address, &begin).unwrap();
    let run_id = run.split("\"run_id\":\"").nth(1).unwrap().split('"').next().unwrap();
    let follow = request("GET", &format!("/v1/runs/{run_id}/events"), &daemon.crowd, "");
    let mut crowd = Crowd::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(daemon.address).unwrap();
        stream.write_all(&follow).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        if &head == b"HTTP/1.1 200" {
            crowd.held.push(stream);
        } else {
            crowd.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
    crowd
}

/// Bodies that are announced and do not arrive.
fn unsent_bodies(daemon: &Daemon, _size: Size) -> Crowd {
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 16777216\r\n\r\n{{",
        daemon.crowd
    );
    let mut crowd = Crowd::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(daemon.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        crowd.held.push(stream);
    }
    crowd
}

/// Two clients send large texts that are full of secrets.
fn redacted_texts(daemon: &Daemon, size: Size) -> Crowd {
    let body = plan("echo", "dry_run", &"Bearer ".repeat(size.dry.1 / 6));
    let send = Arc::new(request("POST", "/v1/runs", &daemon.crowd, &body));
    let (address, mut crowd) = (daemon.address, Crowd::new());
    for _ in 0..2 {
        let send = Arc::clone(&send);
        crowd.repeat(move || {
            ask(address, &send).is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
        });
    }
    crowd
}

/// Large dry runs fill the store.
fn dry_runs(daemon: &Daemon, size: Size) -> Crowd {
    let (count, bytes) = size.dry;
    let body = plan("echo", "dry_run", &"x".repeat(bytes));
    let send = Arc::new(request("POST", "/v1/runs", &daemon.crowd, &body));
    let (address, left) = (daemon.address, Arc::new(AtomicUsize::new(count)));
    let mut crowd = Crowd::new();
    for _ in 0..4 {
        let (send, left) = (Arc::clone(&send), Arc::clone(&left));
        crowd.repeat(move || {
            let more = |left: usize| left.checked_sub(1);
            if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
                std::thread::sleep(Duration::from_millis(5));
                return true;
            }
            ask(address, &send).is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
        });
    }
    crowd
}

/// Strangers open connections, say nothing, and open more.
fn idle_strangers(daemon: &Daemon, size: Size) -> Crowd {
    let (address, mut crowd) = (daemon.address, Crowd::new());
    crowd.held =
        (0..size.strangers.min(600)).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut later = std::collections::VecDeque::new();
    let most = size.strangers;
    crowd.repeat(move || {
        later.extend(TcpStream::connect(address).ok());
        if later.len() > most.min(300) {
            later.pop_front();
        }
        true
    });
    crowd
}
