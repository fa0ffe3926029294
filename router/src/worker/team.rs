//! The workers of one adapter: who gets a call, who is started and when, and when that is given up.

mod crashes;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::asked::Asked;
use super::ending::Ending;
use super::link::{Answer, Done};
use super::lock;
use super::member::{Begun, Member};
use super::switchboard::switchboard;
use crashes::{CrashCount, FIRST_PAUSE, RestartPause};

/// A call waits for a worker through a shorter pause, and is refused in a longer one.
const SHORT_PAUSE: Duration = Duration::from_secs(1);

/// How many workers there are, and how many crashes are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Workers at once.
    pub(crate) processes: usize,
    /// So many crashes
    pub(crate) crashes: usize,
    /// in so long a time
    pub(crate) window: Duration,
    /// put an adapter into quarantine for so long.
    pub(crate) quarantine: Duration,
}

/// Why a call was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There were too many crashes.
    Quarantined { left: Duration, crashes: usize, last: String },
    /// There was a crash a moment ago, and the next worker is not started yet.
    Pausing { left: Duration, last: String },
    /// A worker could not be started.
    Unstartable { why: String },
    /// The adapter is not there any more.
    Closed,
}

/// Something that befell a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incident {
    /// A worker ended that should not have, with so many calls under way.
    Crashed { ending: Ending, lost: usize },
    /// A worker was ended because calls did not end when they were told to.
    Stuck,
    /// A worker could not be started.
    NotStarted { why: String },
    /// No worker is started for so long.
    Quarantined { time: Duration, crashes: usize },
    /// The quarantine is over; perhaps somebody ended it.
    Released { by: Option<String> },
}

/// How a team does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// `idle`, `starting`, `serving`, `waiting` or `quarantined`.
    pub(crate) state: &'static str,
    /// The ids of the processes that serve.
    pub(crate) processes: Vec<u32>,
    /// Workers that were started after another had ended.
    pub(crate) restarts: u64,
    /// How the last one ended.
    pub(crate) last_end: Option<String>,
    /// How long no worker is started.
    pub(crate) left: Option<Duration>,
}

/// Starts a worker, and returns when it serves. The error is for people.
pub(crate) type Begin = Box<dyn Fn() -> Result<Begun, String> + Send + Sync>;

/// Takes something, and must not wait.
pub(crate) type Take<T> = Box<dyn Fn(&T) + Send + Sync>;

/// What a team is made of.
pub(crate) struct Makeup {
    pub(crate) rules: Rules,
    pub(crate) begin: Begin,
    /// Takes the text of a notice.
    pub(crate) notices: Take<[u8]>,
    /// Takes what a call asks for.
    pub(crate) asks: Box<dyn Fn(Asked) + Send + Sync>,
    /// Takes what a worker printed.
    pub(crate) printed: Take<str>,
    /// Is told what befalls the team.
    pub(crate) incidents: Box<dyn Fn(Incident) + Send + Sync>,
}

/// The workers of one adapter. They end when this is dropped.
pub(crate) struct Team {
    inner: Arc<Inner>,
}

/// A call that was made, or waits to be.
pub(crate) struct Ticket {
    inner: Arc<Inner>,
    id: u64,
}

pub(super) struct Inner {
    makeup: Makeup,
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that take calls.
    crew: Vec<Arc<Member>>,
    /// Those that only finish theirs.
    retired: Vec<Arc<Member>>,
    starting: usize,
    /// Calls that wait for a worker.
    waiting: VecDeque<Waiting>,
    crashes: CrashCount,
    /// Nothing is started until then; in quarantine or only for a while.
    pause: Option<(Instant, bool)>,
    restarts: u64,
    last_end: Option<String>,
    closed: bool,
}

struct Waiting {
    id: u64,
    call_id: String,
    request: String,
    done: Done,
}

impl Team {
    /// Makes a team, perhaps with a worker that serves already.
    pub(crate) fn new(makeup: Makeup, first: Option<Begun>) -> Self {
        let state = Mutex::default();
        let inner = Arc::new(Inner { makeup, next: AtomicU64::new(1), state });
        if let Some(begun) = first {
            lock(&inner.state).starting += 1;
            inner.started(Ok(begun));
        }
        Self { inner }
    }

    /// Makes a call. `done` gets the answer, perhaps before this returns.
    pub(crate) fn call(&self, call_id: &str, request: &str, done: Done) -> Ticket {
        let inner = &self.inner;
        let id = inner.next.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket { inner: Arc::clone(inner), id };
        let mut state = lock(&inner.state);
        let least = state.crew.iter().map(|member| (member.load(), member)).min_by_key(|one| one.0);
        let Some((load, member)) = least.map(|(load, member)| (load, Arc::clone(member))) else {
            drop(state);
            inner.wait_for_a_worker(id, call_id, request, done);
            return ticket;
        };
        let fewer = state.crew.len() + state.starting < inner.makeup.rules.processes;
        if load > 0 && fewer && state.pause_left().is_none() {
            inner.launch(&mut state);
        }
        drop(state);
        if let Err(done) = member.call(id, call_id, request, done) {
            // It has just gone; the next one takes the call, which nobody has seen yet.
            inner.wait_for_a_worker(id, call_id, request, done);
        }
        ticket
    }

    /// Asks for the calls of a name to be given up. Those that were not made yet are not made.
    pub(crate) fn cancel(&self, call_id: &str) {
        let mut state = lock(&self.inner.state);
        let waiting = state.waiting.iter().position(|waiting| waiting.call_id == call_id);
        let waiting = waiting.and_then(|at| state.waiting.remove(at));
        let members: Vec<_> = state.everybody().cloned().collect();
        drop(state);
        match waiting {
            Some(Waiting { done, .. }) => done(Answer::Refused(Refusal::Closed)),
            None => drop(members.iter().any(|member| member.cancel(call_id))),
        }
    }

    /// Tells how it does.
    pub(crate) fn report(&self) -> Report {
        let state = lock(&self.inner.state);
        let left = state.pause_left();
        let name = match (left, state.crew.is_empty(), state.starting) {
            (Some((_, true)), true, 0) => "quarantined",
            (Some((_, false)), true, 0) => "waiting",
            (_, false, _) => "serving",
            (None, true, 0) => "idle",
            _ => "starting",
        };
        Report {
            state: name,
            processes: state.crew.iter().map(|member| member.process_id()).collect(),
            restarts: state.restarts,
            last_end: state.last_end.clone(),
            left: left.map(|(left, _)| left),
        }
    }

    /// Forgets crashes, and ends a quarantine in the name of somebody. True if there was one.
    pub(crate) fn release(&self, by: Option<&str>) -> bool {
        let mut state = lock(&self.inner.state);
        state.crashes.forget();
        let quarantined = matches!(state.pause.take(), Some((_, true)));
        drop(state);
        if quarantined {
            let by = by.map(str::to_owned);
            (self.inner.makeup.incidents)(Incident::Released { by });
        }
        quarantined
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        let mut state = lock(&self.inner.state);
        state.closed = true;
        let members: Vec<_> = state.crew.drain(..).collect();
        // Nobody waits for what they have: whoever does holds the team.
        let retired: Vec<_> = state.retired.drain(..).collect();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for member in members.iter().chain(&retired) {
            member.end();
        }
        for Waiting { done, .. } in waiting {
            done(Answer::Refused(Refusal::Closed));
        }
    }
}

impl Ticket {
    /// Gives up on the call: it did not end when it was told to. Its worker finishes what others wait for,
    /// and is then killed.
    pub(crate) fn abandon(&self) {
        let mut state = lock(&self.inner.state);
        let members: Vec<_> = state.everybody().cloned().collect();
        let Some(member) = members.into_iter().find(|member| member.abandon(self.id)) else {
            return;
        };
        let at = state.crew.iter().position(|one| Arc::ptr_eq(one, &member));
        if let Some(at) = at {
            let member = state.crew.swap_remove(at);
            state.retired.push(member);
            state.last_end = Some("a call did not end when it was told to".to_owned());
            self.inner.keep_going(&mut state);
        }
        drop(state);
        member.retire();
        if at.is_some() {
            (self.inner.makeup.incidents)(Incident::Stuck);
        }
    }
}

impl Inner {
    pub(super) fn notice(&self, text: &[u8]) {
        (self.makeup.notices)(text);
    }

    pub(super) fn ask(&self, asked: Asked) {
        (self.makeup.asks)(asked);
    }

    pub(super) fn printed(&self, text: &str) {
        (self.makeup.printed)(text);
    }

    /// Has a call wait for a worker, unless there will be none soon.
    fn wait_for_a_worker(self: &Arc<Self>, id: u64, call_id: &str, request: &str, done: Done) {
        let mut state = lock(&self.state);
        if let Some(refusal) = state.refusal() {
            drop(state);
            return done(Answer::Refused(refusal));
        }
        let (call_id, request) = (call_id.to_owned(), request.to_owned());
        state.waiting.push_back(Waiting { id, call_id, request, done });
        if state.crew.is_empty() {
            self.keep_going(&mut state);
            return;
        }
        drop(state);
        self.hand_out();
    }

    /// Gives calls that wait to those who can take them.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let mut state = lock(&self.state);
            let member = state.crew.iter().min_by_key(|member| member.load()).cloned();
            let Some(member) = member else {
                if !state.waiting.is_empty() {
                    self.keep_going(&mut state);
                }
                return;
            };
            let Some(Waiting { id, call_id, request, done }) = state.waiting.pop_front() else {
                return;
            };
            drop(state);
            if let Err(done) = member.call(id, &call_id, &request, done) {
                let mut state = lock(&self.state);
                state.waiting.push_front(Waiting { id, call_id, request, done });
                // Its end is about to be told.
                let at = state.crew.iter().position(|one| Arc::ptr_eq(one, &member));
                if let Some(at) = at {
                    let member = state.crew.swap_remove(at);
                    state.retired.push(member);
                }
            }
        }
    }

    /// Starts a worker if there is none and nothing speaks against it.
    fn keep_going(self: &Arc<Self>, state: &mut State) {
        let paused = state.pause_left().is_some();
        if state.crew.is_empty() && state.starting == 0 && !paused && !state.closed {
            self.launch(state);
        }
    }

    fn launch(self: &Arc<Self>, state: &mut State) {
        state.starting += 1;
        let inner = Arc::clone(self);
        let thread = std::thread::Builder::new().name("worker-start".to_owned());
        let started = thread.spawn(move || {
            let begun = (inner.makeup.begin)();
            inner.started(begun);
        });
        if let Err(error) = started {
            state.starting -= 1;
            state.pause = Some((Instant::now() + FIRST_PAUSE, false));
            self.wake_after(FIRST_PAUSE);
            tracing::error!(%error, "no worker can be started: there is no thread for it");
        }
    }

    /// A worker serves, or could not be started.
    fn started(self: &Arc<Self>, begun: Result<Begun, String>) {
        let admitted = begun.and_then(|begun| {
            Member::admit(begun, self).map_err(|error| format!("it cannot be watched: {error}"))
        });
        let mut state = lock(&self.state);
        state.starting -= 1;
        match admitted {
            Ok(member) if state.closed => {
                drop(state);
                member.end();
            }
            Ok(member) => {
                // Its end may have been told already.
                if !member.is_gone() {
                    state.crew.push(member);
                }
                drop(state);
                self.hand_out();
            }
            Err(why) => {
                state.last_end = Some(why.clone());
                let waiting = std::mem::take(&mut state.waiting);
                let quarantined = self.count_crash(&mut state, true);
                drop(state);
                for Waiting { done, .. } in waiting {
                    done(Answer::Refused(Refusal::Unstartable { why: why.clone() }));
                }
                (self.makeup.incidents)(Incident::NotStarted { why });
                quarantined.into_iter().for_each(&self.makeup.incidents);
            }
        }
    }

    /// A worker is gone.
    pub(super) fn ended(self: &Arc<Self>, member: &Arc<Member>, ending: &Ending) {
        let mut state = lock(&self.state);
        state.crew.retain(|one| !Arc::ptr_eq(one, member));
        state.retired.retain(|one| !Arc::ptr_eq(one, member));
        state.restarts += u64::from(!state.closed);
        let expected = state.closed || *ending == Ending::Stopped;
        let mut quarantined = None;
        if !expected {
            state.last_end = Some(ending.to_string());
            // Whoever waits gets the next one; if there is none for now, they are told below.
            quarantined = self.count_crash(&mut state, !member.has_answered());
            self.keep_going(&mut state);
        } else if !state.waiting.is_empty() {
            self.keep_going(&mut state);
        }
        let refused = match state.refusal() {
            Some(refusal) => Some((refusal, std::mem::take(&mut state.waiting))),
            None => None,
        };
        drop(state);
        let lost = member.fail(ending);
        if !expected {
            (self.makeup.incidents)(Incident::Crashed { ending: ending.clone(), lost });
        }
        quarantined.into_iter().for_each(&self.makeup.incidents);
        if let Some((refusal, waiting)) = refused {
            for Waiting { done, .. } in waiting {
                done(Answer::Refused(refusal.clone()));
            }
        }
    }

    /// Counts a crash, and decides when the next worker is started.
    fn count_crash(self: &Arc<Self>, state: &mut State, in_vain: bool) -> Option<Incident> {
        let now = Instant::now();
        let RestartPause { time, quarantined } =
            state.crashes.add(now, in_vain, self.makeup.rules)?;
        state.pause = Some((now + time, quarantined));
        self.wake_after(time);
        let crashes = state.crashes.before_quarantine();
        quarantined.then_some(Incident::Quarantined { time, crashes })
    }

    /// Starts the next worker when a pause is over. After a quarantine it is started when it is needed.
    fn wake_after(self: &Arc<Self>, time: Duration) {
        let inner = Arc::downgrade(self);
        let wake = move || {
            let Some(inner) = inner.upgrade() else { return };
            let mut state = lock(&inner.state);
            if state.pause.is_some_and(|(until, _)| Instant::now() < until) {
                return;
            }
            let was_quarantined = matches!(state.pause.take(), Some((_, true)));
            if !was_quarantined || !state.waiting.is_empty() {
                inner.keep_going(&mut state);
            }
            drop(state);
            if was_quarantined {
                (inner.makeup.incidents)(Incident::Released { by: None });
            }
        };
        if let Ok(switchboard) = switchboard() {
            switchboard.after(time, wake);
        }
    }
}

impl State {
    fn everybody(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.crew.iter().chain(&self.retired)
    }

    /// Returns how long nothing is started, and whether that is a quarantine.
    fn pause_left(&self) -> Option<(Duration, bool)> {
        let (until, quarantined) = self.pause?;
        let left = until.checked_duration_since(Instant::now())?;
        Some((left, quarantined))
    }

    /// Says why no call can be taken now.
    fn refusal(&self) -> Option<Refusal> {
        if self.closed {
            return Some(Refusal::Closed);
        }
        if !self.crew.is_empty() {
            return None;
        }
        let last = self.last_end.clone().unwrap_or_default();
        match self.pause_left()? {
            (left, true) => {
                let crashes = self.crashes.before_quarantine();
                Some(Refusal::Quarantined { left, crashes, last })
            }
            (left, false) if left > SHORT_PAUSE => Some(Refusal::Pausing { left, last }),
            _ => None,
        }
    }
}
