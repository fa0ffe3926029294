//! The worker's side: reads requests, has them carried out on as many threads as are needed, and answers.
//!
//! Every thread reads for itself, and the kernel wakes one of them per message. A thread that is in a call
//! does not read, so as long as one is free, calls and cancellations are seen.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use rustix::io::Errno;

use super::frame::{self, Frame, Kind, MAX_FRAME, Received};
use super::spin::Spin;

/// Threads that are there from the beginning.
const FIRST_THREADS: usize = 2;
/// The stack of a thread as most programs make them; what the dry run tried fits it.
const STACK: usize = 2 * 1024 * 1024;
/// How long all threads may be busy before there are more of them.
const BUSY: Duration = Duration::from_micros(300);

/// How long nothing must happen until a worker is at rest.
const REST: Duration = Duration::from_secs(1);

/// What carries out the calls.
pub(crate) trait Servant: Send + Sync {
    /// Carries out a request; the answer may come later, and from another thread.
    fn start(&self, request: &str, reply: Reply);

    /// Gives up the call with this name.
    fn cancel(&self, call_id: &str);

    /// Is told when there has been nothing to do for a while.
    fn rest(&self);
}

/// The worker's end of the socket.
#[derive(Clone)]
pub(crate) struct Wire {
    socket: Arc<File>,
    /// Held while a text is sent in pieces: the router takes one such text at a time.
    pieces: Arc<Mutex<()>>,
}

impl Wire {
    /// Makes it of a connected socket.
    pub(crate) fn new(socket: File) -> Self {
        Self { socket: Arc::new(socket), pieces: Arc::default() }
    }

    /// Sends a text. A router that has gone does not mind.
    pub(crate) fn send(&self, kind: Kind, id: u64, text: &[u8]) -> io::Result<()> {
        let _pieces = (text.len() > MAX_FRAME / 2).then(|| lock(&self.pieces));
        frame::write(&*self.socket, kind, id, text)
    }

    /// Sends a short text with a descriptor.
    pub(crate) fn send_with(
        &self,
        kind: Kind,
        text: &[u8],
        with: BorrowedFd<'_>,
    ) -> io::Result<()> {
        frame::send_with(&*self.socket, kind, text, with)
    }
}

/// Waits for the job, which comes first.
pub(crate) fn receive_job(socket: impl AsFd) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; MAX_FRAME + 1];
    let mut texts = Texts::default();
    loop {
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&socket, &mut buffer[..]))?;
        match Frame::read(&buffer[..length]) {
            Some(frame) if frame.kind == Kind::Job => {
                if let Some(text) = texts.add(frame) {
                    return Ok(text);
                }
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Where the answer of one call goes.
pub(crate) struct Reply {
    wire: Wire,
    id: u64,
}

impl Reply {
    /// Sends the output's or the error's text.
    pub(crate) fn send(self, answer: Result<&str, &str>) {
        let (kind, text) = match answer {
            Ok(text) => (Kind::Answer, text),
            Err(text) => (Kind::Error, text),
        };
        // When the router has gone, nobody waits.
        drop(self.wire.send(kind, self.id, text.as_bytes()));
    }
}

/// Serves until the router says that it is over, or has gone.
pub(crate) fn serve(wire: Wire, servant: Arc<dyn Servant>, most_threads: usize) -> io::Result<()> {
    let crew = Arc::new(Crew {
        wire,
        servant,
        texts: Mutex::default(),
        free: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        spinning: AtomicBool::new(false),
        crowded: AtomicBool::new(false),
        over: AtomicBool::new(false),
        main: std::thread::current(),
    });
    let mut threads = 0;
    let mut grow = |by: usize| -> io::Result<usize> {
        for _ in 0..by {
            let crew = Arc::clone(&crew);
            crew.free.fetch_add(1, Ordering::SeqCst);
            let thread = std::thread::Builder::new().name("call".to_owned()).stack_size(STACK);
            drop(thread.spawn(move || crew.work())?);
            threads += 1;
        }
        Ok(threads)
    };
    let mut threads = grow(FIRST_THREADS)?;
    let mut rested = usize::MAX;
    while !crew.over.load(Ordering::SeqCst) {
        let done = crew.done.load(Ordering::Relaxed);
        if done == rested {
            std::thread::park();
        } else {
            std::thread::park_timeout(REST);
            if done == crew.done.load(Ordering::Relaxed) {
                crew.servant.rest();
                rested = done;
            }
        }
        // All are busy. If they get nowhere, more are needed; if they only have much to do, more would
        // stand in each other's way.
        while crew.crowded.load(Ordering::SeqCst) && !crew.over.load(Ordering::SeqCst) {
            let done = crew.done.load(Ordering::Relaxed);
            std::thread::sleep(BUSY);
            let moved = crew.done.load(Ordering::Relaxed).wrapping_sub(done);
            let busy = crew.free.load(Ordering::SeqCst) == 0;
            if busy && moved < threads && threads < most_threads {
                // Without another thread the calls that are there go on.
                threads = grow(threads.min(most_threads - threads)).unwrap_or(most_threads);
            }
            let may_grow = threads < most_threads;
            if !busy || !may_grow {
                crew.crowded.store(false, Ordering::SeqCst);
                // The last free thread may have gone into a call just before, and then told nobody.
                let busy = crew.free.load(Ordering::SeqCst) == 0;
                crew.crowded.fetch_or(busy && may_grow, Ordering::SeqCst);
            }
        }
    }
    Ok(())
}

/// The threads of a worker, and what they share.
struct Crew {
    wire: Wire,
    servant: Arc<dyn Servant>,
    texts: Mutex<Texts>,
    /// Threads that are not in a call.
    free: AtomicUsize,
    /// Calls that threads came back from.
    done: AtomicUsize,
    /// One thread at a time looks without sleeping.
    spinning: AtomicBool,
    /// The main thread was told that no thread is free.
    crowded: AtomicBool,
    over: AtomicBool,
    main: Thread,
}

impl Crew {
    fn work(&self) {
        let spin = Spin::default();
        let mut buffer = vec![0; MAX_FRAME + 1];
        while let Some(length) = self.receive(&spin, &mut buffer) {
            let Some(frame) = Frame::read(&buffer[..length]) else { break };
            if !self.take(frame) {
                break;
            }
        }
        self.over.store(true, Ordering::SeqCst);
        self.main.unpark();
    }

    /// Waits for a message; none when the router has gone.
    fn receive(&self, spin: &Spin, buffer: &mut [u8]) -> Option<usize> {
        let socket = &*self.wire.socket;
        if !self.spinning.swap(true, Ordering::Acquire) {
            let found = spin.look(|| match frame::try_receive(socket, buffer) {
                Ok(Received::Nothing) => None,
                Ok(Received::Message(length)) => Some(Some(length)),
                Ok(Received::End) | Err(_) => Some(None),
            });
            self.spinning.store(false, Ordering::Release);
            if let Some(found) = found {
                return found;
            }
        }
        loop {
            match rustix::io::read(socket, &mut *buffer) {
                Ok(0) => return None,
                Ok(length) => return Some(length),
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    /// Does what a frame says; false when that is to end.
    fn take(&self, frame: Frame<'_>) -> bool {
        match frame.kind {
            Kind::Call => {
                // Whole texts, which most are, are not copied.
                let text = match frame.piece {
                    None => None,
                    Some(_) => match lock(&self.texts).add(frame) {
                        None => return true,
                        whole => whole,
                    },
                };
                self.call(frame.id, text.as_deref().unwrap_or(frame.text));
                true
            }
            Kind::Cancel => {
                if let Ok(call_id) = std::str::from_utf8(frame.text) {
                    self.servant.cancel(call_id);
                }
                true
            }
            _ => false,
        }
    }

    fn call(&self, id: u64, text: &[u8]) {
        let reply = Reply { wire: self.wire.clone(), id };
        // The router sends JSON text.
        let Ok(request) = std::str::from_utf8(text) else { return };
        let last = self.free.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && !self.crowded.swap(true, Ordering::SeqCst) {
            self.main.unpark();
        }
        self.servant.start(request, reply);
        self.free.fetch_add(1, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Texts that come in pieces. The pieces of one may come in any order, because each thread reads for itself.
#[derive(Default)]
struct Texts {
    parts: HashMap<u64, (Vec<u8>, usize)>,
}

impl Texts {
    /// Adds a piece; returns the text when that was the last one. The router is believed.
    fn add(&mut self, frame: Frame<'_>) -> Option<Vec<u8>> {
        let Some((total, offset)) = frame.piece else { return Some(frame.text.to_vec()) };
        let part = self.parts.entry(frame.id).or_insert_with(|| (vec![0; total], 0));
        part.0.get_mut(offset..offset + frame.text.len())?.copy_from_slice(frame.text);
        part.1 += frame.text.len();
        if part.1 < total {
            return None;
        }
        self.parts.remove(&frame.id).map(|(text, _)| text)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
