//! What is wrong with a document: every mistake with its place, and not the first only.

use std::fmt;

/// A mistake in a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Where, as a JSON pointer; empty is the whole document.
    pub pointer: String,
    /// The stable code.
    pub code: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the whole" } else { self.pointer.as_str() };
        write!(f, "{place}: {} [{}]", self.message, self.code)
    }
}

/// Findings as they are gathered, at most so many that a person would read them.
#[derive(Debug, Default)]
pub struct Findings {
    found: Vec<Finding>,
}

impl Findings {
    /// More are not told: a document with so many mistakes is none.
    const MAX: usize = 1_000;

    /// Adds one.
    pub fn add(
        &mut self,
        pointer: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
    ) {
        match self.found.len() {
            len if len < Self::MAX => {
                self.found.push(Finding { pointer: pointer.into(), code, message: message.into() });
            }
            Self::MAX => {
                let message = format!("there are more than {} mistakes", Self::MAX);
                self.found.push(Finding { pointer: String::new(), code, message });
            }
            _ => {}
        }
    }

    /// Says whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns `value`, if nothing is wrong with it.
    ///
    /// # Errors
    /// With everything that is.
    pub fn or<T>(self, value: T) -> Result<T, Vec<Finding>> {
        if self.found.is_empty() { Ok(value) } else { Err(self.found) }
    }

    /// Returns them in the order in which they were found.
    #[must_use]
    pub fn into_vec(self) -> Vec<Finding> {
        self.found
    }
}

/// Appends a name to a JSON pointer.
#[must_use]
pub fn below(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", crate::json::pointer_segment(name))
}
