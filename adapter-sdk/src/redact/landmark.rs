//! Places in a text where a secret may be near, found by one automaton in one pass.
//!
//! The scanner looks closely at these places and skips everything between them.

use std::sync::LazyLock;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, StartKind};

use super::glance::{SCHEMES, STEMS};
use super::token::{FORMED, ISSUED};

/// Part of a text that the scanner has to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LandmarkKind {
    /// Part of a word that may be a key or a scheme.
    Stem,
    /// Start of a known token, in one case of letters or the other.
    Token(&'static str),
    /// `://`, directly after the scheme of a URL.
    Url,
    /// Start of a block in PEM.
    Pem,
    /// A blank and `id`, which may end the phrase `access key id`.
    Id,
}

/// One place in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landmark {
    pub(super) kind: LandmarkKind,
    pub(super) start: usize,
}

/// Automaton and the kinds of its patterns, in their order.
struct Finder {
    automaton: DFA,
    start: StateID,
    kinds: Vec<(LandmarkKind, usize)>,
}

static FINDER: LazyLock<Finder> = LazyLock::new(Finder::new);

impl Finder {
    fn new() -> Self {
        let patterns = patterns();
        let automaton = DFA::builder()
            .ascii_case_insensitive(true)
            .prefilter(false)
            .start_kind(StartKind::Unanchored)
            .build(patterns.iter().map(|(_, pattern)| *pattern))
            .expect("a few fixed patterns fit an automaton");
        let start = automaton.start_state(Anchored::No).expect("the automaton has this start");
        let kinds = patterns.iter().map(|(kind, pattern)| (*kind, pattern.len())).collect();
        Self { automaton, start, kinds }
    }
}

/// Returns every pattern. None is the end of another one, so that a state has one match at most.
fn patterns() -> Vec<(LandmarkKind, &'static str)> {
    let mut patterns = vec![
        (LandmarkKind::Stem, "%"),
        (LandmarkKind::Url, "://"),
        (LandmarkKind::Pem, "-----BEGIN "),
        (LandmarkKind::Id, " id"),
    ];
    patterns.extend(STEMS.iter().map(|stem| (LandmarkKind::Stem, *stem)));
    let schemes = SCHEMES.iter().filter(|scheme| !STEMS.contains(scheme));
    patterns.extend(schemes.map(|scheme| (LandmarkKind::Stem, *scheme)));
    let tokens = ISSUED.iter().chain(FORMED);
    patterns.extend(tokens.map(|token| (LandmarkKind::Token(token), *token)));
    patterns
}

/// Search for landmarks, from left to right.
pub(super) struct LandmarkSearch<'a> {
    finder: &'static Finder,
    text: &'a [u8],
    at: usize,
    state: StateID,
}

impl<'a> LandmarkSearch<'a> {
    pub(super) fn new(text: &'a str, at: usize) -> Self {
        let finder = &*FINDER;
        Self { finder, text: text.as_bytes(), at, state: finder.start }
    }

    /// Continues the search at a later position. Landmarks that begin before it are not found.
    pub(super) fn skip_to(&mut self, at: usize) {
        (self.at, self.state) = (at, self.finder.start);
    }

    /// Returns the next landmark. It may overlap with the last one.
    pub(super) fn next(&mut self) -> Option<Landmark> {
        let Finder { automaton, kinds, .. } = self.finder;
        let mut state = self.state;
        for (at, &byte) in self.text.iter().enumerate().skip(self.at) {
            state = automaton.next_state(Anchored::No, state, byte);
            if automaton.is_special(state) && automaton.is_match(state) {
                (self.at, self.state) = (at + 1, state);
                let (kind, length) = kinds[automaton.match_pattern(state, 0).as_usize()];
                return Some(Landmark { kind, start: self.at - length });
            }
        }
        self.at = self.text.len();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pattern_is_the_end_of_another() {
        let patterns = patterns();
        for (index, (_, one)) in patterns.iter().enumerate() {
            for (other_index, (_, other)) in patterns.iter().enumerate() {
                let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
                assert!(index == other_index || !one.ends_with(&other), "{one} {other}");
            }
        }
    }

    #[test]
    fn finds_landmarks_in_order() {
        let text = "x=1 ToKeN a://b -----BEGIN ghp_ id % eyJwt";
        let mut search = LandmarkSearch::new(text, 0);
        let mut found = Vec::new();
        while let Some(landmark) = search.next() {
            found.push(&text[landmark.start..search.at]);
        }
        assert_eq!(found, ["ToKeN", "://", "-----BEGIN ", "ghp_", " id", "%", "eyJ", "Jwt"]);
    }
}
