//! Finds a name that an object has twice.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use super::super::Value;
use super::super::name::Name;
use super::super::object::FEW;

/// The names of an object being read, to find one that comes twice.
///
/// Few names are compared with each other. Of many it keeps the hashes, whose key no sender knows, so
/// that no choice of names makes reading slow.
#[derive(Default)]
pub(super) struct Names {
    hashes: Option<HashSet<u64>>,
}

impl Names {
    /// Says whether the members have a name; remembers it otherwise.
    pub(super) fn have(&mut self, members: &[(Name, Value)], name: &Name) -> bool {
        let among = || members.iter().any(|(other, _)| other == name);
        if members.len() < FEW {
            return among();
        }
        let hashes = self.hashes.get_or_insert_with(|| {
            let hasher = RandomState::new();
            let mut hashes = HashSet::with_hasher(hasher.clone());
            hashes.extend(members.iter().map(|(other, _)| hasher.hash_one(other.as_bytes())));
            hashes
        });
        let hash = hashes.hasher().hash_one(name.as_bytes());
        !hashes.insert(hash) && among()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::read;
    use super::super::super::{Error, Limits, Object, parse};
    use super::*;

    fn refused(text: &str) -> Error {
        parse(text.as_bytes(), Limits::default()).unwrap_err()
    }

    #[test]
    fn duplicates_are_found_among_few_and_many() {
        for count in [2, FEW, FEW + 1, FEW + 2, 1000] {
            for twice in [0, (count - 1) / 2, count - 2] {
                let names: Vec<_> =
                    (0..count - 1).chain([twice]).map(|at| format!("\"{at}\":0")).collect();
                let error = refused(&format!("{{{}}}", names.join(",")));
                assert_eq!(error.code(), "JSON_DUPLICATE_KEY");
                assert_eq!(error.pointer(), format!("/{twice}"));
            }
        }
        // The same name, spelled in two ways.
        assert_eq!(refused(r#"{"a":1,"\u0061":2}"#).pointer(), "/a");
        let long = "x".repeat(100_000);
        let error = refused(&format!("{{\"{long}\":1,\"{long}\":2}}"));
        assert_eq!(error.pointer().len(), 100_001);
        assert!(error.to_string().len() < 400, "{error}");
    }

    #[test]
    fn an_object_of_many_names_is_read_quickly() {
        // Comparing each name with each other one would take minutes.
        let names: Vec<_> = (0..200_000).map(|at| format!("\"{at}\":0")).collect();
        let value = read(&format!("{{{}}}", names.join(",")));
        assert_eq!(value.as_object().map(Object::len), Some(200_000));
    }
}
