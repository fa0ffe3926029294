//! A service on this machine that scouts retrieve from in a proof, and an impostor that answers in a scout's place.
//!
//! It stands in for the outside alone: whatever lies between a scout and it is what lies there for everybody.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::deeds::IMPOSTOR;

/// A request is no longer.
const MOST: u64 = 64 * 1024;
/// Whoever says nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(30);

/// The service, until it is dropped.
pub(super) struct Library {
    pub(super) address: SocketAddr,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Library {
    pub(super) fn open() -> io::Result<Self> {
        let (stopped, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let until = Arc::clone(&stopped);
        let thread = std::thread::Builder::new().name("library".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if until.load(Ordering::Relaxed) {
                    return;
                }
                let asked = Arc::clone(&asked);
                // A connection that cannot be served is for the one who asked to tell.
                drop(std::thread::Builder::new().spawn(move || converse(stream, &asked)));
            }
        })?;
        Ok(Self { address, stopped, thread: Some(thread) })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Serves a connection until it is closed.
fn converse(stream: TcpStream, asked: &AtomicUsize) -> Option<()> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.by_ref().take(MOST).read_line(&mut line).ok()? <= 2 {
                break;
            }
            let mut words = line.split_ascii_whitespace();
            match (words.next()?, words.next()) {
                ("POST" | "GET", Some(target)) => path = target.to_owned(),
                (name, Some(value)) if name.eq_ignore_ascii_case("content-length:") => {
                    length = value.parse().ok().filter(|length| *length <= MOST)?;
                }
                _ => {}
            }
        }
        if path.is_empty() {
            return None;
        }
        let mut body = Vec::new();
        reader.by_ref().take(length).read_to_end(&mut body).ok()?;
        let args = serde_json::from_slice(&body).unwrap_or_default();
        let answer = answer(&path, &args, asked.fetch_add(1, Ordering::Relaxed)).to_string();
        let length = answer.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        reader.get_mut().write_all((head + &answer).as_bytes()).ok()?;
    }
}

/// Answers the same every time, apart from what no evidence may depend on.
fn answer(path: &str, args: &Value, number: usize) -> Value {
    let hit = |rank: usize| json!({ "url": format!("https://example.com/{rank}"), "title": format!("Page {rank}"), "snippet": args["q"] });
    let mut output = json!({ "adapter_role": "scout", "adapter_version": "1.0.0", "action_class": "doc_retrieval",
        "ok": true, "result": {}, "sources": [], "errors": [] });
    let Value::Object(members) = &mut output else { return output };
    let tricks = format!("/{IMPOSTOR}/doc_retrieval/");
    match path.strip_prefix(&tricks).unwrap_or(path) {
        "/index/search" => json!({ "hits": [hit(2), hit(1), hit(3)], "took": number }),
        "/documents/get" => {
            json!({ "text": format!("Document {}", args["id"]), "request_id": format!("r{number}") })
        }
        "/data/rows" => json!({ "rows": [[1, "a"], [2, "b"]], "created_at": number }),
        "/readyz" => json!({ "status": "ready" }),
        "forbidden_key" => {
            members.insert("confidence".to_owned(), 1.into());
            output
        }
        "missing_key" => {
            members.remove("sources");
            output
        }
        "wrong_role" => {
            members.insert("adapter_role".to_owned(), "envoy".into());
            output
        }
        _ => json!({}),
    }
}
