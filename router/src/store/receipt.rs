//! Receipts for appended events.

use tokio::sync::oneshot;

use super::Error;
use super::writer::{PendingAppend, Unwritten};

/// Promise that events will be durable.
#[derive(Debug)]
#[must_use = "nothing is durable before this says so"]
pub struct Receipt(pub(super) Option<oneshot::Receiver<Result<(), Unwritten>>>);

impl Receipt {
    /// Returns whether the events are there already for every reader.
    pub(crate) const fn is_given(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the result is known.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.as_ref().is_none_or(|answer| !answer.is_empty())
    }

    /// Waits until the events are on disk.
    ///
    /// # Errors
    /// When the events cannot be written.
    pub async fn durable(self) -> Result<(), Unwritten> {
        let Some(answer) = self.0 else { return Ok(()) };
        answer.await.unwrap_or(Err(Unwritten { error: Error::Closed, append: None }))
    }
}

/// Result of a commit.
pub(super) enum CommitResult {
    /// The commit is durable.
    Durable,
    /// The commit went into files that are no longer where the next process looks for them. It is not acknowledged, and not
    /// written again if the files come back.
    Displaced(Error),
}

impl CommitResult {
    /// Answers every caller that waits for one of the appends.
    pub(super) fn answer(self, all: Vec<PendingAppend>) {
        for done in all.into_iter().filter_map(|(_, done)| done) {
            let answer = match &self {
                Self::Durable => Ok(()),
                Self::Displaced(error) => Err(Unwritten { error: error.clone(), append: None }),
            };
            // The caller may have given up waiting.
            drop(done.send(answer));
        }
    }
}
