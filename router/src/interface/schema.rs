//! Which JSON Schemas a contract may have.
//!
//! They are of one dialect, refer only to themselves and never back, and are not so large that comparing or
//! using them takes long. Everything that is wrong is told, with its place.

mod graph;
mod pattern;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::finding::{Findings, below};
use super::keyword::{DIALECT, Shape, TYPES, number, shape};
use crate::json::{Object, Value};
use graph::Part;

/// So many values a schema has at most.
const MAX_VALUES: usize = 20_000;
/// So deeply its values are nested at most.
const MAX_DEPTH: usize = 64;
/// So many schemas a schema is made of at most.
const MAX_PARTS: usize = 2_000;
/// So many patterns there are at most.
const MAX_PATTERNS: usize = 200;
/// The longest name in it, in bytes: every finding repeats the names above it.
const MAX_NAME: usize = 512;

/// Keywords that change what others mean, that lead elsewhere, or that are of older drafts; and what to do.
const REFUSED: [(&str, &str); 9] = [
    ("$id", "a contract's schema has no address"),
    ("$anchor", "refer to \"#/$defs/NAME\""),
    ("$dynamicRef", "use $ref"),
    ("$dynamicAnchor", "refer to \"#/$defs/NAME\""),
    ("$recursiveRef", "use $ref"),
    ("$recursiveAnchor", "refer to \"#/$defs/NAME\""),
    ("$vocabulary", "it belongs in a meta-schema"),
    ("definitions", "use $defs"),
    ("dependencies", "use dependentRequired or dependentSchemas"),
];

/// Tells everything that is wrong with a schema that stands at a place of a document; says whether nothing is.
pub(super) fn lint(schema: &Value, place: &str, findings: &mut Findings) -> bool {
    let (parts, by_address, patterns) = (Vec::new(), HashMap::new(), Vec::new());
    let mut lint = Lint { findings, wrong: false, parts, by_address, patterns };
    lint.whole(schema, place);
    !lint.wrong
}

struct Lint<'a, 'f> {
    findings: &'f mut Findings,
    wrong: bool,
    /// Every schema in it.
    parts: Vec<Part<'a>>,
    by_address: HashMap<usize, usize>,
    /// Every pattern with its place.
    patterns: Vec<(String, &'a str)>,
}

impl<'a> Lint<'a, '_> {
    fn add(&mut self, pointer: &str, code: &'static str, message: impl Into<String>) {
        self.wrong = true;
        self.findings.add(pointer, code, message);
    }

    fn invalid(&mut self, pointer: &str, message: impl Into<String>) {
        self.add(pointer, "SCHEMA_INVALID", message);
    }

    fn too_large(&mut self, pointer: &str, message: impl Into<String>) {
        self.add(pointer, "SCHEMA_TOO_LARGE", message);
    }

    fn whole(&mut self, schema: &'a Value, place: &str) {
        // First of all, since everything else looks at every value.
        let mut left = MAX_VALUES;
        if !fits(schema, MAX_DEPTH, &mut left) {
            let message =
                format!("has more than {MAX_VALUES} values, or is nested deeper than {MAX_DEPTH}");
            return self.too_large(place, message);
        }
        self.schema(schema, place, 0);
        if self.parts.len() >= MAX_PARTS {
            self.too_large(place, format!("is made of more than {MAX_PARTS} schemas"));
            return;
        }
        graph::Graph::check(self, schema, place);
        self.all_patterns(place);
        if self.wrong {
            return;
        }
        // What is left is seen only by the validator itself.
        if let Err(problem) = crate::conform::Schema::read(&schema.to_serde()) {
            self.bad_patterns();
            if !self.wrong {
                self.invalid(place, problem);
            }
        }
    }

    /// Looks at a schema and all below it; returns its number.
    fn schema(&mut self, schema: &'a Value, place: &str, depth: usize) -> Option<usize> {
        if self.parts.len() >= MAX_PARTS || depth > MAX_DEPTH {
            return None;
        }
        let number = self.parts.len();
        self.parts.push(Part::new(place));
        self.by_address.insert(std::ptr::from_ref(schema).addr(), number);
        match schema {
            Value::Bool(_) => {}
            Value::Object(keywords) => {
                for (keyword, value) in keywords.iter() {
                    self.keyword(number, keyword, value, place, depth);
                }
            }
            _ => self.invalid(place, "a schema is an object, true or false"),
        }
        Some(number)
    }

    fn keyword(
        &mut self,
        of: usize,
        keyword: &'a str,
        value: &'a Value,
        place: &str,
        depth: usize,
    ) {
        if keyword.len() > MAX_NAME {
            return self.too_large(place, format!("has a name of more than {MAX_NAME} bytes"));
        }
        let here = below(place, keyword);
        if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| *refused == keyword) {
            let message = format!("{keyword} is not used in contracts; {instead}");
            return self.add(&here, "SCHEMA_KEYWORD_REFUSED", message);
        }
        match (shape(keyword), value) {
            (None, _) => {}
            (Some(Shape::Schema), _) => {
                let part = self.schema(value, &here, depth + 1);
                self.uses(of, keyword, part);
            }
            (Some(Shape::Schemas), Value::Array(items)) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    let part = self.schema(item, &below(&here, &index.to_string()), depth + 1);
                    self.uses(of, keyword, part);
                }
            }
            (Some(Shape::Members), Value::Object(members)) => {
                self.members(of, keyword, members, &here, depth);
            }
            (Some(shape), _) => {
                if let Err(wants) = holds(shape, value) {
                    self.invalid(&here, format!("must be {wants}"));
                } else if let Some(text) = value.as_str() {
                    self.text(of, keyword, text, here);
                }
            }
        }
    }

    fn members(&mut self, of: usize, keyword: &str, members: &'a Object, here: &str, depth: usize) {
        for (name, member) in members.iter() {
            if name.len() > MAX_NAME {
                self.too_large(here, format!("has a name of more than {MAX_NAME} bytes"));
                continue;
            }
            let there = below(here, name);
            let part = self.schema(member, &there, depth + 1);
            self.uses(of, keyword, part);
            if keyword == "patternProperties" {
                self.patterns.push((there, name));
            }
        }
    }

    /// Notes that a schema holds values to another one. Definitions count only where they are referred to.
    fn uses(&mut self, of: usize, keyword: &str, part: Option<usize>) {
        if let (Some(part), false) = (part, keyword == "$defs") {
            self.parts[of].uses.push(part);
        }
    }

    fn text(&mut self, of: usize, keyword: &str, text: &'a str, here: String) {
        match keyword {
            "$ref" => self.parts[of].reference = Some(text),
            "pattern" => self.patterns.push((here, text)),
            "$schema" if text != DIALECT => {
                let message = format!("contracts are written in {DIALECT}");
                self.add(&here, "SCHEMA_KEYWORD_REFUSED", message);
            }
            _ => {}
        }
    }

    fn all_patterns(&mut self, place: &str) {
        if self.patterns.len() > MAX_PATTERNS {
            return self.too_large(place, format!("has more than {MAX_PATTERNS} patterns"));
        }
        let mut weight: usize = 0;
        for (there, pattern) in std::mem::take(&mut self.patterns) {
            weight = weight.saturating_add(pattern::weight(pattern));
            if weight > pattern::MAX_WEIGHT {
                self.too_large(
                    &there,
                    "the patterns up to this one repeat too much to be compiled",
                );
                break;
            }
            self.patterns.push((there, pattern));
        }
        if self.wrong {
            self.bad_patterns();
        }
    }

    /// The validator tells one mistake only, so that every pattern is tried by itself.
    fn bad_patterns(&mut self) {
        for (there, pattern) in std::mem::take(&mut self.patterns) {
            if crate::conform::Schema::read(&serde_json::json!({ "pattern": pattern })).is_err() {
                self.invalid(&there, "is no regular expression that can be used");
            }
        }
    }
}

/// Says whether a value has at most so many values, nested at most so deeply.
fn fits(value: &Value, depth: usize, left: &mut usize) -> bool {
    let Some(below) = left.checked_sub(1) else { return false };
    *left = below;
    match value {
        Value::Array(items) => depth > 0 && items.iter().all(|item| fits(item, depth - 1, left)),
        Value::Object(members) => {
            depth > 0 && members.iter().all(|(_, member)| fits(member, depth - 1, left))
        }
        _ => true,
    }
}

/// Says what a keyword must hold, if it does not.
fn holds(shape: Shape, value: &Value) -> Result<(), &'static str> {
    let is_names = |value: &Value| {
        let names = value.as_array().unwrap_or_default();
        let mut seen = std::collections::HashSet::new();
        value.as_array().is_some()
            && names.iter().all(|name| name.as_str().is_some_and(|name| seen.insert(name)))
    };
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    let (fits, wants) = match shape {
        Shape::Schema => (true, "a schema"),
        Shape::Schemas => (false, "a list of schemas that is not empty"),
        Shape::Members => (false, "an object of schemas"),
        Shape::Number => (number(value).is_some(), "a number"),
        Shape::Positive => (number(value).is_some_and(|it| it > 0.0), "a number above 0"),
        Shape::Count => (
            number(value).is_some_and(|it| it >= 0.0 && it.fract() == 0.0),
            "an integer that is not negative",
        ),
        Shape::Text => (value.as_str().is_some(), "a text"),
        Shape::Truth => (value.as_bool().is_some(), "true or false"),
        Shape::Names => (is_names(value), "a list of texts, each once"),
        Shape::NamesByName => (
            value.as_object().is_some_and(|members| members.iter().all(|(_, it)| is_names(it))),
            "an object of lists of texts, each once",
        ),
        Shape::Types => (
            is_type(value)
                || is_names(value)
                    && value.as_array().is_some_and(|it| !it.is_empty() && it.iter().all(is_type)),
            "a type, or a list of types, each once; types are null, boolean, integer, number, \
             string, array and object",
        ),
        Shape::Values => (value.as_array().is_some(), "a list"),
        Shape::Any => (true, "anything"),
    };
    if fits { Ok(()) } else { Err(wants) }
}
