//! An HTTPS server on this machine that answers as a test wants.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::workspace;

/// A running server. Its threads end with the process.
pub struct HttpsServer {
    pub port: u16,
    /// The paths that were asked for.
    seen: Arc<Mutex<Vec<String>>>,
}

/// A connection over which TLS was agreed.
pub type TlsStream = StreamOwned<ServerConnection, TcpStream>;

impl HttpsServer {
    /// Starts a server that the file of [`authority`] makes trusted. It writes what `answer` writes for a path.
    pub fn start(answer: impl Fn(&str, &mut TlsStream) + Send + Sync + 'static) -> Self {
        Self::start_as("tests/golden/tls/cert.pem", "tests/golden/tls/key.pem", answer)
    }

    /// Starts a server with the certificate and the key of two files in the workspace.
    pub fn start_as(
        certificate: &str,
        key: &str,
        answer: impl Fn(&str, &mut TlsStream) + Send + Sync + 'static,
    ) -> Self {
        let certificate = CertificateDer::from_pem_file(workspace().join(certificate)).unwrap();
        let key = PrivateKeyDer::from_pem_file(workspace().join(key)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let config = Arc::new(config);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let paths = Arc::clone(&seen);
        let port = listen(move |socket| {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, socket);
            let Some(path) = path_of(&mut stream) else { return };
            paths.lock().unwrap().push(path.clone());
            answer(&path, &mut stream);
            stream.conn.send_close_notify();
            drop(stream.flush());
        });
        Self { port, seen }
    }

    /// Starts a server that answers every path with a document.
    pub fn of(document: impl Into<Vec<u8>>) -> Self {
        let document = document.into();
        Self::start(move |_, stream| ok(stream, &document))
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// Returns the paths that were asked for so far.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// The file that makes servers of [`HttpsServer::start`] trusted.
pub fn authority() -> PathBuf {
    workspace().join("tests/golden/tls/cert.pem")
}

/// Accepts connections on a port of this machine, each in a thread of its own.
pub fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            socket.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
            std::thread::spawn(move || serve(socket));
        }
    });
    port
}

/// Reads the head of a request, and returns its path; none if the client went away.
fn path_of(stream: &mut TlsStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    head.split(' ').nth(1).map(str::to_owned)
}

/// Answers with a document.
pub fn ok(stream: &mut TlsStream, document: &[u8]) {
    let length = document.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(document)));
}

/// Answers with a redirect.
pub fn redirect(stream: &mut TlsStream, to: &str) {
    let head = format!(
        "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    drop(stream.write_all(head.as_bytes()));
}

/// Writes something again and again, until the client goes away.
pub fn repeat(stream: &mut impl Write, piece: &[u8], pause: Duration) {
    while stream.write_all(piece).and_then(|()| stream.flush()).is_ok() {
        std::thread::sleep(pause);
    }
}

/// Returns the path of a file as text.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
