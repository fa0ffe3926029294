//! Finds known secret values in texts.
//!
//! Nearly every text holds none. Four bytes at each place are looked up in a small bit set; only where
//! they could begin a secret is anything compared. Letters match in either case. A text with escapes is searched again
//! with the escapes undone, twice at most, so that a value is found also where it was escaped twice.

use std::ops::Range;

use nexus_router_sdk::redact::REDACTED;

use super::decoding::{DecodedText, Escapes};
use super::spelling::spellings;

/// The bits of the set: few enough to stay in the fastest cache.
const BITS: u32 = 15;

/// Bit set of the starts. Its size is fixed, so that the search checks no bounds.
type StartSet = [u64; 1 << (BITS - 6)];

/// How often escapes of escapes are undone.
const MAX_DEPTH: u32 = 2;

/// Lower-cases ASCII letters; other bytes fold equally on both sides.
const FOLD: u32 = 0x2020_2020;

/// The spellings of all secret values.
#[derive(Clone, Default)]
pub(super) struct Needles {
    /// Sorted by their first four bytes, then the longest first.
    spellings: Vec<(u32, String)>,
    /// A bit for each start, at its [`slot`]; none if there is nothing to find.
    starts: Option<Box<StartSet>>,
    /// The values that could be numbers.
    numbers: Vec<String>,
    /// Some value has letters outside ASCII.
    beyond_ascii: bool,
}

impl Needles {
    /// Prepares the search for values.
    pub(super) fn of<'v>(values: impl Iterator<Item = &'v String>) -> Self {
        let mut needles = Self::default();
        for value in values {
            let number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
            if value.bytes().all(number) {
                needles.numbers.push(value.clone());
            }
            // A part of the mark is in every redacted text, and so gives nothing away.
            let mark = REDACTED.to_ascii_lowercase();
            needles.beyond_ascii |= !value.is_ascii();
            let spellings = spellings(value).into_iter().filter(|it| !mark.contains(it.as_str()));
            let started = spellings.filter_map(|it| Some((start(it.as_bytes())?, it)));
            needles.spellings.extend(started);
        }
        needles.spellings.sort_by(|(a, one), (b, two)| a.cmp(b).then(two.len().cmp(&one.len())));
        needles.spellings.dedup();
        if needles.spellings.is_empty() {
            return needles;
        }
        let mut starts: Box<StartSet> = Box::new([0; _]);
        for (start, _) in &needles.spellings {
            let slot = slot(*start);
            starts[slot >> 6] |= 1 << (slot & 63);
        }
        needles.starts = Some(starts);
        needles
    }

    /// Reports whether there is nothing to find.
    pub(super) const fn is_empty(&self) -> bool {
        self.spellings.is_empty() && self.numbers.is_empty()
    }

    /// Returns the text without the values, or nothing if it has none of them.
    pub(super) fn replace(&self, text: &str) -> Option<String> {
        if self.spellings.is_empty() {
            return None;
        }
        let mut found = Vec::new();
        self.search(text.as_bytes(), 0, &mut found);
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
    fn search(&self, text: &[u8], depth: u32, found: &mut Vec<Range<usize>>) {
        self.find(text, found);
        let needs_folding = self.beyond_ascii && !text.is_ascii();
        if needs_folding && let Some(decoded) = DecodedText::of(text, Escapes::Case) {
            let before = found.len();
            self.find(&decoded.bytes, found);
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
                self.search(&decoded.bytes, depth + 1, found);
                found[before..].iter_mut().for_each(|range| *range = decoded.origin(range));
            }
        }
    }

    /// Finds the longest value at each place.
    fn find(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        let Some(starts) = self.starts.as_deref() else { return };
        for (at, window) in text.windows(4).enumerate() {
            let Some(start) = start(window) else { continue };
            let slot = slot(start);
            if starts[slot >> 6] >> (slot & 63) & 1 == 0 {
                continue;
            }
            let first = self.spellings.partition_point(|(other, _)| *other < start);
            let same = self.spellings[first..].iter().take_while(|(other, _)| *other == start);
            let is_here = |it: &&String| {
                let here = text.get(at..at + it.len());
                here.is_some_and(|here| here.eq_ignore_ascii_case(it.as_bytes()))
            };
            found.extend(same.map(|(_, it)| it).find(is_here).map(|it| at..at + it.len()));
        }
    }
}

/// Returns the first four bytes, without the case of letters.
fn start(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|first| u32::from_le_bytes(*first) | FOLD)
}

fn slot(start: u32) -> usize {
    (start.wrapping_mul(0x9e37_79b1) >> (u32::BITS - BITS)) as usize
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
