//! Walks through two schemas side by side and proves that the newer one accepts what the older one did.
//!
//! A schema is a conjunction of what its keywords ask for. So the newer one accepts all that the older one did
//! if each of its keywords does. Every kind of keyword tries to prove that; where it fails, there is a major
//! change. What cannot be proved counts as changed, although it may be the same.

use std::collections::{HashMap, HashSet};

use super::super::keyword::{DIALECT, asks_nothing, is_annotation, shape, target};
use super::alike::alike;
use super::place::Place;
use super::words::{change, worded};
use super::{Change, Class};
use crate::conform::Schema;
use crate::json::{Object, Value};

/// So many pairs of schemas are compared for one; a schema of people has a few hundred.
pub(super) const MAX_STEPS: usize = 20_000;
/// So deeply schemas are followed.
const MAX_DEPTH: usize = 150;
/// A chain of references is followed so far.
const MAX_HOPS: usize = 64;
/// So many changes are told.
const MAX_CHANGES: usize = 1_000;
/// What accepts everything.
pub(super) static ANYTHING: Value = Value::Bool(true);
static NO_MEMBERS: Object = Object::new();

/// Two schemas of which the newer one has to accept what the older one does.
#[derive(Clone, Copy)]
pub(super) struct Both<'a> {
    /// The keywords of the older one.
    pub(super) old: &'a Object,
    /// The keywords of the newer one.
    pub(super) new: &'a Object,
    /// The whole of the older one.
    pub(super) whole: &'a Value,
}

impl<'a> Both<'a> {
    /// Returns what a keyword holds in both.
    pub(super) fn get(&self, keyword: &str) -> (Option<&'a Value>, Option<&'a Value>) {
        (self.old.get(keyword), self.new.get(keyword))
    }
}

pub(super) struct Walk<'a> {
    /// The document of the older schema, in which its references lead.
    pub(super) old: &'a Value,
    /// The document of the newer schema.
    pub(super) new: &'a Value,
    /// Whether it is an output, where more is a change, too.
    output: bool,
    /// While something is only to be proved, nothing is told.
    silent: bool,
    /// Whether what is to be proved is not.
    failed: bool,
    exhausted: bool,
    /// So many pairs may still be compared.
    left: usize,
    /// What is being compared, by address.
    open: HashSet<(usize, usize)>,
    proved: HashMap<(usize, usize), bool>,
    patterns: HashMap<&'a str, Option<Schema>>,
    changes: Vec<Change>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(old: &'a Value, new: &'a Value, output: bool, left: usize) -> Self {
        Self {
            old,
            new,
            output,
            silent: false,
            failed: false,
            exhausted: false,
            left: left.min(MAX_STEPS),
            open: HashSet::new(),
            proved: HashMap::new(),
            patterns: HashMap::new(),
            changes: Vec::new(),
        }
    }

    /// Compares the whole documents, which stand at a pointer; returns how many steps it took, too.
    pub(super) fn run(mut self, pointer: &str) -> (Vec<Change>, usize) {
        if self.old == self.new {
            return (Vec::new(), 0);
        }
        let before = self.left;
        let place = Place::Root(pointer);
        self.compare(self.old, self.new, &place);
        if self.exhausted {
            self.changes.push(change(Class::Major, &place, "is too much to compare".to_owned()));
        }
        let major = self.changes.iter().any(|change| change.class == Class::Major);
        if self.output && !major && !self.alike(self.old, self.new) {
            self.changes.push(change(Class::Major, &place, "the output changed".to_owned()));
        }
        if self.changes.iter().all(|change| change.class == Class::Patch) {
            self.rest_is_the_same(&place);
        }
        (self.changes, before - self.left)
    }

    /// Makes sure that nothing but words changed, if nothing else was told.
    fn rest_is_the_same(&mut self, place: &Place<'_>) {
        let same = self.alike(self.old, self.new) || self.proves_back(self.new, self.old);
        let told = if !same {
            (Class::Minor, "accepts what it did, and perhaps more")
        } else if self.changes.is_empty() {
            (Class::Patch, "is written differently, and means the same")
        } else {
            return;
        };
        self.changes.push(change(told.0, place, told.1.to_owned()));
    }

    /// Says whether two schemas are the same but for what describes.
    fn alike(&mut self, old: &Value, new: &Value) -> bool {
        alike((self.old, old), (self.new, new), &mut self.left)
    }

    fn step(&mut self, steps: usize) -> bool {
        self.exhausted |= self.left < steps || self.open.len() > MAX_DEPTH;
        self.left = self.left.saturating_sub(steps);
        !self.exhausted
    }

    /// What a member of the values is called.
    pub(super) const fn noun(&self) -> &'static str {
        if self.output { "output" } else { "input" }
    }

    /// Tells a change; of an output, none is minor.
    pub(super) fn tell(&mut self, class: Class, place: &Place<'_>, text: impl FnOnce() -> String) {
        let class = if self.output && class == Class::Minor { Class::Major } else { class };
        self.tell_as(class, place, text);
    }

    /// Tells a change as it is.
    fn tell_as(&mut self, class: Class, place: &Place<'_>, text: impl FnOnce() -> String) {
        if class == Class::Major {
            self.failed = true;
        }
        if self.silent {
            return;
        }
        if self.changes.len() >= MAX_CHANGES {
            self.exhausted = true;
            return;
        }
        self.changes.push(change(class, place, text()));
    }

    /// Says whether the newer schema accepts what the older one does, and tells nothing.
    pub(super) fn proves(&mut self, old: &'a Value, new: &'a Value) -> bool {
        let pair = addresses(old, new);
        if let Some(proved) = self.proved.get(&pair) {
            return *proved;
        }
        let silent = std::mem::replace(&mut self.silent, true);
        let failed = std::mem::replace(&mut self.failed, false);
        // Of an output, too, it is the question whether everything is accepted.
        let output = std::mem::replace(&mut self.output, false);
        self.compare(old, new, &Place::Root(""));
        self.output = output;
        self.silent = silent;
        let proved = !std::mem::replace(&mut self.failed, failed);
        self.proved.insert(pair, proved);
        proved
    }

    /// Says whether the older schema accepts what the newer one does.
    pub(super) fn proves_back(&mut self, new: &'a Value, old: &'a Value) -> bool {
        std::mem::swap(&mut self.old, &mut self.new);
        let proved = self.proves(new, old);
        std::mem::swap(&mut self.old, &mut self.new);
        proved
    }

    /// Says whether a schema of the newer document accepts everything.
    pub(super) fn takes_all(&self, new: &'a Value) -> bool {
        takes_all(self.new, new)
    }

    /// Says whether a schema of the older document accepts everything.
    pub(super) fn took_all(&self, old: &'a Value) -> bool {
        takes_all(self.old, old)
    }

    /// Says whether a name matches a pattern, as the validator would; none if it cannot say.
    pub(super) fn matches(&mut self, pattern: &'a str, name: &str) -> Option<bool> {
        // Compiling is what takes long, so that it counts for many steps.
        if !self.step(if self.patterns.contains_key(pattern) { 1 } else { 200 }) {
            return None;
        }
        let compiled = self
            .patterns
            .entry(pattern)
            .or_insert_with(|| Schema::read(&serde_json::json!({ "pattern": pattern })).ok());
        compiled.as_ref().map(|schema| schema.check(&name.into()).is_ok())
    }

    /// Tells everything by which the newer schema refuses what the older one accepted, or accepts more.
    pub(super) fn compare(&mut self, old: &'a Value, new: &'a Value, place: &Place<'_>) {
        if !self.step(1) {
            self.failed = true;
            return;
        }
        // Nothing more can come of a proof that failed.
        if self.silent && self.failed {
            return;
        }
        let pair = addresses(old, new);
        if self.open.insert(pair) {
            self.follow(old, new, place);
            self.open.remove(&pair);
        } else if !self.alike(old, new) {
            self.tell(Class::Major, place, || {
                "refers back to itself, and cannot be compared".to_owned()
            });
        }
    }

    fn follow(&mut self, old: &'a Value, new: &'a Value, place: &Place<'_>) {
        self.annotations(old, new, place);
        let (Some(was), Some(is)) = (end(self.old, old), end(self.new, new)) else {
            self.tell(Class::Major, place, || {
                "refers to itself or to nothing, and cannot be compared".to_owned()
            });
            return;
        };
        let jump;
        let mut place = place;
        if let Some(pointer) = is.pointer {
            jump = place.jump(pointer);
            place = &jump;
        }
        if was.pointer.is_some() || is.pointer.is_some() {
            self.annotations(was.schema, is.schema, place);
        }
        self.schemas(was.schema, is.schema, place);
    }

    fn schemas(&mut self, old: &'a Value, new: &'a Value, place: &Place<'_>) {
        match (self.took_all(old), self.takes_all(new)) {
            (true, true) => return,
            (false, true) => {
                return self.tell(Class::Minor, place, || "any value is accepted now".to_owned());
            }
            _ => {}
        }
        match (old, new) {
            (Value::Bool(false), Value::Bool(false)) => return,
            (Value::Bool(false), _) => {
                return self.tell(Class::Minor, place, || {
                    "no value was accepted, some are now".to_owned()
                });
            }
            (_, Value::Bool(false)) => {
                return self
                    .tell(Class::Major, place, || "no value is accepted any more".to_owned());
            }
            _ => {}
        }
        let (Some(was), Some(is)) = (keywords(old), keywords(new)) else {
            return self.tell(Class::Major, place, || "is no schema".to_owned());
        };
        let looks_around = ["unevaluatedProperties", "unevaluatedItems"]
            .iter()
            .find(|keyword| is.get(keyword).is_some_and(|schema| !self.takes_all(schema)));
        if let Some(keyword) = looks_around {
            // It depends on everything that stands beside it, so that nothing of that may change.
            if !self.alike(old, new) {
                self.tell(Class::Major, place, || {
                    format!("something changed beside {keyword}, which depends on all of it")
                });
            }
            return;
        }
        if self.splits(was, new, place) {
            return;
        }
        let both = Both { old: was, new: is, whole: old };
        self.values(&both, place);
        self.bounds(&both, place);
        self.members(&both, place);
        self.items(&both, place);
        self.logic(&both, place);
        self.unknown(&both, place);
    }

    fn annotations(&mut self, old: &'a Value, new: &'a Value, place: &Place<'_>) {
        let (Some(old), Some(new), false) = (keywords(old), keywords(new), self.silent) else {
            return;
        };
        let gone = old.iter().filter(|(keyword, _)| !new.contains_key(keyword));
        let gone = gone.map(|(keyword, value)| (keyword, Some(value), None));
        let there = new.iter().map(|(keyword, value)| (keyword, old.get(keyword), Some(value)));
        for (keyword, was, is) in there.chain(gone) {
            if !is_annotation(keyword) || was == is {
                continue;
            }
            let class = if keyword == "default" { Class::Minor } else { Class::Patch };
            self.tell_as(class, place, || worded(keyword, was, is));
        }
    }

    /// Looks at the keywords that nobody knows: what they mean, nobody can say.
    fn unknown(&mut self, both: &Both<'a>, place: &Place<'_>) {
        let gone = both.old.keys().filter(|keyword| !both.new.contains_key(keyword));
        for keyword in both.new.keys().chain(gone) {
            if shape(keyword).is_some() && keyword != "$schema" || is_annotation(keyword) {
                continue;
            }
            let (was, is) = both.get(keyword);
            let dialect =
                |said: Option<&Value>| said.is_none_or(|said| said.as_str() == Some(DIALECT));
            if was != is && !(keyword == "$schema" && dialect(was) && dialect(is)) {
                self.tell(Class::Major, place, || {
                    format!("{}, and nobody knows what that means", worded(keyword, was, is))
                });
            }
        }
    }

    /// Tells a keyword that changed.
    pub(super) fn keyword(
        &mut self,
        class: Class,
        place: &Place<'_>,
        keyword: &str,
        (was, is): (Option<&Value>, Option<&Value>),
    ) {
        self.tell(class, place, || worded(keyword, was, is));
    }
}

/// Where references lead in the end.
struct End<'a> {
    schema: &'a Value,
    /// The pointer of the last one.
    pointer: Option<&'a str>,
}

/// Follows references beside which nothing stands that asks for something.
fn end<'a>(root: &'a Value, schema: &'a Value) -> Option<End<'a>> {
    let mut end = End { schema, pointer: None };
    for _ in 0..MAX_HOPS {
        let Some(keywords) = end.schema.as_object() else { return Some(end) };
        let Some(reference) = keywords.get("$ref").and_then(Value::as_str) else {
            return Some(end);
        };
        if !keywords.keys().all(|keyword| keyword == "$ref" || asks_nothing(keyword)) {
            return Some(end);
        }
        end = End { schema: target(root, reference)?, pointer: reference.strip_prefix('#') };
    }
    None
}

fn takes_all(root: &Value, schema: &Value) -> bool {
    match end(root, schema).map(|end| end.schema) {
        Some(Value::Bool(truth)) => *truth,
        Some(Value::Object(keywords)) => keywords.keys().all(asks_nothing),
        _ => false,
    }
}

fn keywords(schema: &Value) -> Option<&Object> {
    match schema {
        Value::Bool(true) => Some(&NO_MEMBERS),
        _ => schema.as_object(),
    }
}

fn addresses(old: &Value, new: &Value) -> (usize, usize) {
    (std::ptr::from_ref(old).addr(), std::ptr::from_ref(new).addr())
}
