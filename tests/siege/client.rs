//! A client with one connection, which it keeps: small enough to break off wherever a test wants.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than anything takes; only against a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Client {
    address: SocketAddr,
    token: Option<String>,
    connection: Option<BufReader<TcpStream>>,
}

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }

    /// Whether the connection goes on after it.
    fn keeps(&self) -> bool {
        !self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

impl Client {
    pub const fn new(address: SocketAddr, token: Option<String>) -> Self {
        Self { address, token, connection: None }
    }

    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.send("GET", path, &[], b"")?;
        self.receive()
    }

    pub fn post(&mut self, path: &str, body: &Value) -> io::Result<Answer> {
        self.send("POST", path, &[], body.to_string().as_bytes())?;
        self.receive()
    }

    /// Sends a request, and leaves its answer where it is.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        self.send_part((method, path), headers, body, body.len())
    }

    /// Sends a request with the beginning of a body that is said to have so many bytes.
    pub fn send_part(
        &mut self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &[u8],
        length: usize,
    ) -> io::Result<()> {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {length}\r\n",
            self.address
        );
        if let Some(token) = &self.token {
            head.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let whole = [head.as_bytes(), body].concat();
        let sent = self.connection()?.get_mut().write_all(&whole);
        sent.inspect_err(|_| self.connection = None)
    }

    /// Reads the answer to what was sent.
    pub fn receive(&mut self) -> io::Result<Answer> {
        let answer = self.read_answer();
        if !answer.as_ref().is_ok_and(Answer::keeps) {
            self.connection = None;
        }
        answer
    }

    fn read_answer(&mut self) -> io::Result<Answer> {
        let mut answer = self.head()?;
        if answer.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk()? {
                answer.body.extend(chunk);
            }
        } else {
            let length = answer.header("content-length").and_then(|text| text.parse().ok());
            answer.body = self.bytes(length.unwrap_or(0))?;
        }
        Ok(answer)
    }

    /// Reads the head of an answer; its body is left to [`chunk`](Self::chunk).
    pub fn head(&mut self) -> io::Result<Answer> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no answer: {first:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Ok(Answer { status, headers, body: Vec::new() })
    }

    /// Reads the next part of a body that has no length; none after the last one.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let wrong = |_| io::Error::other(format!("no length of a chunk: {line:?}"));
        let length = usize::from_str_radix(&line, 16).map_err(wrong)?;
        let chunk = self.bytes(length)?;
        self.line()?;
        Ok((length > 0).then_some(chunk))
    }

    /// Says whether the server has closed the connection, once it does or says something.
    pub fn is_closed(&mut self) -> bool {
        self.connection()
            .and_then(|connection| Ok(connection.fill_buf()?.is_empty()))
            .unwrap_or(true)
    }

    /// Opens the connection and sends nothing.
    pub fn connect(&mut self) -> io::Result<()> {
        self.connection().map(drop)
    }

    /// Goes away, whatever is under way.
    pub fn break_off(&mut self) {
        if let Some(connection) = self.connection.take() {
            // The server may have been quicker.
            drop(connection.get_ref().shutdown(Shutdown::Both));
        }
    }

    fn connection(&mut self) -> io::Result<&mut BufReader<TcpStream>> {
        if self.connection.is_none() {
            let stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            self.connection = Some(BufReader::new(stream));
        }
        self.connection.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.connection()?.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.connection()?.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
