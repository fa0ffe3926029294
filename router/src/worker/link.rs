//! The router's end of a worker's socket: calls under way, and who reads the answers.
//!
//! Whoever makes a call writes it to the socket. If it is the only one, it also looks for the answer for a
//! moment; otherwise, and if that was in vain, the switchboard does. What a worker says is not believed: an
//! answer counts only for a call that it has, and only once.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, TryLockError};
use std::time::{Duration, Instant};

use super::allowance::{Affordable, Allowance};
use super::asked::{self, AT_ONCE, MOST_ASKS, Refused};
use super::ending::Ending;
use super::frame::{self, Frame, Gathering, Kind, MAX_FRAME, Received};
use super::lock;
use super::spin::Spin;

/// The longest answer, and the longest of anything else.
const MAX_ANSWER: usize = 17 * 1024 * 1024;
const MAX_NOTICE: usize = 2 * 1024 * 1024;
/// How often the worker is let go on before its answers are waited for.
const LOOKS: usize = 3;
/// Frames that are read at once before others have their turn.
const TURN: usize = 256;
/// Bytes that may wait for room, until answers to questions are withheld.
const MOST_WAITING: usize = 64 * 1024 * 1024;
/// What refusing a question costs, of what may be spent on notices.
const REFUSING: usize = 4096;

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The output's text, as it crossed the ABI.
    Output(String),
    /// The error's text, as it crossed the ABI.
    Error(String),
    /// There is none: the worker is gone. It may have carried out the call or not.
    Lost(Ending),
    /// There is none, and the call was never made: there is no worker.
    Refused(super::Refusal),
}

/// Takes the answer of a call. It may be called on the thread that reads for all: it must not wait.
pub(crate) type Done = Box<dyn FnOnce(Answer) + Send>;

/// The router's end of a worker's socket.
pub(super) struct Link {
    socket: OwnedFd,
    /// Whether the worker has a guard, which says how it ended.
    guarded: bool,
    calls: Mutex<Calls>,
    incoming: Mutex<Incoming>,
    outgoing: Mutex<VecDeque<Vec<u8>>>,
    /// Whether the switchboard is told of what comes.
    pub(super) watched: AtomicBool,
    spin: Spin,
    /// When an answer was last found without the switchboard, in microseconds.
    found: AtomicU64,
    answered: AtomicBool,
    /// How the worker ended, as its guard says.
    epitaph: Mutex<Option<Ending>>,
}

#[derive(Default)]
struct Calls {
    open: HashMap<u64, Open>,
    /// Calls that nobody waits for any more.
    abandoned: usize,
    /// No more calls are taken.
    closed: bool,
}

struct Open {
    call_id: Box<str>,
    done: Done,
    abandoned: bool,
    /// What it asked so far, and how much of that is not answered.
    asks: usize,
    unanswered: usize,
}

/// What a worker says while it works. Whoever takes it must not wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Said<'a> {
    /// Something for the log.
    Notice(&'a [u8]),
    /// A call that it has asks for something; the answer has this number, and the call that one.
    Ask { id: u64, call: u64, call_id: &'a str, text: &'a str },
}

/// Takes what a worker says.
pub(super) type Take<'a> = &'a dyn Fn(Said<'_>);

/// What was read of the socket and not understood yet. Whoever reads holds it.
struct Incoming {
    buffer: Vec<u8>,
    /// A text that comes in pieces.
    gathering: Gathering,
    /// How much may come that nobody waits for.
    notices: Allowance,
    /// The rules were broken, or the other side has gone: nothing more is believed. An empty message looks like
    /// the end, too, and others may follow it.
    over: bool,
}

/// How a call was taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// The answer has come.
    Answered,
    /// The answer is yet to come.
    Waiting,
    /// The worker broke the rules.
    Broken(Ending),
}

/// What a frame was.
enum Heard {
    Answered(u64, Done, Answer),
    Notice(Vec<u8>),
    Ask {
        id: u64,
        call: u64,
        call_id: Box<str>,
        text: String,
    },
    /// A piece, or a notice too many.
    Something,
    Nothing,
    End,
    Broken(Ending),
}

/// How reading came out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing more is there now.
    Read,
    /// There is more, but others have their turn.
    More,
    /// Somebody else reads.
    Busy,
    /// The worker has closed the socket.
    End,
    /// The worker broke the rules.
    Broken(Ending),
}

impl Link {
    pub(super) fn new(socket: OwnedFd, guarded: bool) -> Self {
        let incoming = Incoming {
            buffer: vec![0; MAX_FRAME + 1],
            gathering: Gathering::default(),
            notices: Allowance::default(),
            over: false,
        };
        Self {
            socket,
            guarded,
            calls: Mutex::default(),
            incoming: Mutex::new(incoming),
            outgoing: Mutex::default(),
            watched: AtomicBool::new(true),
            spin: Spin::default(),
            found: AtomicU64::new(0),
            answered: AtomicBool::new(false),
            epitaph: Mutex::default(),
        }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns how many calls are under way that somebody waits for.
    pub(super) fn load(&self) -> usize {
        let calls = lock(&self.calls);
        calls.open.len() - calls.abandoned
    }

    /// Says whether no call is under way.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.calls).open.is_empty()
    }

    /// Makes a call. Gives it back if no more are taken.
    pub(super) fn call(
        &self,
        id: u64,
        call_id: &str,
        request: &str,
        done: Done,
        take: Take<'_>,
    ) -> Result<Called, Done> {
        let alone = {
            let mut calls = lock(&self.calls);
            if calls.closed {
                return Err(done);
            }
            let call_id = call_id.into();
            let open = Open { call_id, done, abandoned: false, asks: 0, unanswered: 0 };
            calls.open.insert(id, open);
            calls.open.len() == 1
        };
        self.send(Kind::Call, id, request.as_bytes());
        Ok(if alone { self.look(id, take) } else { Called::Waiting })
    }

    /// Looks for what the only call does next, after it was told something.
    pub(super) fn look_on(&self, id: u64, take: Take<'_>) -> Called {
        let alone = {
            let calls = lock(&self.calls);
            calls.open.len() == 1 && calls.open.contains_key(&id)
        };
        if alone { self.look(id, take) } else { Called::Waiting }
    }

    /// Looks for the answer of the only call for a moment.
    fn look(&self, id: u64, take: Take<'_>) -> Called {
        let Ok(mut incoming) = self.incoming.try_lock() else { return Called::Waiting };
        let found = self.spin.look(|| match self.hear(&mut incoming) {
            Heard::Notice(text) => {
                take(Said::Notice(&text));
                None
            }
            Heard::Something | Heard::Nothing => None,
            heard => Some(heard),
        });
        drop(incoming);
        match found {
            Some(Heard::Answered(of, done, answer)) => {
                self.found.store(now(), Ordering::Relaxed);
                done(answer);
                // Whoever else waits has to be told of what comes.
                if of == id && self.is_empty() { Called::Answered } else { Called::Waiting }
            }
            Some(Heard::Broken(ending)) => Called::Broken(ending),
            // Whoever answers it may be the one who looks here.
            Some(Heard::Ask { id, call, call_id, text }) => {
                take(Said::Ask { id, call, call_id: &call_id, text: &text });
                Called::Waiting
            }
            // The switchboard sees the end too.
            _ => Called::Waiting,
        }
    }

    /// Returns how the worker ended, if its guard has said so.
    pub(super) fn epitaph(&self) -> Option<Ending> {
        lock(&self.epitaph).take()
    }

    /// Says whether the worker has ever answered a call.
    pub(super) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Says whether an answer was found without the switchboard a moment ago.
    pub(super) fn is_lively(&self) -> bool {
        now().saturating_sub(self.found.load(Ordering::Relaxed)) < 10_000
    }

    /// Reads what has come, for the switchboard.
    pub(super) fn read(&self, take: Take<'_>) -> Reading {
        let mut incoming = match self.incoming.try_lock() {
            Ok(incoming) => incoming,
            Err(TryLockError::WouldBlock) => return Reading::Busy,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let mut looks = 0;
        for _ in 0..TURN {
            match self.hear(&mut incoming) {
                Heard::Answered(_, done, answer) => done(answer),
                Heard::Notice(text) => take(Said::Notice(&text)),
                Heard::Ask { id, call, call_id, text } => {
                    take(Said::Ask { id, call, call_id: &call_id, text: &text });
                }
                Heard::Something => {}
                // More answers in one go cost less than being told of each.
                Heard::Nothing if looks < LOOKS && self.load() > 1 => {
                    looks += 1;
                    rustix::thread::sched_yield();
                }
                Heard::Nothing => return Reading::Read,
                Heard::End => return Reading::End,
                Heard::Broken(ending) => return Reading::Broken(ending),
            }
        }
        Reading::More
    }

    fn hear(&self, incoming: &mut Incoming) -> Heard {
        if incoming.over {
            return Heard::End;
        }
        let heard = self.hear_next(incoming);
        incoming.over = matches!(heard, Heard::Broken(_) | Heard::End);
        heard
    }

    fn hear_next(&self, incoming: &mut Incoming) -> Heard {
        let length = match frame::try_receive(&self.socket, &mut incoming.buffer) {
            Ok(Received::Message(length)) => length,
            Ok(Received::Nothing) => return Heard::Nothing,
            Ok(Received::End) | Err(_) => return Heard::End,
        };
        let Incoming { buffer, gathering, notices, .. } = incoming;
        let Some(frame) = Frame::read(&buffer[..length]) else {
            return broken("it sent what is no frame");
        };
        let Frame { kind, id, .. } = frame;
        let most = match kind {
            Kind::Notice => MAX_NOTICE,
            // One that is too long is refused, not a breach: an author may not know how long is too long.
            Kind::Ask => 2 * asked::MAX_ASK,
            _ => MAX_ANSWER,
        };
        let whole = match gathering.add(frame, most) {
            Ok(Some(whole)) => whole,
            Ok(None) => return Heard::Something,
            Err(how) => return broken(how),
        };
        match kind {
            Kind::Answer | Kind::Error => {
                let Some(Open { done, .. }) = self.take(id) else {
                    return broken("it answered a call that it does not have");
                };
                let Ok(text) = String::from_utf8(whole) else {
                    // The call must not be lost with its answer.
                    done(Answer::Lost(Ending::Garbled { how: NOT_TEXT }));
                    return broken(NOT_TEXT);
                };
                let answer =
                    if kind == Kind::Answer { Answer::Output(text) } else { Answer::Error(text) };
                self.answered.store(true, Ordering::Relaxed);
                Heard::Answered(id, done, answer)
            }
            Kind::Notice => match notices.afford(whole.len()) {
                Affordable::Yes => Heard::Notice(whole),
                Affordable::No => Heard::Something,
                Affordable::Flood => Heard::Broken(Ending::Flooded),
            },
            Kind::Ask => match self.admit(id, whole) {
                Ok(ask) => ask,
                Err((refused, length)) => match notices.afford(length + REFUSING) {
                    Affordable::Yes => {
                        self.send(Kind::Untold, id, refused.to_text().as_bytes());
                        Heard::Something
                    }
                    Affordable::No | Affordable::Flood => Heard::Broken(Ending::Flooded),
                },
            },
            // The guard's is the last one, whatever its worker said before.
            Kind::Ended if self.guarded => match notices.afford(whole.len()) {
                Affordable::Flood => Heard::Broken(Ending::Flooded),
                Affordable::Yes | Affordable::No => {
                    *lock(&self.epitaph) = Ending::read(&whole);
                    Heard::Something
                }
            },
            Kind::Ended => broken("it sent a frame that only a guard sends"),
            _ => broken("it sent a frame that only a router sends"),
        }
    }

    /// Lets a question through if it is of a call that the worker has, and not one too many.
    fn admit(&self, id: u64, text: Vec<u8>) -> Result<Heard, (Refused, usize)> {
        let length = text.len();
        let refuse = |refused| (refused, length);
        let (call_id, text) = asked::read(text).map_err(refuse)?;
        let mut calls = lock(&self.calls);
        let mut open = calls.open.iter_mut();
        let own = open.find(|(_, open)| *open.call_id == *call_id && !open.abandoned);
        let Some((call, open)) = own else { return Err(refuse(Refused::NoCall)) };
        if open.asks >= MOST_ASKS {
            return Err(refuse(Refused::TooMany));
        }
        if open.unanswered >= AT_ONCE {
            return Err(refuse(Refused::TooManyAtOnce));
        }
        open.asks += 1;
        open.unanswered += 1;
        Ok(Heard::Ask { id, call: *call, call_id: call_id.into(), text })
    }

    /// Answers what a call asked. Who does not read what it asked for is not kept more and more of it.
    pub(super) fn tell(&self, id: u64, call: u64, answer: Result<&str, &str>) {
        if let Some(open) = lock(&self.calls).open.get_mut(&call) {
            open.unanswered = open.unanswered.saturating_sub(1);
        }
        let waiting: usize = lock(&self.outgoing).iter().map(Vec::len).sum();
        match answer {
            Ok(text) if waiting <= MOST_WAITING => self.send(Kind::Told, id, text.as_bytes()),
            Ok(_) => self.send(Kind::Untold, id, Refused::Unread.to_text().as_bytes()),
            Err(text) => self.send(Kind::Untold, id, text.as_bytes()),
        }
    }

    fn take(&self, id: u64) -> Option<Open> {
        let mut calls = lock(&self.calls);
        let open = calls.open.remove(&id)?;
        calls.abandoned -= usize::from(open.abandoned);
        Some(open)
    }

    /// Asks the worker to give up the call of a name; false if it has none.
    pub(super) fn cancel(&self, call_id: &str) -> bool {
        let known = lock(&self.calls).open.values().any(|open| *open.call_id == *call_id);
        if known {
            self.send(Kind::Cancel, 0, call_id.as_bytes());
        }
        known
    }

    /// Notes that nobody waits for a call any more; false if the worker does not have it.
    pub(super) fn abandon(&self, id: u64) -> bool {
        let mut calls = lock(&self.calls);
        let Some(open) = calls.open.get_mut(&id) else { return false };
        let newly = !std::mem::replace(&mut open.abandoned, true);
        calls.abandoned += usize::from(newly);
        true
    }

    /// Takes no more calls.
    pub(super) fn close(&self) {
        lock(&self.calls).closed = true;
    }

    /// Gives up all calls, because the worker has gone.
    pub(super) fn fail(&self, ending: &Ending) -> usize {
        let open = {
            let mut calls = lock(&self.calls);
            calls.closed = true;
            calls.abandoned = 0;
            std::mem::take(&mut calls.open)
        };
        let lost = open.len();
        for (_, Open { done, .. }) in open {
            done(Answer::Lost(ending.clone()));
        }
        lost
    }

    /// Tells the worker to end when it can.
    pub(super) fn end(&self) {
        self.close();
        self.send(Kind::End, 0, &[]);
    }

    /// Sends, or keeps what there is no room for. A worker that has gone shows otherwise.
    fn send(&self, kind: Kind, id: u64, text: &[u8]) {
        let mut outgoing = lock(&self.outgoing);
        for (head, body) in frame::cut(kind, id, text) {
            let sent = outgoing.is_empty()
                && frame::try_send(&self.socket, head.bytes(), body).unwrap_or(true);
            if !sent {
                outgoing.push_back([head.bytes(), body].concat());
            }
        }
    }

    /// Says whether something waits for room.
    pub(super) fn has_outgoing(&self) -> bool {
        !lock(&self.outgoing).is_empty()
    }

    /// Sends what there is room for now.
    pub(super) fn flush(&self) {
        let mut outgoing = lock(&self.outgoing);
        while let Some(message) = outgoing.front() {
            if !frame::try_send(&self.socket, message, &[]).unwrap_or(true) {
                return;
            }
            outgoing.pop_front();
        }
    }
}

const NOT_TEXT: &str = "it sent an answer that is no text";

fn broken(how: &'static str) -> Heard {
    Heard::Broken(Ending::Garbled { how })
}

/// Returns the time since some moment, in microseconds.
fn now() -> u64 {
    static BEGINNING: LazyLock<Instant> = LazyLock::new(|| {
        let now = Instant::now();
        // So that 0 is long ago.
        now.checked_sub(Duration::from_secs(1)).unwrap_or(now)
    });
    u64::try_from(BEGINNING.elapsed().as_micros()).unwrap_or(u64::MAX)
}
