//! Usage of each token: runs under way and bytes stored lately.
//!
//! Stored bytes use a generic cell rate. Each token has one moment: the end of its bytes if they were stored at the
//! permitted rate. This moment may be at most one hour ahead of the present.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ShareRefusal;

/// The period of the limit of stored bytes.
const HOUR: Duration = Duration::from_secs(3600);
/// Tokens without usage are removed when there are this many entries, and at each doubling after that.
const FEW_TOKENS: usize = 1024;

/// Usage of all tokens. Callers without a token are not counted: only the limits of all runs apply to them.
#[derive(Debug)]
pub(crate) struct TokenLedger {
    start: Instant,
    tokens: Mutex<Tokens>,
    runs_limit: AtomicUsize,
    /// Bytes per hour; 0 means no limit.
    bytes_limit: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Tokens {
    usage: HashMap<Box<str>, Arc<TokenUsage>>,
    /// Number of entries at which unused ones are removed.
    prune_at: usize,
}

#[derive(Debug, Default)]
struct TokenUsage {
    /// Runs under way.
    runs: AtomicUsize,
    /// Nanoseconds after the start at which the bytes so far would be stored, spread evenly.
    stored_until: AtomicU64,
}

/// A run of a token, counted as long as it exists.
#[derive(Debug)]
pub(crate) struct TokenRun {
    usage: Arc<TokenUsage>,
    start: Instant,
    bytes_limit: Arc<AtomicU64>,
}

/// Charges stored bytes to a token.
#[derive(Clone, Debug)]
pub(crate) struct StorageMeter {
    usage: Arc<TokenUsage>,
    start: Instant,
    bytes_limit: Arc<AtomicU64>,
}

impl TokenLedger {
    /// Makes a ledger with the limits of one token.
    pub(crate) fn new(runs_limit: usize, bytes_limit: u64) -> Self {
        Self {
            start: Instant::now(),
            tokens: Mutex::new(Tokens { usage: HashMap::new(), prune_at: FEW_TOKENS }),
            runs_limit: AtomicUsize::new(runs_limit),
            bytes_limit: Arc::new(AtomicU64::new(bytes_limit)),
        }
    }

    /// Changes the limits. Runs under way stay counted.
    pub(crate) fn set_limits(&self, runs_limit: usize, bytes_limit: u64) {
        self.runs_limit.store(runs_limit, Ordering::Relaxed);
        self.bytes_limit.store(bytes_limit, Ordering::Relaxed);
    }

    /// Counts a new run of a token.
    ///
    /// # Errors
    /// When the share of the token is in use.
    pub(crate) fn begin_run(&self, token: &str) -> Result<Option<TokenRun>, ShareRefusal> {
        if token.is_empty() {
            return Ok(None);
        }
        let usage = self.usage(token);
        let limit = self.bytes_limit.load(Ordering::Relaxed);
        if let Some(retry_after) = usage.storage_excess(limit, self.now()) {
            return Err(ShareRefusal::StoredBytes { limit, retry_after });
        }
        let limit = self.runs_limit.load(Ordering::Relaxed);
        let more = |runs: usize| (runs < limit).then_some(runs + 1);
        match usage.runs.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(Some(self.run_of(usage))),
            Err(_) => Err(ShareRefusal::Runs { limit }),
        }
    }

    /// Counts a run of a token that was accepted before, even above the share of the token.
    pub(crate) fn resume_run(&self, token: &str) -> Option<TokenRun> {
        if token.is_empty() {
            return None;
        }
        let usage = self.usage(token);
        usage.runs.fetch_add(1, Ordering::AcqRel);
        Some(self.run_of(usage))
    }

    /// Returns a meter of the bytes that runs of a token store.
    pub(crate) fn meter(&self, token: &str) -> Option<StorageMeter> {
        (!token.is_empty()).then(|| StorageMeter {
            usage: self.usage(token),
            start: self.start,
            bytes_limit: Arc::clone(&self.bytes_limit),
        })
    }

    fn run_of(&self, usage: Arc<TokenUsage>) -> TokenRun {
        TokenRun { usage, start: self.start, bytes_limit: Arc::clone(&self.bytes_limit) }
    }

    fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }

    fn usage(&self, token: &str) -> Arc<TokenUsage> {
        let mut tokens = self.lock();
        if let Some(usage) = tokens.usage.get(token) {
            return Arc::clone(usage);
        }
        if tokens.usage.len() >= tokens.prune_at {
            let now = self.now();
            tokens.usage.retain(|_, usage| {
                Arc::strong_count(usage) > 1 || usage.stored_until.load(Ordering::Relaxed) > now
            });
            tokens.prune_at = (tokens.usage.len() * 2).max(FEW_TOKENS);
        }
        Arc::clone(tokens.usage.entry(token.into()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenUsage {
    /// Returns the time until the token has room for more bytes, if it has none.
    fn storage_excess(&self, limit: u64, now: u64) -> Option<Duration> {
        if limit == 0 {
            return None;
        }
        let until = self.stored_until.load(Ordering::Relaxed);
        let excess = until.checked_sub(now.saturating_add(nanos(HOUR)))?;
        Some(Duration::from_nanos(excess.max(1)))
    }
}

impl TokenRun {
    /// Returns a meter of the bytes that the run stores.
    pub(crate) fn meter(&self) -> StorageMeter {
        let (usage, bytes_limit) = (Arc::clone(&self.usage), Arc::clone(&self.bytes_limit));
        StorageMeter { usage, start: self.start, bytes_limit }
    }
}

impl Drop for TokenRun {
    fn drop(&mut self) {
        self.usage.runs.fetch_sub(1, Ordering::AcqRel);
    }
}

impl StorageMeter {
    /// Charges bytes that are handed to the store.
    pub(crate) fn charge(&self, bytes: usize) {
        let limit = self.bytes_limit.load(Ordering::Relaxed);
        if limit == 0 || bytes == 0 {
            return;
        }
        let time = u128::try_from(bytes).unwrap_or(u128::MAX).saturating_mul(HOUR.as_nanos());
        let time = u64::try_from(time / u128::from(limit)).unwrap_or(u64::MAX);
        let now = nanos(self.start.elapsed());
        let add = |until: u64| Some(until.max(now).saturating_add(time));
        let _ = self.usage.stored_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn runs_of_a_token_are_limited_and_counted_back() {
        let ledger = TokenLedger::new(2, 0);
        let begin = |token: &str| ledger.begin_run(token);
        let (first, second) = (begin("a").unwrap(), begin("a").unwrap());
        assert_eq!(begin("a").unwrap_err(), ShareRefusal::Runs { limit: 2 });
        assert!(begin("b").unwrap().is_some(), "another token has its own share");
        drop(second);
        let third = begin("a").unwrap();
        let resumed = ledger.resume_run("a");
        assert!(resumed.is_some() && begin("a").is_err(), "a resumed run is counted");
        drop((first, third, resumed));
        ledger.set_limits(1, 0);
        let only = begin("a").unwrap();
        assert_eq!(begin("a").unwrap_err(), ShareRefusal::Runs { limit: 1 });
        drop(only);
    }

    #[test]
    fn callers_without_a_token_have_no_share() {
        let ledger = TokenLedger::new(1, 1);
        assert!((0..9).all(|_| ledger.begin_run("").unwrap().is_none()));
        assert!(ledger.meter("").is_none() && ledger.resume_run("").is_none());
    }

    #[test]
    fn stored_bytes_refuse_the_next_run_until_there_is_room() {
        let ledger = TokenLedger::new(9, MIB);
        let run = ledger.begin_run("a").unwrap().unwrap();
        run.meter().charge(usize::try_from(MIB).unwrap() * 3 / 2);
        let Err(ShareRefusal::StoredBytes { limit, retry_after }) = ledger.begin_run("a") else {
            panic!("the share of the token is in use");
        };
        assert_eq!(limit, MIB);
        let half_an_hour = Duration::from_secs(1800);
        assert!(retry_after <= half_an_hour && retry_after > half_an_hour - HOUR / 60);
        assert!(ledger.begin_run("b").is_ok());
        // Half an hour later there is room again.
        let later = ledger.now() + nanos(retry_after) + 1;
        assert_eq!(run.usage.storage_excess(MIB, later), None);
        ledger.set_limits(9, 0);
        assert!(ledger.begin_run("a").is_ok(), "0 means no limit");
    }

    #[test]
    fn unused_tokens_are_removed() {
        let ledger = TokenLedger::new(1, MIB);
        let kept = ledger.begin_run("kept").unwrap();
        ledger.meter("stored").unwrap().charge(100_000);
        for token in 0..10_000 {
            drop(ledger.begin_run(&token.to_string()));
        }
        let tokens = ledger.lock();
        assert!(tokens.usage.len() <= 2 * FEW_TOKENS, "{}", tokens.usage.len());
        assert!(tokens.usage.contains_key("kept") && tokens.usage.contains_key("stored"));
        drop((tokens, kept));
    }
}
