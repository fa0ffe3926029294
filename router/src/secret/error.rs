//! Why a secret cannot be used. No error shows a value.

use std::path::PathBuf;

/// A secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A reference names a secret that the router does not have.
    #[error("there is no secret {name:?} (at {pointer:?})")]
    Unknown {
        /// The name.
        name: String,
        /// The JSON pointer of the reference, within the arguments.
        pointer: String,
    },
    /// A reference names a secret that the operator did not bind to the call.
    #[error("secret {name:?} is not bound to this call (at {pointer:?})")]
    NotBound {
        /// The name.
        name: String,
        /// The JSON pointer of the reference, within the arguments.
        pointer: String,
    },
    /// An object with the key `$secret` is not a reference.
    #[error(
        "an object with \"$secret\" must hold nothing but the name of a secret (at {pointer:?})"
    )]
    Reference {
        /// The JSON pointer of the object, within the arguments.
        pointer: String,
    },
    /// A name cannot stand in a reference.
    #[error("{name:?} is no name for a secret")]
    Name {
        /// The name.
        name: String,
    },
    /// A text does not say where a secret is. The text is not shown: it may be the secret.
    #[error("a secret is given as env:NAME or file:PATH, not as itself")]
    Source,
    /// The environment has no such variable.
    #[error("secret {name:?}: the environment variable {variable} is not set")]
    Unset {
        /// The secret.
        name: String,
        /// The variable.
        variable: String,
    },
    /// The file cannot be read.
    #[error("secret {name:?}: cannot read {path}")]
    Unreadable {
        /// The secret.
        name: String,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The value cannot be used.
    #[error("secret {name:?}: the value {fault}")]
    Value {
        /// The secret.
        name: String,
        /// What is wrong with the value.
        fault: Fault,
    },
}

/// What is wrong with the value of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is no text.
    NotUtf8,
    /// It is too short to be told from ordinary text.
    TooShort,
    /// It is longer than any secret.
    TooLong,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotUtf8 => f.write_str("is not UTF-8"),
            Self::TooShort => write!(f, "has fewer than {} bytes", super::MIN_LENGTH),
            Self::TooLong => write!(f, "has more than {} bytes", super::source::MAX_LENGTH),
        }
    }
}

impl Error {
    /// Code of a reference to a secret that is not bound to the call.
    pub const NOT_BOUND: &str = "SECRET_NOT_BOUND";

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "SECRET_UNKNOWN",
            Self::NotBound { .. } => Self::NOT_BOUND,
            Self::Reference { .. } => "SECRET_REFERENCE_INVALID",
            _ => "SECRET_UNUSABLE",
        }
    }

    /// Returns the JSON pointer of the reference, within the arguments; of the others, the empty one.
    #[must_use]
    pub fn pointer(&self) -> &str {
        match self {
            Self::Unknown { pointer, .. }
            | Self::NotBound { pointer, .. }
            | Self::Reference { pointer } => pointer,
            _ => "",
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "ask the operator for the secret, or correct its name",
            Self::NotBound { .. } => {
                "ask the operator to bind the secret to the adapter, the tool and the token of the call"
            }
            Self::Reference { .. } => {
                r#"write {"$secret": "NAME"}, with letters, digits, _ . and -"#
            }
            Self::Name { .. } => "use letters, digits, _ . and -",
            Self::Source => "put the value into an environment variable or a file, and name that",
            Self::Unset { .. } => "set the variable for the router's process",
            Self::Unreadable { .. } => {
                "check the path, and that the router's user may read the file"
            }
            Self::Value { fault: Fault::TooShort, .. } => {
                "use a longer one: hiding it would blot out ordinary words"
            }
            Self::Value { .. } => "a secret is a text, such as a token or a password",
        }
    }
}
