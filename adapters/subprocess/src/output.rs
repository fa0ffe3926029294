//! Keeps a command's output within bounds and cuts excerpts from it.

use nexus_router_sdk::redact;

/// How far around an excerpt secrets are looked for, so that a cut does not make one unrecognisable.
const MARGIN_CHARS: usize = 8192;

/// What was read of one stream.
#[derive(Debug)]
pub(crate) struct Capture {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
    is_blank: bool,
}

impl Capture {
    /// Makes a capture that keeps the first `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, is_full: false, is_blank: true }
    }

    /// Takes what was read; what is over the limit is noted and dropped.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let room = self.limit - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.is_full |= bytes.len() > room;
        self.is_blank &= bytes.iter().all(u8::is_ascii_whitespace);
    }

    /// Says whether there was more than the limit.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Says whether there was nothing but blanks and line ends.
    pub(crate) fn is_blank(&self) -> bool {
        self.is_blank
    }

    /// Returns the bytes that were kept.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the beginning of the text without secrets, and a mark if there was more.
    pub(crate) fn excerpt(&self, chars: usize) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut excerpt = head(&text, chars);
        if self.is_full || text.chars().nth(chars).is_some() {
            excerpt.push_str(&format!("... [truncated at {chars}]"));
        }
        excerpt
    }
}

/// Returns the first characters of a text, without secrets.
pub(crate) fn head(text: &str, chars: usize) -> String {
    let window = position(text, chars.saturating_add(MARGIN_CHARS));
    let redacted = redact::text(&text[..window]);
    redacted[..position(&redacted, chars)].to_owned()
}

/// Returns the last characters of a text, without secrets.
pub(crate) fn tail(text: &str, chars: usize) -> String {
    let redacted = redact::text(&text[from_end(text, chars.saturating_add(MARGIN_CHARS))..]);
    redacted[from_end(&redacted, chars)..].to_owned()
}

fn position(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

fn from_end(text: &str, chars: usize) -> usize {
    chars
        .checked_sub(1)
        .map_or(text.len(), |before| text.char_indices().rev().nth(before).map_or(0, |(at, _)| at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_keeps_to_its_limit() {
        let mut capture = Capture::new(5);
        capture.take(b" \n");
        assert!(capture.is_blank() && !capture.is_full());
        capture.take(b"abc");
        assert!(!capture.is_blank() && !capture.is_full());
        capture.take(b"de");
        assert!(capture.is_full());
        assert_eq!(capture.bytes(), b" \nabc");
        assert_eq!(capture.excerpt(3), " \na... [truncated at 3]");
        assert_eq!(capture.excerpt(5), " \nabc... [truncated at 5]");
    }

    #[test]
    fn excerpts_count_characters_and_survive_bad_bytes() {
        let mut capture = Capture::new(100);
        capture.take("é😀x".as_bytes());
        assert_eq!(capture.excerpt(3), "é😀x");
        assert_eq!(capture.excerpt(2), "é😀... [truncated at 2]");
        assert_eq!(capture.excerpt(0), "... [truncated at 0]");
        capture.take(b"\xff");
        assert_eq!(capture.excerpt(9), "é😀x\u{fffd}");
    }

    #[test]
    fn a_cut_does_not_lay_a_secret_open() {
        let text = format!("token={}", "s".repeat(900));
        assert_eq!(head(&text, 100), "token=[REDACTED]");
        assert_eq!(tail(&text, 100), "token=[REDACTED]");
        assert_eq!(tail("abc", 2), "bc");
        assert_eq!(tail("abc", 0), "");
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
        assert_eq!(head(jwt, 40), "[REDACTED]");
    }
}
