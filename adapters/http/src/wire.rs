//! A TCP connection as ureq's transport, with a total limit on every read and write.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ureq::Error;
use ureq::unversioned::transport::{Buffers, LazyBuffers, NextTimeout, Transport};

/// A connected socket with its buffers.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: Arc<TcpStream>,
    buffers: LazyBuffers,
}

impl Wire {
    /// Makes a transport of a socket.
    pub(crate) fn new(socket: Arc<TcpStream>, buffers: LazyBuffers) -> Self {
        Self { socket, buffers }
    }
}

impl Transport for Wire {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let until = Until::new(timeout.for_write());
        let mut rest = self.buffers.output().get(..amount).unwrap_or_default();
        // Not `write_all`: a peer that takes a few bytes at a time would get the whole time for each.
        while !rest.is_empty() {
            self.socket.set_write_timeout(until.left()?)?;
            match (&*self.socket).write(rest) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if is_worth_another_try(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let until = Until::new(timeout.for_read());
        let space = self.buffers.input_append_buf();
        let read = loop {
            self.socket.set_read_timeout(until.left()?)?;
            match (&*self.socket).read(space) {
                Ok(read) => break read,
                Err(error) if is_worth_another_try(&error) => {}
                Err(error) => return Err(error.into()),
            }
        };
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        is_quiet(&self.socket).unwrap_or(false)
    }
}

/// The moment at which an operation has to be over, and ureq's name for the limit.
struct Until {
    at: Option<Instant>,
    limit: NextTimeout,
}

impl Until {
    fn new(limit: NextTimeout) -> Self {
        let after = (!limit.after.is_not_happening()).then_some(*limit.after);
        Self { at: after.and_then(|after| Instant::now().checked_add(after)), limit }
    }

    fn left(&self) -> Result<Option<Duration>, Error> {
        let Some(at) = self.at else { return Ok(None) };
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(Error::Timeout(self.limit.reason)) } else { Ok(Some(left)) }
    }
}

/// A signal came in between, or the socket's own limit ran out; `Until` decides about the latter.
fn is_worth_another_try(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Says whether an idle connection is still there. One with unread bytes is of no use: they belong to no
/// request.
fn is_quiet(socket: &TcpStream) -> io::Result<bool> {
    socket.set_nonblocking(true)?;
    let peeked = socket.peek(&mut [0]);
    socket.set_nonblocking(false)?;
    Ok(matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Wire::new(Arc::new(near), LazyBuffers::new(1024, 64 << 20)), listener.accept().unwrap().0)
    }

    fn limit(duration: Duration) -> NextTimeout {
        NextTimeout { after: duration.into(), ..NextTimeout::default() }
    }

    #[test]
    fn a_peer_that_reads_slowly_does_not_stretch_the_limit() {
        let (mut wire, mut peer) = pair();
        let reader = std::thread::spawn(move || {
            let mut taken = 0;
            while let Ok(read @ 1..) = peer.read(&mut [0; 4096]) {
                taken += read;
                std::thread::sleep(Duration::from_millis(1));
            }
            taken
        });
        let sent = wire.transmit_output(64 << 20, limit(Duration::from_millis(300)));
        assert!(matches!(sent, Err(Error::Timeout(_))), "{sent:?}");
        drop(wire);
        assert!(reader.join().unwrap() < 64 << 20);
    }

    #[test]
    fn a_closed_or_chatty_connection_is_not_open() {
        let (mut wire, mut peer) = pair();
        assert!(wire.is_open());
        peer.write_all(b"x").unwrap();
        assert!(wire.await_input(limit(Duration::from_secs(10))).unwrap());
        assert!(wire.is_open());
        drop(peer);
        while wire.is_open() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_silent_peer_ends_the_read_at_the_limit() {
        let (mut wire, _peer) = pair();
        let read = wire.await_input(limit(Duration::from_millis(20)));
        assert!(matches!(read, Err(Error::Timeout(_))), "{read:?}");
    }
}
