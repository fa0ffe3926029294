//! Outcomes that are read from the record of a run, within the memory budget.

use std::sync::Arc;

use super::answer::answer;
use super::{Error, HeldRetention, Inner, Router};
use crate::budget::{ROOM_PATIENCE, SMALL};
use crate::caller::Caller;
use crate::outcome::Outcome;
use crate::share;
use crate::store::{self, VisibleRuns};

/// Copies of a record while it is read: its text, its values, and those of held answers.
const COPIES: usize = 3;

impl Router {
    /// Returns the progress of a run that was accepted, with the answers that are held for its caller.
    pub(crate) async fn progress_of(
        &self,
        run_id: &str,
        caller: Option<&Caller>,
    ) -> Result<Outcome, Error> {
        let outcome = self.inner.recorded_outcome(run_id, caller).await?;
        let outcome = outcome.ok_or(Error::Store(store::Error::Closed))?;
        self.inner.restored(outcome, caller, HeldRetention::Keep).await
    }
}

impl Inner {
    /// Answers from the record of a run.
    pub(super) async fn read_back(&self, run_id: &str) -> Result<Outcome, Error> {
        match self.recorded_outcome(run_id, None).await? {
            Some(outcome) => answer(outcome),
            None => Err(Error::Store(store::Error::Closed)),
        }
    }

    /// Reads the outcome of a run from its record. A large record waits for memory, which counts as long as the
    /// outcome exists.
    pub(super) async fn recorded_outcome(
        &self,
        run_id: &str,
        caller: Option<&Caller>,
    ) -> Result<Option<Outcome>, Error> {
        let measured = run_id.to_owned();
        let size = self.ask(move |store| store.record_size(&measured, &VisibleRuns::All)).await?;
        let Some(size) = size else { return Ok(None) };
        let bytes = size.with_held().saturating_mul(COPIES);
        let memory = if bytes > SMALL {
            let budget = self.around().memory.clone();
            Some(budget.reserve(share::token_id(caller), bytes, ROOM_PATIENCE).await?)
        } else {
            None
        };
        let run_id = run_id.to_owned();
        let Some(log) = self.ask(move |store| store.log(&run_id)).await? else { return Ok(None) };
        let mut outcome = Outcome::of_log(&log);
        outcome.memory = memory.map(Arc::new);
        Ok(Some(outcome))
    }
}
