//! The one thread that waits for all workers: for what they say, what they print, their ends, and the clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use super::lock;
use super::member::Member;

/// What a member has that can be waited for.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Source {
    Socket = 0,
    Exit = 1,
    Printed = 2,
}

const SOCKET: u64 = Source::Socket as u64;
const EXIT: u64 = Source::Exit as u64;

/// The key of the descriptor that only wakes.
const WAKE: u64 = u64::MAX;
/// Events that are taken at once.
const EVENTS: usize = 64;

type Work = Box<dyn FnOnce() + Send>;

/// The thread, as others see it.
pub(super) struct Switchboard {
    epoll: OwnedFd,
    wake: OwnedFd,
    members: Mutex<HashMap<u64, Arc<Member>>>,
    left: Condvar,
    timers: Mutex<BinaryHeap<Reverse<Timer>>>,
    next: AtomicU64,
}

/// Something to be done later.
struct Timer {
    at: Instant,
    number: u64,
    work: Work,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

static SWITCHBOARD: OnceLock<Arc<Switchboard>> = OnceLock::new();

/// Returns the switchboard of this process, which is there from the first worker on.
pub(super) fn switchboard() -> io::Result<&'static Switchboard> {
    static MAKING: Mutex<()> = Mutex::new(());
    if let Some(switchboard) = SWITCHBOARD.get() {
        return Ok(switchboard);
    }
    let _making = lock(&MAKING);
    if let Some(switchboard) = SWITCHBOARD.get() {
        return Ok(switchboard);
    }
    let made = Arc::new(Switchboard::new()?);
    let running = Arc::clone(&made);
    let thread = std::thread::Builder::new().name("switchboard".to_owned());
    drop(thread.spawn(move || running.run())?);
    Ok(SWITCHBOARD.get_or_init(|| made))
}

/// Waits until no worker is left that was told to end, or the time is over.
pub(crate) fn settle(time: Duration) {
    let Some(switchboard) = SWITCHBOARD.get() else { return };
    let until = Instant::now() + time;
    let mut members = lock(&switchboard.members);
    while members.values().any(|member| member.is_told_to_end()) {
        let Some(left) = until.checked_duration_since(Instant::now()) else { return };
        let waited = switchboard.left.wait_timeout(members, left);
        members = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

impl Switchboard {
    fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Self {
            epoll,
            wake,
            members: Mutex::default(),
            left: Condvar::new(),
            timers: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Returns a key that nobody else has.
    pub(super) fn key(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Looks after a member until it is gone.
    pub(super) fn admit(&self, member: &Arc<Member>) -> io::Result<()> {
        lock(&self.members).insert(member.key(), Arc::clone(member));
        let admitted = member.sources(|source, descriptor| {
            let data = EventData::new_u64(member.key() << 2 | source as u64);
            epoll::add(&self.epoll, descriptor, data, EventFlags::IN | EventFlags::ONESHOT)
        });
        if admitted.is_err() {
            self.dismiss(member);
        }
        Ok(admitted?)
    }

    /// Is told of one source of a member again, once.
    pub(super) fn watch(&self, member: &Member, source: Source, descriptor: impl AsFd, room: bool) {
        let data = EventData::new_u64(member.key() << 2 | source as u64);
        let room = if room { EventFlags::OUT } else { EventFlags::empty() };
        let flags = EventFlags::IN | room | EventFlags::ONESHOT;
        if let Err(error) = epoll::modify(&self.epoll, descriptor, data, flags) {
            tracing::error!(%error, "a worker cannot be watched");
        }
    }

    /// Returns the member of a key, if it is still looked after.
    pub(super) fn member(&self, key: u64) -> Option<Arc<Member>> {
        lock(&self.members).get(&key).cloned()
    }

    /// Forgets a member.
    pub(super) fn dismiss(&self, member: &Member) {
        lock(&self.members).remove(&member.key());
        self.left.notify_all();
    }

    /// Has something done after a while.
    pub(super) fn after(&self, time: Duration, work: impl FnOnce() + Send + 'static) {
        let timer = Timer { at: Instant::now() + time, number: self.key(), work: Box::new(work) };
        let mut timers = lock(&self.timers);
        let first = timers.peek().is_none_or(|Reverse(first)| timer < *first);
        timers.push(Reverse(timer));
        drop(timers);
        if first {
            // It fails only when the counter is full, and then it is readable already.
            let _: Result<usize, Errno> = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }

    fn run(&self) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        loop {
            let timeout = self.run_timers();
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "the switchboard cannot wait");
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
            for event in &events {
                // A copy: the struct is packed.
                let data = event.data;
                self.take(data.u64());
            }
        }
    }

    fn take(&self, data: u64) {
        if data == WAKE {
            let _: Result<usize, Errno> = rustix::io::read(&self.wake, &mut [0; 8]);
            return;
        }
        let Some(member) = self.member(data >> 2) else { return };
        // What adapters' answers set off is not all ours, and this thread must not end.
        let work = std::panic::AssertUnwindSafe(|| match data & 3 {
            SOCKET => member.on_socket(),
            EXIT => member.on_exit(),
            _ => member.on_printed(),
        });
        if std::panic::catch_unwind(work).is_err() {
            tracing::error!("the switchboard panicked over a worker");
            member.kill_for(super::Ending::Stopped);
        }
    }

    /// Does what is due; returns how long nothing is.
    fn run_timers(&self) -> Option<Timespec> {
        loop {
            let mut timers = lock(&self.timers);
            let now = Instant::now();
            let left = timers.peek()?.0.at.saturating_duration_since(now);
            if !left.is_zero() {
                // Rounded up, so that it does not wake just before.
                let left = left.min(Duration::from_secs(3600)) + Duration::from_micros(1);
                return Timespec::try_from(left).ok();
            }
            let Some(Reverse(Timer { work, .. })) = timers.pop() else { continue };
            drop(timers);
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
                tracing::error!("the switchboard panicked over a timer");
            }
        }
    }
}
