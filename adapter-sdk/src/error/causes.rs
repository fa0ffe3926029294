//! Source chain of an error, as texts in the details of an [`AdapterError`](crate::AdapterError).

use std::error::Error;
use std::fmt::Write as _;

use serde_json::Value;

use crate::Object;

/// Member of the details that holds the chain.
const CAUSES: &str = "causes";
/// Causes beyond these are dropped.
const MAX_CAUSES: usize = 16;
/// Characters kept of each cause.
const MAX_CHARS: usize = 512;

/// Appends an error and its sources to `details.causes`.
pub(super) fn add(details: &mut Object, error: &(dyn Error + 'static)) {
    let entry = details.entry(CAUSES).or_insert_with(|| Value::Array(Vec::new()));
    // A member of that name that is not a list was set by the author, who gave it another meaning.
    let Value::Array(causes) = entry else { return };
    let room = MAX_CAUSES.saturating_sub(causes.len());
    let chain = std::iter::successors(Some(error), |&error| error.source());
    causes.extend(chain.take(room).map(|error| Value::String(text_of(error))));
}

/// Returns the text of an error, cut to a bounded length while it is written.
pub(super) fn text_of(error: &(dyn Error + 'static)) -> String {
    let mut bounded = BoundedText { text: String::new(), left: MAX_CHARS };
    match write!(bounded, "{error}") {
        Ok(()) => bounded.text,
        Err(_) => bounded.text + "…",
    }
}

/// Text that takes a limited number of characters, and then fails.
struct BoundedText {
    text: String,
    left: usize,
}

impl std::fmt::Write for BoundedText {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        for character in part.chars() {
            self.left = self.left.checked_sub(1).ok_or(std::fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdapterError, code};

    /// Error with a text and perhaps a source.
    #[derive(Debug)]
    struct Layer(String, Option<Box<Self>>);

    impl std::fmt::Display for Layer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|source| source as &(dyn Error + 'static))
        }
    }

    fn layers(texts: &[&str]) -> Layer {
        let (first, rest) = texts.split_first().unwrap();
        let source = (!rest.is_empty()).then(|| Box::new(layers(rest)));
        Layer((*first).to_owned(), source)
    }

    fn causes(error: &AdapterError) -> Vec<&str> {
        error.details[CAUSES].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
    }

    #[test]
    fn chain_is_kept_from_outermost_to_root() {
        let error = layers(&["request failed", "connection closed", "reset by peer"]);
        let with_message = AdapterError::operational(code::CONNECTION_FAILED, "no answer")
            .details(serde_json::json!({ "attempt": 2 }))
            .caused_by(&error);
        let all = ["request failed", "connection closed", "reset by peer"];
        assert_eq!(causes(&with_message), all);
        assert_eq!(with_message.details["attempt"], 2);
        let without_message = AdapterError::from_error(code::CONNECTION_FAILED, &error);
        assert_eq!(without_message.message, "request failed");
        assert_eq!(causes(&without_message), all[1..]);
        let alone = AdapterError::from_error(code::CONNECTION_FAILED, &layers(&["no route"]));
        assert!(alone.details.is_empty(), "{alone:?}");
    }

    #[test]
    fn causes_survive_the_boundary() {
        let error = AdapterError::bug("broken").caused_by(&layers(&["one", "two"]));
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<AdapterError>(&text).unwrap(), error);
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let long = "ä".repeat(100_000);
        let error = layers(&vec![long.as_str(); 100]);
        let made = AdapterError::from_error(code::HTTP_ERROR, &error).caused_by(&error);
        assert_eq!(causes(&made).len(), MAX_CAUSES);
        for text in causes(&made).into_iter().chain([made.message.as_str()]) {
            assert_eq!(text.chars().count(), MAX_CHARS + 1);
            assert!(text.ends_with("ä…"));
        }
    }

    #[test]
    fn endless_chain_ends() {
        #[derive(Debug)]
        struct Endless;
        impl std::fmt::Display for Endless {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("again")
            }
        }
        impl Error for Endless {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&Self)
            }
        }
        assert_eq!(causes(&AdapterError::bug("b").caused_by(&Endless)), ["again"; MAX_CAUSES]);
    }

    #[test]
    fn own_member_of_that_name_stays() {
        let details = serde_json::json!({ "causes": "see the manual" });
        let error = AdapterError::bug("b").details(details).caused_by(&layers(&["one"]));
        assert_eq!(error.details[CAUSES], "see the manual");
    }
}
