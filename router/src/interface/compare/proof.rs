//! Proves that every value which fits some schemas fits another one.
//!
//! The schemas that a value fits are a [`ProofPremise`]: one list of keywords each, with what `allOf` and references
//! add. The goal is proved keyword by keyword. Where a keyword cannot be proved at once, the alternatives of the
//! premise are tried one after the other. A proof that runs out of steps fails, so that every answer is safe.

mod bounds;
mod evaluate;
mod evaluated;
mod items;
mod members;
mod premise;
mod variants;

use std::collections::{HashMap, HashSet};

use super::super::keyword::{DIALECT, asks_nothing, is_annotation, shape, target};
use super::alike::alike;
use super::values::{ARRAY, OBJECT};
use super::walk::takes_all;
use crate::conform::Schema;
use crate::json::{Object, Value};
pub(super) use premise::{LocatedSchema, ProofPremise, SchemaPart};

/// The steps that the proofs for one pair of schemas may take.
pub(super) const MAX_STEPS: usize = 60_000;
/// The greatest number of proofs within each other.
const MAX_DEPTH: usize = 64;
/// Larger objects have an index of their members.
const FEW: usize = 16;
/// The steps that compiling a pattern counts for.
const PATTERN_STEPS: usize = 200;

/// Proofs about the schemas of two documents, and what they have in common.
pub(super) struct SchemaProver<'a> {
    left: usize,
    exhausted: bool,
    depth: usize,
    /// Set while `unevaluated*` of premises is not used, since it is being decided what they apply to.
    is_plain: bool,
    proved: HashMap<Vec<usize>, bool>,
    patterns: HashMap<&'a str, Option<Schema>>,
    /// The values of long lists, by address of the list.
    listed: HashMap<usize, HashSet<String>>,
    /// The members of large objects, by address of the object.
    indexed: HashMap<usize, HashMap<&'a str, &'a Value>>,
}

impl<'a> SchemaProver<'a> {
    pub(super) fn new(left: usize) -> Self {
        Self {
            left: left.min(MAX_STEPS),
            exhausted: false,
            depth: 0,
            is_plain: false,
            proved: HashMap::new(),
            patterns: HashMap::new(),
            listed: HashMap::new(),
            indexed: HashMap::new(),
        }
    }

    /// Returns the number of steps that are left.
    pub(super) const fn left(&self) -> usize {
        self.left
    }

    /// Returns whether a proof failed because there were too few steps.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    fn step(&mut self, steps: usize) -> bool {
        self.exhausted |= self.left < steps;
        self.left = self.left.saturating_sub(steps);
        !self.exhausted
    }

    /// Returns whether every value that fits the one schema is proved to fit the other.
    pub(super) fn proves(&mut self, old: LocatedSchema<'a>, new: LocatedSchema<'a>) -> bool {
        let mut premise = ProofPremise::default();
        premise.add(old);
        self.narrow(&mut premise);
        self.implies(&premise, new)
    }

    /// Returns whether a name matches a pattern, as the validator decides; none if that is unknown.
    pub(super) fn matches(&mut self, pattern: &'a str, name: &str) -> Option<bool> {
        // Compiling takes long, so that it counts for many steps.
        if !self.step(if self.patterns.contains_key(pattern) { 1 } else { PATTERN_STEPS }) {
            return None;
        }
        let compiled = self
            .patterns
            .entry(pattern)
            .or_insert_with(|| Schema::read(&serde_json::json!({ "pattern": pattern })).ok());
        compiled.as_ref().map(|schema| schema.check(&name.into()).is_ok())
    }

    /// Returns what a keyword of a part holds under a name.
    fn named(&mut self, part: SchemaPart<'a>, keyword: &str, name: &str) -> Option<&'a Value> {
        let object = part.keywords.get(keyword)?.as_object()?;
        if object.len() <= FEW {
            return object.get(name);
        }
        let address = std::ptr::from_ref(object).addr();
        self.indexed.entry(address).or_insert_with(|| object.iter().collect()).get(name).copied()
    }

    /// Returns whether every value of a premise is proved to fit a schema.
    fn implies(&mut self, premise: &ProofPremise<'a>, goal: LocatedSchema<'a>) -> bool {
        if premise.kinds == 0 {
            return true;
        }
        if !self.step(1 + premise.fits.len() / 8) || self.depth > MAX_DEPTH {
            return false;
        }
        let keywords = match goal.schema {
            Value::Bool(true) => return true,
            Value::Bool(false) => return self.is_impossible(premise),
            Value::Object(keywords) if keywords.keys().all(asks_nothing) => return true,
            Value::Object(keywords) => keywords,
            _ => return false,
        };
        let key = premise.key(goal);
        if let Some(proved) = self.proved.get(&key) {
            return *proved;
        }
        // What is remembered is bounded, too.
        if !self.step(key.len() / 16) {
            return false;
        }
        // A proof must not rest on itself.
        self.proved.insert(key.clone(), false);
        self.depth += 1;
        let goal = SchemaPart { root: goal.root, keywords, schema: goal.schema };
        let proved = self.all_listed_fit(premise, goal)
            || keywords.keys().all(|keyword| self.keyword(premise, goal, keyword));
        self.depth -= 1;
        self.proved.insert(key, proved);
        proved
    }

    /// Returns whether the premise lists its values, and each of them fits.
    fn all_listed_fit(&mut self, premise: &ProofPremise<'a>, goal: SchemaPart<'a>) -> bool {
        let Some(values) = self.values(premise) else { return false };
        values.into_iter().all(|value| self.evaluate(value, goal.located()) == Some(true))
    }

    fn keyword(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        keyword: &'a str,
    ) -> bool {
        if self.holds(premise, goal, keyword) {
            return true;
        }
        // What holds all together is split further below.
        !matches!(keyword, "allOf" | "$ref") && self.splits(premise, goal, keyword)
    }

    /// Returns whether a keyword of the goal follows from the premise as it is.
    fn holds(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        keyword: &'a str,
    ) -> bool {
        let Some(value) = goal.keywords.get(keyword) else { return false };
        let here = goal.at(value);
        let is_object = premise.kinds & OBJECT != 0;
        let is_array = premise.kinds & ARRAY != 0;
        match keyword {
            "$schema" => value.as_str() == Some(DIALECT) || premise.says(keyword, value),
            // They belong to keywords that are looked at on their own.
            "minContains" | "maxContains" | "then" | "else" => true,
            _ if asks_nothing(keyword) || is_annotation(keyword) => true,
            "allOf" => {
                goal.list("allOf").iter().all(|branch| self.implies(premise, goal.at(branch)))
            }
            "$ref" => value
                .as_str()
                .and_then(|reference| target(goal.root, reference))
                .is_some_and(|schema| self.implies(premise, goal.at(schema))),
            "anyOf" => self.any_of(premise, goal),
            "oneOf" => self.one_of(premise, goal),
            "not" => self.excludes(premise, here),
            "if" => self.condition(premise, goal, here),
            "required" => !is_object || self.required(premise, value),
            "properties" => !is_object || self.properties(premise, goal, value),
            "patternProperties" => !is_object || self.pattern_properties(premise, goal, value),
            "additionalProperties" => !is_object || self.additional(premise, goal, here),
            "propertyNames" => !is_object || self.property_names(premise, here),
            "dependentRequired" => !is_object || self.dependent_required(premise, value),
            "dependentSchemas" => !is_object || self.dependent_schemas(premise, goal, value),
            "unevaluatedProperties" => {
                !is_object || self.unevaluated_properties(premise, goal, here)
            }
            "prefixItems" => !is_array || self.prefix_items(premise, goal),
            "items" => !is_array || self.rest_items(premise, goal.list("prefixItems").len(), here),
            "contains" => !is_array || self.contains(premise, goal, here),
            "unevaluatedItems" => !is_array || self.unevaluated_items(premise, goal, here),
            "contentEncoding" | "contentMediaType" | "contentSchema" => {
                self.same_content(premise, goal)
            }
            _ if shape(keyword).is_some() => self.bound(premise, keyword, value),
            // The meaning of other keywords is unknown.
            _ => premise.says(keyword, value),
        }
    }

    /// Returns whether a part of the premise says the same as the whole goal.
    fn is_alike(&mut self, premise: &ProofPremise<'a>, goal: SchemaPart<'a>) -> bool {
        premise
            .fits
            .iter()
            .any(|part| alike((part.root, part.schema), (goal.root, goal.schema), &mut self.left))
    }

    /// Content keywords depend on each other, so that one part has to say all of them.
    fn same_content(&mut self, premise: &ProofPremise<'a>, goal: SchemaPart<'a>) -> bool {
        premise.fits.iter().any(|part| {
            let same = |keyword| part.keywords.get(keyword) == goal.keywords.get(keyword);
            let schema = |of: &SchemaPart<'a>| of.keywords.get("contentSchema");
            same("contentEncoding")
                && same("contentMediaType")
                && match (schema(part), schema(&goal)) {
                    (Some(was), Some(is)) => {
                        alike((part.root, was), (goal.root, is), &mut self.left)
                    }
                    (_, is) => is.is_none(),
                }
        })
    }
}

/// Returns whether a schema accepts every value.
fn accepts_all(schema: LocatedSchema<'_>) -> bool {
    takes_all(schema.root, schema.schema)
}

/// Returns the members of an object that a keyword holds.
fn members<'a>(
    keywords: &'a Object,
    keyword: &str,
) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    keywords.get(keyword).and_then(Value::as_object).into_iter().flat_map(Object::iter)
}
