//! Connects for confined adapters, to granted places alone.
//!
//! A worker that is granted some places cannot connect by itself: each connect stops it and comes here as a
//! notice. The address is read once, judged, and connected to from here, on the worker's own socket; what the
//! worker does to its memory meanwhile changes nothing. Who connects to a server of names finds this module at
//! the other end, which knows the granted names and no others, so that nothing leaks through questions either.

mod census;
mod dns;
mod errands;
mod journal;
mod judge;
mod mediator;
mod names;
mod refusals;
#[cfg(test)]
mod tests;

use std::io::{self, PipeReader, PipeWriter};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, ipproto, sockopt};

use crate::grant::Endpoint;
use crate::sandbox::{Listener, Notice, NoticeKind, Target, nowhere};

pub(crate) use census::Census;
use dns::Found;
use errands::{Errand, Errands};
pub(crate) use journal::{Contact, Journal};
use judge::{NAMES, Naming, Verdict, judge, naming};
pub(crate) use mediator::MetadataMediator;
use names::{Names, Resolve, ask_system};
use refusals::Refusals;

/// Attends to the connects of one worker. Dropping it ends that: connects under way fail, and so does every
/// later one.
#[derive(Debug)]
pub(crate) struct Broker {
    /// The thread sees that this is closed.
    _life: PipeWriter,
}

/// Attends to the connects of one worker, until it and all that it started are gone.
///
/// Whether the answers reach the worker is for the worker to find out, with `sandbox::probe`.
pub(crate) fn attend(
    listener: OwnedFd,
    granted: Vec<Endpoint>,
    adapter: &str,
) -> io::Result<Broker> {
    begin(&Arc::new(Desk::new(listener, granted, adapter, ask_system)?))
}

/// Services for the calls of an execution, besides its connects.
#[derive(Debug)]
pub(crate) struct ExecutionServices {
    /// Records every connect that is made or refused.
    pub(crate) journal: Journal,
    /// Counts the processes.
    pub(crate) census: Census,
    /// Changes metadata of files, if the execution may ask for that.
    pub(crate) mediator: Option<MetadataMediator>,
}

/// As [`attend`], for the calls of an execution.
pub(crate) fn attend_execution(
    listener: OwnedFd,
    granted: Vec<Endpoint>,
    adapter: &str,
    services: ExecutionServices,
) -> io::Result<Broker> {
    let mut desk = Desk::new(listener, granted, adapter, ask_system)?;
    let ExecutionServices { journal, census, mediator } = services;
    (desk.journal, desk.census, desk.mediator) = (Some(journal), Some(census), mediator);
    begin(&Arc::new(desk))
}

fn begin(desk: &Arc<Desk>) -> io::Result<Broker> {
    let desk = Arc::clone(desk);
    let (watch, life) = io::pipe()?;
    thread::Builder::new().name("connects".to_owned()).spawn(move || attend_all(&desk, &watch))?;
    Ok(Broker { _life: life })
}

/// What the threads of a broker share.
#[derive(Debug)]
struct Desk {
    listener: Listener,
    granted: Vec<Endpoint>,
    names: Names,
    errands: Arc<Errands>,
    refusals: Refusals,
    journal: Option<Journal>,
    census: Option<Census>,
    mediator: Option<MetadataMediator>,
}

impl Desk {
    fn new(
        listener: OwnedFd,
        granted: Vec<Endpoint>,
        adapter: &str,
        resolve: Resolve,
    ) -> io::Result<Self> {
        Ok(Self {
            listener: Listener::new(listener)?,
            granted,
            names: Names::new(resolve),
            errands: Arc::default(),
            refusals: Refusals::new(adapter),
            journal: None,
            census: None,
            mediator: None,
        })
    }

    /// Writes down what became of a connect, if somebody wants to know.
    fn note(&self, target: &str, granted: bool, result: Result<(), Errno>) {
        if let Some(journal) = &self.journal {
            journal.note(target, granted, result);
        }
    }

    fn refuse(&self, what: &str) {
        self.refusals.tell(what, &self.granted);
        self.note(what, false, Err(Errno::ACCESS));
    }

    /// Refuses an internal address that a granted name, or `*`, does not include.
    fn refuse_internal(&self, place: SocketAddr) {
        self.refusals.tell_internal(place, &self.granted);
        self.note(&place.to_string(), false, Err(Errno::ACCESS));
    }
}

/// A connect that waits for its answer. It gets one whatever happens.
#[derive(Debug)]
struct Pending {
    desk: Arc<Desk>,
    notice: Notice,
    answered: bool,
}

impl Pending {
    fn let_through(mut self) {
        self.desk.listener.let_through(&self.notice);
        self.answered = true;
    }

    fn answer(mut self, result: Result<(), Errno>) {
        self.desk.listener.answer(&self.notice, result);
        self.answered = true;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.answered {
            self.desk.listener.answer(&self.notice, Err(Errno::AGAIN));
        }
    }
}

fn attend_all(desk: &Arc<Desk>, watch: &PipeReader) {
    while is_asked(desk, watch) {
        match desk.listener.receive() {
            Ok(None) => {}
            Ok(Some(notice)) => {
                take(Pending { desk: Arc::clone(desk), notice, answered: false });
            }
            Err(error) => {
                tracing::error!(adapter = desk.refusals.adapter(), %error, "connects cannot be received");
                break;
            }
        }
    }
    desk.errands.end();
}

/// Waits for a notice. There will be none if the worker is gone, or nobody wants the broker any more.
fn is_asked(desk: &Desk, watch: &PipeReader) -> bool {
    loop {
        let mut ends =
            [PollFd::new(&desk.listener, PollFlags::IN), PollFd::new(watch, PollFlags::IN)];
        match poll(&mut ends, None) {
            Ok(_) => {
                let wanted = ends[1].revents().is_empty();
                return wanted && ends[0].revents().contains(PollFlags::IN);
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return false,
        }
    }
}

/// Does what needs no waiting, and leaves the rest to a thread of its own: also a socket that does not block
/// now may do so a moment later, when the worker changes its mind.
fn take(pending: Pending) {
    let (desk, notice) = (Arc::clone(&pending.desk), pending.notice);
    match notice.kind() {
        NoticeKind::Connect => {}
        NoticeKind::Process => {
            return match &desk.census {
                Some(census) if census.has_room() => pending.let_through(),
                _ => pending.answer(Err(Errno::AGAIN)),
            };
        }
        NoticeKind::FileChange => {
            let mediator = desk.mediator.as_ref().ok_or(Errno::PERM);
            let changed =
                mediator.and_then(|mediator| mediator.apply(&desk.listener.file_change(&notice)?));
            return pending.answer(changed);
        }
    }
    match look(&desk, &notice) {
        Ok((socket, place)) => {
            // Who may have no more errands is told so by the drop.
            let Some(errand) = desk.errands.begin(socket) else { return };
            let thread = thread::Builder::new().name("connect".to_owned());
            if let Err(error) = thread.spawn(move || run(pending, errand, place)) {
                desk.refusals.tell_failure(&error);
            }
        }
        Err(Done(result)) => pending.answer(result),
    }
}

/// Nothing is left to be done but to answer.
struct Done(Result<(), Errno>);

impl From<Errno> for Done {
    fn from(error: Errno) -> Self {
        Self(Err(error))
    }
}

/// Returns the socket of a connect, and where it leads.
fn look(desk: &Desk, notice: &Notice) -> Result<(OwnedFd, SocketAddr), Done> {
    let looked =
        desk.listener.target(notice).and_then(|target| Ok((target, desk.listener.socket(notice)?)));
    let (target, socket) = looked.inspect_err(|error| {
        // What the worker did wrong is for it to know. That it cannot be served is for the operator.
        if matches!(*error, Errno::PERM | Errno::NOSYS | Errno::MFILE | Errno::NFILE) {
            desk.refusals.tell_failure(&(*error).into());
        }
    })?;
    if !is_tcp(&socket)? {
        desk.refuse("a socket that is not one of TCP");
        return Err(Errno::ACCESS.into());
    }
    match target {
        Target::Place(place) => Ok((socket, place)),
        Target::Nothing => Err(Done(rustix::net::connect_unspec(&socket))),
        Target::Nowhere => Err(nowhere().into()),
        Target::Foreign => Err(Errno::AFNOSUPPORT.into()),
    }
}

fn is_tcp(socket: &OwnedFd) -> Result<bool, Errno> {
    let domain = sockopt::socket_domain(socket)?;
    Ok((domain == AddressFamily::INET || domain == AddressFamily::INET6)
        && sockopt::socket_type(socket)? == SocketType::STREAM
        && sockopt::socket_protocol(socket)? == Some(ipproto::TCP))
}

/// Judges a connect and makes it.
fn run(pending: Pending, errand: Errand, place: SocketAddr) {
    let desk = &pending.desk;
    let verdict = judge(&desk.granted, place);
    let is_internal = verdict == Verdict::Internal;
    let granted = match verdict {
        Verdict::Granted => true,
        Verdict::IfNamed(names) => names.into_iter().any(|name| desk.names.has(name, place.ip())),
        Verdict::Internal | Verdict::Refused => false,
    };
    if !granted && place.port() == NAMES {
        return tell_names(pending, errand);
    }
    let result = if granted {
        let result = connect(errand.socket(), place);
        desk.note(&place.to_string(), true, result);
        result
    } else if is_internal {
        desk.refuse_internal(place);
        Err(Errno::ACCESS)
    } else {
        desk.refuse(&place.to_string());
        Err(Errno::ACCESS)
    };
    // Before the worker goes on, the socket is its own again: closing it must end the connection.
    drop(errand);
    pending.answer(result);
}

fn connect(socket: &OwnedFd, place: SocketAddr) -> Result<(), Errno> {
    loop {
        // A connect that was interrupted goes on. Who connects once more waits for the same one.
        match rustix::net::connect(socket, &place) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Takes the place of a server of names.
fn tell_names(pending: Pending, mut errand: Errand) {
    let prepared = (|| -> io::Result<_> {
        let (theirs, ours) = UnixStream::pair()?;
        let flags = rustix::fs::fcntl_getfl(errand.socket())?;
        theirs.set_nonblocking(flags.contains(rustix::fs::OFlags::NONBLOCK))?;
        errand.go_on_with(ours.try_clone()?.into());
        pending.desk.listener.replace(&pending.notice, theirs.as_fd())?;
        Ok(ours)
    })();
    let desk = Arc::clone(&pending.desk);
    let ours = match prepared {
        Ok(ours) => ours,
        Err(error) => return desk.refusals.tell_failure(&error),
    };
    pending.answer(Ok(()));
    dns::serve(ours, |name| find(&desk, name));
}

fn find(desk: &Desk, name: &str) -> Found {
    let found = match naming(&desk.granted, name) {
        Some(Naming::Itself) => desk.names.addresses(name),
        Some(Naming::AnyHost) => desk.names.passing(name),
        None => {
            if !judge::is_searched(&desk.granted, name) {
                desk.refuse(name);
            }
            return Found::Unknown;
        }
    };
    found.map_or(Found::Failed, Found::Addresses)
}
