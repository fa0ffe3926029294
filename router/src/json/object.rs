//! Named values in the order given, each name once.

use std::collections::HashMap;

use super::Value;
use super::name::Name;

/// The members of a JSON object, in the order given and with unique names.
///
/// Two objects are equal if they have the same members in any order. Looking a name up reads through
/// the members, which is the fastest way for the few that objects have.
#[derive(Clone, Debug, Default)]
pub struct Object {
    members: Vec<(Name, Value)>,
}

/// Up to here, looking through the names is faster than an index of them.
pub(super) const FEW: usize = 16;

impl Object {
    /// Returns an object without members.
    #[must_use]
    pub const fn new() -> Self {
        Self { members: Vec::new() }
    }

    /// Returns an object without members that has room for some.
    #[must_use]
    pub fn with_capacity(members: usize) -> Self {
        Self { members: Vec::with_capacity(members) }
    }

    /// Takes members whose names are known to be unique.
    pub(super) fn from_unique(members: Vec<(Name, Value)>) -> Self {
        Self { members }
    }

    /// Returns a member by name.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.members
            .iter()
            .find(|(name, _)| name.as_bytes() == key.as_bytes())
            .map(|(_, value)| value)
    }

    /// Returns a member by name, to be changed.
    #[must_use]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.members
            .iter_mut()
            .find(|(name, _)| name.as_bytes() == key.as_bytes())
            .map(|(_, value)| value)
    }

    /// Says whether there is a member of this name.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Adds a member at the end, or replaces the value of the one that has this name.
    pub fn insert(&mut self, key: impl AsRef<str>, value: impl Into<Value>) {
        let (key, value) = (key.as_ref(), value.into());
        match self.get_mut(key) {
            Some(old) => *old = value,
            None => self.members.push((key.into(), value)),
        }
    }

    /// Removes a member and returns its value; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let index = self.members.iter().position(|(name, _)| name.as_bytes() == key.as_bytes())?;
        Some(self.members.remove(index).1)
    }

    /// Returns the members in order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.members.iter())
    }

    /// Returns the members in order, their values to be changed.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Value)> {
        self.members.iter_mut().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the names in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.members.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Says whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns this as a map of `serde_json`, with the loss of [`Value::to_serde`].
    #[must_use]
    pub fn to_serde(&self) -> serde_json::Map<String, serde_json::Value> {
        self.iter().map(|(name, value)| (name.to_owned(), value.to_serde())).collect()
    }

    /// The members as they are stored.
    pub(super) fn members(&self) -> &[(Name, Value)] {
        &self.members
    }

    /// The members in the order of their names.
    pub(super) fn sorted(&self) -> Vec<&(Name, Value)> {
        let mut members: Vec<_> = self.members.iter().collect();
        sort(&mut members);
        members
    }
}

/// Puts members into the order of their names.
pub(super) fn sort(members: &mut [&(Name, Value)]) {
    members.sort_unstable_by(|one, other| one.0.as_bytes().cmp(other.0.as_bytes()));
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if self
            .members
            .iter()
            .map(|member| &member.0)
            .eq(other.members.iter().map(|member| &member.0))
        {
            return self.members == other.members;
        }
        if self.len() <= FEW {
            return self.iter().all(|(name, value)| other.get(name) == Some(value));
        }
        self.sorted() == other.sorted()
    }
}

impl FromIterator<(String, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(members: I) -> Self {
        let mut object = Self::new();
        object.extend(members);
        object
    }
}

impl Extend<(String, Value)> for Object {
    fn extend<I: IntoIterator<Item = (String, Value)>>(&mut self, members: I) {
        let mut members = members.into_iter();
        for (name, value) in members.by_ref() {
            self.insert(name, value);
            if self.len() > FEW {
                break;
            }
        }
        let mut index: Option<HashMap<String, usize>> = None;
        for (name, value) in members {
            let index = index.get_or_insert_with(|| {
                self.keys().enumerate().map(|(at, name)| (name.to_owned(), at)).collect()
            });
            if let Some(at) = index.get(&name) {
                self.members[*at].1 = value;
            } else {
                self.members.push((name.as_str().into(), value));
                index.insert(name, self.members.len() - 1);
            }
        }
    }
}

/// The members of an object in order, by reference.
#[derive(Clone, Debug)]
pub struct Iter<'a>(std::slice::Iter<'a, (Name, Value)>);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (name.as_str(), value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Object {
    type Item = (&'a str, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The members of an object in order.
#[derive(Debug)]
pub struct IntoIter(std::vec::IntoIter<(Name, Value)>);

impl Iterator for IntoIter {
    type Item = (String, Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (name.into(), value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for IntoIter {}

impl IntoIterator for Object {
    type Item = (String, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        IntoIter(self.members.into_iter())
    }
}

impl From<&serde_json::Map<String, serde_json::Value>> for Object {
    fn from(members: &serde_json::Map<String, serde_json::Value>) -> Self {
        Self::from_unique(
            members.iter().map(|(name, value)| (name.as_str().into(), value.into())).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::any_value;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn numbered(names: impl IntoIterator<Item = i64>) -> Object {
        names.into_iter().map(|name| (format!("name {name}"), name.into())).collect()
    }

    #[test]
    fn members_keep_their_order_and_names_are_unique() {
        let mut object = Object::with_capacity(2);
        object.insert("b", 1);
        object.insert("a", "x");
        object.insert("c", Value::Null);
        object.insert("b", 2);
        assert_eq!(object.keys().collect::<Vec<_>>(), ["b", "a", "c"]);
        assert_eq!(object.get("b"), Some(&Value::Int(2)));
        assert_eq!(object.remove("b"), Some(Value::Int(2)));
        assert_eq!(object.remove("b"), None);
        assert!(!object.contains_key("b") && object.contains_key("a"));
        for (_, value) in object.iter_mut() {
            *value = 3.into();
        }
        *object.get_mut("c").unwrap() = 4.into();
        let members: Vec<_> = object.into_iter().collect();
        assert_eq!(members, [("a".to_owned(), 3.into()), ("c".to_owned(), 4.into())]);
    }

    #[test]
    fn the_order_of_members_does_not_matter() {
        for count in [0, 1, 2, 16, 17, 100] {
            let object = numbered(0..count);
            assert_eq!(object, numbered((0..count).rev()), "{count} members");
            let mut other = numbered((0..count).rev());
            other.insert("name 0", "other");
            assert_ne!(object, other, "{count} members");
            let mut other = object.clone();
            other.remove("name 0");
            other.insert("other", 0);
            assert_ne!(object, other, "{count} members");
        }
    }

    #[test]
    fn many_members_are_taken_quickly() {
        // Comparing each name with each other one would take minutes.
        let object = numbered((0..200_000).chain(0..200_000));
        assert_eq!(object.len(), 200_000);
        assert_eq!(object, numbered((0..200_000).rev()));
    }

    proptest! {
        #[test]
        fn an_object_is_a_map(members in prop::collection::vec(("[a-f]{0,2}", any_value()), 0..60)) {
            let map: BTreeMap<String, Value> = members.iter().cloned().collect();
            let object: Object = members.iter().cloned().collect();
            let mut one_by_one = Object::new();
            for (name, value) in members {
                one_by_one.insert(name, value);
            }
            prop_assert_eq!(object.iter().collect::<Vec<_>>(), one_by_one.iter().collect::<Vec<_>>());
            prop_assert_eq!(&object, &map.clone().into_iter().collect());
            prop_assert_eq!(object.len(), map.len());
            for (name, value) in &object {
                prop_assert_eq!(map.get(name), Some(value));
            }
        }
    }
}
