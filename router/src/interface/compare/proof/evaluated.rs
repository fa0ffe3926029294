//! Proofs about `unevaluatedProperties` and `unevaluatedItems`, which apply to what nothing beside them evaluates.
//!
//! Of a premise, everything counts as evaluated that may be; of a goal, only what is evaluated for sure.

use std::collections::HashSet;

use super::super::super::keyword::{is_annotation, shape, target};
use super::members::RemainingMembers;
use super::{LocatedSchema, ProofPremise, SchemaPart, SchemaProver, members};
use crate::json::Value;

/// Schemas in place are followed so deeply.
const MAX_LEVELS: usize = 24;

/// The members and items that a schema evaluates for sure.
#[derive(Default)]
struct EvaluatedParts<'a> {
    names: HashSet<&'a str>,
    patterns: Vec<&'a str>,
    has_all_members: bool,
    positions: usize,
    has_all_items: bool,
}

impl<'a> SchemaProver<'a> {
    pub(super) fn unevaluated_properties(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        schema: LocatedSchema<'a>,
    ) -> bool {
        if super::accepts_all(schema) || self.is_alike(premise, goal) {
            return true;
        }
        let mut found = EvaluatedParts::default();
        self.gather(premise, goal, 0, &mut found);
        let but = RemainingMembers { names: &found.names, patterns: &found.patterns };
        found.has_all_members || self.others_fit(premise, &but, schema)
    }

    pub(super) fn unevaluated_items(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        schema: LocatedSchema<'a>,
    ) -> bool {
        if super::accepts_all(schema) || self.is_alike(premise, goal) {
            return true;
        }
        let mut found = EvaluatedParts::default();
        self.gather(premise, goal, 0, &mut found);
        found.has_all_items || self.rest_items(premise, found.positions, schema)
    }

    /// Adds what a goal evaluates for sure where the premise holds.
    fn gather(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        level: usize,
        found: &mut EvaluatedParts<'a>,
    ) {
        if level > MAX_LEVELS || !self.step(1) {
            return;
        }
        let is_below = level > 0;
        let has = |keyword| goal.keywords.contains_key(keyword);
        found.names.extend(members(goal.keywords, "properties").map(|(name, _)| name));
        found.patterns.extend(members(goal.keywords, "patternProperties").map(|(name, _)| name));
        found.has_all_members |=
            has("additionalProperties") || is_below && has("unevaluatedProperties");
        found.positions = found.positions.max(goal.list("prefixItems").len());
        found.has_all_items |= has("items") || is_below && has("unevaluatedItems");
        let mut inside: Vec<LocatedSchema<'a>> =
            goal.list("allOf").iter().map(|branch| goal.at(branch)).collect();
        inside.extend(referred(goal));
        for branch in goal.list("anyOf").iter().chain(goal.list("oneOf")) {
            let branch = goal.at(branch);
            if self.implies(premise, branch) {
                inside.push(branch);
            }
        }
        if let Some(condition) = goal.held("if") {
            if self.implies(premise, condition) {
                inside.extend([Some(condition), goal.held("then")].into_iter().flatten());
            } else if self.excludes(premise, condition) {
                inside.extend(goal.held("else"));
            }
        }
        for schema in inside {
            if let Some(part) = as_part(schema) {
                self.gather(premise, part, level + 1, found);
            }
        }
    }

    /// Returns whether a part of a premise may evaluate the member of a name.
    ///
    /// Without a name, it is a member that nothing names, and that does not match some patterns.
    pub(super) fn may_evaluate(
        &mut self,
        premise: &ProofPremise<'a>,
        part: SchemaPart<'a>,
        name: Option<&str>,
        unmatched: &[&str],
    ) -> bool {
        self.any_in_place(premise, part, 0, &mut |prover, part, is_below| {
            let has = |keyword| part.keywords.contains_key(keyword);
            has("additionalProperties")
                || is_below && has("unevaluatedProperties")
                || name.is_some_and(|name| prover.named(part, "properties", name).is_some())
                || members(part.keywords, "patternProperties").any(|(pattern, _)| match name {
                    Some(name) => prover.matches(pattern, name) != Some(false),
                    None => !unmatched.contains(&pattern),
                })
        })
    }

    /// Returns whether a part of a premise may evaluate the item at a position.
    pub(super) fn may_evaluate_item(
        &mut self,
        premise: &ProofPremise<'a>,
        part: SchemaPart<'a>,
        position: usize,
    ) -> bool {
        self.any_in_place(premise, part, 0, &mut |_, part, is_below| {
            let has = |keyword| part.keywords.contains_key(keyword);
            has("items")
                || has("contains")
                || is_below && has("unevaluatedItems")
                || part.list("prefixItems").len() > position
        })
    }

    /// Returns whether something is true of a schema that may apply in the place of a part; also if it is unknown.
    fn any_in_place(
        &mut self,
        premise: &ProofPremise<'a>,
        part: SchemaPart<'a>,
        level: usize,
        test: &mut dyn FnMut(&mut Self, SchemaPart<'a>, bool) -> bool,
    ) -> bool {
        if level > MAX_LEVELS || !self.step(1) || test(self, part, level > 0) {
            return true;
        }
        let variants = part.list("anyOf").iter().chain(part.list("oneOf"));
        let mut inside: Vec<LocatedSchema<'a>> = variants.map(|branch| part.at(branch)).collect();
        inside.retain(|branch| !self.is_ruled_out(premise, *branch));
        inside.extend(part.list("allOf").iter().map(|branch| part.at(branch)));
        inside.extend(["if", "then", "else", "not"].into_iter().filter_map(|it| part.held(it)));
        inside.extend(members(part.keywords, "dependentSchemas").map(|(_, it)| part.at(it)));
        inside.extend(referred(part));
        let is_unknown = |keyword: &str| shape(keyword).is_none() && !is_annotation(keyword);
        part.keywords.contains_key("$ref") && referred(part).is_none()
            || part.keywords.keys().any(is_unknown)
            || inside
                .into_iter()
                .filter_map(as_part)
                .any(|inner| self.any_in_place(premise, inner, level + 1, test))
    }

    /// Returns whether a variant is impossible beside a premise, of which `unevaluated*` is left aside.
    fn is_ruled_out(&mut self, premise: &ProofPremise<'a>, variant: LocatedSchema<'a>) -> bool {
        if premise.misfits.iter().any(|misfit| std::ptr::eq(misfit.schema, variant.schema)) {
            return true;
        }
        let was_plain = std::mem::replace(&mut self.is_plain, true);
        let mut both = premise.with(variant);
        self.narrow(&mut both);
        self.is_plain = was_plain;
        both.kinds == 0
    }

    /// Adds every name that a part and the schemas in its place mention.
    pub(super) fn mentioned(&mut self, part: SchemaPart<'a>, names: &mut Vec<&'a str>) {
        let nothing = ProofPremise::default();
        // Nothing is found, so that everything is visited.
        self.any_in_place(&nothing, part, 0, &mut |_, part, _| {
            names.extend(members(part.keywords, "properties").map(|(name, _)| name));
            false
        });
    }

    /// Returns the longest list of first items of a part and the schemas in its place.
    pub(super) fn longest_prefix(&mut self, part: SchemaPart<'a>) -> usize {
        let mut longest = 0;
        self.any_in_place(&ProofPremise::default(), part, 0, &mut |_, part, _| {
            longest = longest.max(part.list("prefixItems").len());
            false
        });
        longest
    }
}

fn as_part(schema: LocatedSchema<'_>) -> Option<SchemaPart<'_>> {
    let keywords = schema.schema.as_object()?;
    Some(SchemaPart { root: schema.root, keywords, schema: schema.schema })
}

fn referred(part: SchemaPart<'_>) -> Option<LocatedSchema<'_>> {
    let reference = part.keywords.get("$ref").and_then(Value::as_str)?;
    target(part.root, reference).map(|schema| part.at(schema))
}
