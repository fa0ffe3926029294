//! What the calls of a worker ask of the router and wait for, on the worker's side.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;

use super::frame::{Frame, Kind};
use super::lock;
use super::spin::Spin;

/// The answer's text, or the error's.
pub(super) type Told = Result<String, String>;

/// Everything that is asked and not answered yet.
#[derive(Default)]
pub(super) struct Asks {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<Slot>>>,
    /// How many wait.
    waiting: AtomicUsize,
    /// Frames that are left to others.
    left: Mutex<VecDeque<Left>>,
    pub(super) spin: Spin,
}

/// Where one answer goes.
struct Slot {
    thread: Thread,
    answer: Mutex<Option<Told>>,
}

/// Somebody who waits for an answer.
pub(super) struct Waiting {
    id: u64,
    slot: Arc<Slot>,
}

/// A frame that somebody read who has no time for it.
pub(super) struct Left {
    kind: Kind,
    id: u64,
    text: Vec<u8>,
    piece: Option<(usize, usize)>,
}

impl Asks {
    /// Begins to wait, on this thread.
    pub(super) fn begin(&self) -> Waiting {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Slot { thread: std::thread::current(), answer: Mutex::default() });
        lock(&self.open).insert(id, Arc::clone(&slot));
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting { id, slot }
    }

    /// Waits no more; to say so twice is as good as once.
    pub(super) fn end(&self, waiting: &Waiting) {
        if lock(&self.open).remove(&waiting.id).is_some() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Gives an answer to the one who waits for it, if it does.
    pub(super) fn tell(&self, id: u64, answer: Told) {
        let slot = lock(&self.open).get(&id).cloned();
        if let Some(slot) = slot {
            *lock(&slot.answer) = Some(answer);
            slot.thread.unpark();
        }
    }

    /// Leaves a frame to others.
    pub(super) fn leave(&self, left: Left) {
        lock(&self.left).push_back(left);
    }

    /// Takes the first frame that was left.
    pub(super) fn take_left(&self) -> Option<Left> {
        lock(&self.left).pop_front()
    }

    /// Says whether somebody waits for what only a reader can bring, or left something to one.
    pub(super) fn need_a_reader(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0 || !lock(&self.left).is_empty()
    }
}

impl Waiting {
    /// Returns the number of the answer.
    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// Takes the answer, if it is there.
    pub(super) fn answer(&self) -> Option<Told> {
        lock(&self.slot.answer).take()
    }

    /// Says whether the answer is there.
    pub(super) fn is_answered(&self) -> bool {
        lock(&self.slot.answer).is_some()
    }
}

impl Left {
    pub(super) fn of(frame: Frame<'_>) -> Self {
        let Frame { kind, id, text, piece } = frame;
        Self { kind, id, text: text.to_vec(), piece }
    }

    pub(super) fn frame(&self) -> Frame<'_> {
        Frame { kind: self.kind, id: self.id, text: &self.text, piece: self.piece }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_goes_to_the_one_who_waits_for_it() {
        let asks = Asks::default();
        let (first, second) = (asks.begin(), asks.begin());
        assert!(asks.need_a_reader());
        asks.tell(second.id(), Err("no".to_owned()));
        asks.tell(77, Ok("nobody asked".to_owned()));
        assert!(!first.is_answered() && second.is_answered());
        assert_eq!(second.answer(), Some(Err("no".to_owned())));
        asks.tell(first.id(), Ok("yes".to_owned()));
        assert_eq!(first.answer(), Some(Ok("yes".to_owned())));
        asks.end(&first);
        asks.end(&second);
        asks.end(&second);
        assert!(!asks.need_a_reader());
    }

    #[test]
    fn what_is_left_is_taken_in_its_order() {
        let asks = Asks::default();
        for id in [1, 2] {
            asks.leave(Left::of(Frame { kind: Kind::Call, id, text: b"{}", piece: None }));
        }
        assert!(asks.need_a_reader());
        let ids = [asks.take_left(), asks.take_left()].map(|left| left.unwrap().frame().id);
        assert_eq!(ids, [1, 2]);
        assert!(asks.take_left().is_none() && !asks.need_a_reader());
    }
}
