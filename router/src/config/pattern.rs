//! Patterns of rules: `*` stands for any text, `?` for any one character.

/// A pattern for names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// The most characters of a pattern: with it, the time of a match is linear in the text.
    pub const MAX_CHARS: usize = 256;

    /// Makes a pattern, unless it is empty or has more than [`MAX_CHARS`](Self::MAX_CHARS) characters.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.chars().count() <= Self::MAX_CHARS;
        fits.then(|| Self(text.into()))
    }

    /// Returns the pattern as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the pattern may fit more than one text.
    #[must_use]
    pub fn has_wildcard(&self) -> bool {
        self.0.contains(['*', '?'])
    }

    /// Returns whether the pattern fits the whole text. Case matters.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.fits(text, |wanted, found| wanted == found)
    }

    /// Returns whether the pattern fits a whole name. Case does not matter: an adapter may ignore the case of names.
    #[must_use]
    pub fn matches_name(&self, name: &str) -> bool {
        self.fits(name, |wanted, found| {
            wanted.eq_ignore_ascii_case(&found)
                || !(wanted.is_ascii() && found.is_ascii())
                    && wanted.to_lowercase().eq(found.to_lowercase())
        })
    }

    fn fits(&self, text: &str, same: impl Fn(char, char) -> bool) -> bool {
        let (mut pattern, mut rest) = (self.0.chars(), text.chars());
        // Behind the last `*`, and what it has not swallowed yet. An earlier one need not swallow more: what
        // stood between the two was found as early as can be.
        let mut star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
        loop {
            let (before, wanted) = (rest.clone(), pattern.next());
            if wanted == Some('*') {
                if pattern.as_str().is_empty() {
                    return true;
                }
                star = Some((pattern.clone(), before));
                continue;
            }
            match (wanted, rest.next()) {
                (None, None) => return true,
                (Some(wanted), Some(found)) if wanted == '?' || same(wanted, found) => continue,
                _ => {}
            }
            let Some((behind, left)) = &mut star else { return false };
            if left.next().is_none() {
                return false;
            }
            (pattern, rest) = (behind.clone(), left.clone());
        }
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Slow, and plainly right.
    fn naive(pattern: &[char], text: &[char]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            (['*', rest @ ..], _) => (0..=text.len()).any(|from| naive(rest, &text[from..])),
            (['?', rest @ ..], [_, after @ ..]) => naive(rest, after),
            ([wanted, rest @ ..], [found, after @ ..]) => wanted == found && naive(rest, after),
            _ => false,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn agrees_with_the_naive_matcher(pattern in "[abü*?]{1,8}", text in "[abü*]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = naive(&chars(&pattern), &chars(&text));
            prop_assert_eq!(Pattern::new(&pattern).unwrap().matches(&text), expected);
            prop_assert_eq!(Pattern::new(&pattern).unwrap().matches_name(&text), expected);
        }
    }

    #[test]
    fn names_match_in_any_case() {
        let fits = |pattern: &str, name: &str| Pattern::new(pattern).unwrap().matches_name(name);
        assert!(fits("Shop.*", "shop.BUY") && fits("forbidden", "FORBIDDEN") && fits("ü", "Ü"));
        // The Kelvin sign is a capital k to adapters that lower names.
        assert!(fits("ask", "as\u{212a}") && !fits("ask", "ask ") && !fits("ask", "a\u{200b}sk"));
    }

    #[test]
    fn whole_text_is_matched() {
        let fits = |pattern: &str, text: &str| Pattern::new(pattern).unwrap().matches(text);
        assert!(fits("delete_*", "delete_") && fits("delete_*", "delete_all"));
        assert!(!fits("delete_*", "undelete_x") && !fits("delete", "delete_all"));
        assert!(fits("*", "") && !fits("?", "") && fits("?", "ü") && !fits("Shop", "shop"));
        assert!(Pattern::new("").is_none() && Pattern::new(&"a".repeat(257)).is_none());
        // A matcher that tries every split would not come back from this.
        assert!(!fits(&format!("{}b", "*a".repeat(100)), &"a".repeat(20_000)));
    }
}
