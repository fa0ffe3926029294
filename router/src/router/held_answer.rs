//! Answers and arguments that the store holds.

use super::{Error, Inner, Router};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::json::Value;
use crate::outcome::Outcome;
use crate::store::{self, Status, Store};

/// Retention of held answers after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldRetention {
    /// Keeps them for the rest of their hour: the caller repeats a request, or still waits for it.
    Keep,
    /// Removes them if the run is over.
    Remove,
}

impl Router {
    /// Puts the answers that are held for a caller into the outcome of a run that was read from the store. Other
    /// callers keep the recorded form. It waits for the store, so it must not run on an asynchronous thread.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn restore_answers(
        &self,
        outcome: &mut Outcome,
        caller: Option<&Caller>,
        retention: HeldRetention,
    ) -> Result<(), Error> {
        Ok(restore(&self.inner.store, self.inner.clock.now(), outcome, caller, retention)?)
    }

    /// As [`restore_answers`](Self::restore_answers), on a thread that may wait.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn restored(
        &self,
        outcome: Outcome,
        caller: Option<&Caller>,
        retention: HeldRetention,
    ) -> Result<Outcome, Error> {
        self.inner.restored(outcome, caller, retention).await
    }
}

impl Router {
    /// Returns the original steps of a run whose plan redaction changed, if the store holds them.
    pub(crate) async fn held_steps(&self, run_id: &str) -> Result<Option<Vec<Value>>, Error> {
        let run_id = run_id.to_owned();
        let held = self.inner.ask(move |store| store.held_plan(&run_id)).await?;
        Ok(held.map(|held| held.steps))
    }

    /// Removes the held arguments of a run that is over.
    pub(crate) async fn remove_held_steps(&self, run_id: &str) {
        let wanted = run_id.to_owned();
        if let Err(error) = self.inner.ask(move |store| store.remove_held_plan(&wanted)).await {
            tracing::warn!(run_id, %error, "cannot remove held arguments; they expire");
        }
    }
}

impl Inner {
    pub(super) async fn restored(
        &self,
        mut outcome: Outcome,
        caller: Option<&Caller>,
        retention: HeldRetention,
    ) -> Result<Outcome, Error> {
        if !outcome.is_redacted() {
            return Ok(outcome);
        }
        let (caller, now) = (caller.cloned(), self.clock.now());
        self.ask(move |store| {
            restore(store, now, &mut outcome, caller.as_ref(), retention).map(|()| outcome)
        })
        .await
    }
}

fn restore(
    store: &Store,
    now: Timestamp,
    outcome: &mut Outcome,
    caller: Option<&Caller>,
    retention: HeldRetention,
) -> Result<(), store::Error> {
    if !outcome.is_redacted() {
        return Ok(());
    }
    let answers = store.held_answers(&outcome.run_id, caller, now)?;
    if answers.is_empty() {
        return Ok(());
    }
    outcome.restore(answers);
    if retention == HeldRetention::Remove
        && outcome.status != Status::Running
        && let Err(error) = store.remove_held_answers(&outcome.run_id)
    {
        tracing::warn!(run_id = outcome.run_id, %error, "cannot remove answers that were fetched");
    }
    Ok(())
}
