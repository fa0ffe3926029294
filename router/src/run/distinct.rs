//! A list of texts in which each stands once.

use std::collections::HashSet;

/// As long as the list is short, it is looked through; a hostile log may make it long.
const SHORT: usize = 16;

/// Texts in the order in which they first came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distinct {
    list: Vec<String>,
    /// The same texts, once there are many.
    index: HashSet<String>,
}

impl Distinct {
    /// Adds a text, and says whether it is new.
    pub(crate) fn insert(&mut self, text: &str) -> bool {
        if self.list.len() < SHORT {
            if self.list.iter().any(|known| known == text) {
                return false;
            }
        } else {
            if self.index.is_empty() {
                self.index.extend(self.list.iter().cloned());
            }
            if !self.index.insert(text.to_owned()) {
                return false;
            }
        }
        self.list.push(text.to_owned());
        true
    }

    pub(crate) fn list(&self) -> &[String] {
        &self.list
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_stands_once_in_short_and_long_lists() {
        let mut distinct = Distinct::default();
        for round in 0..2 {
            for number in 0..100 {
                assert_eq!(distinct.insert(&number.to_string()), round == 0);
            }
        }
        assert!(distinct.list().iter().map(|text| text.parse::<usize>().unwrap()).eq(0..100));
    }
}
