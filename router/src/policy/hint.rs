//! What is hinted of an operation: advice of whoever made it, by which rules may go.

use std::collections::BTreeMap;

use super::{Act, Law};
use crate::config::{Annotation, Property};

/// What is hinted of an operation. What is absent counts as MCP has it: the worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// What it changes may be lost.
    pub destructive: Option<bool>,
    /// To do it twice is as good as once.
    pub idempotent: Option<bool>,
    /// It reaches things that nobody here knows.
    pub open_world: Option<bool>,
}

/// What is hinted of operations: by adapter, tool and method.
pub type Hints = BTreeMap<super::Key, Hint>;

impl Law {
    /// Returns the hints by which rules go: those that are trusted, and in any case the ones of the contract.
    pub(super) fn hint(&self, act: Act<'_>) -> Hint {
        let hint = self.hints.get(&act.key()).copied().unwrap_or_default();
        match self.operation(act) {
            None => hint,
            Some(operation) => Hint {
                read_only: Some(operation.read_only),
                idempotent: Some(operation.idempotent),
                ..hint
            },
        }
    }
}

impl Hint {
    /// Returns the members in the order in which conditions have them.
    pub(super) const fn members(self) -> [Option<bool>; 4] {
        [self.read_only, self.destructive, self.idempotent, self.open_world]
    }

    /// Returns the hint with such members.
    pub(super) const fn of_members(members: [Option<bool>; 4]) -> Self {
        let [read_only, destructive, idempotent, open_world] = members;
        Self { read_only, destructive, idempotent, open_world }
    }

    /// Says whether an operation of which this is hinted has a property, or has it not.
    #[must_use]
    pub fn fits(self, annotation: Annotation) -> bool {
        let read_only = self.read_only.unwrap_or(false);
        let has = match annotation.property {
            Property::ReadOnly => read_only,
            // MCP gives it a meaning only for what changes something.
            Property::Destructive => self.destructive.unwrap_or(!read_only),
            Property::Idempotent => self.idempotent.unwrap_or(false),
            Property::OpenWorld => self.open_world.unwrap_or(true),
        };
        has == annotation.holds
    }
}
