//! The memory of trials: a library that is known to load needs no second trial, nor does one that was refused.
//!
//! A verdict is bound to the file's digest, the factory, the configuration, the build of the program that
//! tried it, and where it is to run with which grants and limits. A refusal is remembered only if another trial would end
//! alike. One for lack of time, running threads or output holds for ten minutes, because a machine may be slow or frozen
//! in a way that nobody sees; one for a crash holds for a day. Texts of a refusal hold no value of the configuration, and no output of the library.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nexus_router_sdk::canonical;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cache::{self, private_directory, remove_unused, write_whole};
use super::error::{AdapterLoadError, Reason};
use super::opened::Opened;
use super::placement::Confined;
use super::{LoadRequest, Loader, helper_error, working};
use crate::clock::{Clock, Timestamp};
use crate::digest::Digest;
use crate::grant::Isolation;
use crate::sandbox;
use crate::secret::Secrets;

/// What was seen is a description and a confinement.
const MAX_BYTES: u64 = 1024 * 1024;

/// Milliseconds for which a refusal is remembered that a slow, frozen or busy machine may have caused.
const MOMENT: i64 = 10 * 60 * 1000;

/// Milliseconds for which a crash is remembered.
const CRASHED_FOR: i64 = 24 * 60 * 60 * 1000;

/// Outcome of trying a library.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TrialVerdict {
    Loads(KnownLoad),
    Refused(RememberedRefusal),
}

/// Memory of an adapter that loads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KnownLoad {
    /// What its workers say of themselves, and how they are confined.
    pub(super) worker: Option<(String, Confined)>,
}

/// Memory of a library that was refused.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RememberedRefusal {
    reason: String,
    message: String,
    hint: String,
    cause: Option<(String, String)>,
    /// When it was refused, in milliseconds since 1970.
    since: i64,
    /// Whether the course of time may have caused it.
    is_momentary: bool,
}

/// The place of one verdict.
pub(super) struct VerdictFile {
    directory: PathBuf,
    file: PathBuf,
}

impl Loader {
    /// Forgets that a library was refused, so that the next load tries it again. False if no refusal is remembered of the
    /// library as it is now, or it cannot be read.
    ///
    /// # Errors
    /// [`AdapterLoadError`] when the memory cannot be removed.
    pub fn forget_refusal(&self, request: &LoadRequest<'_>) -> Result<bool, AdapterLoadError> {
        if super::Adapter::is_built_in(request.factory_ref) {
            return Ok(false);
        }
        self.prepare(request).map_or(Ok(false), |opened| self.forget_refusal_of(&opened))
    }

    /// Forgets that an opened library was refused. False if no refusal is remembered.
    pub(crate) fn forget_refusal_of(&self, opened: &Opened) -> Result<bool, AdapterLoadError> {
        let Ok(verdict) = self.verdict_of(opened) else { return Ok(false) };
        if !matches!(verdict.recall(), Some(TrialVerdict::Refused(_))) {
            return Ok(false);
        }
        verdict.forget().map(|()| true).map_err(|error| {
            let message = format!("cannot forget that the library was refused: {error}");
            opened.fail(Reason::CacheUnusable, message)
        })
    }

    /// Returns the place of the verdict on a library where it is to run.
    pub(super) fn verdict_of(&self, opened: &Opened) -> Result<VerdictFile, AdapterLoadError> {
        let helper = self.helper(opened)?;
        // Without the checks, it is tried in another way. Another kernel may confine otherwise, and so may this one when
        // it was started otherwise.
        let checked = if self.placement.require_valid { "checked" } else { "unchecked" };
        let offered = sandbox::offered();
        let place = match self.placement.isolation {
            Isolation::Worker => {
                let grants = working::granted(self, opened)?;
                let profile = working::profile(self, opened, grants);
                let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
                let environment = working::environment(self, &profile.grants);
                let environment = Digest::of(format!("{environment:?}").as_bytes());
                let profile = serde_json::to_string(&profile).unwrap_or_default();
                let time = self.placement.start_timeout;
                format!("{kernel}{offered}{checked} {profile} {environment} {time:?}")
            }
            _ => format!("inline {offered}{checked} {:?} {:?}", self.limits, self.library_path),
        };
        VerdictFile::of(&self.cache_dir, helper, opened, &place)
            .map_err(|error| helper_error(opened.factory_ref.as_str(), helper, &error))
    }
}

impl VerdictFile {
    /// Names the verdict on a factory of a library with a configuration, in a place.
    fn of(cache_dir: &Path, helper: &Path, opened: &Opened, place: &str) -> io::Result<Self> {
        let config = canonical::to_string(&Value::Object(opened.config.config.clone()));
        let adapter_id = opened.adapter_id.as_deref();
        let key = Digest::of_parts(&[
            opened.digest().to_string().as_bytes(),
            opened.factory_ref.function().as_bytes(),
            format!("{adapter_id:?}").as_bytes(),
            Digest::of(config.as_bytes()).to_string().as_bytes(),
            build_of(helper)?.as_bytes(),
            place.as_bytes(),
        ]);
        let directory = cache_dir.join("verdicts");
        Ok(Self { file: directory.join(key.to_string()), directory })
    }

    /// Returns what came of the last trial, if that is known and still holds.
    pub(super) fn recall(&self) -> Option<TrialVerdict> {
        private_directory(&self.directory).ok()?;
        let file = cache::open(&self.file, MAX_BYTES).ok()?;
        let verdict: TrialVerdict = serde_json::from_reader(io::BufReader::new(file)).ok()?;
        let now = Clock::System.now();
        match &verdict {
            TrialVerdict::Refused(refusal) if !refusal.holds_at(now) => None,
            _ => Some(verdict),
        }
    }

    /// Remembers that a library loads.
    pub(super) fn remember_load(&self, known: KnownLoad) {
        self.remember(&TrialVerdict::Loads(known));
    }

    /// Remembers that a library was refused.
    pub(super) fn remember_refusal(&self, opened: &Opened, error: &AdapterLoadError) {
        let refusal = RememberedRefusal::of(opened, error, Clock::System.now());
        self.remember(&TrialVerdict::Refused(refusal));
    }

    /// Remembers for a short time that a library was refused.
    pub(super) fn remember_briefly(&self, opened: &Opened, error: &AdapterLoadError) {
        let refusal = RememberedRefusal::of(opened, error, Clock::System.now());
        self.remember(&TrialVerdict::Refused(RememberedRefusal { is_momentary: true, ..refusal }));
    }

    /// Writes the verdict. A failure is harmless: the library is tried again.
    fn remember(&self, verdict: &TrialVerdict) {
        let written = private_directory(&self.directory).and_then(|()| {
            remove_unused(&self.directory);
            write_whole(&self.file, &serde_json::to_vec(verdict)?, 0o400)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "verdict not remembered");
        }
    }

    fn forget(&self) -> io::Result<()> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl RememberedRefusal {
    fn of(opened: &Opened, error: &AdapterLoadError, now: Timestamp) -> Self {
        let mut values = Vec::new();
        texts_in(&Value::Object(opened.config.config.clone()), &mut values);
        let secrets = Secrets::empty().with_hidden_values(values);
        let text = error.to_string();
        // The library wrote what stands behind this.
        let text = text.split(super::opened::PRINTED).next().unwrap_or_default();
        let cause = error.cause();
        Self {
            reason: error.reason().code().to_owned(),
            message: secrets.scrub(text),
            hint: secrets.scrub(error.hint()),
            cause: cause.map(|cause| (cause.cause_type.clone(), secrets.scrub(&cause.text))),
            since: now.as_millis(),
            is_momentary: error.reason() == Reason::LibraryTimedOut,
        }
    }

    /// Returns whether it still holds. What is from the future was remembered by another clock.
    fn holds_at(&self, now: Timestamp) -> bool {
        let age = now.as_millis().saturating_sub(self.since);
        self.reason().is_some_and(|reason| match reason {
            _ if self.is_momentary => (0..MOMENT).contains(&age),
            Reason::ChecksFailed => true,
            _ => (0..CRASHED_FOR).contains(&age),
        })
    }

    fn reason(&self) -> Option<Reason> {
        Reason::ALL.iter().copied().find(|reason| reason.code() == self.reason)
    }

    /// Returns the error with which the library was refused, which says since when that is remembered.
    pub(super) fn error(&self, opened: &Opened) -> AdapterLoadError {
        let since = Timestamp::from_millis(self.since);
        let reason = self.reason().unwrap_or(Reason::LibraryCrashed);
        let message = format!("{}; this is remembered since {since}", self.message);
        let hint = format!("{}; `nexus-router adapter retry` tries it again", self.hint);
        let error = opened.fail(reason, message).with_hint(hint).remembered_since(since);
        match &self.cause {
            Some((cause_type, text)) => error.caused_by(cause_type, text.as_str()),
            None => error,
        }
    }
}

/// Collects every text in a value.
fn texts_in(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts_in(item, texts)),
        Value::Object(members) => members.values().for_each(|member| texts_in(member, texts)),
        _ => {}
    }
}

/// Identifies the build of a program without reading it.
fn build_of(helper: &Path) -> io::Result<String> {
    let metadata = fs::metadata(helper)?;
    Ok(format!(
        "{} {} {} {} {}.{}",
        env!("CARGO_PKG_VERSION"),
        metadata.dev(),
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(reason: Reason) -> RememberedRefusal {
        RememberedRefusal {
            reason: reason.code().to_owned(),
            message: "m".to_owned(),
            hint: "h".to_owned(),
            cause: None,
            since: 1_000_000,
            is_momentary: reason == Reason::LibraryTimedOut,
        }
    }

    #[test]
    fn refusals_that_a_machine_may_cause_expire() {
        let at = |millis| Timestamp::from_millis(1_000_000 + millis);
        let slow = refusal(Reason::LibraryTimedOut);
        assert!(slow.holds_at(at(MOMENT - 1)));
        assert!(!slow.holds_at(at(MOMENT)) && !slow.holds_at(at(-1)));
        let race = RememberedRefusal { is_momentary: true, ..refusal(Reason::ChecksFailed) };
        assert!(race.holds_at(at(MOMENT - 1)) && !race.holds_at(at(MOMENT)));
        let crashed = refusal(Reason::LibraryCrashed);
        assert!(crashed.holds_at(at(CRASHED_FOR - 1)) && !crashed.holds_at(at(CRASHED_FOR)));
        assert!(refusal(Reason::ChecksFailed).holds_at(at(1000 * CRASHED_FOR)));
        let unknown = RememberedRefusal { reason: "NO_SUCH".to_owned(), ..slow };
        assert!(!unknown.holds_at(at(0)));
    }

    #[test]
    fn damaged_file_is_not_a_verdict() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("verdict");
        let verdict = VerdictFile { directory: directory.path().to_owned(), file: file.clone() };
        let known = || KnownLoad { worker: None };
        verdict.remember_load(known());
        assert!(matches!(verdict.recall(), Some(TrialVerdict::Loads(_))));
        let whole = fs::read(&file).unwrap();
        for damaged in [&whole[..whole.len() / 2], b"", b"true", b"{\"refused\":{}}", b"\xff"] {
            fs::remove_file(&file).unwrap();
            fs::write(&file, damaged).unwrap();
            assert!(verdict.recall().is_none(), "{damaged:?}");
        }
        verdict.remember(&TrialVerdict::Refused(refusal(Reason::ChecksFailed)));
        assert!(matches!(verdict.recall(), Some(TrialVerdict::Refused(_))));
        verdict.forget().unwrap();
        verdict.forget().unwrap();
        assert!(verdict.recall().is_none());
    }
}
