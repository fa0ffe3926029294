//! Summarizes texts by choosing their weightiest sentences, as they stand.
//!
//! The weight of a sentence is the mean of how often its words occur in all texts together, without those that
//! every text has. Everything is counted in whole numbers, so that no machine rounds otherwise than another.

use std::collections::HashMap;

use nexus_router_sdk::{AdapterError, Object};
use serde_json::{Value, json};

use crate::arguments::{Arguments, MAX_TEXT, invalid};
use crate::output::{Class, output};

const MOST_SOURCES: usize = 100;
const MOST_SENTENCES: usize = 50;

/// Words that say nothing about what a text is about.
const COMMON: &[&str] = &[
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "before", "but", "by", "can", "could", "did", "do", "does", "for", "from", "had",
    "has", "have", "he", "her", "his", "how", "i", "if", "in", "into", "is", "it", "its", "may",
    "more", "most", "no", "not", "of", "on", "one", "only", "or", "other", "our", "out", "over",
    "she", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there", "these",
    "they", "this", "those", "to", "up", "was", "we", "were", "what", "when", "where", "which",
    "who", "will", "with", "would", "you", "your",
];

/// One of the texts.
struct Source {
    text: String,
    title: Option<String>,
    url: Option<String>,
}

struct Sentence<'a> {
    source: usize,
    text: &'a str,
    words: Vec<String>,
}

/// Carries out a call.
pub(crate) fn summarize(args: Object) -> Result<Object, AdapterError> {
    let mut args = Arguments::new(args);
    let sources = read(args.list("sources")?)?;
    let most = args.count("sentences", 5, MOST_SENTENCES)?;
    args.end()?;
    let sentences: Vec<Sentence<'_>> = sources
        .iter()
        .enumerate()
        .flat_map(|(source, one)| {
            let texts = sentences(&one.text).into_iter();
            texts.map(move |text| Sentence { source, text, words: words(text) })
        })
        .collect();
    let chosen = choose(&sentences, most);
    let texts: Vec<&str> = chosen.iter().map(|at| sentences[*at].text).collect();
    let shown: Vec<Value> = chosen
        .iter()
        .map(|at| json!({ "text": sentences[*at].text, "source": sentences[*at].source + 1 }))
        .collect();
    let cited = sources.iter().enumerate().map(|(index, source)| {
        let mut cited = json!({ "rank": index + 1 });
        for (name, value) in [("title", &source.title), ("url", &source.url)] {
            if let Some(value) = value {
                cited[name] = value.as_str().into();
            }
        }
        cited
    });
    let result = json!({ "summary": texts.join(" "), "sentences": shown });
    Ok(output(Class::SummarizeSources, result, cited.collect()))
}

fn read(given: Vec<Value>) -> Result<Vec<Source>, AdapterError> {
    if given.len() > MOST_SOURCES {
        let message = format!("there are {} sources; the most are {MOST_SOURCES}", given.len());
        return Err(invalid(message));
    }
    let mut total = 0;
    let mut sources = Vec::with_capacity(given.len());
    for (index, one) in given.into_iter().enumerate() {
        let within = |error: AdapterError| invalid(format!("sources[{index}]: {}", error.message));
        let mut args = match one {
            Value::String(text) => {
                Arguments::new(Object::from_iter([("text".to_owned(), text.into())]))
            }
            Value::Object(object) => Arguments::new(object),
            _ => return Err(invalid(format!("sources[{index}] must be a text or an object"))),
        };
        let text = args.needed("text").map_err(within)?;
        let title = args.text("title").map_err(within)?;
        let url = args.text("url").map_err(within)?;
        args.end().map_err(within)?;
        total += text.len();
        if total > MAX_TEXT {
            return Err(invalid(format!("the sources have more than {MAX_TEXT} bytes together")));
        }
        sources.push(Source { text, title, url });
    }
    Ok(sources)
}

/// Cuts a text into sentences: they end at a full stop, a question mark or an exclamation mark before a blank, and at
/// an empty line.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, one)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match one {
            '.' | '!' | '?' => next.is_none_or(char::is_whitespace),
            '\n' => next == Some('\n'),
            _ => false,
        };
        if ends {
            let end = at + one.len_utf8();
            found.push(text[start..end].trim());
            start = end;
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    found
}

fn words(sentence: &str) -> Vec<String> {
    let words = sentence.split(|one: char| !one.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| word.len() > 2 && !COMMON.contains(&word.as_str())).collect()
}

/// Chooses the weightiest sentences; returns their places in order. Of equal ones the first counts.
fn choose(sentences: &[Sentence<'_>], most: usize) -> Vec<usize> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in sentences.iter().flat_map(|sentence| &sentence.words) {
        *counts.entry(word).or_default() += 1;
    }
    let weight = |sentence: &Sentence<'_>| {
        let sum: usize = sentence.words.iter().map(|word| counts[word.as_str()]).sum();
        // Very short sentences are headings, more often than not.
        sum * 1000 / sentence.words.len().max(4)
    };
    let mut ranked: Vec<usize> = (0..sentences.len()).collect();
    ranked.sort_by_key(|at| (usize::MAX - weight(&sentences[*at]), *at));
    let mut seen = std::collections::HashSet::new();
    ranked.retain(|at| seen.insert(sentences[*at].text));
    ranked.truncate(most);
    ranked.sort_unstable();
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(args: &Value) -> Object {
        summarize(args.as_object().cloned().unwrap()).unwrap()
    }

    const SEA: &str = "The sea is salt. Ships cross the sea every day. A cat sleeps. The sea has \
                       tides, and ships wait for the tides of the sea.";

    #[test]
    fn weighty_sentences_are_chosen_and_stay_in_their_order() {
        let output =
            summary(&json!({ "sources": [{ "text": SEA, "title": "Sea" }], "sentences": 2 }));
        assert_eq!(
            output["result"]["summary"],
            "Ships cross the sea every day. The sea has tides, and ships wait for the tides of the sea."
        );
        assert_eq!(output["sources"], json!([{ "rank": 1, "title": "Sea" }]));
        assert_eq!(output["result"]["sentences"][0]["source"], 1);
    }

    #[test]
    fn the_same_arguments_give_the_same_bytes() {
        let args = json!({ "sources": [SEA, "Ships. Sea.", ""], "sentences": 50 });
        let once = serde_json::to_string(&summary(&args)).unwrap();
        for _ in 0..20 {
            assert_eq!(serde_json::to_string(&summary(&args)).unwrap(), once);
        }
    }

    #[test]
    fn sentences_end_where_readers_end_them() {
        assert_eq!(
            sentences("A 3.5 m wall. Is it? Yes!\n\nHeading\n\nx"),
            ["A 3.5 m wall.", "Is it?", "Yes!", "Heading", "x"]
        );
        assert!(sentences(" ...\n\n ").is_empty());
    }

    #[test]
    fn nothing_to_summarize_is_an_empty_summary() {
        assert_eq!(summary(&json!({ "sources": [] }))["result"]["summary"], "");
    }

    #[test]
    fn what_is_no_source_is_refused() {
        for (args, told) in [
            (json!({}), "sources is missing"),
            (json!({ "sources": [1] }), "sources[0] must be a text or an object"),
            (json!({ "sources": [{ "txt": "a" }] }), "sources[0]: text is missing"),
            (json!({ "sources": [], "sentences": 51 }), "from 1 to 50"),
            (json!({ "sources": vec![""; 101] }), "the most are 100"),
            (json!({ "sources": vec!["x".repeat(MAX_TEXT / 2 + 1); 2] }), "together"),
        ] {
            let error = summarize(args.as_object().cloned().unwrap()).unwrap_err();
            assert!(error.message.contains(told), "{error}");
        }
    }
}
