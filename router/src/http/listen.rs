//! Connections: bound, accepted, counted, timed, and let finish at the end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tower_service::Service as _;

use super::Peer;
use super::patient::Patient;
use super::problem::{MEDIA_TYPE, Problem};
use super::tls::Certificate;
use crate::code;
use crate::config::{self, Listener};
use crate::service::{BusyConnection, ConnectionHandle, Service};

/// How long a client may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a new connection has to say what it wants when the daemon drains.
const FIRST_WORDS: Duration = Duration::from_millis(500);
/// How long a replaced connection may take to send the end of its last answer.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait when the system has no descriptors left.
const NO_DESCRIPTORS: Duration = Duration::from_millis(100);
/// After so long without a word, or without taking what is sent to it, a client is gone.
const GONE: Duration = Duration::from_secs(60);
/// The largest head of a request.
const HEAD: usize = 64 * 1024;

/// Why a listener cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or is none of this machine.
    #[error("cannot listen on {address}")]
    Unavailable {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// It would be open to others without protection.
    #[error(transparent)]
    Unsafe(#[from] config::Error),
    /// The process may not open enough files.
    #[error(
        "the limit of {limit} open files is too low: {connections} connections need {needed} files"
    )]
    FileLimit {
        /// The hard limit.
        limit: u64,
        /// The connections that the configuration allows.
        connections: usize,
        /// The files that are needed.
        needed: u64,
    },
    /// A certificate or a key cannot be used.
    #[error("{} cannot be used for TLS: {message}", file.display())]
    Tls {
        /// The file.
        file: PathBuf,
        /// Why.
        message: String,
    },
}

impl Error {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "LISTEN_FAILED",
            Self::Unsafe(error) => error.code(),
            Self::FileLimit { .. } => "FILE_LIMIT_TOO_LOW",
            Self::Tls { .. } => "TLS_FILES_INVALID",
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Unsafe(error) => error.hint(),
            own => code::find(own.code()).next().map_or("", |known| known.remedy),
        }
    }
}

/// A listener that has its port.
pub struct Bound {
    listener: TcpListener,
    tokens: bool,
    tls: Option<Certificate>,
}

impl Bound {
    pub(super) async fn new(listener: &Listener) -> Result<Self, Error> {
        listener.refuse_unsafe()?;
        let tls = listener.tls.as_ref().map(Certificate::read).transpose()?;
        let address = listener.address;
        let bound = TcpListener::bind(address).await;
        let bound = bound.map_err(|source| Error::Unavailable { address, source })?;
        Ok(Self { listener: bound, tokens: listener.tokens, tls })
    }

    /// Returns the URL under which clients on this machine reach it.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match self.listener.local_addr() {
            Ok(address) => format!("{scheme}://{address}"),
            Err(_) => scheme.to_owned(),
        }
    }

    /// Says whether callers need a token.
    #[must_use]
    pub const fn needs_token(&self) -> bool {
        self.tokens
    }
}

/// Accepts connections until it is aborted.
pub(super) async fn accept(bound: Bound, service: Service, app: axum::Router) {
    let Bound { listener, tokens, mut tls } = bound;
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // A connection that ended before it began is no reason to rest; a lack of descriptors is.
                if error.raw_os_error().is_some_and(|code| {
                    [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS].contains(&code)
                }) {
                    tracing::error!(%error, "connections cannot be accepted");
                    tokio::time::sleep(NO_DESCRIPTORS).await;
                }
                continue;
            }
        };
        if let Err(error) = prepare(&stream) {
            tracing::debug!(%error, %address, "a connection was gone at once");
            continue;
        }
        let peer = Peer { address, tokens, tls: tls.is_some() };
        let Some(open) = service.connection(address.ip()) else {
            service.metrics().refused("TOO_MANY_CONNECTIONS");
            if tls.is_none() {
                drop(tokio::spawn(turn_away(stream)));
            }
            continue;
        };
        let tls = tls.as_mut().map(Certificate::acceptor);
        let (service, app) = (service.clone(), app.clone());
        drop(tokio::spawn(async move {
            let handle = open.handle();
            match tls {
                None => connection(stream, (peer, handle), &service, app).await,
                Some(tls) => {
                    let accepted = tokio::time::timeout(HANDSHAKE, tls.accept(stream));
                    let accepted = tokio::select! {
                        accepted = accepted => accepted,
                        () = handle.replaced() => return,
                    };
                    match accepted {
                        Ok(Ok(stream)) => connection(stream, (peer, handle), &service, app).await,
                        Ok(Err(error)) => tracing::debug!(%error, %address, "no TLS handshake"),
                        Err(_) => tracing::debug!(%address, "the TLS handshake took too long"),
                    }
                }
            }
            drop(open);
        }));
    }
}

/// Lets small answers go out at once, and lets go of clients that are gone or take nothing.
fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    // Without it every small answer may wait 40 ms for an acknowledgement.
    stream.set_nodelay(true)?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(GONE.as_millis()).unwrap_or(u32::MAX))?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, GONE / 2)?;
    sockopt::set_tcp_keepintvl(stream, GONE / 6)?;
    Ok(sockopt::set_tcp_keepcnt(stream, 3)?)
}

/// Tells a client that there are too many connections, without looking at what it wants.
async fn turn_away(mut stream: TcpStream) {
    let detail = "there are as many connections as there may be";
    let status = http::StatusCode::SERVICE_UNAVAILABLE;
    let body = Problem::new(status, "TOO_MANY_CONNECTIONS", detail).text();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
         content-type: {MEDIA_TYPE}\r\ncache-control: no-store\r\n\
         x-content-type-options: nosniff\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let told = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // If there is something left to read, the system breaks the connection off, and the answer may be
        // lost.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    // Whoever does not listen is not waited for.
    drop(tokio::time::timeout(Duration::from_secs(1), told).await);
}

/// Serves one connection to its end.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (peer, handle): (Peer, &ConnectionHandle),
    service: &Service,
    app: axum::Router,
) {
    let own = handle.clone();
    let asked = Arc::new(Notify::new());
    let asks = Arc::clone(&asked);
    let answer = service_fn(move |request: Request<Incoming>| {
        asks.notify_one();
        let mut app = app.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(own.clone());
        let busy = own.begin_request();
        async move {
            let response = answer(&mut app, request).await;
            // The connection is idle again when hyper has taken the whole answer; the end may be unsent.
            Ok::<_, std::convert::Infallible>(response.map(|body| AnswerBody { body, _busy: busy }))
        }
    });
    let standing = service.standing();
    // Who takes as long to read as a body may take to come is not there any more.
    let stream = Patient::new(stream, standing.server.body_timeout);
    let header_timeout = standing.server.header_timeout;
    drop(standing);
    // Who comes during the drain asks whether there is one, and gets one answer.
    let late = service.is_draining();
    let connection = http1::Builder::new()
        .keep_alive(!late)
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        // First, so that a request that has arrived is seen before the connection is closed.
        biased;
        ended = connection.as_mut() => ended,
        () = service.draining(), if !late => {
            // A connection that has not asked for anything was made a moment ago, and its request is on
            // its way; or it waits for nothing.
            tokio::select! {
                biased;
                _ = connection.as_mut() => return,
                () = asked.notified() => {}
                () = tokio::time::sleep(FIRST_WORDS) => {}
            }
            // What is under way is answered; then the connection is closed.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = handle.replaced() => {
            connection.as_mut().graceful_shutdown();
            if handle.is_idle() {
                tracing::debug!(address = %peer.address, "a new connection replaces an idle one");
                // An idle connection may still have to send the end of its last answer.
                let flushed = tokio::time::timeout(FLUSH_TIMEOUT, connection).await;
                flushed.unwrap_or(Ok(()))
            } else {
                // A request arrived meanwhile: answer it, then close.
                connection.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, address = %peer.address, "a connection broke");
    }
}

/// Body of an answer. The connection is busy until hyper has taken the whole body or drops it.
struct AnswerBody {
    body: Body,
    _busy: BusyConnection,
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn answer(app: &mut axum::Router, request: Request<Body>) -> Response<Body> {
    // A panic is a mistake of ours; it must cost neither the connection nor the word to its client.
    let answered =
        futures_util::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(app.call(request)));
    let mut response = match answered.await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            let status = http::StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "ROUTER_FAILED", "the router made a mistake").into_response()
        }
    };
    let headers = response.headers_mut();
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
