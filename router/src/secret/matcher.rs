//! Search for all spellings at once.
//!
//! Four bytes at each place are looked up in a small bit set. Only where they could begin a spelling an automaton reads
//! on, and it stops as soon as fewer than four bytes could still begin one. Each byte is read a bounded number of times,
//! for every text and any number of spellings that begin alike.

use std::ops::Range;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::NFA;

/// The bits of the set: few enough to stay in the fastest cache.
const BITS: u32 = 15;

/// Bit set of the starts. Its size is fixed, so that the search checks no bounds.
type StartSet = [u64; 1 << (BITS - 6)];

/// Length of a start.
const START: usize = 4;

/// Lower-cases ASCII letters; other bytes fold equally on both sides.
const FOLD: u32 = 0x2020_2020;

/// Automaton of the spellings, which are in small letters and at least [`START`] bytes long.
#[derive(Clone)]
pub(super) struct Matcher {
    /// A bit for each start, at its [`slot`].
    starts: Box<StartSet>,
    automaton: NFA,
    start: StateID,
    /// A bit for each state that is reached by [`START`] or more bytes of a spelling.
    deep: Vec<u64>,
}

impl Matcher {
    /// Prepares the search; none if there is nothing to find.
    pub(super) fn new(spellings: &[String]) -> Option<Self> {
        if spellings.is_empty() {
            return None;
        }
        let automaton = NFA::builder()
            .prefilter(false)
            .build(spellings)
            .expect("the spellings of the configured secrets fit an automaton");
        let start = automaton.start_state(Anchored::No).expect("the automaton has this start");
        let mut starts: Box<StartSet> = Box::new([0; _]);
        let mut deep = Vec::new();
        for spelling in spellings {
            if let Some(begin) = spelling.as_bytes().first_chunk() {
                let slot = slot(*begin);
                starts[slot >> 6] |= 1 << (slot & 63);
            }
            let mut state = start;
            for (index, byte) in spelling.bytes().enumerate() {
                state = automaton.next_state(Anchored::No, state, byte);
                if index + 1 >= START {
                    let (word, bit) = (state.as_usize() >> 6, state.as_usize() & 63);
                    deep.resize(deep.len().max(word + 1), 0);
                    deep[word] |= 1_u64 << bit;
                }
            }
        }
        Some(Self { starts, automaton, start, deep })
    }

    /// Adds the places of all spellings in a text. Those that overlap are one.
    pub(super) fn find(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        let first = found.len();
        let mut at = 0;
        while let Some(candidate) = self.candidate(text, at) {
            let mut state = self.start;
            at = candidate;
            loop {
                let Some(byte) = text.get(at) else { return };
                let byte = byte.to_ascii_lowercase();
                state = self.automaton.next_state(Anchored::No, state, byte);
                at += 1;
                if self.automaton.is_match(state) {
                    // The first pattern of a state is the longest that ends here.
                    let pattern = self.automaton.match_pattern(state, 0);
                    add(found, first, at - self.automaton.pattern_len(pattern)..at);
                }
                if at - candidate >= START && !self.is_deep(state) {
                    at -= START - 1;
                    break;
                }
            }
        }
    }

    /// Returns the next place at which a spelling could begin.
    fn candidate(&self, text: &[u8], from: usize) -> Option<usize> {
        let is_start = |window: &[u8]| {
            window.first_chunk().is_some_and(|window| {
                let slot = slot(*window);
                self.starts[slot >> 6] >> (slot & 63) & 1 == 1
            })
        };
        text.get(from..)?.windows(START).position(is_start).map(|index| from + index)
    }

    fn is_deep(&self, state: StateID) -> bool {
        let word = self.deep.get(state.as_usize() >> 6);
        word.is_some_and(|word| word >> (state.as_usize() & 63) & 1 == 1)
    }
}

/// Adds a range that ends behind all others from `first` on, and merges those that it overlaps.
fn add(found: &mut Vec<Range<usize>>, first: usize, mut range: Range<usize>) {
    while found.len() > first
        && let Some(last) = found.pop_if(|last| range.start < last.end)
    {
        range.start = range.start.min(last.start);
    }
    found.push(range);
}

/// Returns the place of four bytes in the set, without the case of letters.
fn slot(start: [u8; START]) -> usize {
    let start = u32::from_le_bytes(start) | FOLD;
    (start.wrapping_mul(0x9e37_79b1) >> (u32::BITS - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Finds the longest spelling at each place by comparison, and merges those that overlap.
    fn find_by_comparison(spellings: &[String], text: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for at in 0..text.len() {
            let is_here = |it: &&String| {
                let here = text.get(at..at + it.len());
                here.is_some_and(|here| here.eq_ignore_ascii_case(it.as_bytes()))
            };
            let Some(length) = spellings.iter().filter(is_here).map(String::len).max() else {
                continue;
            };
            match found.last_mut() {
                Some(last) if at < last.end => last.end = last.end.max(at + length),
                _ => found.push(at..at + length),
            }
        }
        found
    }

    fn find(spellings: &[String], text: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        if let Some(matcher) = Matcher::new(spellings) {
            matcher.find(text, &mut found);
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn finds_the_same_as_comparison(
            spellings in prop::collection::vec("[ab]{4,9}|bear[ab]{0,3}|[a-c0]{4,6}|é{2,3}", 0..8),
            text in "([abAB]{1,6}|bearer|Bear|é|c|0|[a-c0]{1,4}){0,30}",
        ) {
            let expected = find_by_comparison(&spellings, text.as_bytes());
            prop_assert_eq!(find(&spellings, text.as_bytes()), expected, "{} {:?}", text, spellings);
        }
    }

    #[test]
    fn spellings_that_begin_alike_cost_no_more_than_one() {
        let spellings: Vec<String> = (0..2000).map(|n| format!("bearer {n:0>30}")).collect();
        let text = "Bearer 000000000000000000000".repeat(50_000);
        // Two thousand comparisons at each place would take minutes.
        assert!(find(&spellings, text.as_bytes()).is_empty());
        let repeated = ["a".repeat(4000)];
        let text = "a".repeat(1_000_000);
        let found = find(&repeated, text.as_bytes());
        assert!(matches!(&found[..], [all] if *all == (0..text.len())));
    }
}
