//! What can go wrong with logs and traces, and the remedy.

/// Why logs or traces could not be set up or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text says no level.
    #[error("'{text}' says no level of logging: {problem}")]
    Level {
        /// What was given.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The export of traces cannot be used as it is set.
    #[error("the export of traces cannot use {what}: {problem}")]
    Otlp {
        /// What it is; never a secret.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The program or the system does not let it begin.
    #[error("logs or traces cannot be set up: {0}")]
    Start(String),
}

impl Error {
    /// Every code, with its meaning and the remedy.
    pub const TABLE: &[(&'static str, &'static str, &'static str)] = &[
        (
            "LOG_LEVEL_INVALID",
            "A text was to say what is logged, and does not.",
            "give off, error, warn, info, debug or trace, or levels for parts: info,nexus_router::store=debug",
        ),
        (
            "OTLP_SETTINGS_INVALID",
            "The settings for the export of traces cannot be used.",
            "give an http or https URL such as http://localhost:4318, headers of plain text, and a ratio from 0 to 1",
        ),
        (
            "TELEMETRY_FAILED",
            "Logs or traces could not be set up.",
            "set them up once per process; if the system has no thread left, raise its limits",
        ),
    ];

    const fn row(&self) -> usize {
        match self {
            Self::Level { .. } => 0,
            Self::Otlp { .. } => 1,
            Self::Start(_) => 2,
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
}
