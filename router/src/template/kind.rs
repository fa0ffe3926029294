//! The kind of a new adapter, and the names that follow from it.

const LONGEST_KIND: usize = 40;

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Says what keeps a text from being a kind, if anything does.
pub(super) fn problem_with(kind: &str) -> Option<&'static str> {
    let separator = |byte: u8| byte == b'-' || byte == b'_';
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || separator(byte);
    let bytes = kind.as_bytes();
    if kind.is_empty() {
        Some("it is empty")
    } else if kind.chars().count() > LONGEST_KIND {
        Some("it has more than 40 characters")
    } else if !bytes.iter().copied().all(known) {
        Some("it has characters other than a to z, 0 to 9, - and _")
    } else if !bytes[0].is_ascii_lowercase() {
        Some("it does not begin with a letter")
    } else if bytes.last().copied().is_some_and(separator)
        || bytes.windows(2).any(|pair| separator(pair[0]) && separator(pair[1]))
    {
        Some("- and _ stand alone between letters and digits")
    } else if KEYWORDS.contains(&kind) {
        Some("it is a keyword of Rust")
    } else if kind == "sdk" {
        Some("the package would be taken for the SDK")
    } else {
        None
    }
}

/// Returns the kind as the first part of a type name.
pub(super) fn title_case(kind: &str) -> String {
    let words = kind.split(['-', '_']).filter_map(|word| word.split_at_checked(1));
    words.map(|(first, rest)| first.to_ascii_uppercase() + rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_kinds_are_refused_and_good_ones_are_not() {
        let long = "a".repeat(41);
        let words = "Weather a/b .. 2d -a _a a- a_ a--b a-_b a.b self crate async type sdk";
        for bad in words.split(' ').chain(["", "a b", "a\n", "wetter\u{fc}", &long]) {
            assert!(problem_with(bad).is_some(), "{bad:?}");
        }
        for good in ["a", "s3", "http2-client", "key_value", "config", "adapter", &long[..40]] {
            assert_eq!(problem_with(good), None, "{good}");
        }
    }

    #[test]
    fn type_name_has_no_separators() {
        assert_eq!(title_case("key_value-2x"), "KeyValue2x");
        assert_eq!(title_case("a"), "A");
    }
}
