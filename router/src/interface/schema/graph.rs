//! Which schemas of a schema hold values to which others, by containing them or by reference.
//!
//! A reference that leads back would have no end, and one that leads to what refers on, twice each time, would
//! have one that nobody lives to see. Each part is looked at once, with what was found out about those below.

use super::super::keyword::target;
use super::Lint;
use crate::json::Value;

/// So many schemas there may be when every reference is replaced by what it leads to.
const MAX_UNFOLDED: usize = 5_000;
/// So deeply these may be nested: the validator goes one call deeper for each.
const MAX_HEIGHT: usize = 200;

/// A schema in a schema.
pub(super) struct Part<'a> {
    /// Where it stands.
    pub(super) place: String,
    /// The schemas in it that it holds values to.
    pub(super) uses: Vec<usize>,
    /// What it refers to.
    pub(super) reference: Option<&'a str>,
}

impl Part<'_> {
    pub(super) fn new(place: &str) -> Self {
        Self { place: place.to_owned(), uses: Vec::new(), reference: None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unseen,
    /// On the way from the root to here.
    Open,
    /// Unfolds to so many.
    Done(usize),
}

pub(super) struct Graph<'l, 'a, 'f> {
    lint: &'l mut Lint<'a, 'f>,
    /// Which part each refers to.
    refers: Vec<Option<usize>>,
    states: Vec<State>,
    too_high: bool,
}

impl<'l, 'a, 'f> Graph<'l, 'a, 'f> {
    /// Tells every reference that leads nowhere, elsewhere or back, and a schema that unfolds to too much.
    pub(super) fn check(lint: &'l mut Lint<'a, 'f>, root: &'a Value, place: &str) {
        let refers = (0..lint.parts.len()).map(|part| resolve(lint, root, part)).collect();
        let states = vec![State::Unseen; lint.parts.len()];
        let mut graph = Self { lint, refers, states, too_high: false };
        let mut unfolded = 0;
        // Definitions that nothing refers to are looked at, too.
        for part in 0..graph.states.len() {
            unfolded = unfolded.max(graph.visit(part, 0));
        }
        if graph.too_high {
            let message = format!("its references lead deeper than {MAX_HEIGHT} schemas");
            graph.lint.too_large(place, message);
        } else if unfolded > MAX_UNFOLDED {
            let message = format!("its references unfold to more than {MAX_UNFOLDED} schemas");
            graph.lint.too_large(place, message);
        }
    }

    fn visit(&mut self, part: usize, height: usize) -> usize {
        match self.states[part] {
            State::Done(unfolded) => return unfolded,
            // Told where the reference is.
            State::Open => return 0,
            State::Unseen if height > MAX_HEIGHT => {
                self.too_high = true;
                return 0;
            }
            State::Unseen => self.states[part] = State::Open,
        }
        let mut unfolded: usize = 1;
        for below in std::mem::take(&mut self.lint.parts[part].uses) {
            unfolded = unfolded.saturating_add(self.visit(below, height + 1));
        }
        if let Some(to) = self.refers[part] {
            if self.states[to] == State::Open {
                let place = format!("{}/$ref", self.lint.parts[part].place);
                let message =
                    "refers back to what it is part of; unfold it as deeply as it is needed";
                self.lint.add(&place, "SCHEMA_REF_RECURSIVE", message);
            } else {
                unfolded = unfolded.saturating_add(self.visit(to, height + 1));
            }
        }
        self.states[part] = State::Done(unfolded);
        unfolded
    }
}

fn resolve<'a>(lint: &mut Lint<'a, '_>, root: &'a Value, part: usize) -> Option<usize> {
    let reference = lint.parts[part].reference?;
    let place = format!("{}/$ref", lint.parts[part].place);
    if reference == "#" {
        lint.add(&place, "SCHEMA_REF_RECURSIVE", "refers to the whole that it is part of");
        return None;
    }
    if !reference.starts_with("#/") {
        let message =
            "refers to something elsewhere; put it under $defs, and refer to \"#/$defs/NAME\"";
        lint.add(&place, "SCHEMA_REF_REMOTE", message);
        return None;
    }
    let found = target(root, reference).map(|it| std::ptr::from_ref(it).addr());
    let found = found.and_then(|address| lint.by_address.get(&address)).copied();
    if found.is_none() {
        let message = if reference.contains('%') {
            "has a percent sign; give the definition a plain name"
        } else {
            "leads to no schema; definitions stand under $defs"
        };
        lint.add(&place, "SCHEMA_REF_DANGLING", message);
    }
    found
}
