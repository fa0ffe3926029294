//! Permissions that a reload changed: audited, logged, and shown by the status of the daemon.

use std::sync::PoisonError;

use super::{Service, Standing};
use crate::clock::Clock;
use crate::config::ConfigFile;
use crate::json::{Object, Value};
use crate::policy::history::PolicyVerdict;
use crate::policy::{PermissionChange, Permissions};

/// The most bytes of the changes that one record lists: less than an audit event may have.
const LISTED_BYTES: usize = 8 * 1024;
/// The most characters of the subject of one change.
const SUBJECT_CHARS: usize = 500;

/// Last change of the configuration, with the permissions that it changed.
#[derive(Clone, Debug)]
pub struct LastReload {
    /// The time.
    pub at: String,
    /// The cause.
    pub cause: &'static str,
    /// The permissions that are different.
    pub changes: Vec<PermissionChange>,
}

impl LastReload {
    /// Returns the direction of the changes. It compares the settings, and not the recorded calls.
    #[must_use]
    pub fn verdict(&self) -> PolicyVerdict {
        let widens = self.changes.iter().any(|change| change.widens);
        PolicyVerdict::of(self.changes.iter().any(|change| !change.widens), widens)
    }

    /// Returns the form that callers see. Only administrators see which permissions changed.
    #[must_use]
    pub fn to_json(&self, detailed: bool) -> Object {
        let mut object = Object::with_capacity(4);
        object.insert("at", self.at.as_str());
        object.insert("cause", self.cause);
        object.insert("permissions_changed", self.changes.len());
        object.insert("permissions_verdict", self.verdict().name());
        if detailed {
            object.insert("permission_changes", listed(&self.changes));
        }
        object
    }
}

impl Service {
    /// Returns the last change of the configuration since the start, if there was one.
    #[must_use]
    pub fn last_reload(&self) -> Option<LastReload> {
        self.inner.last_reload.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the permissions that a new configuration changes, in the audit, in the log and for the status.
    pub(super) fn record_permissions(
        &self,
        (cause, name): (&'static str, Option<&str>),
        (before, standing_before): (&ConfigFile, &Standing),
        (after, standing): (&ConfigFile, &Standing),
    ) {
        let after_reload = !std::ptr::eq(before, after);
        let former = Permissions::of(before, &standing_before.law);
        let changes = Permissions::of(after, &standing.law).changes_since(&former);
        let reload = LastReload { at: Clock::System.now().to_string(), cause, changes };
        if !reload.changes.is_empty() {
            let widened = reload.changes.iter().filter(|change| change.widens).count();
            let total = reload.changes.len();
            let first = reload
                .changes
                .iter()
                .take(5)
                .map(|one| format!("{} {}: {}", one.area, one.change, one.subject));
            let first = first.collect::<Vec<_>>().join("; ");
            let verdict = reload.verdict().name();
            tracing::warn!(cause, total, widened, verdict, first, "permissions changed");
            let mut payload = Object::new();
            payload.insert("cause", cause);
            if let Some(name) = name {
                payload.insert("name", name);
            }
            payload.insert("total", total);
            payload.insert("widened", widened);
            payload.insert("verdict", verdict);
            payload.insert("changes", listed(&reload.changes));
            if let Err(error) = self.inner.audit.record_now("permissions.changed", payload) {
                tracing::warn!(%error, "cannot record the changed permissions");
            }
        }
        // A catalogue that changes no permission does not hide the reload before.
        if after_reload || !reload.changes.is_empty() {
            *self.inner.last_reload.lock().unwrap_or_else(PoisonError::into_inner) = Some(reload);
        }
    }
}

/// Lists the first changes, as many as fit into a record.
fn listed(changes: &[PermissionChange]) -> Vec<Value> {
    let mut bytes = 0;
    let shortened = changes.iter().map(|change| PermissionChange {
        subject: change.subject.chars().take(SUBJECT_CHARS).collect(),
        ..change.clone()
    });
    let fits = |change: &PermissionChange| {
        bytes += change.subject.len() + 80;
        bytes <= LISTED_BYTES
    };
    shortened.take_while(fits).map(|change| change.to_json()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_changes_are_cut() {
        let change = |length: usize| PermissionChange {
            area: "offer",
            change: "added",
            subject: "x".repeat(length),
            widens: true,
        };
        assert_eq!(listed(&[change(3), change(3)]).len(), 2);
        let text = crate::json::to_compact(&Value::Array(listed(&vec![change(10_000); 1000])));
        assert!(text.len() > 4096 && text.len() < 16 * 1024, "{}", text.len());
    }
}
