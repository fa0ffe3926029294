//! The two kinds of failure that an adapter reports, and the standard error codes.

mod causes;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Object;

/// Whether a failure was to be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// An expected failure: recorded, and the run ends gracefully.
    Operational,
    /// A mistake in the adapter: recorded, and the caller gets an error.
    Bug,
}

/// A failed call or a factory's refusal.
///
/// ```
/// use nexus_router_sdk::{AdapterError, code};
/// let error = AdapterError::operational(code::TIMEOUT, "no answer after 30s")
///     .details(serde_json::json!({ "timeout_s": 30 }));
/// assert_eq!(error.to_string(), "TIMEOUT: no answer after 30s");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct AdapterError {
    /// Whether the failure was to be expected.
    pub kind: ErrorKind,
    /// A stable name of the failure, as [`code::is_well_formed`] has it.
    pub code: String,
    /// What happened, for people. No secrets.
    pub message: String,
    /// What happened, for programs. No secrets. Boxed, so that results stay small.
    #[serde(default)]
    pub details: Box<Object>,
}

impl AdapterError {
    /// Makes an error for an expected failure.
    pub fn operational(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Operational, code.into(), message.into())
    }

    /// Makes an error for a mistake in the adapter.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Bug, code::BUG_ERROR.to_owned(), message.into())
    }

    /// Makes an error for a mistake in the adapter, with a code of its own.
    pub fn bug_with_code(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Bug, code.into(), message.into())
    }

    /// Makes an error for an expected failure that another error explains: its text is the message, and its
    /// sources are in the details, as with [`caused_by`](Self::caused_by).
    ///
    /// ```
    /// use nexus_router_sdk::{AdapterError, code};
    /// let source = "seven".parse::<u16>().unwrap_err();
    /// let error = AdapterError::from_error(code::INVALID_ARGUMENT, &source);
    /// assert_eq!(error.to_string(), "INVALID_ARGUMENT: invalid digit found in string");
    /// ```
    pub fn from_error(code: impl Into<String>, error: &(dyn std::error::Error + 'static)) -> Self {
        let made = Self::operational(code, causes::text_of(error));
        match error.source() {
            Some(source) => made.caused_by(source),
            None => made,
        }
    }

    /// Makes the error of a call that cannot go on without its caller's word.
    ///
    /// `requests` are requests of the Model Context Protocol by a name each, such as
    /// `{"who": {"method": "elicitation/create", "params": {…}}}`. Whoever can answer them makes the call
    /// again; the answers are then in [`CallContext::input`](crate::CallContext::input), and `state` in
    /// [`CallContext::input_state`](crate::CallContext::input_state). Nothing that was done before is undone,
    /// so ask first. The caller can read the state, and cannot change it.
    pub fn input_required(requests: &Object, state: Option<&str>) -> Self {
        let error = Self::operational(code::INPUT_REQUIRED, "the call needs input of its caller");
        let error = error.details(serde_json::json!({ "requests": requests }));
        match state {
            Some(state) => error.details(serde_json::json!({ "state": state })),
            None => error,
        }
    }

    /// Makes the error of a call whose caller would have to be able to do more; `required` are the
    /// `ClientCapabilities` that it lacks.
    pub fn client_lacks(required: &Value) -> Self {
        let message = "the caller cannot do what the call would ask of it";
        Self::operational(code::CLIENT_CAPABILITY_MISSING, message)
            .details(serde_json::json!({ "required": required }))
    }

    fn new(kind: ErrorKind, code: String, message: String) -> Self {
        Self { kind, code, message, details: Box::default() }
    }

    /// Adds another error and its sources to `details.causes`, outermost first.
    ///
    /// At most 16 causes are kept, and at most 512 characters of each.
    ///
    /// ```
    /// use nexus_router_sdk::{AdapterError, code};
    /// let Err(source) = std::fs::read("/no/such/file") else { unreachable!() };
    /// let error = AdapterError::operational(code::NOT_FOUND, "there is no such report")
    ///     .caused_by(&source);
    /// assert_eq!(error.details["causes"][0], "No such file or directory (os error 2)");
    /// ```
    pub fn caused_by(mut self, error: &(dyn std::error::Error + 'static)) -> Self {
        causes::add(&mut self.details, error);
        self
    }

    /// Adds details: the members of an object, or any other value under `value`.
    pub fn details(mut self, details: Value) -> Self {
        match details {
            Value::Object(members) => self.details.extend(members),
            other => {
                self.details.insert("value".to_owned(), other);
            }
        }
        self
    }
}

impl std::fmt::Display for AdapterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for AdapterError {}

/// The standard error codes. An adapter may use others and lists all of its own in the manifest.
pub mod code {
    /// Defines the codes and the list of them from one table.
    macro_rules! codes {
        ($($(#[$doc:meta])* $name:ident,)*) => {
            $($(#[$doc])* pub const $name: &str = stringify!($name);)*

            /// Every standard code.
            pub const ALL: &[&str] = &[$($name),*];
        };
    }

    codes! {
        /// The operation took too long.
        TIMEOUT,
        /// The caller no longer wants the answer.
        CANCELLED,
        /// A program ended with a status other than zero.
        NONZERO_EXIT,
        /// A reply was not valid JSON, or not an object.
        INVALID_JSON,
        /// No network connection could be made.
        CONNECTION_FAILED,
        /// An HTTP request failed; `details.status_code` says how.
        HTTP_ERROR,
        /// The call's tool, method or arguments do not fit this adapter.
        INVALID_ARGUMENT,
        /// The configuration does not fit this adapter.
        CONFIG_REJECTED,
        /// The output is larger than the limit.
        OUTPUT_TOO_LARGE,
        /// The adapter broke one of its own invariants.
        BUG_ERROR,
        /// The adapter panicked; the panic was caught at the boundary.
        ADAPTER_PANICKED,
        /// The host does not answer such a request.
        UNSUPPORTED,
        /// The call cannot go on without its caller's word; `details.requests` says what is asked.
        INPUT_REQUIRED,
        /// The caller cannot be asked what the call would ask; `details.required` says what it lacks.
        CLIENT_CAPABILITY_MISSING,
        /// There is no such resource, prompt or tool.
        NOT_FOUND,
    }

    /// Says whether a code is well-formed: an upper-case letter, then upper-case letters, digits and
    /// single underscores; or such a code behind `X.`, a name in small letters and digits, and a dot, as
    /// specifications of others want it (`X.nexus.NOT_CANONICAL`).
    #[must_use]
    pub fn is_well_formed(code: &str) -> bool {
        code.len() <= 64 && is_plain(without_namespace(code))
    }

    fn without_namespace(code: &str) -> &str {
        let parts = code.strip_prefix("X.").and_then(|rest| rest.split_once('.'));
        let is_name = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_lowercase())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        parts.filter(|(name, _)| is_name(name)).map_or(code, |(_, plain)| plain)
    }

    fn is_plain(code: &str) -> bool {
        code.starts_with(|first: char| first.is_ascii_uppercase())
            && !code.ends_with('_')
            && !code.contains("__")
            && code.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_codes_are_well_formed_and_listed_once() {
        assert!(code::ALL.contains(&"TIMEOUT") && code::ALL.contains(&code::UNSUPPORTED));
        for (index, listed) in code::ALL.iter().enumerate() {
            assert!(code::is_well_formed(listed), "{listed}");
            assert!(!code::ALL[..index].contains(listed), "{listed} is listed twice");
        }
    }

    #[test]
    fn code_may_stand_behind_a_namespace() {
        for code in ["X.nexus.NOT_JSON", "X.a1.E", "X", "X_1"] {
            assert!(code::is_well_formed(code), "{code}");
        }
        let long = format!("X.nexus.{}", "A".repeat(57));
        for code in [
            "X.nexus.",
            "X..E",
            "X.Nexus.E",
            "X.1a.E",
            "X.nexus.not_json",
            "X.nexus.A__B",
            "X.nexus.more.E",
            "x.nexus.E",
            "Y.nexus.E",
            "X.E",
            "nexus.E",
            &long,
        ] {
            assert!(!code::is_well_formed(code), "{code}");
        }
    }
}
