//! Why a daemon does not start, or does not take a new configuration.

use crate::access::origin::BadEntry;
use crate::{access, app, config, store, telemetry};

/// Why a daemon does not start, or does not take a new configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store, an adapter or the router is at fault.
    #[error(transparent)]
    App(#[from] app::Error),
    /// The configuration is not one.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The tokens cannot be used.
    #[error(transparent)]
    Access(#[from] access::Error),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A host or an origin that is allowed is none.
    #[error(transparent)]
    Origin(#[from] BadEntry),
    /// Logs or traces cannot be had as wanted.
    #[error(transparent)]
    Telemetry(#[from] telemetry::Error),
}

impl Error {
    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::App(error) => error.code(),
            Self::Config(error) => error.code(),
            Self::Access(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Origin(_) => "CONFIG_FILE_INVALID",
            Self::Telemetry(error) => error.code(),
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::App(error) => error.hint(),
            Self::Config(error) => error.hint().to_owned(),
            Self::Access(error) => error.hint(),
            Self::Store(error) => error.hint().into_owned(),
            Self::Origin(error) => error.hint().to_owned(),
            Self::Telemetry(error) => error.hint().to_owned(),
        }
    }

    /// Returns what it says, with what lies behind it.
    #[must_use]
    pub fn full_text(&self) -> String {
        app::full_text(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_twice() {
        let entry = BadEntry::Host { entry: "http://x".to_owned() };
        let told = entry.to_string();
        assert_eq!(Error::from(entry).full_text(), told);
    }
}
