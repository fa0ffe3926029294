//! Why a request is refused: what is wrong, where, and what was perhaps meant.

use crate::json;

/// A request is refused; nothing has been done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is no JSON, or more of it than is taken.
    #[error(transparent)]
    Json(#[from] json::Error),
    /// The JSON has not the shape of the request.
    #[error("{message} (at {pointer:?})")]
    Invalid {
        /// What is wrong.
        message: String,
        /// The JSON pointer of the value where it is wrong.
        pointer: String,
        /// What was perhaps meant.
        suggestion: Option<String>,
        /// The published schema that says how it should be.
        schema: &'static str,
    },
}

impl Error {
    /// The code of a request that has not the right shape.
    pub const CODE: &str = "REQUEST_INVALID";

    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(error) => error.code(),
            Self::Invalid { .. } => Self::CODE,
        }
    }

    /// Returns the JSON pointer of the value where it is wrong; the whole request has the empty one.
    #[must_use]
    pub fn pointer(&self) -> &str {
        match self {
            Self::Json(error) => error.pointer(),
            Self::Invalid { pointer, .. } => pointer,
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Json(error) => error.hint().to_owned(),
            Self::Invalid { suggestion: Some(meant), .. } => format!("did you mean {meant:?}?"),
            Self::Invalid { schema, .. } => {
                format!("nexus-router schema {schema} prints what is allowed")
            }
        }
    }
}
