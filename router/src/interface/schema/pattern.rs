//! How large a regular expression becomes when it is compiled, guessed before that is tried.
//!
//! A repetition is compiled as often as it repeats, and repetitions of repetitions multiply. The library
//! stops at a limit, but a schema may have many patterns that each come close to it.

/// All the patterns of a schema weigh no more.
pub(super) const MAX_WEIGHT: usize = 20_000;
/// What a class of characters weighs; those of Unicode have hundreds of ranges.
const CLASS: usize = 4;
const UNICODE_CLASS: usize = 300;

/// Returns what a pattern weighs, where one character weighs 1. It need not be well formed.
pub(super) fn weight(pattern: &str) -> usize {
    // The weights of the groups that are open, and of the last piece of each, which is what repeats.
    let mut groups: Vec<(usize, usize)> = vec![(0, 0)];
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        let piece = match character {
            '(' => {
                groups.push((0, 0));
                continue;
            }
            ')' if groups.len() > 1 => {
                let (before, last) = groups.pop().unwrap_or_default();
                before.saturating_add(last).max(1)
            }
            '{' => {
                let text = rest.as_str();
                let inside = text.split('}').next().unwrap_or_default();
                let most = inside.split(',').filter_map(|bound| bound.parse::<usize>().ok()).max();
                if let (Some(most), Some((_, last))) = (most, groups.last_mut()) {
                    *last = last.saturating_mul(most.max(1));
                    rest = text.get(inside.len() + 1..).unwrap_or_default().chars();
                    continue;
                }
                1
            }
            '[' => class(&mut rest),
            '\\' => match rest.next() {
                Some('p' | 'P') => {
                    if let Some((_, after)) = rest.as_str().split_once('}') {
                        rest = after.chars();
                    }
                    UNICODE_CLASS
                }
                Some('d' | 'D' | 'w' | 'W' | 's' | 'S') => CLASS,
                _ => 1,
            },
            _ => 1,
        };
        if let Some((before, last)) = groups.last_mut() {
            *before = before.saturating_add(*last);
            *last = piece;
        }
    }
    groups
        .into_iter()
        .fold(0, |sum, (before, last)| sum.saturating_add(before).saturating_add(last))
}

fn class(rest: &mut std::str::Chars<'_>) -> usize {
    let mut weight = CLASS;
    while let Some(character) = rest.next() {
        match character {
            ']' => break,
            '\\' => {
                weight += if matches!(rest.next(), Some('p' | 'P')) { UNICODE_CLASS } else { 1 }
            }
            _ => {}
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_multiply_what_they_repeat() {
        assert_eq!(weight("abc"), 3);
        assert_eq!(weight("a{3}b"), 4);
        assert_eq!(weight("(ab){10}"), 20);
        assert_eq!(weight("((ab){10}c){2,5}"), 105);
        assert_eq!(weight("[a-z]{1,64}"), 4 * 64);
        assert!(weight(r"\p{L}{100}") > MAX_WEIGHT);
        assert!(
            weight(
                r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?){0,10}$"
            ) < MAX_WEIGHT
        );
        assert!(weight("((((a{1,1000}){1,1000}){1,1000}){1,1000})") > MAX_WEIGHT);
        for odd in [
            "",
            "(",
            ")",
            "{",
            "}",
            "{3}",
            "a{",
            "a{,}",
            "[",
            "[\\",
            "\\",
            ")){9}",
            "é{2}",
            "a{99999999999999999999999}",
        ] {
            assert!(weight(odd) < MAX_WEIGHT, "{odd}");
        }
    }
}
