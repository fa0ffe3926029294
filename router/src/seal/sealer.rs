//! One thread that seals what is asked of it, and whatever was asked meanwhile in one append.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::desk::{Desk, Item};
use super::keys::Keys;
use super::{Error, Leaf, Trust};
use crate::attest::Statement;
use crate::tlog::Checkpoint;

/// How many requests may wait; whoever comes then waits to be one of them.
const WAITING: usize = 1024;
/// An append gathers no more than this, so that nobody waits for too many others.
const MOST: usize = 1024;

/// What something got: a signed statement about it, and the proof that it is in the log.
#[derive(Clone, Debug)]
pub struct Seal {
    /// Its entry of the log.
    pub index: u64,
    /// The envelope, a line with its newline: `attestation.intoto.jsonl`.
    pub attestation: String,
    /// The proof: `inclusion.tlog-proof`.
    pub proof: String,
    /// The checkpoint of the proof.
    pub checkpoint: Arc<Checkpoint>,
}

/// Seals, with the keys and the log of a directory. May be used by many threads at once; several processes may use the same
/// directory.
#[derive(Debug)]
pub struct Sealer {
    root: PathBuf,
    shared: Arc<Shared>,
    /// None only while this is dropped.
    queue: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    trust: Mutex<Arc<Trust>>,
    appends: AtomicU64,
}

type Answer = Result<Vec<Seal>, Error>;

/// What somebody asked for.
struct Job {
    items: Vec<Item>,
    answer: SyncSender<Answer>,
}

/// Seals that are being made.
#[derive(Debug)]
#[must_use = "whoever does not wait does not know whether it was sealed"]
pub struct Pending(Receiver<Answer>);

impl Pending {
    /// Waits until they are on the disk, and returns them in the order in which they were asked for.
    ///
    /// # Errors
    /// When they could not be sealed.
    pub fn wait(self) -> Result<Vec<Seal>, Error> {
        self.0.recv().unwrap_or(Err(Error::Gone))
    }
}

impl Sealer {
    /// Opens a directory; keys and a log are made if it has none. The log is named after its first key.
    ///
    /// # Errors
    /// When keys or log cannot be made, read or trusted.
    pub fn open(root: &Path) -> Result<Self, Error> {
        Self::open_as(root, None)
    }

    /// Does the same with a name for the log, like `example.com/log`.
    ///
    /// # Errors
    /// As above, and when the log that is there has another name.
    pub fn open_as(root: &Path, origin: Option<&str>) -> Result<Self, Error> {
        let keys = Keys::of(root);
        let desk = {
            let _lock = keys.lock()?;
            Desk::open(&keys, keys.trust_or_make(origin)?)?
        };
        let trust = Mutex::new(Arc::clone(&desk.trust));
        let shared = Arc::new(Shared { trust, appends: AtomicU64::new(0) });
        let (queue, jobs) = sync_channel(WAITING);
        let seen = desk.checkpoint();
        let worker = Worker { keys, desk: Some(desk), seen, shared: Arc::clone(&shared) };
        let thread = std::thread::Builder::new().name("sealer".to_owned());
        let thread = thread.spawn(move || worker.work(&jobs)).map_err(Error::file(root))?;
        Ok(Self { root: root.to_owned(), shared, queue: Some(queue), thread: Some(thread) })
    }

    /// Seals something, and returns when that is on the disk.
    ///
    /// # Errors
    /// When it cannot be sealed. Whoever asks again later has it tried again, with whatever is there then.
    pub fn seal(&self, leaf: Leaf, statement: &Statement) -> Result<Seal, Error> {
        let item = Item { leaf, statement: statement.to_bytes()? };
        self.send(vec![item])?.wait()?.pop().ok_or(Error::Gone)
    }

    /// Seals several things in one append.
    ///
    /// # Errors
    /// When one of the statements is none, or they cannot be sealed: then none of them is.
    pub fn seal_all(&self, things: &[(Leaf, Statement)]) -> Result<Vec<Seal>, Error> {
        self.begin(things)?.wait()
    }

    /// Does the same without waiting for the disk.
    ///
    /// # Errors
    /// When one of the statements is none.
    pub fn begin(&self, things: &[(Leaf, Statement)]) -> Result<Pending, Error> {
        let item = |(leaf, statement): &(Leaf, Statement)| {
            Ok(Item { leaf: *leaf, statement: statement.to_bytes()? })
        };
        self.send(things.iter().map(item).collect::<Result<_, Error>>()?)
    }

    fn send(&self, items: Vec<Item>) -> Result<Pending, Error> {
        let (answer, pending) = sync_channel(1);
        let queue = self.queue.as_ref().ok_or(Error::Gone)?;
        queue.send(Job { items, answer }).map_err(|_| Error::Gone)?;
        Ok(Pending(pending))
    }

    /// Returns the directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of the log.
    #[must_use]
    pub fn log_directory(&self) -> PathBuf {
        Keys::of(&self.root).log_directory().to_owned()
    }

    /// Returns which keys are trusted, as of the last append.
    #[must_use]
    pub fn trust(&self) -> Arc<Trust> {
        Arc::clone(&self.shared.trust.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns how many appends there were.
    #[must_use]
    pub fn appends(&self) -> u64 {
        self.shared.appends.load(Ordering::Relaxed)
    }
}

impl Drop for Sealer {
    /// Waits until what was asked for is done.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it was told where it happened.
            drop(thread.join());
        }
    }
}

/// What the thread has.
struct Worker {
    keys: Keys,
    /// None after something failed: then everything is read again.
    desk: Option<Desk>,
    /// The last checkpoint that was signed or seen here: whatever is opened again has to continue it.
    seen: Arc<Checkpoint>,
    shared: Arc<Shared>,
}

impl Worker {
    fn work(mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let mut count = first.items.len();
            let mut together = vec![first];
            while count < MOST
                && let Ok(job) = jobs.try_recv()
            {
                count += job.items.len();
                together.push(job);
            }
            self.answer(together);
        }
    }

    /// Seals what several asked for, and tells each.
    fn answer(&mut self, jobs: Vec<Job>) {
        let mut waiting = Vec::with_capacity(jobs.len());
        let mut items = Vec::new();
        for job in jobs {
            waiting.push((job.items.len(), job.answer));
            items.extend(job.items);
        }
        match self.seal(items) {
            Ok(seals) => {
                let mut seals = seals.into_iter();
                for (count, answer) in waiting {
                    // Whoever is gone does not want it.
                    drop(answer.send(Ok(seals.by_ref().take(count).collect())));
                }
            }
            Err(error) => {
                for (_, answer) in waiting {
                    drop(answer.send(Err(error.clone())));
                }
            }
        }
    }

    fn seal(&mut self, items: Vec<Item>) -> Result<Vec<Seal>, Error> {
        let _lock = self.keys.lock_made()?;
        let desk = match self.desk.take() {
            Some(desk) if desk.is_current(&self.keys) => desk,
            _ => {
                let desk = Desk::open(&self.keys, self.keys.trust()?)?;
                // Who put an older log back gets no second history signed.
                desk.continues(&self.seen)?;
                let mut trust = self.shared.trust.lock().unwrap_or_else(PoisonError::into_inner);
                *trust = Arc::clone(&desk.trust);
                desk
            }
        };
        let seals = desk.seal(items)?;
        self.shared.appends.fetch_add(1, Ordering::Relaxed);
        if let Some(seal) = seals.last() {
            self.seen = Arc::clone(&seal.checkpoint);
        }
        self.desk = Some(desk);
        Ok(seals)
    }
}
