//! A client of HTTP/1.1 that hides nothing, and holds every problem against its form.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

use nexus_router::code;
use serde_json::Value;

use super::support::{Daemon, PATIENCE};

/// A request that is put together.
#[derive(Clone)]
pub struct Ask<'a> {
    daemon: &'a Daemon,
    method: String,
    path: String,
    token: Option<String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    from: Option<Ipv4Addr>,
}

impl<'a> Ask<'a> {
    pub fn new(daemon: &'a Daemon, method: &str, path: &str) -> Self {
        Self {
            daemon,
            method: method.to_owned(),
            path: path.to_owned(),
            token: Some("admin".to_owned()),
            headers: Vec::new(),
            body: Vec::new(),
            from: None,
        }
    }

    /// Comes from another address of this machine.
    pub fn from(mut self, address: [u8; 4]) -> Self {
        self.from = Some(address.into());
        self
    }

    /// Shows the token of this name.
    pub fn by(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Shows no token.
    pub fn by_nobody(mut self) -> Self {
        self.token = None;
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.body(body.to_string())
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Returns what goes over the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let mut header = |name: &str, value: &str| text.push_str(&format!("{name}: {value}\r\n"));
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            header("Host", &self.daemon.address.to_string());
        }
        if let Some(name) = &self.token {
            header("Authorization", &format!("Bearer {}", self.daemon.token(name)));
        }
        if !self.body.is_empty() || self.method != "GET" {
            header("Content-Length", &self.body.len().to_string());
        }
        for (name, value) in &self.headers {
            header(name, value);
        }
        text.push_str("\r\n");
        [text.as_bytes(), &self.body].concat()
    }

    /// Sends the request on a connection of its own, and leaves the answer there.
    pub fn begin(&self) -> Wire {
        let mut wire = match self.from {
            None => self.daemon.connect(),
            Some(from) => Wire::new(connect_from(from, self.daemon.address)),
        };
        wire.stream().write_all(&self.bytes()).unwrap();
        wire
    }

    /// Sends the request, and returns the answer.
    pub fn send(&self) -> Response {
        let response = self.begin().response();
        // MCP has errors of its own for whoever was let in.
        let own = self.path == "/mcp" && ![401, 403, 429].contains(&response.status);
        if response.status >= 400 && !own {
            assert!(response.is_problem(), "{} {}: {response:?}", self.method, self.path);
        }
        response
    }

    /// Sends a request that must have a good answer, and returns it.
    pub fn ok(&self) -> Value {
        let response = self.send();
        assert_eq!(response.status, 200, "{} {}: {response:?}", self.method, self.path);
        response.json()
    }

    /// Sends a request that must be refused so, and returns the problem.
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let response = self.send();
        assert_eq!(response.status, status, "{} {}: {response:?}", self.method, self.path);
        let problem = response.json();
        assert_eq!(problem["code"], code, "{} {}: {problem}", self.method, self.path);
        problem
    }
}

fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrV4::new(from, 0)).unwrap();
    connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A connection.
pub struct Wire(BufReader<TcpStream>);

impl Wire {
    pub fn new(stream: TcpStream) -> Self {
        Self(BufReader::new(stream))
    }

    pub fn stream(&mut self) -> &mut TcpStream {
        self.0.get_mut()
    }

    /// Reads a line without its end; none at the end of the connection.
    pub fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    }

    /// Reads the head of an answer.
    pub fn head(&mut self) -> Response {
        let first = self.line().expect("the connection was closed without an answer");
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no answer: {first}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().expect("the head of the answer was cut off");
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Response { status, headers, body: Vec::new() }
    }

    /// Reads an answer.
    pub fn response(&mut self) -> Response {
        let mut response = self.head();
        if response.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                response.body.extend(chunk);
            }
        } else if let Some(length) = response.header("content-length") {
            response.body = vec![0; length.parse().unwrap()];
            self.0.read_exact(&mut response.body).unwrap();
        }
        response.check();
        response
    }

    /// Reads a chunk of an answer; none after the last one, or when the connection is closed.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line()?, 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.0.read_exact(&mut chunk).ok()?;
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    /// Says whether the other side closes the connection without a word.
    pub fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0; 1]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// An answer.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        let parsed = serde_json::from_slice(&self.body);
        parsed.unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the run that the answer leads to.
    pub fn run_id(&self) -> String {
        let location = self.header("location").unwrap_or_else(|| panic!("no run: {self:?}"));
        let run_id = location.strip_prefix("/v1/runs/").unwrap().to_owned();
        assert_eq!(self.json()["run"]["run_id"], run_id.as_str(), "{self:?}");
        run_id
    }

    fn is_problem(&self) -> bool {
        self.header("content-type") == Some("application/problem+json")
    }

    /// Holds a problem against its form.
    fn check(&self) {
        if !self.is_problem() {
            return;
        }
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        for key in ["type", "title", "detail", "code", "hint"] {
            assert!(problem[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {problem}");
        }
        let code = problem["code"].as_str().unwrap();
        assert!(code::find(code).next().is_some(), "{code} is not explained");
        assert_eq!(problem["type"], format!("/v1/codes/{code}"));
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
        assert_eq!(self.header("x-content-type-options"), Some("nosniff"), "{self:?}");
        assert_eq!(self.header("www-authenticate").is_some(), self.status == 401, "{self:?}");
        if [429, 503].contains(&self.status) {
            let again: u64 = self.header("retry-after").unwrap().parse().unwrap();
            assert!(again >= 1, "{self:?}");
        }
    }
}
