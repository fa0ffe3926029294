//! The plans of a cabinet, which carry no seal: sealed executions and decisions vouch for those that they name.

use std::collections::HashSet;

use super::places::PLAN;
use super::verdict::{Findings, Kind, Reason, Standing, Verdict};
use crate::digest::Digest;

/// The plans of a cabinet.
#[derive(Default)]
pub(super) struct Plans {
    /// Those that executions name: each must be there.
    needed: HashSet<Digest>,
    /// Those that decisions name, of which the execution may be still to come.
    decided: HashSet<Digest>,
    /// Those that are there and are what they are named. There may be many, so their verdicts are made when they are told.
    there: HashSet<Digest>,
    checked: Vec<&'static str>,
}

impl Plans {
    /// Takes note of a plan that is named, and keeps those that are there; returns everything else.
    pub(super) fn look(&mut self, verdict: Verdict) -> Option<Verdict> {
        if let (Kind::Plan, Some(plan), Standing::Genuine) =
            (verdict.kind, verdict.plan_sha256, verdict.standing())
        {
            self.there.insert(plan);
            self.checked = verdict.checked;
            return None;
        }
        self.hear(&verdict);
        Some(verdict)
    }

    /// Takes note of a plan that is named.
    pub(super) fn hear(&mut self, verdict: &Verdict) {
        let Some(plan) = verdict.plan_sha256.filter(|_| verdict.standing() == Standing::Genuine)
        else {
            return;
        };
        match verdict.kind {
            Kind::Execution => drop(self.needed.insert(plan)),
            Kind::Verification => drop(self.decided.insert(plan)),
            _ => {}
        }
    }

    fn is_named(&self, plan: &Digest) -> bool {
        self.needed.contains(plan) || self.decided.contains(plan)
    }

    /// Says whether there is a plan for which nobody vouches so far.
    pub(super) fn is_one_unnamed(&self) -> bool {
        self.there.iter().any(|plan| !self.is_named(plan))
    }

    /// Tells the verdicts about plans, and which executions name that are not there. For one that nobody names nobody
    /// vouches: anybody may have put it there. Where seals do not matter, that does not either.
    pub(super) fn tell(
        &self,
        hashes_only: bool,
        findings: &mut Findings,
        each: &mut dyn FnMut(&Verdict),
    ) {
        let place = |plan: &Digest| format!("{PLAN}/{plan}");
        let sorted = |plans: &mut dyn Iterator<Item = &Digest>| {
            let mut plans: Vec<Digest> = plans.copied().collect();
            plans.sort_unstable_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
            plans
        };
        for plan in sorted(&mut self.needed.difference(&self.there)) {
            let message = "an execution names this plan, and it is not there";
            findings.tell(Reason::Missing, &place(&plan), message);
        }
        for plan in sorted(&mut self.there.iter()) {
            let mut verdict = Verdict::new(place(&plan), Kind::Plan, 1);
            verdict.plan_sha256 = Some(plan);
            verdict.checked.clone_from(&self.checked);
            if !hashes_only && !self.is_named(&plan) {
                let message = "no genuine execution or decision names this plan, so nobody vouches for it; \
                     find out who put it there, or move it out of the cabinet";
                verdict.findings.tell(Reason::NoSeal, "", message);
            }
            each(&verdict);
        }
    }

    /// Says how many there are.
    pub(super) fn count(&self) -> usize {
        self.there.len()
    }
}
