//! Proofs about alternatives: `anyOf`, `oneOf`, `not` and `if`.

use super::super::values::EVERY;
use super::{LocatedSchema, ProofPremise, SchemaPart, SchemaProver};
use crate::json::Value;

impl<'a> SchemaProver<'a> {
    /// One alternative has to follow.
    pub(super) fn any_of(&mut self, premise: &ProofPremise<'a>, goal: SchemaPart<'a>) -> bool {
        goal.list("anyOf").iter().any(|branch| self.implies(premise, goal.at(branch)))
    }

    /// One alternative has to follow, and every other one has to be impossible beside the premise.
    pub(super) fn one_of(&mut self, premise: &ProofPremise<'a>, goal: SchemaPart<'a>) -> bool {
        let branches = goal.list("oneOf");
        let follows = |prover: &mut Self, branch| prover.implies(premise, goal.at(branch));
        let Some(fitting) = branches.iter().position(|branch| follows(self, branch)) else {
            return false;
        };
        let others = branches.iter().enumerate().filter(|(index, _)| *index != fitting);
        others.map(|(_, branch)| branch).all(|branch| self.excludes(premise, goal.at(branch)))
    }

    /// The one branch has to follow where the condition fits, and the other one where it does not.
    pub(super) fn condition(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        condition: LocatedSchema<'a>,
    ) -> bool {
        if let Some(then) = goal.held("then") {
            let mut fitting = premise.with(condition);
            self.narrow(&mut fitting);
            if !self.is_impossible(&fitting) && !self.implies(&fitting, then) {
                return false;
            }
        }
        let Some(otherwise) = goal.held("else") else { return true };
        let mut other = premise.clone();
        other.add_misfits([condition]);
        self.is_impossible(&other) || self.implies(&other, otherwise)
    }

    /// Returns whether no value of the premise is proved to fit a schema.
    pub(super) fn excludes(
        &mut self,
        premise: &ProofPremise<'a>,
        schema: LocatedSchema<'a>,
    ) -> bool {
        let mut both = premise.with(schema);
        self.narrow(&mut both);
        if self.is_impossible(&both) {
            return true;
        }
        // The alternatives of the schema may each be impossible for a reason of its own.
        let Some(keywords) = schema.schema.as_object() else { return false };
        let part = SchemaPart { root: schema.root, keywords, schema: schema.schema };
        ["anyOf", "oneOf"].into_iter().any(|keyword| {
            let branches = part.list(keyword);
            self.depth < super::MAX_DEPTH
                && self.step(branches.len() + 1)
                && !branches.is_empty()
                && {
                    self.depth += 1;
                    let none = branches.iter().all(|branch| self.excludes(&both, part.at(branch)));
                    self.depth -= 1;
                    none
                }
        })
    }

    /// Returns whether there is provably no value that fits the premise.
    pub(super) fn is_impossible(&mut self, premise: &ProofPremise<'a>) -> bool {
        if premise.kinds == 0 {
            return true;
        }
        if self.depth > super::MAX_DEPTH || !self.step(1) {
            return false;
        }
        // The misfit that is in question must not be used against itself without end.
        self.depth += 1;
        let impossible = premise.misfits.iter().any(|misfit| {
            let mut rest = premise.clone();
            rest.misfits.retain(|other| !std::ptr::eq(other.schema, misfit.schema));
            self.implies(&rest, *misfit)
        });
        self.depth -= 1;
        impossible
    }

    /// Proves a keyword for every alternative of the premise on its own.
    pub(super) fn splits(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        keyword: &'a str,
    ) -> bool {
        if self.depth > super::MAX_DEPTH {
            return false;
        }
        let Some(cases) = next_cases(premise, matches!(keyword, "anyOf" | "oneOf")) else {
            return false;
        };
        self.depth += 1;
        let proved = cases.into_iter().all(|mut case| {
            self.step(2) && {
                self.narrow(&mut case);
                self.is_impossible(&case) || self.keyword(&case, goal, keyword)
            }
        });
        self.depth -= 1;
        proved
    }
}

/// Returns the cases of the next alternatives that none was chosen of; none if there are no more.
fn next_cases<'a>(premise: &ProofPremise<'a>, by_kind: bool) -> Option<Vec<ProofPremise<'a>>> {
    for part in &premise.fits {
        for keyword in ["anyOf", "oneOf"] {
            let branches = part.list(keyword);
            let address = branches.as_ptr().addr();
            if branches.is_empty() || premise.chosen.contains(&address) {
                continue;
            }
            return Some(cases_of(premise, *part, branches, keyword == "oneOf"));
        }
        if let Some(condition) = part.held("if") {
            let address = std::ptr::from_ref(condition.schema).addr();
            if !premise.chosen.contains(&address) {
                return Some(cases_of_condition(premise, *part, condition, address));
            }
        }
    }
    // A value has one kind, which takes lists of types apart.
    let kinds = premise.kinds;
    (by_kind && kinds.count_ones() > 1 && kinds != EVERY).then(|| {
        let bits = (0..u8::BITS).map(|bit| 1_u8 << bit).filter(|bit| kinds & bit != 0);
        bits.map(|bit| ProofPremise { kinds: bit, ..premise.clone() }).collect()
    })
}

fn cases_of<'a>(
    premise: &ProofPremise<'a>,
    part: SchemaPart<'a>,
    branches: &'a [Value],
    is_single: bool,
) -> Vec<ProofPremise<'a>> {
    let case = |chosen: &'a Value| {
        let mut case = premise.with(part.at(chosen));
        case.chosen.push(branches.as_ptr().addr());
        if is_single {
            let others = branches.iter().filter(|other| !std::ptr::eq(*other, chosen));
            case.add_misfits(others.map(|other| part.at(other)));
        }
        case
    };
    branches.iter().map(case).collect()
}

fn cases_of_condition<'a>(
    premise: &ProofPremise<'a>,
    part: SchemaPart<'a>,
    condition: LocatedSchema<'a>,
    address: usize,
) -> Vec<ProofPremise<'a>> {
    let mut fitting = premise.with(condition);
    let mut other = premise.clone();
    other.add_misfits([condition]);
    for (case, branch) in [(&mut fitting, "then"), (&mut other, "else")] {
        case.chosen.push(address);
        if let Some(branch) = part.held(branch) {
            case.add(branch);
        }
    }
    vec![fitting, other]
}
