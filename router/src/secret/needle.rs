//! Finds known secret values in texts.
//!
//! Nearly every text holds none. One [`Matcher`] looks for all spellings of all values in one pass; letters match in
//! either case. A text with escapes is searched again with the escapes undone, twice at most, so that a value is found
//! also where it was escaped twice.

use std::ops::Range;

use nexus_router_sdk::redact::REDACTED;

use super::MIN_LENGTH;
use super::decoding::{DecodedText, Escapes};
use super::matcher::Matcher;
use super::spelling::spellings;

/// How often escapes of escapes are undone.
const MAX_DEPTH: u32 = 2;

/// The spellings of all secret values.
#[derive(Clone, Default)]
pub(super) struct Needles {
    /// None if there is nothing to find.
    matcher: Option<Matcher>,
    /// The values that could be numbers.
    numbers: Vec<String>,
    /// Some value has letters outside ASCII.
    beyond_ascii: bool,
}

impl Needles {
    /// Prepares the search for values.
    pub(super) fn of<'v>(values: impl Iterator<Item = &'v String>) -> Self {
        let mut needles = Self::default();
        let mut all = Vec::new();
        for value in values {
            let number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
            if value.bytes().all(number) {
                needles.numbers.push(value.clone());
            }
            // A part of the mark is in every redacted text, and so gives nothing away.
            let mark = REDACTED.to_ascii_lowercase();
            needles.beyond_ascii |= !value.is_ascii();
            let spellings = spellings(value).into_iter();
            all.extend(
                spellings.filter(|it| it.len() >= MIN_LENGTH && !mark.contains(it.as_str())),
            );
        }
        all.sort_unstable();
        all.dedup();
        needles.matcher = Matcher::new(&all);
        needles
    }

    /// Returns whether there is nothing to find.
    pub(super) const fn is_empty(&self) -> bool {
        self.matcher.is_none() && self.numbers.is_empty()
    }

    /// Returns the text without the values, or nothing if it has none of them.
    pub(super) fn replace(&self, text: &str) -> Option<String> {
        let matcher = self.matcher.as_ref()?;
        let mut found = Vec::new();
        self.search(matcher, text.as_bytes(), 0, &mut found);
        (!found.is_empty()).then(|| blot_out(text, found))
    }

    /// Says whether the text of a number is a secret value.
    pub(super) fn is_secret_number(&self, text: impl FnOnce() -> String) -> bool {
        if self.numbers.is_empty() {
            return false;
        }
        let text = text();
        let whole = text.strip_suffix(".0").unwrap_or(&text);
        self.numbers.iter().any(|number| *number == text || number == whole)
    }

    /// Finds values in a text and in its decoded forms.
    fn search(&self, matcher: &Matcher, text: &[u8], depth: u32, found: &mut Vec<Range<usize>>) {
        matcher.find(text, found);
        let needs_folding = self.beyond_ascii && !text.is_ascii();
        if needs_folding && let Some(decoded) = DecodedText::of(text, Escapes::Case) {
            let before = found.len();
            matcher.find(&decoded.bytes, found);
            found[before..].iter_mut().for_each(|range| *range = decoded.origin(range));
        }
        if depth == MAX_DEPTH {
            return;
        }
        for (mark, escapes) in [(b'%', Escapes::Percent), (b'\\', Escapes::Backslash)] {
            if text.contains(&mark)
                && let Some(decoded) = DecodedText::of(text, escapes)
            {
                let before = found.len();
                self.search(matcher, &decoded.bytes, depth + 1, found);
                found[before..].iter_mut().for_each(|range| *range = decoded.origin(range));
            }
        }
    }
}

/// Replaces ranges of a text; those that overlap count as one.
fn blot_out(text: &str, mut ranges: Vec<Range<usize>>) -> String {
    for range in &mut ranges {
        // An escape may stand for a part of a character.
        *range = text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end);
    }
    ranges.sort_unstable_by_key(|range| range.start);
    let mut out = String::with_capacity(text.len());
    let mut ranges = ranges.into_iter().peekable();
    let mut at = 0;
    while let Some(Range { start, mut end }) = ranges.next() {
        while let Some(next) = ranges.next_if(|next| next.start < end) {
            end = end.max(next.end);
        }
        out.push_str(&text[at..start]);
        out.push_str(REDACTED);
        at = end;
    }
    out.push_str(&text[at..]);
    out
}
