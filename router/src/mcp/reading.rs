//! Questions to the store, on threads that may wait.

use rmcp::model::ErrorData;

use super::{Asker, Handler, REFUSED, refused_with};
use crate::caller::Caller;
use crate::store::{Error, Log, Store};

impl Handler {
    /// Returns the record of a run.
    pub(super) async fn log(&self, run_id: &str) -> Result<Option<Log>, ErrorData> {
        let run_id = run_id.to_owned();
        self.read_store(move |store| store.log(&run_id)).await
    }

    /// Returns the record of a run that the caller sees.
    pub(super) async fn log_of(
        &self,
        asker: &Asker,
        run_id: &str,
    ) -> Result<Option<Log>, ErrorData> {
        let (run_id, visible) = (run_id.to_owned(), asker.bearer.visible_runs());
        self.read_store(move |store| store.log_visible(&run_id, &visible)).await
    }

    /// Returns the run that has an idempotency key of a caller.
    pub(super) async fn run_of_key(
        &self,
        caller: Option<&Caller>,
        key: &str,
    ) -> Result<Option<String>, ErrorData> {
        let key = crate::router::stored_key(key, caller);
        let found = self.read_store(move |store| store.by_key(&key)).await?;
        Ok(found.map(|(run_id, _)| run_id))
    }

    async fn read_store<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let (store, turn) = (self.service().store().clone(), self.service().turn().await);
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
