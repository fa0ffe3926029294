//! The hold that a call has on its connection, so that cancelling the call ends the wait for it.
//!
//! ureq runs a whole request on the calling thread and hands its transports nothing that tells which call
//! they serve. The grip of the call is therefore kept per thread for as long as the call runs.

use std::cell::RefCell;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a dial ends with.
pub(crate) type Dialled = io::Result<TcpStream>;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Grip>>> = const { RefCell::new(None) };
}

/// The hold of one call.
#[derive(Default)]
pub(crate) struct Grip {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cut: bool,
    held: Held,
    reason: Option<String>,
}

#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    /// The call waits for a connection to be made.
    Dial(Sender<Dialled>),
    /// The call reads from or writes to this socket.
    Socket(Arc<TcpStream>),
}

impl Grip {
    /// Makes a grip and lets it stand for this thread's call until the returned value is dropped.
    pub(crate) fn enter() -> Entered {
        let grip = Arc::new(Self::default());
        Entered { outer: CURRENT.replace(Some(Arc::clone(&grip))), grip }
    }

    /// Ends whatever the call waits for, now and from now on.
    pub(crate) fn cut(&self) {
        let mut state = self.lock();
        state.cut = true;
        // Under the lock: a socket that the call has let go may serve another call by now.
        match std::mem::take(&mut state.held) {
            Held::Nothing => {}
            Held::Dial(waiting) => drop(waiting.send(Err(cut_off()))),
            Held::Socket(socket) => drop(socket.shutdown(Shutdown::Both)),
        }
    }

    /// Returns the reason phrase of the last status line that was seen.
    pub(crate) fn take_reason(&self) -> Option<String> {
        self.lock().reason.take()
    }

    fn hold(&self, held: Held) -> io::Result<()> {
        let mut state = self.lock();
        if state.cut {
            return Err(cut_off());
        }
        state.held = held;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time during which a grip stands for its thread's call.
pub(crate) struct Entered {
    grip: Arc<Grip>,
    outer: Option<Arc<Grip>>,
}

impl Entered {
    /// Returns the grip.
    pub(crate) fn grip(&self) -> &Arc<Grip> {
        &self.grip
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.grip.lock().held = Held::Nothing;
        CURRENT.set(self.outer.take());
    }
}

/// Says that this thread's call waits for a dial; cutting it sends an error there.
pub(crate) fn hold_dial(waiting: Sender<Dialled>) -> io::Result<()> {
    current().map_or(Ok(()), |grip| grip.hold(Held::Dial(waiting)))
}

/// Says that this thread's call uses a socket; cutting it shuts the socket down.
pub(crate) fn hold_socket(socket: &Arc<TcpStream>) -> io::Result<()> {
    current().map_or(Ok(()), |grip| grip.hold(Held::Socket(Arc::clone(socket))))
}

/// Says that this thread's call no longer uses its socket.
pub(crate) fn release() {
    if let Some(grip) = current() {
        grip.lock().held = Held::Nothing;
    }
}

/// Keeps the reason phrase of a status line for this thread's call, because ureq does not.
pub(crate) fn note_reason(reason: String) {
    if let Some(grip) = current() {
        grip.lock().reason = Some(reason);
    }
}

fn current() -> Option<Arc<Grip>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Neither `Interrupted`, which readers retry, nor a kind that ureq takes for the end of a body.
fn cut_off() -> io::Error {
    io::Error::other("the call was cancelled")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::mpsc;

    fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Arc::new(near), listener.accept().unwrap().0)
    }

    #[test]
    fn cut_ends_the_wait_for_a_dial() {
        let entered = Grip::enter();
        let (sender, receiver) = mpsc::channel();
        hold_dial(sender).unwrap();
        entered.grip().cut();
        assert!(receiver.recv().unwrap().is_err());
    }

    #[test]
    fn cut_shuts_the_held_socket_down() {
        let (near, _far) = pair();
        let entered = Grip::enter();
        hold_socket(&near).unwrap();
        entered.grip().cut();
        assert_eq!((&*near).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn cut_leaves_a_released_socket_alone() {
        let (near, mut far) = pair();
        let entered = Grip::enter();
        hold_socket(&near).unwrap();
        release();
        entered.grip().cut();
        std::io::Write::write_all(&mut far, b"x").unwrap();
        assert_eq!((&*near).read(&mut [0]).unwrap(), 1);
    }

    #[test]
    fn nothing_can_be_held_after_the_cut() {
        let (near, _far) = pair();
        let entered = Grip::enter();
        entered.grip().cut();
        assert!(hold_socket(&near).is_err());
    }

    #[test]
    fn a_grip_ends_with_its_call() {
        let outer = Grip::enter();
        drop(Grip::enter());
        note_reason("seen".to_owned());
        assert_eq!(outer.grip().take_reason().as_deref(), Some("seen"));
        drop(outer);
        assert!(current().is_none());
    }
}
