//! The check whether the token of a caller is still valid, made again before each step.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::Caller;
use crate::clock::Timestamp;

/// A caller whose token is valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidCaller {
    /// The caller as it is now, where its role or scope changed.
    pub changed: Option<Caller>,
    /// The end of the token, if it has one.
    pub valid_until: Option<Timestamp>,
}

/// The reason why a caller may not continue its runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Revocation {
    /// The token and its state.
    pub message: String,
}

impl Revocation {
    /// The stable code.
    pub const CODE: &str = "REVOKED";
}

type Check = Box<dyn Fn(&Caller) -> Result<ValidCaller, Revocation> + Send + Sync>;

/// Checks the callers of runs under way. Cheap to clone; all clones are the same.
///
/// A router without a check, such as that of the command line, lets every run continue.
#[derive(Clone, Default)]
pub struct CallerCheck {
    shared: Arc<SharedCheck>,
}

#[derive(Default)]
struct SharedCheck {
    /// Grows with every change of tokens or their roles.
    version: AtomicU64,
    check: OnceLock<Check>,
}

impl CallerCheck {
    /// Sets the check. Only the first one counts.
    pub fn set(
        &self,
        check: impl Fn(&Caller) -> Result<ValidCaller, Revocation> + Send + Sync + 'static,
    ) {
        drop(self.shared.check.set(Box::new(check)));
    }

    /// Marks every earlier result as outdated: tokens or their roles changed.
    pub fn mark_changed(&self) {
        self.shared.version.fetch_add(1, Ordering::Release);
    }
}

impl fmt::Debug for CallerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallerCheck").field(&self.shared.check.get().is_some()).finish()
    }
}

/// The last result of a [`CallerCheck`] about one caller, kept while nothing changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CheckedCaller {
    version: Option<u64>,
    valid_until: Option<Timestamp>,
}

impl CheckedCaller {
    /// Checks a caller again, and returns it if its role or scope changed.
    ///
    /// # Errors
    /// When its token is no longer valid.
    pub(crate) fn update(
        &mut self,
        check: &CallerCheck,
        caller: &Caller,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<Option<Caller>, Revocation> {
        let Some(run_check) = check.shared.check.get() else { return Ok(None) };
        // Before the check: a change during it is seen the next time.
        let version = Some(check.shared.version.load(Ordering::Acquire));
        if self.version == version && self.valid_until.is_none_or(|end| now() < end) {
            return Ok(None);
        }
        self.version = None;
        let ValidCaller { changed, valid_until } = run_check(caller)?;
        *self = Self { version, valid_until };
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn checks_again_only_after_a_change_or_the_end() {
        let (check, calls) = (CallerCheck::default(), Arc::new(AtomicUsize::new(0)));
        let (mut checked, caller) = (CheckedCaller::default(), Caller::local());
        let at = |millis| move || Timestamp::from_millis(millis);
        assert_eq!(checked.update(&check, &caller, at(0)), Ok(None));
        let count = Arc::clone(&calls);
        check.set(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            let valid_until = Some(Timestamp::from_millis(100));
            Ok(ValidCaller { changed: None, valid_until })
        });
        for (millis, expected) in [(0, 1), (99, 1), (100, 2), (50, 2)] {
            assert_eq!(checked.update(&check, &caller, at(millis)), Ok(None));
            assert_eq!(calls.load(Ordering::Relaxed), expected, "at {millis}");
        }
        check.mark_changed();
        assert_eq!(checked.update(&check, &caller, at(50)), Ok(None));
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_revocation_is_not_forgotten() {
        let check = CallerCheck::default();
        check.set(|_| Err(Revocation { message: "gone".to_owned() }));
        let mut checked = CheckedCaller::default();
        for _ in 0..2 {
            let now = || Timestamp::from_millis(0);
            assert!(checked.update(&check, &Caller::local(), now).is_err());
        }
    }
}
