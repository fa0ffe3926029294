//! What the law takes from tools: the names, classes, hints and schemas of the operations behind them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Tools;
use crate::policy::{Classes, Contracts, Hint, Hints, Key, Names};
use crate::role::ActionClass;

impl Tools {
    /// Returns what callers call the operations behind the tools.
    #[must_use]
    pub fn names(&self) -> Names {
        let mut names = Names::new();
        for spec in self.iter() {
            names.entry(spec.operation()).or_default().push(spec.name.clone());
        }
        for tool in &self.withheld {
            if let Some(operation) = &tool.operation {
                names.entry(operation.clone()).or_default().push(tool.name.clone());
            }
        }
        names
    }

    /// Returns the trusted hints of the operations behind the tools. Of two tools of one operation, the worse
    /// hint counts.
    #[must_use]
    pub fn hints(&self) -> Hints {
        let mut hints = Hints::new();
        for spec in self.iter() {
            let worse = |a: Option<bool>, b: Option<bool>, bad: bool| match (a, b) {
                (Some(a), Some(b)) if a == b => Some(a),
                (None, None) => None,
                _ => Some(bad),
            };
            let hint = spec.definition.trusted_hints;
            let known = hints.entry(spec.operation()).or_insert(hint);
            *known = Hint {
                read_only: worse(known.read_only, hint.read_only, false),
                destructive: worse(known.destructive, hint.destructive, true),
                idempotent: worse(known.idempotent, hint.idempotent, false),
                open_world: worse(known.open_world, hint.open_world, true),
            };
        }
        hints
    }

    /// Returns what the operations behind the tools take and give. Whoever calls an operation keeps to what any
    /// of its tools says.
    #[must_use]
    pub fn contracts(&self) -> Contracts {
        let mut contracts = Contracts::new();
        for spec in self.iter() {
            let contract = &spec.definition.contract;
            if contract.input.is_some() || contract.output.is_some() {
                contracts.entry(spec.operation()).or_default().push(Arc::clone(contract));
            }
        }
        contracts
    }

    /// Returns the classes of the operations behind the tools. Two tools of one operation and different
    /// classes would make the class a matter of luck, so such an operation has none.
    #[must_use]
    pub fn classes(&self) -> Classes {
        let mut classes: BTreeMap<Key, Option<ActionClass>> = BTreeMap::new();
        let called = self.iter().map(|spec| (spec.operation(), spec.action_class));
        let withheld = self
            .withheld
            .iter()
            .filter_map(|tool| Some((tool.operation.clone()?, tool.action_class)));
        for (operation, given) in called.chain(withheld) {
            classes
                .entry(operation)
                .and_modify(|class| *class = class.filter(|class| Some(*class) == given))
                .or_insert(given);
        }
        classes.into_iter().filter_map(|(key, class)| Some((key, class?))).collect()
    }
}
