//! Finds dates, addresses, numbers and names in a text, by their form alone.

use std::collections::BTreeMap;

use nexus_router_sdk::{AdapterError, Object};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::output::{Class, output};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The most entities that are told.
const MOST: usize = 10_000;

/// A word of a text, without the marks around it.
#[derive(Clone, Copy, Debug)]
struct Word<'a> {
    text: &'a str,
    /// Where it begins, in characters.
    at: usize,
    /// Whether it begins a sentence.
    first: bool,
    /// Whether a mark stands behind it, so that it goes with no other.
    ends: bool,
}

/// Carries out a call.
pub(crate) fn extract(args: Object) -> Result<Object, AdapterError> {
    let mut args = Arguments::new(args);
    let text = args.needed("text")?;
    args.end()?;
    let mut found = Found::default();
    let words = words(&text);
    let mut rest = &words[..];
    while let Some(word) = rest.first() {
        let taken = take(rest, &mut found).max(1);
        debug_assert!(taken <= rest.len(), "{word:?}");
        rest = rest.get(taken..).unwrap_or_default();
    }
    let entities: Vec<Value> = found
        .0
        .into_iter()
        .take(MOST)
        .map(|((kind, text), Seen { count, at, value })| {
            let mut entity = json!({ "kind": kind, "text": text, "count": count, "at": at });
            if let Some(value) = value {
                entity["value"] = value.into();
            }
            entity
        })
        .collect();
    let result = json!({ "count": entities.len(), "entities": entities });
    Ok(output(Class::ExtractEntities, result, Vec::new()))
}

/// What was found, sorted by kind and text.
#[derive(Default)]
struct Found(BTreeMap<(&'static str, String), Seen>);

struct Seen {
    count: usize,
    at: usize,
    value: Option<String>,
}

impl Found {
    fn add(&mut self, kind: &'static str, text: &str, at: usize, value: Option<String>) {
        let seen = self.0.entry((kind, text.to_owned())).or_insert(Seen { count: 0, at, value });
        seen.count += 1;
    }
}

/// Takes what begins with the first word; returns how many words it has, 0 if it is nothing.
fn take(words: &[Word<'_>], found: &mut Found) -> usize {
    let Some(word) = words.first() else { return 0 };
    let text = word.text;
    if is_url(text) {
        found.add("url", text, word.at, None);
        return 1;
    }
    if is_email(text) {
        found.add("email", text, word.at, None);
        return 1;
    }
    if let Some((shown, value, taken)) = date(words) {
        found.add("date", &shown, word.at, Some(value));
        return taken;
    }
    if is_number(text) {
        found.add("number", text, word.at, None);
        return 1;
    }
    let count = words.iter().scan(false, |ended, word| {
        let goes_on = !*ended && is_capitalised(word.text);
        *ended = word.ends;
        goes_on.then_some(())
    });
    let count = count.count();
    // One such word at the beginning of a sentence is a word like any other.
    if count > 1 || (count == 1 && !word.first && text.chars().count() > 1) {
        let name: Vec<&str> = words[..count].iter().map(|word| word.text).collect();
        found.add("name", &name.join(" "), word.at, None);
        return count;
    }
    0
}

fn words(text: &str) -> Vec<Word<'_>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    let (mut at, mut first) = (0, true);
    for raw in text.split(char::is_whitespace) {
        let before = raw.chars().take_while(|one| is_mark(*one)).count();
        let inner = raw.trim_start_matches(is_mark);
        let word = inner.trim_end_matches(is_trailing);
        let trailing = &inner[word.len()..];
        if word.is_empty() {
            // An empty line ends a sentence, too.
            first |= raw.is_empty();
        } else {
            let ends = !trailing.is_empty();
            words.push(Word { text: word, at: at + before, first, ends });
            first = trailing.contains(['.', '!', '?', ':']);
        }
        at += raw.chars().count() + 1;
    }
    words
}

fn is_mark(one: char) -> bool {
    matches!(one, '(' | '[' | '{' | '<' | '"' | '\'' | '“' | '„' | '‘' | '*' | '_' | '`')
}

fn is_trailing(one: char) -> bool {
    is_mark(one)
        || matches!(one, ')' | ']' | '}' | '>' | '”' | '’' | '.' | ',' | ';' | ':' | '!' | '?')
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| rest.starts_with(|one: char| one.is_alphanumeric() || one == '['))
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let fits = |one: char| one.is_ascii_alphanumeric() || "._%+-".contains(one);
    let label = |label: &str| {
        !label.is_empty() && label.chars().all(|one| one.is_ascii_alphanumeric() || one == '-')
    };
    !local.is_empty()
        && local.chars().all(fits)
        && domain.contains('.')
        && domain.split('.').all(label)
}

/// Reads a date at the beginning of words: its text, its form after ISO 8601, and how many words it has.
fn date(words: &[Word<'_>]) -> Option<(String, String, usize)> {
    let word = words.first()?.text;
    if let [year, month, day] = word.split('-').collect::<Vec<_>>()[..]
        && year.len() == 4
        && month.len() == 2
        && day.len() == 2
    {
        return Some((word.to_owned(), iso(number(year)?, number(month)?, number(day)?)?, 1));
    }
    let [first, second, third] = words.get(..3)? else { return None };
    let (month, day) = match (month(first.text), month(second.text)) {
        // "March 3, 2026" has its comma; "3 March 2026" has none.
        (Some(month), None) => (month, number(second.text)?),
        (None, Some(month)) if !first.ends && !second.ends => (month, number(first.text)?),
        _ => return None,
    };
    let year = number(third.text).filter(|_| third.text.len() == 4)?;
    let shown = format!("{} {} {}", first.text, second.text, third.text);
    Some((shown, iso(year, month, day)?, 3))
}

fn month(text: &str) -> Option<u32> {
    let lower = text.to_lowercase();
    let at = MONTHS.iter().position(|name| *name == lower)?;
    u32::try_from(at + 1).ok()
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn iso(year: u32, month: u32, day: u32) -> Option<String> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// Says whether a word is a number: digits, perhaps grouped, with a sign, a fraction, a currency or a per cent sign.
fn is_number(text: &str) -> bool {
    let text = text.trim_start_matches(['+', '-', '−', '$', '€', '£']).trim_end_matches(['%', '€']);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = whole.split(',');
    let leading = groups.next().unwrap_or_default();
    let mut grouped = groups.clone().peekable();
    let well = grouped.peek().is_none() || leading.len() <= 3;
    digits(leading)
        && well
        && groups.all(|group| group.len() == 3 && digits(group))
        && digits(fraction)
}

fn is_capitalised(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(char::is_uppercase)
        && chars.all(|one| one.is_alphabetic() || matches!(one, '-' | '\'' | '’' | '.' | '&'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, String)> {
        let args = json!({ "text": text });
        let output = extract(args.as_object().cloned().unwrap()).unwrap();
        let entities = output["result"]["entities"].as_array().unwrap().clone();
        let text =
            |entity: &Value, name: &str| entity[name].as_str().unwrap_or_default().to_owned();
        entities.iter().map(|one| (text(one, "kind"), text(one, "text"))).collect()
    }

    fn of(kind: &str, text: &str) -> Vec<String> {
        found(text).into_iter().filter(|(one, _)| one == kind).map(|(_, text)| text).collect()
    }

    #[test]
    fn each_kind_is_known_by_its_form() {
        let text = "Write to Ada Lovelace (ada.l+x@example.org) before 2026-02-28, or see \
                    https://example.org/a?b=(c). It costs $1,250.50, 12% more than on 3 March 2025.";
        assert_eq!(of("email", text), ["ada.l+x@example.org"]);
        assert_eq!(of("date", text), ["2026-02-28", "3 March 2025"]);
        assert_eq!(of("url", text), ["https://example.org/a?b=(c"]);
        assert_eq!(of("number", text), ["$1,250.50", "12%"]);
        assert_eq!(of("name", text), ["Ada Lovelace"]);
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for text in ["2026-02-30", "2026-13-01", "a@b", "@x.org", "http://", "1,25", "1.2.3", "x1"]
        {
            let wrong = found(text);
            assert!(wrong.is_empty(), "{text}: {wrong:?}");
        }
        assert_eq!(of("date", "March 3, 2026"), ["March 3 2026"]);
        assert!(of("date", "March 2026 was wet").is_empty());
        assert!(of("name", "The day. It was. However, we saw.").is_empty());
        assert_eq!(
            of("name", "we met Bob, Eve and Mallory Jones."),
            ["Bob", "Eve", "Mallory Jones"]
        );
    }

    #[test]
    fn entities_are_counted_placed_and_sorted() {
        let args = json!({ "text": "7 ünd 7 and 5" });
        let output = extract(args.as_object().cloned().unwrap()).unwrap();
        assert_eq!(
            output["result"],
            json!({ "count": 2, "entities": [
            { "kind": "number", "text": "5", "count": 1, "at": 12 },
            { "kind": "number", "text": "7", "count": 2, "at": 0 },
        ] })
        );
        let dated = extract(json!({ "text": "on 2026-01-02" }).as_object().cloned().unwrap());
        assert_eq!(dated.unwrap()["result"]["entities"][0]["value"], "2026-01-02");
    }

    #[test]
    fn no_text_breaks_it() {
        for text in ["", " ", "((((", "@", "-", "\u{0}", "A\u{301}", "€%", "May", "31 May", "…"]
        {
            drop(found(text));
        }
    }
}
