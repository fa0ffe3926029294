//! Reads members of a document, and gathers what is wrong with each.

use semver::Version;

use crate::interface::{Finding, Findings, below};
use crate::json::{self, Limits, Object, Value};

/// What is wrong with the form of a tool spec has this code.
pub(super) const MALFORMED: &str = "TOOLSPEC_MALFORMED";
/// What is wrong with a schema in a tool spec has this one.
pub(super) const SCHEMA_INVALID: &str = "TOOL_SCHEMA_INVALID";
/// No text that is compared with known ones is longer; comparing takes the product of both lengths.
const MAX_COMPARED: usize = 128;
/// So many names are listed in a message.
const MAX_LISTED: usize = 12;

/// Parses a document.
pub(super) fn parse(text: &[u8], limits: Limits) -> Result<Value, Vec<Finding>> {
    json::parse(text, limits).map_err(|error| {
        let mut findings = Findings::default();
        findings.add("", MALFORMED, error.to_string());
        findings.into_vec()
    })
}

/// Returns a text for a message: as it is if it can be a name, and only its length otherwise. Whoever puts a
/// password where a name belongs must not find it in a record.
pub(super) fn shown(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if (1..=64).contains(&text.len()) && text.chars().all(fits) {
        format!("'{text}'")
    } else {
        format!("a text of {} characters", text.chars().count())
    }
}

/// Says what was perhaps meant, or what there is.
pub(super) fn meant<'a>(text: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    if text.len() <= MAX_COMPARED {
        let scored = known.clone().map(|word| (strsim::jaro_winkler(text, word), word));
        if let Some((score, word)) = scored.max_by(|a, b| a.0.total_cmp(&b.0))
            && score > 0.8
        {
            return format!("perhaps '{word}' is meant");
        }
    }
    let mut names: Vec<&str> = known.take(MAX_LISTED + 1).collect();
    if names.is_empty() {
        return "there are none".to_owned();
    }
    let more = if names.len() > MAX_LISTED { ", …" } else { "" };
    names.truncate(MAX_LISTED);
    format!("there are {}{more}", names.join(", "))
}

/// What reads the members of one object.
pub(super) struct Reader<'a> {
    pub(super) findings: &'a mut Findings,
    pub(super) object: &'a Object,
    pub(super) place: &'a str,
}

impl Reader<'_> {
    pub(super) fn wrong(&mut self, name: &str, message: impl Into<String>) {
        self.findings.add(below(self.place, name), MALFORMED, message);
    }

    /// Returns a member; one that is null is not there.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Refuses members of other names.
    pub(super) fn only(&mut self, known: &[&str]) {
        for name in self.object.keys().filter(|name| !known.contains(name)) {
            let meant = meant(name, known.iter().copied());
            self.findings.add(below(self.place, name), MALFORMED, format!("is unknown; {meant}"));
        }
    }

    /// Reads a text that may be left out.
    pub(super) fn optional(&mut self, name: &str) -> Option<String> {
        let text = self.get(name).map(|value| value.as_str().map(str::to_owned))?;
        if text.is_none() {
            self.wrong(name, "must be a text");
        }
        text
    }

    /// Reads a text of at least `least` and at most `most` characters.
    pub(super) fn text(&mut self, name: &str, least: usize, most: usize) -> String {
        let Some(text) = self.get(name).map(|value| value.as_str().map(str::to_owned)) else {
            self.wrong(name, "is missing");
            return String::new();
        };
        let fits = |text: &String| (least..=most).contains(&text.chars().count());
        text.filter(fits).unwrap_or_else(|| {
            self.wrong(name, format!("must be a text of {least} to {most} characters"));
            String::new()
        })
    }

    /// Reads one of some words.
    pub(super) fn word<T>(
        &mut self,
        name: &str,
        from_name: fn(&str) -> Option<T>,
        known: &[&str],
    ) -> Option<T> {
        if self.get(name).is_none() {
            self.wrong(name, format!("is missing; write one of {}", known.join(", ")));
            return None;
        }
        self.optional_word(name, from_name, known)
    }

    /// Reads one of some words, unless it is left out.
    pub(super) fn optional_word<T>(
        &mut self,
        name: &str,
        from_name: fn(&str) -> Option<T>,
        known: &[&str],
    ) -> Option<T> {
        let said = self.get(name)?.as_str().map(str::to_owned);
        let word = said.as_deref().and_then(from_name);
        if word.is_none() {
            let shown = said.as_deref().map_or_else(|| "no text".to_owned(), shown);
            self.wrong(name, format!("is {shown}; write one of {}", known.join(", ")));
        }
        word
    }

    /// Reads a version; that of a contract has three numbers and nothing else.
    pub(super) fn version(&mut self, name: &str, plain: bool) -> Option<Version> {
        let text = self.optional(name)?;
        let version = Version::parse(&text)
            .ok()
            .filter(|version| !plain || (version.pre.is_empty() && version.build.is_empty()));
        if version.is_none() {
            self.wrong(name, format!("{} is no version; write MAJOR.MINOR.PATCH", shown(&text)));
        }
        version
    }

    /// Reads a list of texts; a strict one must be there, and has no text twice. What they must be is said
    /// without showing them.
    pub(super) fn texts(
        &mut self,
        name: &str,
        strict: bool,
        fits: fn(&str) -> bool,
        must: &str,
    ) -> Vec<String> {
        let Some(value) = self.get(name) else {
            if strict {
                self.wrong(name, "is missing; write [] if there are none");
            }
            return Vec::new();
        };
        let Some(items) = value.as_array().map(<[Value]>::to_vec) else {
            self.wrong(name, "must be a list of texts");
            return Vec::new();
        };
        let place = below(self.place, name);
        let mut texts = Vec::with_capacity(items.len());
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let place = below(&place, &index.to_string());
            match item.as_str().filter(|text| fits(text)) {
                None => self.findings.add(place, MALFORMED, format!("must be {must}")),
                Some(text) if !seen.insert(text) && strict => {
                    self.findings.add(place, MALFORMED, "stands in the list already");
                }
                Some(text) => texts.push(text.to_owned()),
            }
        }
        texts
    }

    /// Reads an object that may be left out.
    pub(super) fn object(&mut self, name: &str) -> Option<Object> {
        let object = self.get(name).map(|value| value.as_object().cloned())?;
        if object.is_none() {
            self.wrong(name, "must be an object");
        }
        object
    }
}
