//! One worker of a team, as the router has it: its process, its link, and what becomes of both.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rustix::io::Errno;

use super::asked::Asked;
use super::broker::Broker;
use super::ending::Ending;
use super::link::{Called, Done, Link, Reading, Said};
use super::lock;
use super::process::{GUARD_TIME, Process};
use super::switchboard::{Source, switchboard};
use super::team::Inner;

/// How long a worker has to end after it was told to.
const GRACE: Duration = Duration::from_secs(2);
/// When to look again at a link that somebody else reads.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often what a worker has sent is read when it has ended.
const LAST_TURNS: usize = 10_000;
/// How long after its socket a process has to end.
const LATE: Duration = Duration::from_secs(1);
/// How often printed text is read. One that prints without end waits for this, not for us.
const PRINTED: Duration = Duration::from_millis(10);

/// A worker that has begun to serve.
pub(crate) struct Begun {
    pub(crate) process: Process,
    /// Attends to its connects.
    pub(crate) broker: Option<Broker>,
}

/// A worker of a team.
pub(super) struct Member {
    key: u64,
    process_id: u32,
    team: Weak<Inner>,
    link: Link,
    process: Mutex<Process>,
    /// Why it was killed, if the router did it.
    fault: Mutex<Option<Ending>>,
    told_to_end: AtomicBool,
    retired: AtomicBool,
    /// Somebody looks after it again in a moment.
    looking: AtomicBool,
    /// The process has ended.
    gone: AtomicBool,
    broker: Mutex<Option<Broker>>,
}

impl Member {
    /// Takes a worker on: from now on the switchboard looks after it.
    pub(super) fn admit(begun: Begun, team: &Arc<Inner>) -> std::io::Result<Arc<Self>> {
        let switchboard = switchboard()?;
        let Begun { mut process, broker } = begun;
        let socket = process.take_socket().ok_or(std::io::ErrorKind::NotConnected)?;
        let member = Arc::new(Self {
            key: switchboard.key(),
            process_id: process.id(),
            team: Arc::downgrade(team),
            link: Link::new(socket, process.is_guarded()),
            process: Mutex::new(process),
            fault: Mutex::default(),
            told_to_end: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            looking: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            broker: Mutex::new(broker),
        });
        switchboard.admit(&member)?;
        Ok(member)
    }

    pub(super) const fn key(&self) -> u64 {
        self.key
    }

    pub(super) const fn process_id(&self) -> u32 {
        self.process_id
    }

    /// Returns how many calls it has that somebody waits for.
    pub(super) fn load(&self) -> usize {
        self.link.load()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    pub(super) fn is_told_to_end(&self) -> bool {
        self.told_to_end.load(Ordering::Acquire)
    }

    pub(super) fn has_answered(&self) -> bool {
        self.link.has_answered()
    }

    /// Lends out everything that is waited for.
    pub(super) fn sources(
        &self,
        mut each: impl FnMut(Source, BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        each(Source::Socket, self.link.socket())?;
        let process = lock(&self.process);
        each(Source::Exit, process.pidfd())?;
        each(Source::Printed, process.printed_pipe())
    }

    /// Makes a call. Gives it back if the worker takes no more.
    pub(super) fn call(
        self: &Arc<Self>,
        id: u64,
        call_id: &str,
        request: &str,
        done: Done,
    ) -> Result<(), Done> {
        match self.link.call(id, call_id, request, done, &|said| self.take(said))? {
            Called::Answered => {}
            Called::Waiting => self.watch(),
            Called::Broken(ending) => self.kill_for(ending),
        }
        Ok(())
    }

    /// Asks for the call of a name to be given up; false if it has none.
    pub(super) fn cancel(&self, call_id: &str) -> bool {
        let known = self.link.cancel(call_id);
        if known {
            self.watch();
        }
        known
    }

    /// Notes that nobody waits for a call any more; false if it is none of its calls.
    pub(super) fn abandon(&self, id: u64) -> bool {
        let known = self.link.abandon(id);
        self.go_if_retired();
        known
    }

    /// Takes no more calls, and goes when nobody waits for those that it has.
    pub(super) fn retire(&self) {
        self.link.close();
        self.retired.store(true, Ordering::Release);
        self.go_if_retired();
    }

    fn go_if_retired(&self) {
        if self.retired.load(Ordering::Acquire) && self.link.load() == 0 {
            self.kill_for(Ending::Stopped);
        }
    }

    /// Tells it to end, and sees to it that it does.
    pub(super) fn end(self: &Arc<Self>) {
        if self.told_to_end.swap(true, Ordering::AcqRel) {
            return;
        }
        self.link.end();
        self.watch();
        let member = Arc::downgrade(self);
        if let Ok(switchboard) = switchboard() {
            switchboard.after(GRACE, move || {
                if let Some(member) = member.upgrade() {
                    member.kill_for(Ending::Stopped);
                }
            });
        }
    }

    /// Kills it, and remembers why.
    pub(super) fn kill_for(&self, why: Ending) {
        self.link.close();
        lock(&self.fault).get_or_insert(why);
        lock(&self.process).kill();
        // A guard that does not do its work has its own end, and somebody else does it.
        let key = self.key;
        if let Ok(switchboard) = switchboard() {
            switchboard.after(GUARD_TIME, move || {
                if let Ok(switchboard) = super::switchboard::switchboard()
                    && let Some(member) = switchboard.member(key)
                {
                    lock(&member.process).kill_at_once();
                }
            });
        }
    }

    fn take(self: &Arc<Self>, said: Said<'_>) {
        let Some(team) = self.team.upgrade() else { return };
        match said {
            Said::Notice(text) => team.notice(text),
            Said::Ask { id, call, call_id, text } => {
                team.ask(Asked::new((call_id, text), (id, call), Arc::downgrade(self)));
            }
        }
    }

    /// Answers what a call asked.
    pub(super) fn tell(&self, id: u64, call: u64, answer: Result<&str, &str>) {
        self.link.tell(id, call, answer);
        if self.link.has_outgoing() {
            self.watch();
        }
    }

    /// Looks for a moment what comes of an answer: most calls go on at once.
    pub(super) fn look_on(self: &Arc<Self>, call: u64) {
        match self.link.look_on(call, &|said| self.take(said)) {
            Called::Answered => {}
            Called::Waiting => self.watch(),
            Called::Broken(ending) => self.kill_for(ending),
        }
    }

    /// Has the switchboard told of what comes.
    fn watch(&self) {
        let unwatched = !self.link.watched.swap(true, Ordering::AcqRel);
        let room = self.link.has_outgoing();
        if (unwatched || room)
            && let Ok(switchboard) = switchboard()
        {
            switchboard.watch(self, Source::Socket, self.link.socket(), room);
        }
    }

    /// Something has come, or there is room again.
    pub(super) fn on_socket(self: &Arc<Self>) {
        self.link.watched.store(false, Ordering::Release);
        self.link.flush();
        match self.link.read(&|said| self.take(said)) {
            // Whoever calls finds the answers; being woken for each of them would only slow it down.
            Reading::Busy => self.look_again(),
            Reading::Read if self.link.is_empty() && self.link.is_lively() => self.look_again(),
            Reading::Read | Reading::More => self.watch(),
            // Its end is on the way, unless it only closed the socket.
            Reading::End => {
                let member = Arc::downgrade(self);
                let late = move || {
                    if let Some(member) = member.upgrade() {
                        member.kill_for(Ending::Garbled { how: "it closed its socket" });
                    }
                };
                match switchboard() {
                    Ok(switchboard) => switchboard.after(LATE, late),
                    Err(_) => late(),
                }
            }
            Reading::Broken(ending) => self.kill_for(ending),
        }
        self.go_if_retired();
    }

    /// Leaves reading to whoever calls, and takes it up again when nobody does.
    fn look_again(self: &Arc<Self>) {
        if self.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let member = Arc::downgrade(self);
        let look = move || {
            if let Some(member) = member.upgrade() {
                member.looking.store(false, Ordering::Release);
                if member.link.is_empty() && member.link.is_lively() {
                    member.look_again();
                } else {
                    member.watch();
                }
            }
        };
        if self.link.has_outgoing() {
            self.watch();
        }
        if let Ok(switchboard) = switchboard() {
            switchboard.after(LOOK_AGAIN, look);
        }
    }

    /// The process has ended.
    pub(super) fn on_exit(self: &Arc<Self>) {
        self.gone.store(true, Ordering::SeqCst);
        // What it answered before it ended counts. What a process that it left behind sends does not.
        for _ in 0..LAST_TURNS {
            match self.link.read(&|said| self.take(said)) {
                Reading::More => {}
                Reading::Busy => std::thread::yield_now(),
                Reading::Read | Reading::End => break,
                Reading::Broken(ending) => {
                    lock(&self.fault).get_or_insert(ending);
                    break;
                }
            }
        }
        let status = {
            let mut process = lock(&self.process);
            let status = process.reap();
            process.read_printed();
            status
        };
        self.print();
        let ending = match (lock(&self.fault).take(), self.link.epitaph(), status) {
            (Some(fault), _, _) => fault,
            // Only the router stops a worker, and then it knows.
            (None, Some(Ending::Stopped), _) => Ending::Garbled { how: "it shut its socket" },
            (None, Some(epitaph), _) => epitaph,
            (None, None, Ok(Some(status))) => Ending::of(status),
            (None, None, Ok(None) | Err(_)) => Ending::Exited { code: -1 },
        };
        drop(lock(&self.broker).take());
        if let Ok(switchboard) = switchboard() {
            switchboard.dismiss(self);
        }
        match self.team.upgrade() {
            Some(team) => team.ended(self, &ending),
            None => drop(self.link.fail(&ending)),
        }
    }

    /// Gives up all calls, because the process is gone; returns how many there were.
    pub(super) fn fail(&self, ending: &Ending) -> usize {
        self.link.fail(ending)
    }

    /// Something was printed.
    pub(super) fn on_printed(self: &Arc<Self>) {
        let more = lock(&self.process).read_printed();
        self.print();
        if !more {
            return;
        }
        let member = Arc::downgrade(self);
        if let Ok(switchboard) = switchboard() {
            switchboard.after(PRINTED, move || {
                if let Some(member) = member.upgrade()
                    && let Ok(switchboard) = super::switchboard::switchboard()
                {
                    let process = lock(&member.process);
                    let pipe = process.printed_pipe();
                    switchboard.watch(&member, Source::Printed, pipe, false);
                }
            });
        }
    }

    fn print(&self) {
        let printed = lock(&self.process).take_printed();
        if let Some(team) = self.team.upgrade()
            && !printed.is_empty()
        {
            team.printed(&printed);
        }
    }
}
