//! Assumptions about everything that a record does not say.

use std::collections::BTreeSet;

/// The most assumptions about one call.
const MAX_ASSUMPTIONS: usize = 8;
/// The most combinations of assumptions about one call.
const MAX_WORLDS: usize = 500;

/// Reason why a decision is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gap {
    /// A condition reads arguments that redaction changed.
    RedactedArguments,
    /// The record does not say who called.
    UnknownCaller,
    /// The record does not say the scope of the caller.
    UnknownScope,
    /// The configuration has adapters without an id.
    AdapterWithoutId,
    /// The resources and prompts are known only after the adapter is loaded.
    UnloadedCatalogue,
    /// The hints are known only after the adapter is loaded.
    UnloadedHints,
    /// Too many things are missing to try all combinations.
    TooMany,
}

impl Gap {
    /// Returns the name in answers for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RedactedArguments => "redacted_arguments",
            Self::UnknownCaller => "unknown_caller",
            Self::UnknownScope => "unknown_scope",
            Self::AdapterWithoutId => "adapter_without_id",
            Self::UnloadedCatalogue => "unloaded_catalogue",
            Self::UnloadedHints => "unloaded_hints",
            Self::TooMany => "too_many_gaps",
        }
    }

    /// Returns the reason for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::RedactedArguments => "a condition reads redacted arguments",
            Self::UnknownCaller => "the record does not name the caller",
            Self::UnknownScope => "the record does not have the scope of the caller",
            Self::AdapterWithoutId => "the configuration has adapters without an id",
            Self::UnloadedCatalogue => {
                "the resources and prompts are known only after the adapter is loaded"
            }
            Self::UnloadedHints => "the hints are known only after the adapter is loaded",
            Self::TooMany => "too many things are missing",
        }
    }
}

/// One thing that is not known, with a key that is the same wherever it is the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) gap: Gap,
    pub(super) key: String,
    /// Number of possible values.
    pub(super) values: usize,
}

/// Values that are assumed, in the order in which they were needed.
#[derive(Clone, Debug, Default)]
pub(super) struct World(Vec<(Unknown, usize)>);

impl World {
    /// Returns the assumed value of something that is not known.
    ///
    /// # Errors
    /// With the thing, if nothing is assumed about it.
    pub(super) fn choose(
        &self,
        gap: Gap,
        key: impl Into<String>,
        values: usize,
    ) -> Result<usize, Unknown> {
        let unknown = Unknown { gap, key: key.into(), values };
        match self.0.iter().find(|(known, _)| *known == unknown) {
            Some((_, value)) => Ok(*value),
            None => Err(unknown),
        }
    }

    /// Returns the assumed answer to a question.
    ///
    /// # Errors
    /// With the question, if nothing is assumed about it.
    pub(super) fn holds(&self, gap: Gap, key: impl Into<String>) -> Result<bool, Unknown> {
        Ok(self.choose(gap, key, 2)? == 1)
    }

    fn with(&self, unknown: &Unknown, value: usize) -> Self {
        let mut world = self.clone();
        world.0.push((unknown.clone(), value));
        world
    }
}

/// Decisions under all combinations of assumptions.
#[derive(Debug)]
pub(super) struct Worlds<T> {
    pub(super) decisions: Vec<T>,
    /// Everything that is missing.
    pub(super) gaps: BTreeSet<Gap>,
}

impl<T> Worlds<T> {
    /// Decides with every value of everything that is not known.
    pub(super) fn decide(mut decide: impl FnMut(&World) -> Result<T, Unknown>) -> Self {
        let mut worlds = Self { decisions: Vec::with_capacity(1), gaps: BTreeSet::new() };
        worlds.add(&World::default(), &mut decide);
        worlds
    }

    fn add(&mut self, world: &World, decide: &mut impl FnMut(&World) -> Result<T, Unknown>) {
        let unknown = match decide(world) {
            Ok(decision) => return self.decisions.push(decision),
            Err(unknown) => unknown,
        };
        self.gaps.insert(unknown.gap);
        for value in 0..unknown.values {
            if world.0.len() >= MAX_ASSUMPTIONS || self.decisions.len() >= MAX_WORLDS {
                self.gaps.insert(Gap::TooMany);
                return;
            }
            self.add(&world.with(&unknown, value), decide);
        }
    }

    /// Returns whether all combinations were tried.
    pub(super) fn is_complete(&self) -> bool {
        !self.gaps.contains(&Gap::TooMany)
    }
}
