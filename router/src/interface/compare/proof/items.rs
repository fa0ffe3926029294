//! Proofs about the items of lists.

use super::super::super::keyword::number;
use super::bounds::{least_count, most_count};
use super::{LocatedSchema, ProofPremise, SchemaPart, SchemaProver};

/// The number of items at the start of a list that are looked at one by one.
const MAX_POSITIONS: usize = 256;

impl<'a> SchemaProver<'a> {
    /// Returns what is known of the item at a position.
    fn item(&mut self, premise: &ProofPremise<'a>, position: usize) -> ProofPremise<'a> {
        let mut item = ProofPremise::default();
        for part in &premise.fits {
            let first = part.list("prefixItems").get(position).map(|schema| part.at(schema));
            if let Some(schema) = first.or_else(|| part.held("items")) {
                item.add(schema);
            }
            if let Some(schema) = part.held("unevaluatedItems")
                && !self.is_plain
                && !self.may_evaluate_item(premise, *part, position)
            {
                item.add(schema);
            }
        }
        item
    }

    fn narrowed_item(&mut self, premise: &ProofPremise<'a>, position: usize) -> ProofPremise<'a> {
        let mut item = self.item(premise, position);
        self.narrow(&mut item);
        item
    }

    /// Returns whether there has to be an item that no value fits.
    pub(super) fn lacks_items(&mut self, premise: &ProofPremise<'a>, depth: usize) -> bool {
        let least = least_count(premise, "minItems");
        let positions = self.positions(premise).max(1);
        (0..positions).zip(0_u32..).take_while(|(_, count)| f64::from(*count) < least).any(
            |(position, _)| {
                self.step(1) && {
                    let mut item = self.item(premise, position);
                    self.narrow_within(&mut item, depth);
                    item.kinds == 0
                }
            },
        )
    }

    /// Returns the number of positions that parts of a premise list; past them, all items are alike.
    fn positions(&mut self, premise: &ProofPremise<'a>) -> usize {
        let mut positions = 0;
        for part in &premise.fits {
            positions = positions.max(part.list("prefixItems").len());
            // `unevaluatedItems` depends on what stands below, too.
            if part.keywords.contains_key("unevaluatedItems") {
                positions = positions.max(self.longest_prefix(*part));
            }
        }
        positions
    }

    fn item_fits(
        &mut self,
        premise: &ProofPremise<'a>,
        position: usize,
        schema: LocatedSchema<'a>,
    ) -> bool {
        let is_past = |count: u32| most_count(premise, "maxItems") <= f64::from(count);
        if super::accepts_all(schema) || u32::try_from(position).is_ok_and(is_past) {
            return true;
        }
        let item = self.narrowed_item(premise, position);
        self.step(1) && (self.implies(&item, schema) || self.is_impossible(&item))
    }

    pub(super) fn prefix_items(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
    ) -> bool {
        let first = goal.list("prefixItems");
        first
            .iter()
            .enumerate()
            .all(|(position, schema)| self.item_fits(premise, position, goal.at(schema)))
    }

    /// Returns whether every item fits from a position on.
    pub(super) fn rest_items(
        &mut self,
        premise: &ProofPremise<'a>,
        from: usize,
        schema: LocatedSchema<'a>,
    ) -> bool {
        let known = self.positions(premise).max(from);
        if known > MAX_POSITIONS {
            return super::accepts_all(schema);
        }
        // Past all that are listed, one item is like the next.
        (from..=known).all(|position| self.item_fits(premise, position, schema))
    }

    pub(super) fn contains(
        &mut self,
        premise: &ProofPremise<'a>,
        goal: SchemaPart<'a>,
        schema: LocatedSchema<'a>,
    ) -> bool {
        let (least, most) = contained(goal);
        let enough = least <= 0.0
            || least_count(premise, "minItems") >= least && self.rest_items(premise, 0, schema)
            || premise.fits.iter().any(|part| {
                part.held("contains")
                    .is_some_and(|was| contained(*part).0 >= least && self.proves(was, schema))
            });
        let few = most.is_infinite()
            || most_count(premise, "maxItems") <= most
            || premise.fits.iter().any(|part| {
                part.held("contains")
                    .is_some_and(|was| contained(*part).1 <= most && self.proves(schema, was))
            });
        enough && few
    }
}

/// Returns how many items have to fit `contains`, and how many may.
fn contained(part: SchemaPart<'_>) -> (f64, f64) {
    let bound = |keyword, none| part.keywords.get(keyword).and_then(number).unwrap_or(none);
    (bound("minContains", 1.0), bound("maxContains", f64::INFINITY))
}
