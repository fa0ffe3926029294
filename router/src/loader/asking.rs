//! What calls ask of the host while they are under way, and who answers.

use std::sync::Arc;

use nexus_router_sdk::AdapterError;

use crate::worker::Asked;

/// Something that a call asks of the host. It is answered once; if it is dropped, the call is told that there is no
/// answer.
#[derive(Debug)]
pub struct Ask(Asked);

impl Ask {
    pub(super) const fn new(asked: Asked) -> Self {
        Self(asked)
    }

    /// Returns the call that asks. It is one that the asking worker has.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.0.call_id
    }

    /// Returns the request: the JSON text of an object, as the adapter wrote it.
    #[must_use]
    pub fn request(&self) -> &str {
        &self.0.text
    }

    /// Answers with a JSON text, or with an error. It does not wait.
    pub fn answer(self, answer: Result<&str, &AdapterError>) {
        self.0.answer(answer);
    }

    /// Answers that nothing is answered here.
    pub fn refuse(self) {
        self.0.unsupported();
    }
}

/// Takes what calls ask. It must not wait: others' answers may come on the same thread.
pub type AskSink = Arc<dyn Fn(Ask) + Send + Sync>;

/// Returns the sink that answers nothing.
#[must_use]
pub fn refuse_asks() -> AskSink {
    Arc::new(Ask::refuse)
}
