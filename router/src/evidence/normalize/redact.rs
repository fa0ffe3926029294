//! Redactors: frozen ways to take what differs between equal executions out of the text of a process.

use std::borrow::Cow;

use crate::digest::Digest;
use crate::json::{self, Object, Value};

/// A way to clean a text. Which one an execution uses is bound by its inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Redactor {
    /// Nothing is changed.
    #[default]
    Nothing,
    /// Escape sequences of terminals are removed, and durations replaced.
    AnsiAndDurations,
}

/// What stands for a duration.
const DURATION: &str = "<duration>";

/// The units of durations; the longest that fits is meant.
const UNITS: [&str; 18] = [
    "ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "sec", "secs", "second", "seconds", "m", "min",
    "mins", "minute", "minutes", "h", "hour", "hours",
];

impl Redactor {
    /// Every redactor.
    pub const ALL: [Self; 2] = [Self::Nothing, Self::AnsiAndDurations];

    /// Returns the id.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Nothing => "redact:none",
            Self::AnsiAndDurations => "redact:ansi+durations",
        }
    }

    /// Finds a redactor by its id.
    #[must_use]
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|redactor| redactor.id() == id)
    }

    /// Finds a redactor by the digest of its definition, as inputs name it.
    #[must_use]
    pub fn from_digest(digest: Digest) -> Option<Self> {
        Self::ALL.into_iter().find(|redactor| redactor.digest() == digest)
    }

    /// Returns the digest of the definition, which stands in the inputs as
    /// [`Inputs::REDACTOR`](crate::evidence::Inputs::REDACTOR).
    #[must_use]
    pub fn digest(self) -> Digest {
        let mut object = Object::with_capacity(2);
        object.insert("id", self.id());
        object.insert("steps", self.steps());
        // Texts alone: there is no number that could not be written.
        Digest::of(json::to_jcs(&object.into()).unwrap_or_default().as_bytes())
    }

    /// Returns what is done, in order.
    pub(super) fn steps(self) -> Value {
        match self {
            Self::Nothing => Vec::new().into(),
            Self::AnsiAndDurations => {
                let units: Vec<Value> = UNITS.iter().map(|unit| Value::from(*unit)).collect();
                let mut ansi = Object::new();
                ansi.insert("remove", "ansi");
                let mut durations = Object::new();
                durations.insert("replace", "durations");
                durations.insert("units", units);
                durations.insert("with", DURATION);
                vec![ansi.into(), durations.into()].into()
            }
        }
    }

    /// Cleans bytes. A second time changes nothing more.
    #[must_use]
    pub fn redact(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Nothing => Cow::Borrowed(bytes),
            Self::AnsiAndDurations => {
                let clean = durations(&without_escapes(bytes));
                if clean == bytes { Cow::Borrowed(bytes) } else { Cow::Owned(clean) }
            }
        }
    }

    /// Cleans a text; none if there is nothing to clean.
    #[must_use]
    pub fn redact_text(self, text: &str) -> Option<String> {
        match self.redact(text.as_bytes()) {
            Cow::Borrowed(_) => None,
            // Only whole characters are taken out, so that this never fails.
            Cow::Owned(clean) => Some(String::from_utf8_lossy(&clean).into_owned()),
        }
    }
}

const ESCAPE: u8 = 0x1b;

/// Removes escape sequences, and every escape character that begins none, so that no new one can come about.
fn without_escapes(bytes: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == ESCAPE) {
        clean.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        rest = &rest[sequence(rest)..];
    }
    clean.extend_from_slice(rest);
    clean
}

/// Returns how many bytes after an escape character belong to it.
fn sequence(rest: &[u8]) -> usize {
    let run = |from: usize, range: std::ops::RangeInclusive<u8>| {
        from + rest[from..].iter().take_while(|byte| range.contains(byte)).count()
    };
    match rest.first() {
        Some(b'[') => {
            let end = run(run(1, 0x30..=0x3f), 0x20..=0x2f);
            match rest.get(end) {
                Some(0x40..=0x7e) => end + 1,
                _ => 0,
            }
        }
        // A string up to the bell or to `ESC \`; a string that never ends is none.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let end = rest.iter().position(|byte| matches!(*byte, 0x07 | ESCAPE));
            match end {
                Some(end) if rest[end] == 0x07 => end + 1,
                Some(end) if rest.get(end + 1) == Some(&b'\\') => end + 2,
                _ => 0,
            }
        }
        Some(_) => {
            let end = run(0, 0x20..=0x2f);
            match rest.get(end) {
                Some(0x30..=0x7e) => end + 1,
                _ => 0,
            }
        }
        None => 0,
    }
}

/// Replaces durations such as `1.5s`, `12 ms` and `1m 3s` that stand as words of their own.
fn durations(bytes: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let begins = bytes[at].is_ascii_digit()
            && (at == 0
                || !(is_word(bytes[at - 1]) || matches!(bytes[at - 1], b'.' | b',' | b'-')));
        match begins.then(|| duration(&bytes[at..])).flatten() {
            Some(length) => {
                clean.extend_from_slice(DURATION.as_bytes());
                at += length;
            }
            None => {
                clean.push(bytes[at]);
                at += 1;
            }
        }
    }
    clean
}

/// Returns the length of the duration with which bytes begin.
fn duration(bytes: &[u8]) -> Option<usize> {
    let mut end = None;
    let mut at = 0;
    while let Some(length) = part(&bytes[at..]) {
        at += length;
        if bytes.get(at).is_none_or(|byte| !is_word(*byte)) {
            end = Some(at);
            // Another part may follow after a blank.
            if bytes.get(at) == Some(&b' ') {
                at += 1;
            }
        }
    }
    end
}

/// Returns the length of a number and its unit.
fn part(bytes: &[u8]) -> Option<usize> {
    let digits =
        |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = digits(0);
    if at == 0 {
        return None;
    }
    if bytes.get(at) == Some(&b'.') && digits(at + 1) > 0 {
        at += 1 + digits(at + 1);
    }
    let unit = |from: usize| {
        let fits = |unit: &&&str| bytes[from..].starts_with(unit.as_bytes());
        // What follows a unit is no letter of a longer word, but may be the next number.
        let ends = |unit: &&&str| {
            let next = bytes.get(from + unit.len());
            next.is_none_or(|next| next.is_ascii_digit() || !is_word(*next))
        };
        UNITS.iter().filter(fits).filter(ends).map(|unit| unit.len()).max()
    };
    let blank = usize::from(bytes.get(at) == Some(&b' '));
    unit(at)
        .map(|length| at + length)
        .or_else(|| unit(at + blank).filter(|_| blank > 0).map(|length| at + blank + length))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLEAN: Redactor = Redactor::AnsiAndDurations;

    #[test]
    fn escapes_and_durations_go_and_nothing_else() {
        for (given, expected) in [
            ("\u{1b}[1;32mok\u{1b}[0m 3 passed in 0.05s\n", "ok 3 passed in <duration>\n"),
            ("real\t0m1.234s", "real\t<duration>"),
            ("took 1m 3s.", "took <duration>."),
            ("12 ms, 7µs (2 seconds)", "<duration>, <duration> (<duration>)"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;x\u{1b}\\b", "ab"),
            ("\u{1b}(Bplain \u{1b}M", "plain "),
            ("\u{1b}[\u{1b}[0m;m", "[;m"),
            ("5 apples, v1.2s.3, x10s, 10sx, 1.5.2s", "5 apples, v1.2s.3, x10s, 10sx, 1.5.2s"),
            ("2024-01-02", "2024-01-02"),
            ("1s 5sx", "<duration> 5sx"),
        ] {
            let clean = CLEAN.redact_text(given).unwrap_or_else(|| given.to_owned());
            assert_eq!(clean, expected, "{given:?}");
        }
        assert_eq!(Redactor::Nothing.redact(b"\x1b[0m1s"), &b"\x1b[0m1s"[..]);
        assert_eq!(CLEAN.redact_text("plain"), None);
    }

    #[test]
    fn hostile_texts_take_no_longer_than_their_length_allows() {
        for hostile in ["\u{1b}]".repeat(200_000), "1".repeat(400_000), "1s".repeat(200_000)] {
            let clean = CLEAN.redact(hostile.as_bytes());
            assert!(clean.len() <= hostile.len());
        }
    }

    #[test]
    fn definitions_are_found_by_their_digest() {
        for redactor in Redactor::ALL {
            assert_eq!(Redactor::from_id(redactor.id()), Some(redactor));
            assert_eq!(Redactor::from_digest(redactor.digest()), Some(redactor));
        }
        assert_eq!(Redactor::from_digest(Digest::ZERO), None);
    }

    proptest! {
        #[test]
        fn a_second_time_changes_nothing(bytes in prop::collection::vec(
            prop_oneof![
                Just(b"\x1b".to_vec()), Just(b"[".to_vec()), Just(b"]".to_vec()), Just(b"\x07".to_vec()),
                Just(b"1".to_vec()), Just(b"20".to_vec()), Just(b".".to_vec()), Just(b" ".to_vec()),
                Just(b"s".to_vec()), Just(b"ms".to_vec()), Just("µs".as_bytes().to_vec()), Just(b"m".to_vec()),
                Just(b"x".to_vec()), Just(b"\n".to_vec()), Just(b"-".to_vec()), any::<u8>().prop_map(|byte| vec![byte]),
            ], 0..40,
        )) {
            let bytes = bytes.concat();
            let once = CLEAN.redact(&bytes).into_owned();
            prop_assert!(!once.contains(&ESCAPE));
            prop_assert_eq!(CLEAN.redact(&once).into_owned(), once);
        }

        #[test]
        fn a_text_stays_a_text(text in any::<String>()) {
            prop_assert!(std::str::from_utf8(&CLEAN.redact(text.as_bytes())).is_ok());
        }
    }
}
