//! Walks through two schemas side by side and lists what differs.
//!
//! A schema is a conjunction of what its keywords ask for. So the newer one accepts all that the older one did
//! if each of its keywords does. A keyword that is not seen to do so is a major change. Below each pair of schemas
//! with a major change, a proof over the whole pair is tried; if it succeeds, the changes of the pair are not major.
//! What cannot be proved counts as changed, although it may be the same.

use std::collections::HashSet;

use super::super::keyword::{DIALECT, asks_nothing, is_annotation, shape, target};
use super::alike::alike;
use super::defaults;
use super::index::SchemaIndex;
use super::place::Place;
use super::proof::{LocatedSchema, SchemaProver};
use super::words::{change, worded};
use super::{Change, Class};
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

/// What is proved about the pair of schemas that is being compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProofState {
    /// Nothing.
    Missing,
    /// Every argument that fitted still does; every output that fits did before.
    Compatible,
    /// The same, and the same members are named.
    SameMembers,
}

pub(super) struct Walk<'a> {
    /// The document of the older schema, in which its references lead.
    pub(super) old: &'a Value,
    /// The document of the newer schema.
    pub(super) new: &'a Value,
    /// Whether it is an output, where more is a change, too.
    output: bool,
    proof: ProofState,
    exhausted: bool,
    /// So many pairs may still be compared.
    left: usize,
    /// What is being compared, by address.
    open: HashSet<(usize, usize)>,
    prover: SchemaProver<'a>,
    changes: Vec<Change>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(old: &'a Value, new: &'a Value, output: bool, left: usize) -> Self {
        Self {
            old,
            new,
            output,
            proof: ProofState::Missing,
            exhausted: false,
            left: left.min(MAX_STEPS),
            open: HashSet::new(),
            prover: SchemaProver::new(left),
            changes: Vec::new(),
        }
    }

    /// Compares the whole documents, which stand at a pointer; returns how many steps it took, too.
    pub(super) fn run(mut self, pointer: &str) -> (Vec<Change>, usize) {
        if self.old == self.new {
            return (Vec::new(), 0);
        }
        let before = (self.left, self.prover.left());
        let place = Place::Root(pointer);
        self.compare(self.old, self.new, &place);
        let is_major = |changes: &[Change]| changes.iter().any(|it| it.class == Class::Major);
        if self.exhausted || is_major(&self.changes) && self.prover.is_exhausted() {
            self.changes.push(change(Class::Major, &place, "is too much to compare".to_owned()));
        }
        let defaults = defaults::changes(self.old, self.new, self.output, pointer);
        if !is_major(&self.changes) {
            self.classify_whole(&place);
        }
        self.changes.extend(defaults);
        if self.changes.is_empty() {
            let text = "is written differently, and means the same";
            self.changes.push(change(Class::Patch, &place, text.to_owned()));
        }
        (self.changes, before.0 - self.left + before.1 - self.prover.left())
    }

    /// Proves of the whole that a change that is not major is none, or that an output became no wider.
    fn classify_whole(&mut self, place: &Place<'_>) {
        let is_alike = self.alike(self.old, self.new);
        if self.output && !is_alike && !self.proves_back(self.new, self.old) {
            self.changes.push(change(Class::Major, place, "the output changed".to_owned()));
            return;
        }
        let is_equal = is_alike
            || match self.output {
                true => self.proves(self.old, self.new),
                false => self.proves_back(self.new, self.old),
            };
        if is_equal && (is_alike || self.names_the_same(self.old, self.new)) {
            for change in &mut self.changes {
                change.class = Class::Patch;
            }
        } else if self.changes.iter().all(|change| change.class == Class::Patch) {
            let text = match self.output {
                true => "gives nothing that it did not, and perhaps less",
                false => "accepts what it did, and perhaps more",
            };
            self.changes.push(change(Class::Minor, place, text.to_owned()));
        }
    }

    /// Returns whether two schemas name the same members. What they accept may be the same although they do not.
    fn names_the_same(&self, old: &'a Value, new: &'a Value) -> bool {
        let named = |root, schema| SchemaIndex::of(root, schema, "").map(|index| index.named);
        let (was, is) = (named(self.old, old), named(self.new, new));
        was.is_some() && was == is
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

    /// Returns whether it is proved that the pair being compared is compatible.
    pub(super) fn is_proved(&self) -> bool {
        self.proof != ProofState::Missing
    }

    /// Tells a change. Of an output, a minor one is major; what is proved to be compatible is minor at most.
    pub(super) fn tell(&mut self, class: Class, place: &Place<'_>, text: impl FnOnce() -> String) {
        let class = match (self.proof, class) {
            (_, Class::Patch) => Class::Patch,
            (ProofState::Missing, _) if self.output => Class::Major,
            (ProofState::Missing, class) => class,
            _ => Class::Minor,
        };
        self.tell_as(class, place, text);
    }

    /// Tells that a member or an item is new or gone. Of an output, that is its structure, and major.
    pub(super) fn tell_structure(
        &mut self,
        class: Class,
        place: &Place<'_>,
        text: impl FnOnce() -> String,
    ) {
        if self.output && self.proof != ProofState::SameMembers {
            self.tell_as(Class::Major, place, text);
        } else {
            self.tell(class, place, text);
        }
    }

    /// Tells a change as it is.
    fn tell_as(&mut self, class: Class, place: &Place<'_>, text: impl FnOnce() -> String) {
        if self.changes.len() >= MAX_CHANGES {
            self.exhausted = true;
            return;
        }
        self.changes.push(change(class, place, text()));
    }

    /// Returns whether the newer schema is proved to accept what the older one does.
    pub(super) fn proves(&mut self, old: &'a Value, new: &'a Value) -> bool {
        let (was, is) = (self.old, self.new);
        self.prover.proves(
            LocatedSchema { root: was, schema: old },
            LocatedSchema { root: is, schema: new },
        )
    }

    /// Returns whether the older schema is proved to accept what the newer one does.
    pub(super) fn proves_back(&mut self, new: &'a Value, old: &'a Value) -> bool {
        let (was, is) = (self.old, self.new);
        self.prover.proves(
            LocatedSchema { root: is, schema: new },
            LocatedSchema { root: was, schema: old },
        )
    }

    /// Says whether a schema of the newer document accepts everything.
    pub(super) fn takes_all(&self, new: &'a Value) -> bool {
        takes_all(self.new, new)
    }

    /// Says whether a schema of the older document accepts everything.
    pub(super) fn took_all(&self, old: &'a Value) -> bool {
        takes_all(self.old, old)
    }

    /// Returns whether a name matches a pattern, as the validator decides; none if that is unknown.
    pub(super) fn matches(&mut self, pattern: &'a str, name: &str) -> Option<bool> {
        self.prover.matches(pattern, name)
    }

    /// Tells everything by which the newer schema refuses what the older one accepted, or accepts more.
    pub(super) fn compare(&mut self, old: &'a Value, new: &'a Value, place: &Place<'_>) {
        if !self.step(1) {
            return;
        }
        let pair = addresses(old, new);
        if self.open.insert(pair) {
            self.compare_pair(old, new, place);
            self.open.remove(&pair);
        } else if !self.alike(old, new) {
            self.tell(Class::Major, place, || {
                "refers back to itself, and cannot be compared".to_owned()
            });
        }
    }

    /// Compares a pair of schemas; if a change of it is major, once more with a proof about the whole pair.
    fn compare_pair(&mut self, old: &'a Value, new: &'a Value, place: &Place<'_>) {
        let before = self.changes.len();
        self.follow(old, new, place);
        let mut found = self.changes.iter().skip(before);
        if self.is_proved() || found.all(|change| change.class != Class::Major) {
            return;
        }
        let proof = self.prove_pair(old, new);
        if proof != ProofState::Missing {
            self.changes.truncate(before);
            self.proof = proof;
            self.follow(old, new, place);
            self.proof = ProofState::Missing;
        }
    }

    fn prove_pair(&mut self, old: &'a Value, new: &'a Value) -> ProofState {
        let is_compatible = |walk: &mut Self| match walk.output {
            true => walk.proves_back(new, old),
            false => walk.proves(old, new),
        };
        if !is_compatible(self) {
            return ProofState::Missing;
        }
        let is_alike = self.output && self.names_the_same(old, new);
        if is_alike { ProofState::SameMembers } else { ProofState::Compatible }
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
        if let (Some(keyword), false) = (looks_around, self.is_proved()) {
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
        for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
            let (was, is) = both.get(keyword);
            if was != is {
                self.keyword(Class::Minor, place, keyword, (was, is));
            }
        }
        self.values(&both, place);
        self.bounds(&both, place);
        self.members(&both, place);
        self.items(&both, place);
        self.logic(&both, place);
        self.unknown(&both, place);
    }

    fn annotations(&mut self, old: &'a Value, new: &'a Value, place: &Place<'_>) {
        let (Some(old), Some(new)) = (keywords(old), keywords(new)) else { return };
        let gone = old.iter().filter(|(keyword, _)| !new.contains_key(keyword));
        let gone = gone.map(|(keyword, value)| (keyword, Some(value), None));
        let there = new.iter().map(|(keyword, value)| (keyword, old.get(keyword), Some(value)));
        for (keyword, was, is) in there.chain(gone) {
            // Defaults are compared by the inputs that they are for.
            if is_annotation(keyword) && keyword != "default" && was != is {
                self.tell_as(Class::Patch, place, || worded(keyword, was, is));
            }
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

/// Returns whether a schema accepts every value.
pub(super) fn takes_all(root: &Value, schema: &Value) -> bool {
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
