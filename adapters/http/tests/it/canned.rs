//! A server that reads requests and then writes whatever bytes a test wants.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A request as it came over the wire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    /// Returns the only value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} is sent twice");
        value
    }
}

/// A running server. Its threads end with the process.
pub(crate) struct Canned {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
}

impl Canned {
    /// Answers every request with these bytes and closes the connection.
    pub(crate) fn replying(reply: impl Into<Vec<u8>>) -> Self {
        let reply = reply.into();
        Self::new(move |_, mut stream| drop(stream.write_all(&reply)))
    }

    /// Hands every request and its connection to `answer`: one request per connection.
    pub(crate) fn new(answer: impl Fn(&Seen, TcpStream) + Send + Sync + 'static) -> Self {
        Self::serving(move |stream, keep| {
            if let Some(request) = read_request(&mut BufReader::new(&stream)) {
                keep(&request);
                answer(&request, stream);
            }
        })
    }

    /// Answers every request and keeps the connection, each on a thread of its own.
    pub(crate) fn keeping(answer: impl Fn(&Seen) -> String + Send + Sync + 'static) -> Self {
        Self::serving(move |stream, keep| {
            let mut reader = BufReader::new(&stream);
            while let Some(request) = read_request(&mut reader) {
                keep(&request);
                drop((&stream).write_all(answer(&request).as_bytes()));
            }
        })
    }

    fn serving(serve: impl Fn(TcpStream, &dyn Fn(&Seen)) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (serve, kept, opened) = (Arc::new(serve), Arc::clone(&seen), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                opened.fetch_add(1, Ordering::Relaxed);
                let (serve, kept) = (Arc::clone(&serve), Arc::clone(&kept));
                std::thread::spawn(move || {
                    serve(stream, &|request| kept.lock().unwrap().push(request.clone()));
                });
            }
        });
        Self { address, seen, connections }
    }

    /// Returns the base URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns the last request.
    pub(crate) fn last(&self) -> Seen {
        self.seen().pop().unwrap()
    }
}

/// Writes a reply with a length, after which the connection is kept.
pub(crate) fn kept_reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// Writes a reply with a length, after which the connection is closed.
pub(crate) fn reply(status: &str, headers: &str, body: &str) -> String {
    kept_reply(status, &format!("Connection: close\r\n{headers}"), body)
}

/// Returns an address of this machine that nobody listens at.
pub(crate) fn deserted() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn read_request(reader: &mut impl BufRead) -> Option<Seen> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ').map(ToOwned::to_owned);
    let mut seen = Seen { method: words.next()?, path: words.next()?, ..Seen::default() };
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else { break };
        seen.headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    seen.body = String::from_utf8(body).unwrap();
    Some(seen)
}
