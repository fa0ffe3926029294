//! The server for tests behind a listener: streamable HTTP of both eras, with a token that it asks for.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::server::Server;

/// What it wants to see as authorization.
pub(crate) const TOKEN: &str = "Bearer very-secret-token";

/// An endpoint, until it is dropped.
pub(crate) struct Endpoint {
    shared: Arc<Shared>,
    pub(crate) address: SocketAddr,
}

#[derive(Default)]
struct Shared {
    modern: bool,
    server: Server,
    seen: Mutex<Seen>,
}

#[derive(Default)]
pub(crate) struct Seen {
    /// The status and the body that the next call of a tool is answered with.
    pub(crate) refusal: Option<(&'static str, Value)>,
    /// Calls of tools that came.
    pub(crate) calls: usize,
    /// Sessions that are known.
    pub(crate) sessions: Vec<String>,
    pub(crate) begun: usize,
    /// The heads of all requests.
    pub(crate) heads: Vec<String>,
    open: Vec<TcpStream>,
    /// Streams that the client closed before there was an answer.
    pub(crate) closed: usize,
    over: bool,
}

impl Endpoint {
    pub(crate) fn new(modern: bool) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), modern)
    }

    pub(crate) fn at(address: SocketAddr, modern: bool) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { modern, server: Server::new(modern), ..Shared::default() });
        let endpoint = Self { shared: Arc::clone(&shared), address };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.seen.lock().unwrap().over {
                    return;
                }
                shared.seen.lock().unwrap().open.push(stream.try_clone().unwrap());
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        endpoint
    }

    pub(crate) fn config(&self) -> Value {
        json!({ "url": format!("http://{}/mcp", self.address), "headers": { "Authorization": TOKEN } })
    }

    pub(crate) fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.shared.seen.lock().unwrap())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.seen(|seen| {
            seen.over = true;
            for stream in &seen.open {
                drop(stream.shutdown(Shutdown::Both));
            }
        });
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some((head, body)) = request(&mut reader) {
            self.seen.lock().unwrap().heads.push(head.clone());
            let head = head.to_ascii_lowercase();
            if !head.contains(&format!("authorization: {}", TOKEN.to_ascii_lowercase())) {
                reply(&mut stream, "401 Unauthorized", "", "{}");
                continue;
            }
            if head.starts_with("delete") || (head.starts_with("get") && self.modern) {
                reply(&mut stream, "405 Method Not Allowed", "", "");
                continue;
            }
            if head.starts_with("get") {
                events(&mut stream, &[]);
                drop(reader.read(&mut [0]));
                return;
            }
            let message: Value = serde_json::from_slice(&body).unwrap();
            let begins =
                message["method"] == "initialize" || message["method"] == "server/discover";
            let known = self
                .seen
                .lock()
                .unwrap()
                .sessions
                .iter()
                .any(|id| head.contains(&format!("mcp-session-id: {id}\r\n")));
            if !self.modern && !begins && !known {
                reply(&mut stream, "404 Not Found", "", "");
                continue;
            }
            if message["method"] == "tools/call" {
                let refusal = self.called();
                if let Some((status, body)) = refusal {
                    reply(&mut stream, status, "", &body.to_string());
                    continue;
                }
            }
            let mut said = Vec::new();
            self.server.take(&message, &mut |message| said.push(message));
            match &said[..] {
                [] if message["id"].is_null() => reply(&mut stream, "202 Accepted", "", ""),
                // The stream stays open until the client closes it.
                [] => {
                    events(&mut stream, &[]);
                    drop(reader.read(&mut [0]));
                    self.seen.lock().unwrap().closed += 1;
                    return;
                }
                [only] if message["method"] != "subscriptions/listen" => {
                    let session = match begins && only.get("result").is_some() && !self.modern {
                        true => self.session(),
                        false => String::new(),
                    };
                    reply(&mut stream, "200 OK", &session, &only.to_string());
                }
                all => {
                    events(&mut stream, all);
                    if message["method"] == "subscriptions/listen" {
                        drop(reader.read(&mut [0]));
                    }
                    return;
                }
            }
        }
    }

    fn called(&self) -> Option<(&'static str, Value)> {
        let mut seen = self.seen.lock().unwrap();
        seen.calls += 1;
        seen.refusal.take()
    }

    fn session(&self) -> String {
        let mut seen = self.seen.lock().unwrap();
        seen.begun += 1;
        let id = format!("s{}", seen.begun);
        seen.sessions.push(id.clone());
        format!("mcp-session-id: {id}\r\n")
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        let line = head[start..].trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            return Some((head, body));
        }
    }
}

fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    drop(stream.write_all(text.as_bytes()));
}

fn events(stream: &mut TcpStream, messages: &[Value]) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let events: String = messages.iter().map(|message| format!("data: {message}\n\n")).collect();
    drop(stream.write_all(format!("{head}{events}").as_bytes()));
}
