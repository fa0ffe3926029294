//! Compares the defaults of two schemas, by the value that each is for.
//!
//! A default is what a caller asks for that omits a value. A new default promises more than before and is minor, if it
//! fits its own schema. One that includes the old one is minor, too: a larger number, or a list or an object with
//! everything that was in the old one. Any other change means something else to callers that omit the value, and is
//! major; so is a default that is gone. In an output, a default only describes.

use std::collections::{BTreeMap, HashSet};

use super::super::finding::below;
use super::super::keyword::{Shape, number, shape, target};
use super::proof::{Located, Prover};
use super::values::key;
use super::words::worded;
use super::{Change, Class};
use crate::json::{Object, Value};

/// The greatest number of schemas that are visited.
const MAX_STEPS: usize = 20_000;
/// The greatest depth of schemas within each other.
const MAX_DEPTH: usize = 150;

/// One default and where it stands.
struct DefaultEntry<'a> {
    value: &'a Value,
    /// The schema that it stands in.
    schema: Located<'a>,
    /// The place of the value, with the variants that lead there.
    path: String,
    /// The place of the value alone.
    plain_path: String,
    pointer: String,
    label: String,
}

/// Every default of a document.
struct DefaultIndex<'a> {
    root: &'a Value,
    entries: Vec<DefaultEntry<'a>>,
    /// The places that have a schema, without variants.
    visited: HashSet<String>,
    /// References that lead here.
    open: Vec<usize>,
    left: usize,
}

/// Where the visit is.
#[derive(Clone, Default)]
struct Spot {
    path: String,
    plain_path: String,
    pointer: String,
    label: String,
}

/// Lists the changes of defaults.
pub(super) fn changes(old: &Value, new: &Value, is_output: bool, pointer: &str) -> Vec<Change> {
    if !mentions_default(old) && !mentions_default(new) {
        return Vec::new();
    }
    let (Some(was), Some(is)) = (DefaultIndex::of(old, pointer), DefaultIndex::of(new, pointer))
    else {
        let (class, pointer) = (Class::Major, pointer.to_owned());
        let message = "has too many schemas to compare their defaults".to_owned();
        return vec![Change { class, pointer, message, operation: None }];
    };
    let mut changes = differences(was, &is);
    if is_output {
        changes.iter_mut().for_each(|change| change.class = Class::Patch);
    }
    changes
}

fn differences<'a>(was: DefaultIndex<'a>, is: &DefaultIndex<'a>) -> Vec<Change> {
    let mut unmatched: Vec<&DefaultEntry<'_>> = is.entries.iter().collect();
    // What is the same in its place is no change.
    let mut gone = remove_matching(was.entries, &mut unmatched, |old, new| {
        old.path == new.path && key(old.value) == key(new.value)
    });
    // Variants may be told apart in another way now.
    gone = remove_matching(gone, &mut unmatched, |old, new| {
        old.plain_path == new.plain_path && key(old.value) == key(new.value)
    });
    let mut changes = Vec::new();
    for by_variant in [true, false] {
        let mut rest = Vec::new();
        for old in gone {
            let found = unmatched.iter().position(|new| match by_variant {
                true => old.path == new.path,
                false => old.plain_path == new.plain_path,
            });
            match found {
                Some(index) => {
                    changes.extend(changed(Some(&old), Some(unmatched.remove(index))));
                }
                None => rest.push(old),
            }
        }
        gone = rest;
    }
    // A value that is itself gone is told of elsewhere.
    for old in gone.iter().filter(|old| is.visited.contains(&old.plain_path)) {
        changes.extend(changed(Some(old), None));
    }
    for new in unmatched {
        let change = changed(None, Some(new));
        let is_known = was.visited.contains(&new.plain_path);
        changes.extend(change.filter(|change| is_known || change.class == Class::Major));
    }
    changes
}

/// Removes the entries that match one of others, each once, and returns the rest.
fn remove_matching<'a>(
    old: Vec<DefaultEntry<'a>>,
    new: &mut Vec<&DefaultEntry<'a>>,
    is_match: impl Fn(&DefaultEntry<'a>, &DefaultEntry<'a>) -> bool,
) -> Vec<DefaultEntry<'a>> {
    let mut is_unmatched = |old: &DefaultEntry<'a>| {
        let found = new.iter().position(|new| is_match(old, new));
        found.map(|index| new.remove(index)).is_none()
    };
    old.into_iter().filter(|old| is_unmatched(old)).collect()
}

fn changed(old: Option<&DefaultEntry<'_>>, new: Option<&DefaultEntry<'_>>) -> Option<Change> {
    let (was, is) = (old.map(|old| old.value), new.map(|new| new.value));
    let entry = new.or(old)?;
    let text = worded("default", was, is);
    let (class, reason) = match (was, is) {
        (_, Some(is)) if does_not_fit(is, entry) => (Class::Major, ", and does not fit its schema"),
        (Some(was), Some(is)) if !includes(is, was) => {
            (Class::Major, "; callers that omit it get something else")
        }
        (Some(_), None) => (Class::Major, "; callers that omit it relied on it"),
        _ => (Class::Minor, ""),
    };
    let DefaultEntry { pointer, label, .. } = entry;
    let message = match label.is_empty() {
        true => format!("{text}{reason}"),
        false => format!("{label}: {text}{reason}"),
    };
    Some(Change { class, pointer: pointer.clone(), message, operation: None })
}

/// Returns whether a default certainly does not fit the schema that it stands in.
fn does_not_fit(value: &Value, entry: &DefaultEntry<'_>) -> bool {
    Prover::new(MAX_STEPS).evaluate(value, entry.schema) == Some(false)
}

/// Returns whether a default includes another one: everything that the other one asked for.
fn includes(is: &Value, was: &Value) -> bool {
    match (was, is) {
        (Value::Array(was), Value::Array(is)) => {
            let now: HashSet<String> = is.iter().map(key).collect();
            was.iter().all(|item| now.contains(&key(item)))
        }
        (Value::Object(was), Value::Object(is)) => was
            .iter()
            .all(|(name, member)| is.get(name).is_some_and(|other| includes(other, member))),
        _ => match (number(was), number(is)) {
            (Some(was), Some(is)) => is >= was,
            _ => key(was) == key(is),
        },
    }
}

fn mentions_default(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(mentions_default),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name == "default" || mentions_default(value))
        }
        _ => false,
    }
}

impl<'a> DefaultIndex<'a> {
    /// Visits a document; none if it has too many schemas.
    fn of(root: &'a Value, pointer: &str) -> Option<Self> {
        let (entries, visited, open) = (Vec::new(), HashSet::new(), Vec::new());
        let mut index = Self { root, entries, visited, open, left: MAX_STEPS };
        let spot = Spot { pointer: pointer.to_owned(), ..Spot::default() };
        index.visit(root, &spot, pointer, 0).then_some(index)
    }

    fn visit(&mut self, schema: &'a Value, spot: &Spot, start: &str, depth: usize) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || depth > MAX_DEPTH {
            return false;
        }
        self.visited.insert(spot.plain_path.clone());
        let Some(keywords) = schema.as_object() else { return true };
        if let Some(value) = keywords.get("default") {
            let Spot { path, plain_path, pointer, label } = spot.clone();
            let schema = Located { root: self.root, schema };
            let entry = DefaultEntry { value, schema, path, plain_path, pointer, label };
            self.entries.push(entry);
        }
        keywords.iter().all(|(keyword, held)| self.keyword(keyword, held, spot, start, depth + 1))
    }

    fn keyword(
        &mut self,
        keyword: &'a str,
        held: &'a Value,
        spot: &Spot,
        start: &str,
        depth: usize,
    ) -> bool {
        let below_keyword = below(&spot.pointer, keyword);
        match (shape(keyword), held) {
            _ if keyword == "$defs" => true,
            _ if keyword == "$ref" => self.reference(held, spot, start, depth),
            (Some(Shape::Schema), schema) => {
                let spot = spot.under(keyword, None, below_keyword);
                self.visit(schema, &spot, start, depth)
            }
            (Some(Shape::Schemas), Value::Array(schemas)) => {
                schemas.iter().enumerate().all(|(index, schema)| {
                    let pointer = below(&below_keyword, &index.to_string());
                    let name = match keyword {
                        "prefixItems" => index.to_string(),
                        "allOf" => String::new(),
                        _ => tag(schema),
                    };
                    let spot = spot.under(keyword, Some(&name), pointer);
                    self.visit(schema, &spot, start, depth)
                })
            }
            (Some(Shape::Members), Value::Object(schemas)) => schemas.iter().all(|(name, it)| {
                let spot = spot.under(keyword, Some(name), below(&below_keyword, name));
                self.visit(it, &spot, start, depth)
            }),
            _ => true,
        }
    }

    fn reference(&mut self, held: &'a Value, spot: &Spot, start: &str, depth: usize) -> bool {
        let Some(reference) = held.as_str() else { return true };
        let Some(schema) = target(self.root, reference) else { return true };
        let address = std::ptr::from_ref(schema).addr();
        // What refers back has no defaults of its own.
        if self.open.contains(&address) {
            return true;
        }
        self.open.push(address);
        let pointer = format!("{start}{}", reference.strip_prefix('#').unwrap_or_default());
        let is_complete = self.visit(schema, &Spot { pointer, ..spot.clone() }, start, depth);
        self.open.pop();
        is_complete
    }
}

impl Spot {
    /// Returns the spot of a schema that a keyword holds, perhaps under a name.
    fn under(&self, keyword: &str, name: Option<&str>, pointer: String) -> Self {
        let Self { path, plain_path, label, .. } = self;
        let name = name.unwrap_or_default();
        let into = |step: &str| (format!("{path}/{step}"), format!("{plain_path}/{step}"));
        let escaped = below("", name);
        let ((path, plain_path), label) = match keyword {
            "properties" => (
                into(&format!("properties{escaped}")),
                if label.is_empty() { name.to_owned() } else { format!("{label}.{name}") },
            ),
            "prefixItems" => (into(&format!("items/{name}")), format!("{label}[{name}]")),
            "items" => (into("items"), format!("{label}[]")),
            "allOf" => ((path.clone(), plain_path.clone()), label.clone()),
            "anyOf" | "oneOf" | "if" | "then" | "else" | "dependentSchemas" => {
                let keyword = if keyword == "anyOf" { "oneOf" } else { keyword };
                ((format!("{path}/{keyword}{escaped}"), plain_path.clone()), label.clone())
            }
            _ => (into(&format!("{keyword}{escaped}")), label.clone()),
        };
        Self { path, plain_path, pointer, label }
    }
}

/// Returns the members of a variant that have one value only, which tell it apart from others.
fn tag(variant: &Value) -> String {
    let members = variant.get("properties").and_then(Value::as_object);
    let tags: BTreeMap<&str, String> = members
        .into_iter()
        .flat_map(Object::iter)
        .filter_map(|(name, schema)| Some((name, key(schema.get("const")?))))
        .collect();
    format!("{tags:?}")
}
