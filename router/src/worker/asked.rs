//! What a call of a worker asks of the router, on the router's side: read, bounded, and answered once.

use std::sync::Weak;

use nexus_router_sdk::{AdapterError, code};
use serde::Deserialize;

use super::member::Member;

/// A longer question is refused.
pub(super) const MAX_ASK: usize = 256 * 1024;
/// Questions of one call, in all and at once.
pub(super) const MOST_ASKS: usize = 256;
pub(super) const AT_ONCE: usize = 8;

/// Why a question is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    TooLong,
    NotUnderstood,
    NoCall,
    TooMany,
    TooManyAtOnce,
    Unread,
}

impl Refused {
    /// Returns the error's text, as it crosses the ABI.
    pub(super) fn to_text(self) -> String {
        let (code, message) = match self {
            Self::TooLong => (
                REFUSED,
                format!("the request to the host has more than {MAX_ASK} bytes; ask for less"),
            ),
            Self::NotUnderstood => {
                (REFUSED, "the request to the host is no JSON object; ask with one".to_owned())
            }
            Self::NoCall => (
                REFUSED,
                "there is no call of this worker for which the host is asked; ask with the context of \
                 a call, and before it ends"
                    .to_owned(),
            ),
            Self::TooMany => {
                (LIMIT, format!("the call has asked the host {MOST_ASKS} times; that is all"))
            }
            Self::TooManyAtOnce => (
                LIMIT,
                format!("the call waits for {AT_ONCE} answers of the host; wait for one of them"),
            ),
            Self::Unread => (
                LIMIT,
                "what was answered before has not been read; read answers before asking for more"
                    .to_owned(),
            ),
        };
        text_of(&AdapterError::operational(code, message))
    }
}

/// Reads for which call something is asked.
pub(super) fn read(text: Vec<u8>) -> Result<(String, String), Refused> {
    #[derive(Deserialize)]
    struct Request {
        #[serde(default)]
        call_id: Option<String>,
    }
    if text.len() > MAX_ASK {
        return Err(Refused::TooLong);
    }
    let text = String::from_utf8(text).map_err(|_| Refused::NotUnderstood)?;
    // A list would be read as the members in their order.
    if !text.trim_start().starts_with('{') {
        return Err(Refused::NotUnderstood);
    }
    let request: Request = serde_json::from_str(&text).map_err(|_| Refused::NotUnderstood)?;
    request.call_id.map(|call_id| (call_id, text)).ok_or(Refused::NoCall)
}

/// The code of a question that may not be asked.
pub(crate) const REFUSED: &str = "ASK_REFUSED";
/// The code of one question too many.
pub(crate) const LIMIT: &str = "ASK_LIMIT";

/// Something that a call asks, and where the answer goes. If it is dropped, there is none.
pub(crate) struct Asked {
    pub(crate) call_id: String,
    /// The request's JSON text.
    pub(crate) text: String,
    member: Weak<Member>,
    id: u64,
    call: u64,
    answered: bool,
}

impl Asked {
    pub(super) fn new(
        (call_id, text): (&str, &str),
        (id, call): (u64, u64),
        member: Weak<Member>,
    ) -> Self {
        Self {
            call_id: call_id.to_owned(),
            text: text.to_owned(),
            member,
            id,
            call,
            answered: false,
        }
    }

    /// Answers, and looks for a moment what comes of it. It does not wait.
    pub(crate) fn answer(mut self, answer: Result<&str, &AdapterError>) {
        let error = answer.err().map(text_of);
        self.send(match (&answer, &error) {
            (Ok(text), _) => Ok(text),
            (Err(_), error) => Err(error.as_deref().unwrap_or_default()),
        });
        if let Some(member) = self.member.upgrade() {
            member.look_on(self.call);
        }
    }

    /// Answers that nothing is answered here.
    pub(crate) fn unsupported(mut self) {
        let message = "nothing is answered to this call: the operator gave its adapter no sources";
        let error = AdapterError::operational(code::UNSUPPORTED, message);
        self.send(Err(&text_of(&error)));
    }

    fn send(&mut self, answer: Result<&str, &str>) {
        self.answered = true;
        if let Some(member) = self.member.upgrade() {
            member.tell(self.id, self.call, answer);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.answered {
            let message = "the call is over, and what it asked for is not answered any more";
            let error = AdapterError::operational(code::CANCELLED, message);
            self.send(Err(&text_of(&error)));
        }
    }
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").field("call_id", &self.call_id).finish_non_exhaustive()
    }
}

/// Returns the text of an error, as it crosses the ABI. Errors can always be written.
fn text_of(error: &AdapterError) -> String {
    serde_json::to_string(error).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_names_its_call_or_is_refused() {
        let read = |text: &str| read(text.as_bytes().to_vec());
        let text = r#"{"type":"retrieve","call_id":"r/0"}"#;
        assert_eq!(read(text), Ok(("r/0".to_owned(), text.to_owned())));
        assert_eq!(read(r#"{"type":"retrieve"}"#), Err(Refused::NoCall));
        assert_eq!(read(r#"{"call_id":null}"#), Err(Refused::NoCall));
        for text in ["", "[]", "[\"r/0\"]", "{", r#"{"call_id":7}"#, r#"{"call_id":"a"} x"#] {
            assert_eq!(read(text), Err(Refused::NotUnderstood), "{text}");
        }
        assert_eq!(super::read(vec![0xff; 4]), Err(Refused::NotUnderstood));
        let long = format!(r#"{{"call_id":"a","x":"{}"}}"#, "x".repeat(MAX_ASK));
        assert_eq!(read(&long), Err(Refused::TooLong));
    }

    #[test]
    fn refusals_are_errors_with_a_code_and_a_remedy() {
        use Refused::{NoCall, NotUnderstood, TooLong, TooMany, TooManyAtOnce, Unread};
        for (refused, code) in [
            (TooLong, REFUSED),
            (NotUnderstood, REFUSED),
            (NoCall, REFUSED),
            (TooMany, LIMIT),
            (TooManyAtOnce, LIMIT),
            (Unread, LIMIT),
        ] {
            let error: AdapterError = serde_json::from_str(&refused.to_text()).unwrap();
            assert_eq!(error.code, code);
            assert!(error.message.contains(';'), "{error}");
        }
    }
}
