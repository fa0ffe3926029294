//! Refusals of requests whose token uses its whole share of something.

use std::time::Duration;

/// Retry delay when the end of the usage is unknown.
const SOON: Duration = Duration::from_secs(1);

/// A request is refused because its token uses its whole share. Other tokens are not affected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareRefusal {
    /// The token has reached its limit of runs under way.
    #[error("{limit} runs of this token are under way, which is the limit")]
    Runs {
        /// The limit.
        limit: usize,
    },
    /// The token has reached its limit of calls that wait for the adapter.
    #[error("{limit} calls of this token wait for adapter '{adapter_id}', which is the limit")]
    Queue {
        /// The adapter.
        adapter_id: String,
        /// The limit.
        limit: usize,
    },
    /// The runs of the token stored as many bytes as they may per hour.
    #[error(
        "runs of this token have stored more than {limit} bytes per hour; the next run is possible in {} s",
        retry_after.as_millis().div_ceil(1000)
    )]
    StoredBytes {
        /// The limit per hour.
        limit: u64,
        /// The time until a run is accepted again.
        retry_after: Duration,
    },
    /// The token has reached its limit of event streams.
    #[error("{limit} event streams of this token are open, which is the limit")]
    Streams {
        /// The limit.
        limit: usize,
    },
    /// The token has reached its limit of connections.
    #[error("{limit} connections of this token are open, which is the limit")]
    Connections {
        /// The limit.
        limit: usize,
    },
}

impl ShareRefusal {
    /// Every code, with its meaning and the remedy.
    pub const TABLE: &[(&'static str, &'static str, &'static str)] = &[
        (
            "TOKEN_RUNS_EXCEEDED",
            "The token has reached its limit of runs under way.",
            "wait until one of the runs ends, or raise limits.runs_per_token",
        ),
        (
            "TOKEN_QUEUE_FULL",
            "The token has reached its limit of calls that wait for the adapter.",
            "send the request again later, or raise limits.queued_per_token",
        ),
        (
            "TOKEN_STORAGE_EXCEEDED",
            "The runs of the token have stored more bytes than one token may per hour.",
            "wait for the time in the message, send smaller plans, or raise limits.stored_bytes_per_hour",
        ),
        (
            "TOKEN_STREAMS_EXCEEDED",
            "The token has reached its limit of event streams.",
            "close a stream, or raise server.streams_per_token",
        ),
        (
            "TOKEN_CONNECTIONS_EXCEEDED",
            "The token has reached its limit of connections.",
            "close connections that are idle, or raise server.connections_per_token",
        ),
    ];

    const fn row(&self) -> usize {
        match self {
            Self::Runs { .. } => 0,
            Self::Queue { .. } => 1,
            Self::StoredBytes { .. } => 2,
            Self::Streams { .. } => 3,
            Self::Connections { .. } => 4,
        }
    }

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        Self::TABLE[self.row()].0
    }

    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        Self::TABLE[self.row()].2
    }

    /// Returns the time after which the request can be sent again.
    #[must_use]
    pub const fn retry_after(&self) -> Duration {
        match self {
            Self::StoredBytes { retry_after, .. } => *retry_after,
            _ => SOON,
        }
    }
}
