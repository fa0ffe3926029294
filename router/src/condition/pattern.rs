//! Patterns of `matches`, with a bound on the time of a match.

use regex::{Regex, RegexBuilder};

/// Pattern of `matches`.
#[derive(Debug)]
pub(super) struct CompiledPattern {
    regex: Regex,
    /// Steps for each byte of a text.
    steps_per_byte: usize,
}

impl CompiledPattern {
    /// The most bytes of a compiled pattern. A Unicode class such as `\w` takes about 50,000.
    const MAX_SIZE: usize = 128 * 1024;
    /// The smallest size that is tried.
    const MIN_SIZE: usize = 1024;
    /// The most bytes of the states that a search keeps.
    const SEARCH_CACHE: usize = 256 * 1024;
    /// Bytes of a compiled pattern that a search handles in one step. The worst search visits all of them at every
    /// byte of the text.
    const SIZE_PER_STEP: usize = 2048;

    /// Compiles a pattern. The size is the first power of two that is large enough.
    pub(super) fn compile(text: &str, ignores_case: bool) -> Result<Self, regex::Error> {
        let mut size = Self::MIN_SIZE;
        loop {
            let built = RegexBuilder::new(text)
                .case_insensitive(ignores_case)
                .size_limit(size)
                .dfa_size_limit(Self::SEARCH_CACHE)
                .build();
            match built {
                Ok(regex) => {
                    return Ok(Self { regex, steps_per_byte: 1 + size / Self::SIZE_PER_STEP });
                }
                Err(regex::Error::CompiledTooBig(_)) if size < Self::MAX_SIZE => size *= 2,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the steps that a match of a text takes at most.
    pub(super) const fn steps(&self, text: &str) -> usize {
        text.len().saturating_mul(self.steps_per_byte)
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}
