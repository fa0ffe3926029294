//! Facts about a call that a condition reads, found in its compiled form.

use super::node::{Literal, Node, Variable};

/// Facts about a call that a condition reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConditionReads {
    /// Members of the arguments.
    pub(crate) args: Vec<ArgsPath>,
    /// Whether the condition reads the class of the operation.
    pub(crate) class: bool,
    pub(crate) caller_name: bool,
    pub(crate) caller_scope: bool,
    pub(crate) caller_role: bool,
    /// Hints in the order of [`CallFacts::hints`](super::CallFacts::hints).
    pub(crate) hints: [bool; 4],
}

/// Path of a member of the arguments; an empty one is all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArgsPath {
    pub(crate) names: Vec<Box<str>>,
    /// Whether only the presence of the member is read.
    pub(crate) presence: bool,
}

impl ConditionReads {
    pub(super) fn of(root: &Node) -> Self {
        let mut reads = Self::default();
        reads.add(root);
        reads
    }

    fn add(&mut self, node: &Node) {
        if let Some(path) = ArgsPath::of(node) {
            self.args.push(path);
            return;
        }
        match node {
            Node::HasHint(hint) | Node::Variable(Variable::Hint(hint)) => {
                self.hints[hint.index()] = true;
            }
            Node::Variable(Variable::Class) => self.class = true,
            Node::Variable(Variable::CallerName) => self.caller_name = true,
            Node::Variable(Variable::CallerScope) => self.caller_scope = true,
            Node::Variable(Variable::CallerRole) => self.caller_role = true,
            _ => {}
        }
        node.for_each_part(&mut |part| self.add(part));
    }
}

impl ArgsPath {
    /// Returns the path of a part that selects a member of the arguments, member by member.
    fn of(node: &Node) -> Option<Self> {
        let (mut names, mut node) = (Vec::new(), node);
        let presence = matches!(node, Node::Has(..));
        loop {
            let (map, name) = match node {
                Node::Variable(Variable::Args) => break,
                Node::Select(map, name) => (map, name),
                Node::Has(map, name) if names.is_empty() => (map, name),
                Node::Index(map, index) => match index.as_ref() {
                    Node::Literal(Literal::String(name)) => (map, name),
                    _ => return None,
                },
                _ => return None,
            };
            names.push(name.clone());
            node = map;
        }
        names.reverse();
        Some(Self { names, presence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;

    fn reads(text: &str) -> ConditionReads {
        Condition::compile(text).unwrap().reads().clone()
    }

    fn paths(text: &str) -> Vec<String> {
        reads(text).args.iter().map(|path| path.names.join(".")).collect()
    }

    #[test]
    fn finds_the_facts_that_a_condition_reads() {
        let found = reads("args.a.b > 1 && has(args.c) && caller.name == class");
        assert!(found.caller_name && found.class && !found.caller_scope && !found.caller_role);
        assert_eq!(found.hints, [false; 4]);
        let presence: Vec<bool> = found.args.iter().map(|path| path.presence).collect();
        assert_eq!(presence, [false, true]);
        assert_eq!(
            reads("hints.destructive || has(hints.open_world)").hints,
            [false, true, false, true]
        );
        assert_eq!(paths("args.a.b > 1 && has(args.c)"), ["a.b", "c"]);
        assert_eq!(paths("args['a'].b == 1 || args.list.all(x, x > 1)"), ["a.b", "list"]);
        assert_eq!(paths("adapter == 'a'"), Vec::<String>::new());
        for whole in ["size(args) > 1", "'x' in args", "args[tool] == 1", "args.all(k, k != '')"] {
            assert!(paths(whole).contains(&String::new()), "{whole}");
        }
    }

    #[test]
    fn leading_dot_hides_nothing() {
        for (dotted, plain) in [
            (".caller.name == 'ci'", "caller.name == 'ci'"),
            (".args.password == 'x'", "args.password == 'x'"),
            ("has(.args.a) && .hints.destructive", "has(args.a) && hints.destructive"),
            (
                ".class == 'file_write' && .caller.scope == 'x'",
                "class == 'file_write' && caller.scope == 'x'",
            ),
        ] {
            assert_eq!(reads(dotted), reads(plain), "{dotted}");
        }
    }
}
