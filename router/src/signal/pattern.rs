//! The patterns that names, versions and hashes of signal contracts follow.
//!
//! The AiGentsy tools let a line end pass after each of them; here it does not.

use std::cmp::Ordering;

/// Says whether a text is an id: two or more parts between dots, in small letters, digits and underscores, of which
/// the first begins with a letter.
#[must_use]
pub fn is_id(text: &str) -> bool {
    let mut parts = text.split('.');
    parts.next().is_some_and(is_snake_case)
        && text.contains('.')
        && parts.all(|part| !part.is_empty() && part.bytes().all(is_word))
}

/// Says whether a text is in `snake_case`.
#[must_use]
pub fn is_snake_case(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(is_word)
}

/// Says whether a text is a version: three numbers between dots.
#[must_use]
pub fn is_semver(text: &str) -> bool {
    semver_parts(text).is_some()
}

/// Says whether a text is a SHA-256 in lower-case hexadecimal.
#[must_use]
pub fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Says whether a text points to a version of a contract: `ID@VERSION`.
#[must_use]
pub fn is_pointer(text: &str) -> bool {
    pointer_parts(text).is_some()
}

/// Returns the id and the version that a pointer names.
#[must_use]
pub fn pointer_parts(text: &str) -> Option<(&str, SemverParts)> {
    let (id, version) = text.split_once('@')?;
    Some((id, semver_parts(version)?)).filter(|_| is_id(id))
}

/// The numbers of a version, of any length; they compare as numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SemverParts([String; 3]);

/// Returns the numbers of a version.
#[must_use]
pub fn semver_parts(text: &str) -> Option<SemverParts> {
    let mut parts = text.split('.');
    let mut number = || {
        let part = parts.next()?;
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.trim_start_matches('0').to_owned())
    };
    let numbers = [number()?, number()?, number()?];
    parts.next().is_none().then_some(SemverParts(numbers))
}

impl SemverParts {
    /// Returns the digits of the numbers, without leading zeros; zero has none.
    #[must_use]
    pub fn digits(&self) -> &[String; 3] {
        &self.0
    }
}

impl Ord for SemverParts {
    fn cmp(&self, other: &Self) -> Ordering {
        let pairs = self.0.iter().zip(&other.0);
        let mut orders =
            pairs.map(|(one, two)| one.len().cmp(&two.len()).then_with(|| one.cmp(two)));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for SemverParts {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn is_word(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_patterns() {
        for id in ["a.b", "acme.eval_suite.v0", "a.0", "a._", "a0.b.c.d"] {
            assert!(is_id(id), "{id}");
        }
        for id in ["", "a", "a.", ".a", "a..b", "A.b", "0.b", "_a.b", "a.b\n", "a-b.c", "a.é"] {
            assert!(!is_id(id), "{id:?}");
        }
        for pointer in ["a@1.0.0", "a.b@1.0", "a.b1.0.0", "a.b@1.0.0@2.0.0", "@", ""] {
            assert!(!is_pointer(pointer), "{pointer:?}");
        }
        assert!(is_pointer("a.b@01.0.0") && is_hash(&"0f".repeat(32)));
        assert!(!is_hash(&"0F".repeat(32)) && !is_hash(&format!("{}\n", "0f".repeat(32))));
        assert!(is_snake_case("a_1") && !is_snake_case("_a") && !is_snake_case("1a"));
    }

    #[test]
    fn versions_compare_as_numbers_of_any_length() {
        let version = |text| semver_parts(text).unwrap();
        assert!(version("0.10.0") > version("0.9.99"));
        assert!(version("1.00.0") == version("01.0.0"));
        assert!(version("100000000000000000000000.0.0") > version("99999999999999999999999.9.9"));
        for text in ["1.0", "1.0.0.0", "1..0", "1.0.0-a", "v1.0.0", "1.0.0\n", "١.0.0"] {
            assert!(!is_semver(text), "{text:?}");
        }
    }
}
