//! What waits to be written into the audit log: bounded, with floods folded into one event each.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use crate::clock::Timestamp;
use crate::json::{Object, Value};
use crate::store::{AuditEntry, Error};

/// So many events may wait.
pub(super) const MAX_WAITING: usize = 4096;
/// So many are committed together.
const MAX_BATCH: usize = 512;
/// So many of the same are recorded one by one within a window.
pub(super) const INDIVIDUAL: u64 = 20;
/// How long events are looked at together.
const WINDOW: Duration = Duration::from_secs(1);
/// So many kinds of the same are told apart; all others of a kind are one.
const MAX_KEYS: usize = 1024;
/// So many characters of a text tell events apart.
const MAX_KEY: usize = 256;

/// Is told whether an event was written.
pub(super) type Waiter = SyncSender<Result<(), Error>>;

/// An event that waits, and who waits for it.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) entry: AuditEntry,
    pub(super) waiter: Option<Waiter>,
}

/// What makes two events the same besides their kind: whom it happened to, where, and why.
pub(super) const TELLING: [&str; 8] =
    ["from", "reason", "why", "name", "what", "adapter", "tool", "method"];

/// The kind, and the texts of what tells events apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key(String, [String; TELLING.len()]);

impl Key {
    fn of(entry: &AuditEntry) -> Self {
        let text = |name: &str| {
            let text = entry.payload.get(name).and_then(Value::as_str).unwrap_or_default();
            text.chars().take(MAX_KEY).collect()
        };
        Self(entry.kind.clone(), TELLING.map(text))
    }
}

/// Events of one key within a second.
#[derive(Debug)]
struct Window {
    since: Instant,
    seen: u64,
    folded: Option<Folded>,
}

/// Events that are recorded as one.
#[derive(Debug)]
struct Folded {
    entry: AuditEntry,
    count: u64,
    last: Timestamp,
}

/// What found no room.
#[derive(Debug)]
struct Dropped {
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    items: VecDeque<Item>,
    windows: HashMap<Key, Window>,
    dropped: Option<Dropped>,
    pub(super) closing: bool,
    closed: bool,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Says whether somebody waits for one of them.
    pub(super) fn is_urgent(&self) -> bool {
        self.items.iter().any(|item| item.waiter.is_some())
    }

    /// Takes an event: as it is, as one of a flood, or as one that was lost.
    pub(super) fn take(&mut self, entry: AuditEntry, now: Instant) {
        if self.closed {
            return;
        }
        let mut key = Key::of(&entry);
        let mut several = false;
        if self.windows.len() >= MAX_KEYS && !self.windows.contains_key(&key) {
            // Somebody makes up addresses or names; then only the kind is told.
            key = Key(key.0, Default::default());
            several = true;
        }
        let window =
            self.windows.entry(key).or_insert(Window { since: now, seen: 0, folded: None });
        window.seen += 1;
        if window.seen <= INDIVIDUAL {
            return self.push(entry);
        }
        match &mut window.folded {
            Some(folded) => {
                folded.count += 1;
                folded.last = entry.ts;
            }
            None => {
                let last = entry.ts;
                let payload = if several { Object::new() } else { entry.payload };
                let entry = AuditEntry { payload, ..entry };
                window.folded = Some(Folded { entry, count: 1, last });
            }
        }
    }

    /// Takes an event that somebody waits for. They bound themselves by waiting.
    pub(super) fn take_now(&mut self, entry: AuditEntry, waiter: Waiter) {
        if !self.closed {
            self.items.push_back(Item { entry, waiter: Some(waiter) });
        }
    }

    fn push(&mut self, entry: AuditEntry) {
        if self.items.len() >= MAX_WAITING {
            return self.lose(1, entry.ts);
        }
        self.items.push_back(Item { entry, waiter: None });
    }

    fn lose(&mut self, count: u64, ts: Timestamp) {
        let dropped = self.dropped.get_or_insert(Dropped { count: 0, first: ts, last: ts });
        dropped.count += count;
        dropped.last = ts;
    }

    /// Tells of floods whose second is over, and of what was lost if there is room again.
    pub(super) fn settle(&mut self, now: Instant, ts: Timestamp) {
        let closing = self.closing;
        let is_over = |window: &Window| closing || now.duration_since(window.since) >= WINDOW;
        let over: Vec<Window> = self
            .windows
            .extract_if(|_, window| is_over(window))
            .map(|(_, window)| window)
            .collect();
        for window in over {
            let Some(Folded { mut entry, count, last }) = window.folded else { continue };
            entry.payload.insert("count", count);
            entry.payload.insert("first", entry.ts.to_string());
            entry.payload.insert("last", last.to_string());
            if self.items.len() >= MAX_WAITING {
                self.lose(count, last);
            } else {
                self.items
                    .push_back(Item { entry: AuditEntry { ts: last, ..entry }, waiter: None });
            }
        }
        if self.items.len() < MAX_WAITING
            && let Some(Dropped { count, first, last }) = self.dropped.take()
        {
            let mut payload = Object::new();
            payload.insert("count", count);
            payload.insert("first", first.to_string());
            payload.insert("last", last.to_string());
            let entry = AuditEntry { ts, kind: "audit.dropped".to_owned(), payload };
            self.items.push_back(Item { entry, waiter: None });
        }
    }

    /// Says when the next second is over.
    pub(super) fn next_window(&self) -> Option<Instant> {
        self.windows.values().map(|window| window.since + WINDOW).min()
    }

    /// Returns what is to be committed next.
    pub(super) fn batch(&mut self) -> Vec<Item> {
        let count = self.items.len().min(MAX_BATCH);
        self.items.drain(..count).collect()
    }

    /// Puts back what could not be written, before everything else, as far as there is room.
    pub(super) fn put_back(&mut self, mut entries: Vec<AuditEntry>, ts: Timestamp) {
        let room = MAX_WAITING.saturating_sub(self.items.len());
        let lost = entries.split_off(entries.len().min(room));
        if !lost.is_empty() {
            self.lose(lost.len() as u64, ts);
        }
        for entry in entries.into_iter().rev() {
            self.items.push_front(Item { entry, waiter: None });
        }
    }

    /// Takes nothing more. Whoever waits is told by the end of their channel.
    pub(super) fn give_up(&mut self) {
        self.closed = true;
        self.items.clear();
    }
}
