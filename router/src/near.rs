//! How like two names are, to tell who errs what was meant.

/// No name that is meant is longer. Comparing takes the product of both lengths, and texts come from anywhere.
const LONGEST: usize = 128;

/// Returns how like two names are, from 0 to 1. What is too long for a name is like nothing.
pub(crate) fn likeness(text: &str, known: &str) -> f64 {
    if text.len().max(known.len()) > LONGEST {
        return 0.0;
    }
    strsim::jaro_winkler(text, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_for_a_name_is_like_nothing() {
        let name = "n".repeat(LONGEST);
        assert!(likeness(&name, &name) > 0.99);
        let long = format!("{name}n");
        for (text, known) in [(&long, &name), (&name, &long)] {
            assert!(likeness(text, known) < 0.01);
        }
        assert!(likeness(&"n".repeat(100_000_000), "n") < 0.01);
    }
}
