//! What a broker's threads are doing: bounded in number, and ended when nobody waits for it any more.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::Shutdown;

/// How many errands a worker may have at once.
pub(super) const MOST: usize = 64;
/// How often those that do not end are woken up again.
const AGAIN: Duration = Duration::from_millis(50);

/// The errands of one broker.
#[derive(Debug, Default)]
pub(super) struct Errands {
    open: Mutex<Open>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    over: bool,
    next: u64,
    sockets: BTreeMap<u64, Arc<OwnedFd>>,
}

/// One of them, for as long as it goes on.
#[derive(Debug)]
pub(super) struct Errand {
    errands: Arc<Errands>,
    number: u64,
    socket: Arc<OwnedFd>,
}

impl Errands {
    /// Begins an errand with a socket; none if there are too many, or if all is over.
    pub(super) fn begin(self: &Arc<Self>, socket: OwnedFd) -> Option<Errand> {
        let socket = Arc::new(socket);
        let mut open = self.lock();
        if open.over || open.sockets.len() >= MOST {
            return None;
        }
        let number = open.next;
        open.next += 1;
        open.sockets.insert(number, Arc::clone(&socket));
        Some(Errand { errands: Arc::clone(self), number, socket })
    }

    /// Lets no errand begin any more, and waits until all have ended. Only those that ask for a name can take
    /// their time.
    pub(super) fn end(&self) {
        let mut open = self.lock();
        open.over = true;
        while !open.sockets.is_empty() {
            for socket in open.sockets.values() {
                // A connect under way fails, and so does a read. One that is about to begin does not notice, and
                // so it is told again.
                let _ = rustix::net::shutdown(socket, Shutdown::Both);
            }
            let waited = self.ended.wait_timeout(open, AGAIN);
            open = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns how many are under way.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().sockets.len()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Errand {
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Lets go of the socket, and has another one ended with the errand.
    pub(super) fn go_on_with(&mut self, socket: OwnedFd) {
        self.socket = Arc::new(socket);
        self.errands.lock().sockets.insert(self.number, Arc::clone(&self.socket));
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.errands.lock().sockets.remove(&self.number);
        self.errands.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn pair() -> (UnixStream, OwnedFd) {
        let (one, other) = UnixStream::pair().unwrap();
        (one, other.into())
    }

    #[test]
    fn errands_are_bounded_and_each_makes_room_when_it_ends() {
        let errands = Arc::new(Errands::default());
        let mut open: Vec<Errand> = (0..MOST).map(|_| errands.begin(pair().1).unwrap()).collect();
        assert!(errands.begin(pair().1).is_none());
        open.pop();
        assert!(errands.begin(pair().1).is_some());
    }

    #[test]
    fn the_end_ends_what_is_under_way_and_lets_nothing_begin() {
        let errands = Arc::new(Errands::default());
        let (mut first, socket) = pair();
        let mut errand = errands.begin(socket).unwrap();
        let (mut second, socket) = pair();
        errand.go_on_with(socket);
        assert_eq!(first.read(&mut [0]).unwrap(), 0, "the first socket is let go of");
        let ending = Arc::clone(&errands);
        let ending = std::thread::spawn(move || ending.end());
        assert_eq!(second.read(&mut [0]).unwrap(), 0);
        assert!(errands.begin(pair().1).is_none());
        assert!(!ending.is_finished(), "one is still under way");
        drop(errand);
        ending.join().unwrap();
    }
}
