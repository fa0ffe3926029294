//! Questions to the store, on threads that may wait.

use std::ops::Deref;

use rmcp::model::ErrorData;

use super::{Asker, Handler, REFUSED, refused, refused_with};
use crate::budget::{ROOM_PATIENCE, Reservation, SMALL, Shortage};
use crate::caller::Caller;
use crate::share;
use crate::store::{Error, Log, Store, VisibleRuns};

/// Copies of a record that its reader makes: the text, its values, and those of the library.
const COPIES: usize = 3;

/// Record of a run, with its memory.
pub(super) struct CountedLog {
    log: Log,
    _reservation: Option<Reservation>,
}

impl Deref for CountedLog {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.log
    }
}

impl Handler {
    /// Returns the record of a run.
    pub(super) async fn log(
        &self,
        asker: &Asker,
        run_id: &str,
    ) -> Result<Option<CountedLog>, ErrorData> {
        self.counted_log(asker, run_id, VisibleRuns::All).await
    }

    /// Returns the record of a run that the caller sees.
    pub(super) async fn log_of(
        &self,
        asker: &Asker,
        run_id: &str,
    ) -> Result<Option<CountedLog>, ErrorData> {
        self.counted_log(asker, run_id, asker.bearer.visible_runs()).await
    }

    async fn counted_log(
        &self,
        asker: &Asker,
        run_id: &str,
        visible: VisibleRuns,
    ) -> Result<Option<CountedLog>, ErrorData> {
        let caller = Some(&*asker.bearer.caller);
        let holder = share::token_id(caller);
        let (asked, seen) = (run_id.to_owned(), visible.clone());
        let size = self.read_store(caller, move |store| store.record_size(&asked, &seen)).await?;
        let bytes = size.map_or(0, |size| size.with_held().saturating_mul(COPIES));
        let reservation = match bytes {
            0..=SMALL => None,
            bytes => {
                let room = self.service().memory().reserve(holder, bytes, ROOM_PATIENCE).await;
                Some(room.map_err(no_room)?)
            }
        };
        let run_id = run_id.to_owned();
        let log =
            self.read_store(caller, move |store| store.log_visible(&run_id, &visible)).await?;
        Ok(log.map(|log| CountedLog { log, _reservation: reservation }))
    }

    /// Returns the run that has an idempotency key of a caller.
    pub(super) async fn run_of_key(
        &self,
        caller: Option<&Caller>,
        key: &str,
    ) -> Result<Option<String>, ErrorData> {
        let key = crate::router::stored_key(key, caller);
        let found = self.read_store(caller, move |store| store.by_key(&key)).await?;
        Ok(found.map(|(run_id, _)| run_id))
    }

    async fn read_store<T: Send + 'static>(
        &self,
        caller: Option<&Caller>,
        read: impl FnOnce(&Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let (store, turn) = (self.service().store().clone(), self.service().turn(caller).await);
        let asked = tokio::task::spawn_blocking(move || {
            let answer = read(&store);
            drop(turn);
            answer
        });
        match asked.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                Err(refused_with(REFUSED, error.code(), error.to_string(), &error.hint()))
            }
            Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
        }
    }
}

fn no_room(shortage: Shortage) -> ErrorData {
    refused(REFUSED, shortage.code(), shortage.to_string())
}
