//! Proofs about the members of objects.

use std::collections::HashSet;

use super::super::values::STRING;
use super::{LocatedSchema, ProofPremise, SchemaPart, SchemaProver, members};
use crate::json::Value;

/// All members but those of some names and patterns.
pub(super) struct RemainingMembers<'n, 'a> {
    pub(super) names: &'n HashSet<&'a str>,
    pub(super) patterns: &'n [&'a str],
}

impl<'a> SchemaProver<'a> {
    /// Returns what is known of the member of a name.
    fn member(&mut self, premise: &ProofPremise<'a>, name: &str) -> ProofPremise<'a> {
        let mut member = ProofPremise::default();
        for part in &premise.fits {
            let mut is_additional = true;
            if let Some(schema) = self.named(*part, "properties", name) {
                member.add(part.at(schema));
                is_additional = false;
            }
            for (pattern, schema) in members(part.keywords, "patternProperties") {
                let matches = self.matches(pattern, name);
                is_additional &= matches == Some(false);
                if matches == Some(true) {
                    member.add(part.at(schema));
                }
            }
            if is_additional && let Some(schema) = part.held("additionalProperties") {
                member.add(schema);
            }
            if let Some(schema) = part.held("unevaluatedProperties")
                && !self.is_plain
                && !self.may_evaluate(premise, *part, Some(name), &[])
            {
                member.add(schema);
            }
            if let Some(names) = part.held("propertyNames")
                && self.evaluate(&name.into(), names) == Some(false)
            {
                member.kinds = 0;
            }
        }
        member
    }

    fn narrowed_member(&mut self, premise: &ProofPremise<'a>, name: &str) -> ProofPremise<'a> {
        let mut member = self.member(premise, name);
        self.narrow(&mut member);
        member
    }

    /// Returns whether a member is required that no value fits.
    pub(super) fn lacks_required(&mut self, premise: &ProofPremise<'a>, depth: usize) -> bool {
        let lists = premise.fits.iter().map(|part| part.list("required"));
        let names: HashSet<&str> = lists.flatten().filter_map(Value::as_str).collect();
        names.into_iter().any(|name| {
            self.step(1) && {
                let mut member = self.member(premise, name);
                self.narrow_within(&mut member, depth);
                member.kinds == 0
            }
        })
    }

    pub(super) fn required(&mut self, premise: &ProofPremise<'a>, names: &Value) -> bool {
        let mut names = names.as_array().unwrap_or_default().iter().filter_map(Value::as_str);
        names.all(|name| is_required(premise, name))
    }

    pub(super) fn properties(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        schemas: &'a Value,
    ) -> bool {
        let Some(schemas) = schemas.as_object() else { return false };
        schemas.iter().all(|(name, schema)| self.member_fits(premise, name, goal.at(schema)))
    }

    fn member_fits(
        &mut self,
        premise: &ProofPremise<'a>,
        name: &str,
        schema: LocatedSchema<'a>,
    ) -> bool {
        if super::accepts_all(schema) {
            return true;
        }
        let member = self.narrowed_member(premise, name);
        self.step(1) && (self.implies(&member, schema) || self.is_impossible(&member))
    }

    pub(super) fn pattern_properties(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        schemas: &'a Value,
    ) -> bool {
        let Some(schemas) = schemas.as_object() else { return false };
        schemas.iter().all(|(pattern, schema)| {
            let schema = goal.at(schema);
            if super::accepts_all(schema) {
                return true;
            }
            let (names, is_closed) = self.names(premise);
            names.iter().all(|name| {
                self.matches(pattern, name) == Some(false)
                    || self.member_fits(premise, name, schema)
            }) && (is_closed || self.unnamed_fits(premise, Some(pattern), &[], schema))
        })
    }

    pub(super) fn additional(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        schema: LocatedSchema<'a>,
    ) -> bool {
        let names = members(goal.keywords, "properties").map(|(name, _)| name).collect();
        let patterns: Vec<_> =
            members(goal.keywords, "patternProperties").map(|(pattern, _)| pattern).collect();
        self.others_fit(premise, &RemainingMembers { names: &names, patterns: &patterns }, schema)
    }

    /// Returns whether every member fits but those of some names and patterns.
    pub(super) fn others_fit(
        &mut self,
        premise: &ProofPremise<'a>,
        but: &RemainingMembers<'_, 'a>,
        schema: LocatedSchema<'a>,
    ) -> bool {
        if super::accepts_all(schema) {
            return true;
        }
        let (names, is_closed) = self.names(premise);
        names.iter().all(|name| {
            but.names.contains(name)
                || but.patterns.iter().any(|pattern| self.matches(pattern, name) == Some(true))
                || self.member_fits(premise, name, schema)
        }) && (is_closed || self.unnamed_fits(premise, None, but.patterns, schema))
    }

    /// Returns the names that the parts mention, and whether they are the only ones.
    fn names(&mut self, premise: &ProofPremise<'a>) -> (Vec<&'a str>, bool) {
        let (mut names, mut is_closed) = (Vec::new(), false);
        for part in &premise.fits {
            names.extend(members(part.keywords, "properties").map(|(name, _)| name));
            if part.keywords.contains_key("unevaluatedProperties") {
                self.mentioned(*part, &mut names);
            }
            if let Some(schema) = part.held("propertyNames") {
                let mut named = ProofPremise::default();
                named.add(schema);
                if let Some(values) = self.values(&named) {
                    names.extend(values.into_iter().filter_map(Value::as_str));
                    is_closed = true;
                }
            }
        }
        names.sort_unstable();
        names.dedup();
        self.step(names.len() / 8);
        (names, is_closed)
    }

    /// Returns whether every member fits that no part names, with a name that matches a pattern or none of others.
    fn unnamed_fits(
        &mut self,
        premise: &ProofPremise<'a>,
        matched: Option<&str>,
        unmatched: &[&str],
        schema: LocatedSchema<'a>,
    ) -> bool {
        let mut sure = ProofPremise::default();
        let mut choices = Vec::new();
        for part in &premise.fits {
            let patterns = || members(part.keywords, "patternProperties");
            let same = patterns().find(|(pattern, _)| Some(*pattern) == matched);
            let mut options: Vec<_> = patterns()
                .filter(|(pattern, _)| !unmatched.contains(pattern))
                .map(|(_, schema)| part.at(schema))
                .collect();
            let additional = part.held("additionalProperties");
            if let Some((_, schema)) = same {
                sure.add(part.at(schema));
            } else if options.is_empty() {
                additional.into_iter().for_each(|schema| sure.add(schema));
            } else if let Some(additional) = additional {
                options.push(additional);
                choices.push(options);
            }
            if let Some(schema) = part.held("unevaluatedProperties")
                && !self.is_plain
                && !self.may_evaluate(premise, *part, None, unmatched)
            {
                sure.add(schema);
            }
        }
        self.narrow(&mut sure);
        self.implies(&sure, schema)
            || choices.into_iter().any(|options| {
                options.into_iter().all(|option| {
                    let mut member = sure.with(option);
                    self.narrow(&mut member);
                    self.implies(&member, schema)
                })
            })
    }

    pub(super) fn property_names(
        &mut self,
        premise: &ProofPremise<'a>,
        schema: LocatedSchema<'a>,
    ) -> bool {
        let mut name = ProofPremise { kinds: STRING, ..ProofPremise::default() };
        premise.held("propertyNames").for_each(|schema| name.add(schema));
        self.narrow(&mut name);
        if self.implies(&name, schema) {
            return true;
        }
        // Where nothing but named members is possible, these are all the names.
        let closed = premise.fits.iter().find(|part| {
            part.keywords.get("patternProperties").is_none()
                && part.keywords.get("additionalProperties").and_then(Value::as_bool) == Some(false)
        });
        closed.is_some_and(|part| {
            members(part.keywords, "properties").all(|(name, _)| {
                self.evaluate(&name.into(), schema) == Some(true)
                    || self.narrowed_member(premise, name).kinds == 0
            })
        })
    }

    pub(super) fn dependent_required(
        &mut self,
        premise: &ProofPremise<'a>,
        needs: &'a Value,
    ) -> bool {
        let Some(needs) = needs.as_object() else { return false };
        needs.iter().all(|(name, needed)| {
            let needed = needed.as_array().unwrap_or_default();
            needed.iter().filter_map(Value::as_str).all(|need| {
                need == name || is_required(premise, need) || is_needed(premise, name, need)
            }) || self.narrowed_member(premise, name).kinds == 0
        })
    }

    pub(super) fn dependent_schemas(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        schemas: &'a Value,
    ) -> bool {
        let Some(schemas) = schemas.as_object() else { return false };
        schemas.iter().all(|(name, schema)| {
            let mut present = premise.clone();
            for part in &premise.fits {
                if let Some(schema) = self.named(*part, "dependentSchemas", name) {
                    present.add(part.at(schema));
                }
            }
            self.narrow(&mut present);
            self.implies(&present, goal.at(schema))
                || self.narrowed_member(premise, name).kinds == 0
        })
    }
}

/// Returns whether a closed part names at most so many members.
pub(super) fn has_few_members(premise: &ProofPremise<'_>, most: f64) -> bool {
    premise.fits.iter().any(|part| {
        let count = members(part.keywords, "properties").count();
        part.keywords.get("patternProperties").is_none()
            && part.keywords.get("additionalProperties").and_then(Value::as_bool) == Some(false)
            && f64::from(u32::try_from(count).unwrap_or(u32::MAX)) <= most
    })
}

fn is_required(premise: &ProofPremise<'_>, name: &str) -> bool {
    premise.fits.iter().any(|part| {
        part.list("required").iter().any(|known| {
            known.as_str().is_some_and(|known| known == name || is_needed(premise, known, name))
        })
    })
}

/// Returns whether `dependentRequired` of the premise asks for one member where another one is there.
fn is_needed(premise: &ProofPremise<'_>, name: &str, need: &str) -> bool {
    premise.held("dependentRequired").any(|held| {
        let needed = held.schema.get(name).and_then(Value::as_array).unwrap_or_default();
        needed.iter().any(|needed| needed.as_str() == Some(need))
    })
}
