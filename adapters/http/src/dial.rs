//! How connections are made: name lookup and connect on a thread that can be left behind, then TLS.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::http::uri::Scheme;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, RustlsConnector,
    ShutdownHandle, Transport,
};

use crate::grip;
use crate::wire::Wire;

/// How many dials of one adapter may be under way, counting those that no call waits for any more.
const MAX_DIALS: usize = 256;

/// Makes the connections of one adapter.
#[derive(Debug, Default)]
pub(crate) struct Dialler {
    tls: RustlsConnector,
    dials: Arc<AtomicUsize>,
}

impl Connector for Dialler {
    type Out = Line<<RustlsConnector as Connector<Wire>>::Out>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        self.reach(details).map(Some).map_err(|error| match error {
            Error::Timeout(_) => error,
            Error::Io(cause) => Error::Other(Box::new(Unreached(told(&cause)))),
            other => Error::Other(Box::new(Unreached(other.to_string()))),
        })
    }
}

const GRANTED: &str = "in a worker, only places are reached that its grants name under 'connect'";

/// Tells why a connection was not made. What is denied is most likely not granted.
fn told(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => format!("{cause}; {GRANTED}"),
        _ => cause.to_string(),
    }
}

/// Tells why a name was not found, which those that are not granted never are.
fn not_found(cause: &io::Error) -> io::Error {
    io::Error::new(cause.kind(), format!("{cause}; {GRANTED}"))
}

impl Dialler {
    fn reach(&self, details: &ConnectionDetails<'_>) -> Result<<Self as Connector>::Out, Error> {
        let socket = Arc::new(self.dial(details)?);
        socket.set_nodelay(true)?;
        let handle: Weak<dyn ShutdownHandle> = Arc::<TcpStream>::downgrade(&socket);
        (details.register_shutdown)(handle)?;
        grip::hold_socket(&socket)?;
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        let wire = Wire::new(Arc::clone(&socket), buffers);
        let details = ConnectionDetails {
            uri: details.uri,
            addrs: details.addrs.clone(),
            config: details.config,
            // Every request has a time limit of its own, yet all share the TLS settings and sessions.
            request_level: false,
            resolver: details.resolver,
            now: details.now,
            timeout: details.timeout,
            current_time: Arc::clone(&details.current_time),
            run_connector: Arc::clone(&details.run_connector),
            register_shutdown: Arc::clone(&details.register_shutdown),
        };
        let inner = self.tls.connect(&details, Some(wire))?.ok_or(Error::ConnectionFailed)?;
        Ok(Line { inner, socket })
    }

    /// Connects on another thread, because neither a lookup nor a connect can be interrupted.
    fn dial(&self, details: &ConnectionDetails<'_>) -> Result<TcpStream, Error> {
        let (host, port) = host_and_port(details.uri).ok_or(Error::HostNotFound)?;
        let host = host.to_owned();
        let limit = *details.timeout.after;
        let ends = Instant::now().checked_add(limit);
        let place = Place::take(&self.dials)
            .ok_or_else(|| io::Error::other("too many connections are being made"))?;
        let (sender, receiver) = mpsc::channel();
        grip::hold_dial(sender.clone())?;
        std::thread::Builder::new().name("http-dial".to_owned()).spawn(move || {
            let dialled = connect(&host, port, ends);
            drop(place);
            // Nobody listens when the call has ended; the connection closes then.
            drop(sender.send(dialled));
        })?;
        match receiver.recv_timeout(limit) {
            Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => {
                Err(Error::Timeout(details.timeout.reason))
            }
            Ok(dialled) => Ok(dialled?),
            Err(_) => Err(Error::Timeout(details.timeout.reason)),
        }
    }
}

fn host_and_port(uri: &Uri) -> Option<(&str, u16)> {
    let default = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let host = uri.host()?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((bare, uri.port_u16().unwrap_or(default)))
}

/// Tries the addresses of a host in turn; each gets an equal share of the time that is left.
fn connect(host: &str, port: u16, ends: Option<Instant>) -> io::Result<TcpStream> {
    let addresses: Vec<_> =
        (host, port).to_socket_addrs().map_err(|error| not_found(&error))?.collect();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for (tried, address) in addresses.iter().enumerate() {
        let connected = match ends {
            None => TcpStream::connect(address),
            Some(ends) => {
                let left = ends.saturating_duration_since(Instant::now());
                let shares = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
                // A limit of zero would be refused as a mistake.
                TcpStream::connect_timeout(address, (left / shares).max(Duration::from_millis(1)))
            }
        };
        match connected {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// One of the places for dials.
struct Place {
    taken: Arc<AtomicUsize>,
}

impl Place {
    fn take(taken: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self { taken: Arc::clone(taken) };
        // A place over the limit is given back by its drop.
        (taken.fetch_add(1, Ordering::Relaxed) < MAX_DIALS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A resolver that leaves the lookup to the dial, so that calls on a kept connection need none.
#[derive(Debug)]
pub(crate) struct Later;

impl Resolver for Later {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        Ok(self.empty())
    }
}

/// No connection came about, so nothing of the request was sent.
#[derive(Debug)]
pub(crate) struct Unreached(String);

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreached {}

/// The outermost layer of a connection, which ties it to the call that uses it.
#[derive(Debug)]
pub(crate) struct Line<T> {
    inner: T,
    socket: Arc<TcpStream>,
}

impl<T: Transport> Transport for Line<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        grip::hold_socket(&self.socket)?;
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        grip::hold_socket(&self.socket)?;
        let more = self.inner.await_input(timeout)?;
        if let Some(reason) = reason_phrase(self.inner.buffers().input()) {
            grip::note_reason(reason);
        }
        Ok(more)
    }

    fn is_open(&mut self) -> bool {
        // ureq asks right before it keeps a connection for other calls, which a cut must not reach.
        grip::release();
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// Reads the reason phrase if the input begins with a complete status line.
fn reason_phrase(input: &[u8]) -> Option<String> {
    /// Enough for any phrase that is one.
    const MAX_LINE: usize = 512;
    let input = input.strip_prefix(b"HTTP/1.")?;
    let end = input.iter().take(MAX_LINE).position(|byte| *byte == b'\n')?;
    let line = String::from_utf8_lossy(input.get(..end)?);
    let phrase = line.splitn(3, ' ').nth(2).unwrap_or_default();
    Some(phrase.trim().chars().filter(|c| !c.is_control()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_phrase_is_what_follows_the_status() {
        let phrase = |input: &str| reason_phrase(input.as_bytes());
        assert_eq!(phrase("HTTP/1.1 400 Very Bad\r\nA: b\r\n").as_deref(), Some("Very Bad"));
        assert_eq!(phrase("HTTP/1.0 400\r\n").as_deref(), Some(""));
        assert_eq!(phrase("HTTP/1.1 200 OK"), None);
        assert_eq!(phrase("{\"a\": 1}\n"), None);
        assert_eq!(phrase(&format!("HTTP/1.1 200 {}\n", "x".repeat(600))), None);
    }

    #[test]
    fn places_are_limited_and_given_back() {
        let taken = Arc::new(AtomicUsize::new(0));
        let all: Vec<_> = std::iter::from_fn(|| Place::take(&taken)).collect();
        assert_eq!(all.len(), MAX_DIALS);
        assert_eq!(taken.load(Ordering::Relaxed), MAX_DIALS);
        drop(all);
        assert_eq!(taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn port_follows_the_scheme_and_ipv6_loses_its_brackets() {
        let of = |uri: &'static str| {
            let uri = Uri::from_static(uri);
            host_and_port(&uri).map(|(host, port)| format!("{host} {port}"))
        };
        assert_eq!(of("http://h/x").as_deref(), Some("h 80"));
        assert_eq!(of("https://h/x").as_deref(), Some("h 443"));
        assert_eq!(of("https://[::1]:8443/").as_deref(), Some("::1 8443"));
        assert_eq!(of("/x"), None);
    }
}
