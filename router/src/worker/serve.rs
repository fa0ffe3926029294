//! The worker's side: reads requests, has them carried out on as many threads as are needed, and answers.
//!
//! One thread at a time reads. It carries out itself what it reads, and reads on: most calls are over sooner
//! than another thread would be awake. If it does not come back soon, another one takes over reading, so that
//! calls and cancellations are seen; and where that happens, the next ones take over at once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::asked;
use super::asks::{Asks, Left, Waiting};
use super::frame::{self, Frame, Kind, MAX_FRAME, Received};
use super::lock;
use super::spin::Spin;

/// The stack of a thread as most programs make them; what the dry run tried fits it.
pub(crate) const STACK: usize = 2 * 1024 * 1024;
/// How often to look whether somebody reads. A call that takes as long is a slow one.
const LOOK: Duration = Duration::from_micros(300);
/// After so many looks a call that computes is a long one.
const LONG: u32 = 33;
/// After so many looks without a slow call, none is expected.
const CALM: u32 = 3000;
/// After so many looks without a call, looking is left.
const QUIET: u32 = 30;
/// After so long without a call, a worker is at rest.
const REST: Duration = Duration::from_secs(1);
/// How often whoever waits for an answer looks whether somebody reads.
const ASKING: Duration = Duration::from_millis(20);

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
    end: Arc<End>,
    /// Who serves, as soon as somebody does.
    crew: Arc<OnceLock<Weak<Crew>>>,
}

/// Whether serving is over, and who has to know.
#[derive(Default)]
struct End {
    over: AtomicBool,
    serves: OnceLock<Thread>,
}

impl End {
    fn is_there(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn come(&self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.serves.get() {
            thread.unpark();
        }
    }
}

impl Wire {
    /// Makes it of a connected socket.
    pub(crate) fn new(socket: File) -> Self {
        let (pieces, end, crew) = Default::default();
        Self { socket: Arc::new(socket), pieces, end, crew }
    }

    /// Asks the router, and waits for its answer: the text or the error's. None while nobody serves: then there
    /// is no call for which anything could be asked.
    pub(crate) fn ask(&self, text: &str) -> Option<Result<String, String>> {
        if text.len() > asked::MAX_ASK {
            return Some(Err(asked::Refused::TooLong.to_text()));
        }
        self.crew.get()?.upgrade()?.ask(text)
    }

    /// Sends a text. A router that has gone does not mind.
    pub(crate) fn send(&self, kind: Kind, id: u64, text: &[u8]) -> io::Result<()> {
        let _pieces = (text.len() > MAX_FRAME / 2).then(|| lock(&self.pieces));
        // An adapter may close the socket. Who reads it then waits without end, and keeps the router from
        // seeing that it is closed; so it is over as soon as something cannot be sent.
        frame::write(&*self.socket, kind, id, text).inspect_err(|_| self.end.come())
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
    let main = std::thread::current();
    drop(wire.end.serves.set(main.clone()));
    let crew = Arc::new(Crew {
        wire,
        servant,
        most_threads,
        texts: Mutex::default(),
        idle: Mutex::default(),
        threads: AtomicUsize::new(0),
        reading: AtomicBool::new(true),
        eager: AtomicBool::new(false),
        taken: AtomicUsize::new(0),
        last: AtomicI32::new(0),
        watched: AtomicBool::new(true),
        main,
        asks: Asks::default(),
    });
    drop(crew.wire.crew.set(Arc::downgrade(&crew)));
    crew.hire()?;
    crew.watch();
    Ok(())
}

/// The threads of a worker, and what they share.
struct Crew {
    wire: Wire,
    servant: Arc<dyn Servant>,
    most_threads: usize,
    texts: Mutex<Texts>,
    /// Threads that have nothing to do, each with what tells it to read.
    idle: Mutex<Vec<(Thread, Arc<AtomicBool>)>>,
    threads: AtomicUsize,
    /// Whether somebody reads, or is about to.
    reading: AtomicBool,
    /// Calls take so long that whoever takes one has somebody else read first.
    eager: AtomicBool,
    /// Calls that were taken up.
    taken: AtomicUsize,
    /// The thread that took up the last one.
    last: AtomicI32,
    /// The main thread looks whether somebody reads.
    watched: AtomicBool,
    main: Thread,
    asks: Asks,
}

impl Crew {
    /// Looks, on the main thread, whether somebody reads, for as long as there are calls.
    fn watch(self: &Arc<Self>) {
        let (mut taken, mut quiet, mut calm, mut alone) = (0, 0, 0, 0);
        while !self.wire.end.is_there() {
            std::thread::park_timeout(LOOK);
            let now = self.taken.load(Ordering::SeqCst);
            alone = match now == taken && !self.reading.load(Ordering::SeqCst) {
                true => alone + 1,
                false => 0,
            };
            // Whoever read is in a call. If it waits there, others can do something; if it only has no
            // processor, they would have none either.
            if alone > 0 && is_asleep(self.last.load(Ordering::SeqCst)) {
                self.eager.store(true, Ordering::Relaxed);
                calm = 0;
                self.have_somebody_read();
            } else if alone == LONG {
                alone = 0;
                self.have_somebody_read();
            }
            quiet = if now == taken { quiet + 1 } else { 0 };
            calm += 1;
            taken = now;
            if calm == CALM {
                self.eager.store(false, Ordering::Relaxed);
            }
            if quiet >= QUIET && self.reading.load(Ordering::SeqCst) {
                self.rest_from(taken);
                (quiet, calm) = (0, 0);
            }
        }
    }

    /// Waits until another call is taken up, and lets go of what is not needed if that takes long.
    fn rest_from(&self, taken: usize) {
        self.eager.store(false, Ordering::Relaxed);
        self.watched.store(false, Ordering::SeqCst);
        let since = Instant::now();
        let mut rested = false;
        // A call may have been taken just before, by somebody who thought that this is watched.
        while self.taken.load(Ordering::SeqCst) == taken
            && !self.watched.load(Ordering::SeqCst)
            && !self.wire.end.is_there()
        {
            if rested {
                std::thread::park();
            } else if since.elapsed() < REST {
                std::thread::park_timeout(REST);
            } else {
                self.servant.rest();
                rested = true;
            }
        }
        self.watched.store(true, Ordering::SeqCst);
    }

    /// Has a thread that has nothing to do read, or a new one, unless somebody reads.
    fn have_somebody_read(self: &Arc<Self>) {
        while !self.reading.swap(true, Ordering::SeqCst) {
            if let Some((thread, told)) = lock(&self.idle).pop() {
                told.store(true, Ordering::SeqCst);
                thread.unpark();
                return;
            }
            let room = self.threads.load(Ordering::SeqCst) < self.most_threads;
            if room && self.hire().is_ok() {
                return;
            }
            // Without another thread, whoever comes back first reads; unless it came back just now.
            self.reading.store(false, Ordering::SeqCst);
            if lock(&self.idle).is_empty() {
                return;
            }
        }
    }

    /// Starts a thread, which reads.
    fn hire(self: &Arc<Self>) -> io::Result<()> {
        let crew = Arc::clone(self);
        let thread = std::thread::Builder::new().name("call".to_owned()).stack_size(STACK);
        drop(thread.spawn(move || crew.work())?);
        self.threads.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Reads and carries out calls until it is over.
    fn work(self: &Arc<Self>) {
        let spin = Spin::default();
        let told = Arc::new(AtomicBool::new(false));
        let mut buffer = vec![0; MAX_FRAME + 1];
        loop {
            // What somebody read who only waited for an answer comes first.
            let goes_on = match self.asks.take_left() {
                Some(left) => self.take(left.frame()),
                None => match self.receive(&spin, &mut buffer) {
                    Some(length) => match Frame::read(&buffer[..length]) {
                        Some(frame) => self.take(frame),
                        None => break,
                    },
                    None => break,
                },
            };
            if !goes_on {
                break;
            }
            self.wait_to_read(&told);
        }
        self.wire.end.come();
    }

    /// Asks the router for something, and waits for the answer. While nobody reads, whoever waits does: to wake
    /// another thread for that takes longer than most answers.
    fn ask(self: &Arc<Self>, text: &str) -> Option<Result<String, String>> {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_FRAME + 1]);
        }
        let waiting = self.asks.begin();
        let sent = self.wire.send(Kind::Ask, waiting.id(), text.as_bytes());
        loop {
            let answer = waiting.answer();
            if answer.is_some() || sent.is_err() || self.wire.end.is_there() {
                self.asks.end(&waiting);
                return answer;
            }
            if self.reading.swap(true, Ordering::SeqCst) {
                // Somebody else reads, and tells.
                std::thread::park_timeout(ASKING);
                continue;
            }
            match BUFFER.with_borrow_mut(|buffer| self.read_for(&waiting, buffer)) {
                Some(()) => {
                    if waiting.is_answered() {
                        // Nobody has to read for this one any more.
                        self.asks.end(&waiting);
                    }
                    self.leave_reading();
                }
                None => self.wire.end.come(),
            }
        }
    }

    /// Reads until an answer is there, or something comes that others have to do; none when it is over.
    fn read_for(&self, waiting: &Waiting, buffer: &mut [u8]) -> Option<()> {
        while !waiting.is_answered() {
            let length = self.receive(&self.asks.spin, buffer)?;
            let frame = Frame::read(&buffer[..length])?;
            match frame.kind {
                Kind::Told | Kind::Untold => self.tell(frame),
                _ => {
                    self.asks.leave(Left::of(frame));
                    return Some(());
                }
            }
        }
        Some(())
    }

    /// Gives an answer to whoever asked.
    fn tell(&self, frame: Frame<'_>) {
        if let Some(text) = lock(&self.texts).add(frame)
            && let Ok(text) = String::from_utf8(text)
        {
            let answer = if frame.kind == Kind::Told { Ok(text) } else { Err(text) };
            self.asks.tell(frame.id, answer);
        }
    }

    /// Waits until it is this thread's turn to read, which it may be at once.
    fn wait_to_read(&self, told: &Arc<AtomicBool>) {
        if !self.reading.swap(true, Ordering::SeqCst) {
            return;
        }
        lock(&self.idle).push((std::thread::current(), Arc::clone(told)));
        while !told.swap(false, Ordering::SeqCst) {
            std::thread::park();
        }
    }

    /// Waits for a message; none when the router has gone.
    fn receive(&self, spin: &Spin, buffer: &mut [u8]) -> Option<usize> {
        let socket = &*self.wire.socket;
        let found = spin.look(|| match frame::try_receive(socket, buffer) {
            Ok(Received::Nothing) => None,
            Ok(Received::Message(length)) => Some(Some(length)),
            Ok(Received::End) | Err(_) => Some(None),
        });
        if let Some(found) = found {
            return found;
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

    /// Does what a frame says, and leaves reading to others meanwhile; false when it is over.
    fn take(self: &Arc<Self>, frame: Frame<'_>) -> bool {
        match frame.kind {
            Kind::Call => {
                // Whole texts, which most are, are not copied.
                let text = match frame.piece {
                    None => None,
                    Some(_) => match lock(&self.texts).add(frame) {
                        None => {
                            self.reading.store(false, Ordering::SeqCst);
                            return true;
                        }
                        whole => whole,
                    },
                };
                self.call(frame.id, text.as_deref().unwrap_or(frame.text));
                true
            }
            Kind::Told | Kind::Untold => {
                self.tell(frame);
                self.reading.store(false, Ordering::SeqCst);
                true
            }
            Kind::Cancel => {
                self.leave_reading();
                if let Ok(call_id) = std::str::from_utf8(frame.text) {
                    self.servant.cancel(call_id);
                }
                true
            }
            _ => false,
        }
    }

    fn call(self: &Arc<Self>, id: u64, text: &[u8]) {
        let reply = Reply { wire: self.wire.clone(), id };
        self.leave_reading();
        // The router sends JSON text.
        if let Ok(request) = std::str::from_utf8(text) {
            self.servant.start(request, reply);
        }
    }

    fn leave_reading(self: &Arc<Self>) {
        self.last.store(own_id(), Ordering::SeqCst);
        self.reading.store(false, Ordering::SeqCst);
        self.taken.fetch_add(1, Ordering::SeqCst);
        if self.eager.load(Ordering::Relaxed) || self.asks.need_a_reader() {
            self.have_somebody_read();
        } else if !self.watched.swap(true, Ordering::SeqCst) {
            self.main.unpark();
        }
    }
}

/// Returns the number of this thread.
fn own_id() -> i32 {
    thread_local! {
        static ID: i32 = rustix::thread::gettid().as_raw_pid();
    }
    ID.with(|id| *id)
}

/// Says whether a thread waits for something other than a processor.
fn is_asleep(id: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/self/task/{id}/stat"));
    let state = status.ok().and_then(|status| status.rsplit_once(") ")?.1.chars().next());
    state.is_none_or(|state| state != 'R')
}

/// Texts that come in pieces. The pieces of one may come in any order, because each thread reads for itself.
#[derive(Default)]
struct Texts {
    parts: HashMap<(u8, u64), (Vec<u8>, usize)>,
}

impl Texts {
    /// Adds a piece; returns the text when that was the last one. The router is believed.
    fn add(&mut self, frame: Frame<'_>) -> Option<Vec<u8>> {
        let Some((total, offset)) = frame.piece else { return Some(frame.text.to_vec()) };
        let key = (frame.kind as u8, frame.id);
        let part = self.parts.entry(key).or_insert_with(|| (vec![0; total], 0));
        part.0.get_mut(offset..offset + frame.text.len())?.copy_from_slice(frame.text);
        part.1 += frame.text.len();
        if part.1 < total {
            return None;
        }
        self.parts.remove(&key).map(|(text, _)| text)
    }
}
