//! Names of adapters, tools and methods. Conditions read them in lower case, so no text with upper case equals one.

use super::facts::is_lower_case;
use super::function::Function;
use super::node::{Arithmetic, Literal, Node, Variable};

/// Texts that a part of a condition may have as its value, or as its elements and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PossibleTexts {
    /// The name of an adapter, tool or method.
    pub(super) name: bool,
    /// A literal with upper case.
    pub(super) upper_case: bool,
}

impl PossibleTexts {
    /// Finds the texts of a part. `local` returns those of a loop variable.
    pub(super) fn of(node: &Node, local: &dyn Fn(usize) -> Self) -> Self {
        let any = |nodes: &mut dyn Iterator<Item = &Node>| {
            nodes.fold(Self::default(), |all, one| all.or(Self::of(one, local)))
        };
        match node {
            Node::Variable(Variable::Adapter | Variable::Tool | Variable::Method) => {
                Self { name: true, upper_case: false }
            }
            Node::Literal(Literal::String(text)) => {
                Self { name: false, upper_case: !is_lower_case(text) }
            }
            Node::Local(slot) => local(*slot),
            Node::List(items) | Node::Call(Function::String | Function::Dyn, items) => {
                any(&mut items.iter())
            }
            Node::Map(entries) => any(&mut entries.iter().map(|(key, _)| key)),
            Node::Index(container, _) => match container.as_ref() {
                Node::Map(entries) => any(&mut entries.iter().map(|(_, value)| value)),
                other => Self::of(other, local),
            },
            Node::Choose(_, one, other) | Node::Compute(Arithmetic::Add, one, other) => {
                Self::of(one, local).or(Self::of(other, local))
            }
            _ => Self::default(),
        }
    }

    const fn or(self, other: Self) -> Self {
        Self { name: self.name || other.name, upper_case: self.upper_case || other.upper_case }
    }

    /// Returns whether a comparison with other texts may be one of a name with upper case.
    pub(super) const fn never_equal(self, other: Self) -> bool {
        self.name && other.upper_case || self.upper_case && other.name
    }
}
