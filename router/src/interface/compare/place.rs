//! Where a comparison is: the JSON pointer for machines, and the name of the input for people.

use super::super::finding::below;

/// A place in a schema, told from the root on.
pub(super) enum Place<'p> {
    /// Where the schema itself stands in its document.
    Root(&'p str),
    /// The schema that a keyword holds.
    Keyword { up: &'p Self, keyword: &'p str },
    /// A schema that a keyword holds under a name.
    Named { up: &'p Self, keyword: &'p str, name: &'p str },
    /// A schema of the list that a keyword holds.
    Nth { up: &'p Self, keyword: &'p str, index: usize },
    /// The schema that a reference leads to.
    Jump { up: &'p Self, pointer: &'p str },
}

impl<'p> Place<'p> {
    pub(super) fn keyword(&'p self, keyword: &'p str) -> Self {
        Place::Keyword { up: self, keyword }
    }

    pub(super) fn named(&'p self, keyword: &'p str, name: &'p str) -> Self {
        Place::Named { up: self, keyword, name }
    }

    pub(super) fn nth(&'p self, keyword: &'p str, index: usize) -> Self {
        Place::Nth { up: self, keyword, index }
    }

    pub(super) fn jump(&'p self, pointer: &'p str) -> Self {
        Place::Jump { up: self, pointer }
    }

    /// Returns the JSON pointer.
    pub(super) fn pointer(&self) -> String {
        match self {
            Self::Root(pointer) => (*pointer).to_owned(),
            Self::Keyword { up, keyword } => below(&up.pointer(), keyword),
            Self::Named { up, keyword, name } => below(&below(&up.pointer(), keyword), name),
            Self::Nth { up, keyword, index } => {
                below(&below(&up.pointer(), keyword), &index.to_string())
            }
            Self::Jump { up, pointer } => format!("{}{pointer}", up.root()),
        }
    }

    /// Returns the name of the input, such as `filter.tags[]`; empty at the root.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Root(_) => String::new(),
            Self::Named { up, keyword: "properties", name } => {
                let above = up.label();
                if above.is_empty() { (*name).to_owned() } else { format!("{above}.{name}") }
            }
            Self::Nth { up, keyword: "prefixItems", index } => format!("{}[{index}]", up.label()),
            Self::Keyword { up, keyword: "items" } => format!("{}[]", up.label()),
            Self::Keyword { up, .. }
            | Self::Named { up, .. }
            | Self::Nth { up, .. }
            | Self::Jump { up, .. } => up.label(),
        }
    }

    fn root(&self) -> &str {
        match self {
            Self::Root(pointer) => pointer,
            Self::Keyword { up, .. }
            | Self::Named { up, .. }
            | Self::Nth { up, .. }
            | Self::Jump { up, .. } => up.root(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_pointer_and_a_name() {
        let root = Place::Root("/input_schema");
        assert_eq!(root.label(), "");
        let filter = root.named("properties", "a/b");
        let tags = filter.named("properties", "tags");
        let items = tags.keyword("items");
        assert_eq!(items.label(), "a/b.tags[]");
        assert_eq!(items.pointer(), "/input_schema/properties/a~1b/properties/tags/items");
        let branch = items.nth("anyOf", 1);
        let jump = branch.jump("/$defs/tag");
        assert_eq!(jump.pointer(), "/input_schema/$defs/tag");
        let second = jump.nth("prefixItems", 1);
        assert_eq!(second.label(), "a/b.tags[][1]");
        assert_eq!(second.pointer(), "/input_schema/$defs/tag/prefixItems/1");
    }
}
