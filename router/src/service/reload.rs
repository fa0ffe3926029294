//! Another configuration: read, put in force as a whole or not at all, and recorded.

use std::sync::PoisonError;

use super::standing::needs_restart;
use super::{Error, Service, Standing};
use crate::app::Changes;
use crate::config::ConfigFile;
use crate::files::mark;
use crate::json::{Object, Value};
use crate::toolspec::Changed;

/// What a reload did.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// To the adapters.
    pub changes: Changes,
    /// Keys that were changed and have no effect before a restart.
    pub later: Vec<String>,
}

impl Service {
    /// Reads the configuration again and puts it in force. What was, stays in force if the new one cannot be
    /// used. Either is recorded.
    ///
    /// # Errors
    /// When the new configuration cannot be used.
    pub fn reload(&self, cause: &'static str) -> Result<Reloaded, Error> {
        self.reload_by(cause, None)
    }

    /// As [`reload`](Self::reload), in the name of somebody.
    ///
    /// # Errors
    /// When the new configuration cannot be used.
    pub fn reload_by(&self, cause: &'static str, name: Option<&str>) -> Result<Reloaded, Error> {
        let one = self.inner.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = self.reload_once((cause, name));
        drop(one);
        let mut payload = Object::new();
        payload.insert("cause", cause);
        if let Some(name) = name {
            payload.insert("name", name);
        }
        let kind = match &answer {
            Ok(Reloaded { changes, later }) => {
                let list = |ids: &[String]| -> Vec<Value> {
                    ids.iter().map(|id| id.as_str().into()).collect()
                };
                payload.insert("added", list(&changes.added));
                payload.insert("removed", list(&changes.removed));
                payload.insert("replaced", list(&changes.replaced));
                payload.insert("kept", changes.kept.len());
                if !changes.failed.is_empty() {
                    let failed = changes.failed.iter().map(|one| one.adapter_id.clone());
                    payload.insert("failed", list(&failed.collect::<Vec<_>>()));
                }
                payload.insert("needs_restart", list(later));
                let Changes { added, removed, replaced, kept, .. } = changes;
                let failed = changes.failed.len();
                tracing::info!(
                    ?added, ?removed, ?replaced, ?kept, failed, needs_restart = ?later,
                    "the configuration was reloaded"
                );
                self.metrics().reload("ok");
                "config.reloaded"
            }
            Err(error) => {
                payload.insert("code", error.code());
                payload.insert("message", error.full_text());
                payload.insert("hint", error.hint());
                let (code, hint, error) = (error.code(), error.hint(), error.full_text());
                tracing::error!(
                    code,
                    error,
                    hint,
                    "the new configuration is refused; the old one stays"
                );
                self.metrics().reload("refused");
                "config.refused"
            }
        };
        if let Err(error) = self.inner.audit.record_now(kind, payload) {
            tracing::warn!(%error, "the reload was not recorded");
        }
        answer
    }

    fn reload_once(&self, cause: (&'static str, Option<&str>)) -> Result<Reloaded, Error> {
        let before = self.inner.app.config();
        let mut seen = self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = before.source.as_deref().and_then(mark);
        drop(seen);
        let config =
            ConfigFile::find_for_daemon(before.source.as_deref(), &self.inner.environment)?;
        self.inner.telemetry.check_level(&config.log.level)?;
        let later = needs_restart(&before, &config);
        let level_changed = before.log.level != config.log.level;
        let level = config.log.level.clone();
        // Everything that can fail comes before the first thing that is changed.
        let prepared = self.inner.app.prepare(config)?;
        let (tools, law) = (prepared.tools().clone(), prepared.law().clone());
        let standing = Standing::of(prepared.config(), tools, law, prepared.discovery())?;
        let (failures, contracts) = (prepared.new_failures(), prepared.contract_changes());
        let changes = self.inner.app.put_in_force(prepared)?;
        self.record_failures(&failures);
        self.record_contracts(&contracts);
        self.look_for_adapters();
        let after = self.inner.app.config();
        self.record_permissions(cause, (&before, &self.standing()), (&after, &standing));
        // Another law may show other things to the same caller.
        self.stand(standing, Changed::ALL);
        self.inner.audit.replace_secrets(self.inner.app.secrets()?);
        if level_changed {
            self.inner.telemetry.set_level(&level)?;
        }
        Ok(Reloaded { changes, later })
    }
}
