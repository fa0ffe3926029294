//! The one thread that writes: it commits together what arrives together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{oneshot, watch};

use super::appending::append_one;
use super::counters::{Counters, Work};
use super::files::StoreFiles;
use super::large_appends::LargeAppends;
use super::memory_limit::MemoryLimit;
use super::receipt::{CommitResult, Receipt};
use super::record::{Append, Ticket};
use super::rows::{Counts, Inserts};
use super::schema::MAX_EVENTS;
use super::{Error, MAX_BATCH, MAX_BATCH_BYTES, rescue};
use crate::metrics::Metrics;

/// How long what could not be written waits before it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// After so long nobody knows whether writing would still fail; it has to be tried.
const DOUBT: Duration = Duration::from_secs(5);

/// How often the files of a store that nobody uses are looked at.
const WATCH: Duration = Duration::from_millis(500);

/// Bytes that a row of a run takes besides its events.
const RUN_BYTES: usize = 512;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;
type Done = oneshot::Sender<Result<(), Unwritten>>;

/// Events that are not stored, and why. Whoever handed them over gets them back.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unwritten {
    /// Why.
    #[source]
    pub error: Error,
    /// The events, unless the writer is gone and took them along.
    pub append: Option<Box<Append>>,
}

enum Message {
    Append { append: Box<Append>, done: Option<Done> },
    Owed(Box<Append>),
    Job(Job),
    Stop,
}

/// The handle of the writing thread.
#[derive(Debug)]
pub(super) struct Writer {
    messages: Sender<Message>,
    desk: Arc<Mutex<Desk>>,
    counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The same thread, to be roused when it gathers.
    rouse: Thread,
    /// Whether a store in memory has no room for new runs.
    is_full: Option<Arc<AtomicBool>>,
    /// The files of the store, unless it is in memory.
    files: Option<Arc<StoreFiles>>,
}

impl Writer {
    /// Starts the thread. `owner_no` stands beside every run that is begun.
    pub(super) fn start(
        connection: Connection,
        owner_no: i64,
        (metrics, limit): (Metrics, Option<MemoryLimit>),
        files: Option<Arc<StoreFiles>>,
    ) -> Result<Self, Error> {
        let (messages, inbox) = channel();
        let counters = Arc::new(Counters::default());
        let is_full = limit.as_ref().map(MemoryLimit::is_full);
        let desk = Desk {
            connection,
            owner_no,
            counters: Arc::clone(&counters),
            metrics,
            limit,
            files: files.clone(),
            owed: Vec::new(),
        };
        let desk = Arc::new(Mutex::new(desk));
        let thread = {
            let desk = Arc::clone(&desk);
            std::thread::Builder::new()
                .name("store-writer".to_owned())
                .spawn(move || work(&desk, &inbox))
                .map_err(|error| Error::Refused(format!("no thread for the writer: {error}")))?
        };
        let rouse = thread.thread().clone();
        let thread = Mutex::new(Some(thread));
        Ok(Self { messages, desk, counters, thread, rouse, is_full, files })
    }

    /// Hands a message over to the thread, which looks at it at once.
    fn send(&self, message: Message) -> Result<(), SendError<Message>> {
        self.messages.send(message)?;
        self.rouse.unpark();
        Ok(())
    }

    pub(super) fn append(&self, append: Append) -> Receipt {
        let (done, receipt) = oneshot::channel();
        // When the thread is gone, the receipt says so.
        drop(self.send(Message::Append { append: Box::new(append), done: Some(done) }));
        Receipt(Some(receipt))
    }

    /// Hands over events of a store in memory, of which nothing outlasts this process anyway, and does not wait for
    /// them: whoever reads comes after them. What may be refused for good reason is waited for.
    pub(super) fn append_behind(&self, append: Append) -> Receipt {
        let gathered = &self.counters.gathered;
        let certain = append.claim.is_none() && append.progress.events <= MAX_EVENTS;
        if !certain || gathered.is_full() || self.is_failing() {
            return self.append(append);
        }
        let whole = gathered.add(append.stored_bytes());
        let message = Message::Append { append: Box::new(append), done: None };
        if self.messages.send(message).is_err() {
            // The thread is gone, and the receipt says so.
            return Receipt(Some(oneshot::channel().1));
        }
        if whole {
            self.rouse.unpark();
        }
        Receipt(None)
    }

    /// Appends on this thread if nobody else is writing, which saves waking up the other; else hands it
    /// over.
    pub(super) fn append_here(&self, append: Append) -> Receipt {
        let Ok(mut desk) = self.desk.try_lock() else { return self.append(append) };
        let (done, receipt) = oneshot::channel();
        desk.commit(vec![(Box::new(append), Some(done))]);
        Receipt(Some(receipt))
    }

    /// Hands over what must be written as soon as that is possible again.
    pub(super) fn owe(&self, append: Append) {
        drop(self.send(Message::Owed(Box::new(append))));
    }

    /// Runs a job on the writer's connection, between two commits.
    pub(super) fn job<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, answered) = channel();
        let job = move |connection: &mut Connection| drop(answer.send(job(connection)));
        self.send(Message::Job(Box::new(job))).map_err(|_| Error::Closed)?;
        answered.recv().map_err(|_| Error::Closed)
    }

    /// Runs a job that writes. It counts only if the files of the store are in place before and after.
    pub(super) fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let files = self.files.clone();
        self.job(move |connection| {
            let check = || files.as_ref().map_or(Ok(()), |files| files.check());
            check()?;
            let done = job(connection)?;
            check().map(|()| done)
        })?
    }

    /// Runs a job that appends events, and tells those who wait for some.
    pub(super) fn change<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let counters = Arc::clone(&self.counters);
        self.write(move |connection| {
            let done = job(connection);
            counters.committed.send_replace(());
            done
        })
    }

    pub(super) fn work(&self) -> Work {
        Work {
            commits: self.counters.commits.load(Ordering::Relaxed),
            appends: self.counters.appends.load(Ordering::Relaxed),
        }
    }

    pub(super) fn is_failing(&self) -> bool {
        let failed = self.counters.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|moment| moment.elapsed() < DOUBT)
    }

    /// Returns whether a store in memory has no room for new runs.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.as_ref().is_some_and(|is_full| is_full.load(Ordering::Relaxed))
    }

    /// Returns how SQLite found the file damaged.
    pub(super) fn damage(&self) -> Option<&str> {
        self.counters.damage.get().map(String::as_str)
    }

    /// Takes note of a damaged file.
    pub(super) fn note_damage(&self, error: &Error) {
        self.counters.note_damage(error);
    }

    pub(super) fn committed(&self) -> watch::Receiver<()> {
        let told = self.counters.committed.subscribe();
        // What is gathered now is not kept from them for longer than what comes.
        self.rouse.unpark();
        told
    }

    /// Returns who is told which runs are over, in the place of who was told before.
    pub(super) fn ended(&self) -> Receiver<i64> {
        let (sender, ended) = channel();
        *self.counters.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        ended
    }

    /// Lets go of who is told.
    pub(super) fn tell_no_more(&self) {
        *self.counters.ended.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Lets the thread finish what was handed over, and waits for it.
    pub(super) fn stop(&self) {
        drop(self.send(Message::Stop));
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            drop(thread.join());
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What is written with. The thread holds it while it writes, and not while it waits.
#[derive(Debug)]
struct Desk {
    connection: Connection,
    owner_no: i64,
    counters: Arc<Counters>,
    metrics: Metrics,
    /// The limit of a store in memory.
    limit: Option<MemoryLimit>,
    /// The files of the store, unless it is in memory.
    files: Option<Arc<StoreFiles>>,
    /// Appends nobody waits for any more, and which must not be lost.
    owed: Vec<Append>,
}

/// Append, and the channel for its result if somebody waits for it.
pub(super) type PendingAppend = (Box<Append>, Option<Done>);

fn lock(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work(desk: &Mutex<Desk>, inbox: &Receiver<Message>) {
    let (mut next, mut large) = (None, LargeAppends::default());
    loop {
        let (owes, watches) = lock(desk).keep_safe();
        let received = match next.take() {
            Some(message) => Ok(message),
            None if !large.is_empty() => inbox.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
            None if owes => inbox.recv_timeout(RETRY),
            None if watches => inbox.recv_timeout(WATCH),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let message = match received {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => {
                lock(desk).commit_pending(large.pop().into_iter().collect());
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return lock(desk).commit_all(&mut large),
        };
        if !matches!(message, Message::Append { .. }) {
            // These come after all appends before them.
            lock(desk).commit_all(&mut large);
        }
        match message {
            Message::Stop => return lock(desk).finish(),
            Message::Job(job) => {
                let mut desk = lock(desk);
                // Whoever asked for it is told by the channel; the others must not be without a writer.
                if catch_unwind(AssertUnwindSafe(|| job(&mut desk.connection))).is_err() {
                    tracing::error!("a job of the store panicked");
                }
                let Desk { connection, limit, .. } = &mut *desk;
                limit.iter_mut().for_each(|limit| limit.note_job(connection));
            }
            Message::Owed(append) => {
                let mut desk = lock(desk);
                desk.owed.push(*append);
                desk.commit(Vec::new());
            }
            Message::Append { append, done } => {
                let mut batch: Vec<_> = large.queue((append, done)).into_iter().collect();
                next = fill(&mut batch, &mut large, inbox);
                // Whoever hands something over after this look rouses the thread, also before it sleeps.
                let idle = next.is_none() && large.is_empty();
                if idle && batch.iter().all(|(_, done)| done.is_none()) {
                    let gathering = lock(desk).counters.gathering();
                    std::thread::park_timeout(gathering);
                }
                // What arrives while another thread writes belongs to the same commit.
                let mut desk = lock(desk);
                next = next.or_else(|| fill(&mut batch, &mut large, inbox));
                desk.commit_pending(batch);
                // One large append after each batch, so that they are not put off for ever.
                desk.commit_pending(large.pop().into_iter().collect());
            }
        }
    }
}

/// Adds the appends that have arrived to a batch, or queues them. Returns the first other message.
fn fill(
    batch: &mut Vec<PendingAppend>,
    large: &mut LargeAppends,
    inbox: &Receiver<Message>,
) -> Option<Message> {
    let mut bytes: usize = batch.iter().map(|(append, _)| append.stored_bytes()).sum();
    while batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
        match inbox.try_recv().ok()? {
            Message::Append { append, done } => {
                let Some(pending) = large.queue((append, done)) else { continue };
                bytes += pending.0.stored_bytes();
                batch.push(pending);
            }
            other => return Some(other),
        }
    }
    None
}

impl Desk {
    /// Looks at the files, and saves what a displaced store acknowledged. Returns whether appends are owed, and whether the
    /// files are to be looked at again.
    fn keep_safe(&mut self) -> (bool, bool) {
        if let Some(files) = &self.files {
            rescue::keep_safe(&mut self.connection, files);
        }
        (!self.owed.is_empty(), self.files.is_some())
    }

    /// Commits what is owed, and saves what a displaced store acknowledged.
    fn finish(&mut self) {
        self.commit(Vec::new());
        if let Some(files) = &self.files {
            rescue::finish(&mut self.connection, files);
        }
    }

    fn check_files(&self) -> Result<(), Error> {
        self.files.as_ref().map_or(Ok(()), |files| files.check_with_log(&self.connection))
    }

    /// Commits appends that were handed over, each large one by itself.
    fn commit_all(&mut self, large: &mut LargeAppends) {
        while let Some(pending) = large.pop() {
            self.commit_pending(vec![pending]);
        }
    }

    /// Commits a batch that was handed over.
    fn commit_pending(&mut self, batch: Vec<PendingAppend>) {
        let gathered = batch.iter().filter(|(_, done)| done.is_none());
        let (appends, bytes) = gathered.fold((0, 0), |(appends, bytes), (append, _)| {
            (appends + 1, bytes + append.stored_bytes())
        });
        self.commit(batch);
        self.counters.gathered.remove(appends, bytes);
    }

    /// Commits what is owed and a batch, and tells who waits.
    fn commit(&mut self, mut all: Vec<PendingAppend>) {
        let owed = std::mem::take(&mut self.owed).into_iter();
        all.splice(..0, owed.map(|append| (Box::new(append), None)));
        if all.is_empty() {
            return;
        }
        match self.together(&all) {
            Ok(written) => written.answer(all),
            Err(error) if error.is_passing() || all.len() == 1 => self.refuse(all, &error),
            // One of them is at fault; alone, each gets its own answer.
            Err(_) => {
                for one in all {
                    let alone = vec![one];
                    match self.together(&alone) {
                        Ok(written) => written.answer(alone),
                        Err(error) => self.refuse(alone, &error),
                    }
                }
            }
        }
    }

    fn refuse(&mut self, all: Vec<PendingAppend>, error: &Error) {
        for (append, done) in all {
            match done {
                Some(done) => {
                    let append = Some(append);
                    tell(done, Err(Unwritten { error: error.clone(), append }));
                }
                None if error.is_passing() => self.owed.push(*append),
                None => {
                    let run_id = &append.header.run_id;
                    tracing::error!(run_id, %error, "events of a run cannot be recorded");
                }
            }
        }
    }

    fn together(&mut self, all: &[PendingAppend]) -> Result<CommitResult, Error> {
        let mut begun = Vec::new();
        let committed = self.transact(all, &mut begun);
        if let Err(error) = &committed {
            // That a key is taken is an answer.
            if !matches!(error, Error::KeyTaken { .. }) {
                self.metrics.commit_failed();
                self.counters.note(Some(error));
            }
            for ticket in begun {
                ticket.0.store(0, Ordering::Release);
            }
        }
        committed
    }

    fn transact(
        &mut self,
        all: &[PendingAppend],
        begun: &mut Vec<Ticket>,
    ) -> Result<CommitResult, Error> {
        let (owner_no, since) = (self.owner_no, Instant::now());
        self.check_files()?;
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut counts = Counts::default();
        let mut inserts = Inserts::new(&transaction)?;
        for (append, _) in all {
            append_one(&transaction, &mut inserts, append, owner_no, &mut counts, begun)?;
        }
        drop(inserts);
        counts.write(&transaction)?;
        transaction.commit()?;
        if let Err(error) = self.check_files() {
            self.metrics.commit_failed();
            self.counters.note(Some(&error));
            return Ok(CommitResult::Displaced(error));
        }
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        self.counters.appends.fetch_add(all.len() as u64, Ordering::Relaxed);
        self.counters.note(None);
        if self.counters.committed.receiver_count() > 0 {
            self.counters.committed.send_replace(());
        }
        self.counters.tell_ended(all);
        let bytes: usize = all.iter().map(|(append, _)| append.stored_bytes()).sum();
        self.metrics.commit(all.len() as u64, bytes as u64, since.elapsed());
        if let Some(limit) = &mut self.limit {
            limit.note(&mut self.connection, bytes + all.len() * RUN_BYTES);
        }
        Ok(CommitResult::Durable)
    }
}

fn tell(done: Done, answer: Result<(), Unwritten>) {
    // Whoever gave up waiting does not want to know.
    drop(done.send(answer));
}
