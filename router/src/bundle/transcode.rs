//! Rewrites the text of a bundle in canonical form, line by line, without building its values.
//!
//! A tree of values takes several times the memory of the text, and most of the time of an import. Whatever
//! is odd about a text ends this; the longer way then says what it is.

use crate::json::{self, Limits, Value};
use crate::view::scan;

/// Integers of more digits are refused.
const MAX_DIGITS: usize = 4300;

/// The number of members of an event.
const EVENT_MEMBERS: usize = 6;

/// A bundle in canonical form.
#[derive(Debug)]
pub(super) struct Transcoded {
    /// The bundle without its events.
    pub(super) frame: Value,
    /// The events as they are listed, one line each.
    pub(super) texts: String,
}

/// Rewrites a bundle.
pub(super) fn transcode(text: &[u8]) -> Option<Transcoded> {
    if text.len() > Limits::BUNDLE.bytes {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let mut reader = Transcoder { text, bytes: text.as_bytes(), at: 0, members: Vec::new() };
    let (mut frame, mut texts) = (String::from("{"), String::with_capacity(text.len()));
    reader.take(b'{')?;
    loop {
        let name = frame.len();
        reader.string(&mut frame)?;
        reader.take(b':')?;
        let is_events = &frame[name..] == "\"events\"";
        frame.push(':');
        if is_events && texts.is_empty() {
            frame.push_str("[]");
            reader.lines(&mut texts)?;
        } else {
            reader.value(&mut frame, Limits::BUNDLE.depth - 1)?;
        }
        if reader.ends(b'}')? {
            break;
        }
        frame.push(',');
    }
    reader.blanks();
    if reader.at < reader.bytes.len() {
        return None;
    }
    frame.push('}');
    let frame = json::parse(frame.as_bytes(), Limits::BUNDLE).ok()?;
    Some(Transcoded { frame, texts })
}

struct Transcoder<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Members of the objects that are not complete yet.
    members: Vec<Member>,
}

/// Where a member stands in the text that was written: from its name to the end of its value.
#[derive(Clone, Copy)]
struct Member {
    name: usize,
    name_end: usize,
    end: usize,
}

impl Transcoder<'_> {
    /// Writes the items of an array, one line each. They must be objects with as many members as an event
    /// has, so that a line which reads as an event has nothing else in it.
    fn lines(&mut self, out: &mut String) -> Option<()> {
        self.take(b'[')?;
        self.blanks();
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.blanks();
            if self.peek()? != b'{' || self.object(out, Limits::BUNDLE.depth - 3)? != EVENT_MEMBERS
            {
                return None;
            }
            out.push('\n');
            if self.ends(b']')? {
                return Some(());
            }
        }
    }

    /// Writes a value in which arrays and objects may nest so many levels.
    fn value(&mut self, out: &mut String, depth: usize) -> Option<()> {
        self.blanks();
        match self.peek()? {
            b'"' => self.string(out),
            b'{' => self.object(out, depth.checked_sub(1)?).map(|_| ()),
            b'[' => self.array(out, depth.checked_sub(1)?),
            b't' => self.word(out, "true"),
            b'f' => self.word(out, "false"),
            b'n' => self.word(out, "null"),
            _ => self.number(out),
        }
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Option<()> {
        self.at += 1;
        out.push('[');
        self.blanks();
        if self.peek()? == b']' {
            self.at += 1;
        } else {
            self.value(out, depth)?;
            while !self.ends(b']')? {
                out.push(',');
                self.value(out, depth)?;
            }
        }
        out.push(']');
        Some(())
    }

    /// Writes an object, and returns the number of its members.
    fn object(&mut self, out: &mut String, depth: usize) -> Option<usize> {
        self.at += 1;
        out.push('{');
        let (start, first) = (out.len(), self.members.len());
        let mut sorted = true;
        self.blanks();
        if self.peek()? == b'}' {
            self.at += 1;
        } else {
            loop {
                let name = out.len();
                self.blanks();
                self.string(out)?;
                let name_end = out.len();
                if let Some(last) = self.members[first..].last() {
                    let plain = &out[name + 1..name_end - 1];
                    sorted &= out[last.name + 1..last.name_end - 1] < *plain;
                }
                // The texts of names with escapes do not sort as the names do.
                sorted &= !out[name..].contains('\\');
                self.take(b':')?;
                out.push(':');
                self.value(out, depth)?;
                self.members.push(Member { name, name_end, end: out.len() });
                if self.ends(b'}')? {
                    break;
                }
                out.push(',');
            }
        }
        if !sorted {
            self.sort(out, start, first)?;
        }
        let count = self.members.len() - first;
        self.members.truncate(first);
        out.push('}');
        Some(count)
    }

    /// Puts the members of an object in order, which were written from a position on.
    fn sort(&self, out: &mut String, start: usize, first: usize) -> Option<()> {
        let mut members = Vec::with_capacity(self.members.len() - first);
        for member in &self.members[first..] {
            let name = &out[member.name..member.name_end];
            let name = if name.contains('\\') {
                string(name)?
            } else {
                name[1..name.len() - 1].to_owned()
            };
            members.push((name, member.name..member.end));
        }
        members.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return None;
        }
        let texts: Vec<&str> = members.iter().map(|(_, range)| &out[range.clone()]).collect();
        let sorted = texts.join(",");
        out.truncate(start);
        out.push_str(&sorted);
        Some(())
    }

    fn string(&mut self, out: &mut String) -> Option<()> {
        self.blanks();
        let (start, end) = (self.at, scan::string(self.bytes, self.at)?);
        let text = &self.text[start..end];
        self.at = end;
        if is_canonical(text.as_bytes()) {
            out.push_str(text);
        } else {
            json::write_canonical_str(out, &string(text)?);
        }
        Some(())
    }

    fn number(&mut self, out: &mut String) -> Option<()> {
        let (start, end) = (self.at, scan::number(self.bytes, self.at)?);
        let text = &self.text[start..end];
        self.at = end;
        if text == "-0" {
            out.push('0');
        } else if text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
            if text.len() > MAX_DIGITS {
                return None;
            }
            out.push_str(text);
        } else {
            let float = json::parse(text.as_bytes(), Limits::REQUEST).ok()?;
            json::write_canonical(out, &float);
        }
        Some(())
    }

    fn word(&mut self, out: &mut String, word: &str) -> Option<()> {
        self.text.get(self.at..)?.starts_with(word).then_some(())?;
        self.at += word.len();
        out.push_str(word);
        Some(())
    }

    /// Takes what stands after an item or member, and says whether it was the last.
    fn ends(&mut self, end: u8) -> Option<bool> {
        self.blanks();
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(false),
            byte if byte == end => Some(true),
            _ => None,
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.blanks();
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

/// Says whether a string has neither escapes nor anything that canonical text escapes.
fn is_canonical(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\')
}

fn string(text: &str) -> Option<String> {
    match json::parse(text.as_bytes(), Limits::BUNDLE).ok()? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes a value in some spelling: blanks, escapes and order as the seed has it.
    fn spelled(value: &Value, seed: &mut u64, out: &mut String) {
        let mut roll = |sides: u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*seed >> 33) % sides
        };
        out.push_str(["", " ", "\n\t", ""][usize::try_from(roll(4)).unwrap()]);
        match value {
            Value::String(text) => {
                out.push('"');
                for c in text.chars() {
                    match c {
                        '"' | '\\' => out.extend(['\\', c]),
                        c if c < ' ' || roll(4) == 0 => {
                            for unit in c.encode_utf16(&mut [0; 2]) {
                                out.push_str(&format!("\\u{unit:04X}"));
                            }
                        }
                        c => out.push(c),
                    }
                }
                out.push('"');
            }
            Value::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    spelled(item, seed, out);
                }
                out.push_str(" ]");
            }
            Value::Object(object) => {
                let mut members: Vec<_> = object.iter().collect();
                if roll(2) == 0 {
                    members.reverse();
                }
                out.push('{');
                for (index, (name, member)) in members.into_iter().enumerate() {
                    out.push_str(if index > 0 { " ,\n" } else { "" });
                    spelled(&name.into(), seed, out);
                    out.push_str(" :");
                    spelled(member, seed, out);
                }
                out.push_str(" }");
            }
            other => out.push_str(&json::to_compact(other)),
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter_map("not finite", Value::float),
            ".{0,9}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn event() -> impl Strategy<Value = Value> {
        proptest::collection::btree_map(".{0,4}", value(), EVENT_MEMBERS)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn every_spelling_becomes_canonical(
            events in proptest::collection::vec(event(), 0..4), run in value(), mut seed in any::<u64>(),
        ) {
            let mut text = String::from(" {\"events\" :");
            spelled(&events.clone().into(), &mut seed, &mut text);
            text.push_str(", \"run\":");
            spelled(&run, &mut seed, &mut text);
            text.push('}');
            let transcoded = transcode(text.as_bytes()).unwrap();
            prop_assert_eq!(transcoded.frame.get("run"), Some(&run), "{}", text);
            let expected: String =
                events.iter().map(|event| json::to_canonical(event) + "\n").collect();
            prop_assert_eq!(transcoded.texts, expected, "{}", text);
        }

        #[test]
        fn what_is_transcoded_is_what_is_parsed(
            text in r#"\{"events":\[\{"d":1,"e":2,"c":3,"b":4,"f":5,"a":[\[\]{}:,"a\\u0-9dDeE+.\-ntrufals \n]{0,14}\}\](,"[ab]":[0-9\[\]{},"]{1,5})?\}"#
        ) {
            if let Some(transcoded) = transcode(text.as_bytes()) {
                let parsed = json::parse(text.as_bytes(), Limits::BUNDLE);
                let parsed = parsed.map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
                let events = parsed.get("events").unwrap().as_array().unwrap();
                let expected: String =
                    events.iter().map(|event| json::to_canonical(event) + "\n").collect();
                prop_assert_eq!(transcoded.texts, expected);
            }
        }
    }

    #[test]
    fn what_is_no_bundle_is_left_to_others() {
        let of = |payload: &str| {
            let text = format!(r#"{{"events":[{{"a":{payload},"b":1,"c":1,"d":1,"e":1,"f":1}}]}}"#);
            transcode(text.as_bytes())
        };
        assert!(of("1").is_some());
        for odd in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"b":1,"a":2,"b":3}"#,
            "[1,]",
            "NaN",
            r#""\ud800""#,
            "01",
            "1e999",
            "1,\"g\":2",
        ] {
            assert!(of(odd).is_none(), "{odd}");
        }
        for odd in [
            "",
            "{",
            "[]",
            "{}",
            "{\"events\":[]",
            "{\"events\":[]}}",
            "{\"events\":5}",
            "{\"events\":[{}]}",
            "{\"events\":[[1,2,3,4,5,6]]}",
            "{\"run\":1,\"run\":2,\"events\":[]}",
            "{\"events\":[],\"events\":[]}",
            "\u{feff}{\"events\":[]}",
        ] {
            assert!(transcode(odd.as_bytes()).is_none(), "{odd}");
        }
        assert!(transcode(b"{\"events\":[],\"a\":\"\xff\"}").is_none());
        let deep = |levels: usize| of(&("[".repeat(levels) + &"]".repeat(levels)));
        assert!(deep(Limits::BUNDLE.depth - 3).is_some());
        assert!(deep(Limits::BUNDLE.depth - 2).is_none());
        assert!(of(&"1".repeat(MAX_DIGITS)).is_some());
        assert!(of(&"1".repeat(MAX_DIGITS + 1)).is_none());
    }
}
