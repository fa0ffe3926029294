//! Error codes that an adapter returns and its manifest does not list, counted within bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use nexus_router_sdk::{AdapterError, Object, code};

use super::adapter::{read_error, read_output};
use super::manifest::ManifestView;

/// Codes that are counted under their own name. An adapter can make up any number of them.
const MAX_CODES: usize = 32;
/// Name under which all further codes are counted.
const OTHER: &str = "(other)";
/// Name under which codes are counted that are not well-formed.
const MALFORMED: &str = "(malformed)";

/// Codes that are part of the boundary: the SDK and the router return them for any adapter.
const OF_THE_BOUNDARY: &[&str] = &[
    code::BUG_ERROR,
    code::ADAPTER_PANICKED,
    code::OUTPUT_TOO_LARGE,
    code::INPUT_REQUIRED,
    code::CLIENT_CAPABILITY_MISSING,
];

/// Counter of the undeclared error codes of one adapter.
#[derive(Debug, Default)]
pub(super) struct UndeclaredCodes {
    declared: BTreeSet<String>,
    counts: Mutex<CodeCounts>,
    /// Codes that the interface contract does not list, by operation. A contract bounds the number of operations.
    of_operations: Mutex<BTreeMap<String, CodeCounts>>,
}

/// Number of errors by code.
#[derive(Debug, Default)]
struct CodeCounts(BTreeMap<String, u64>);

impl CodeCounts {
    /// Counts a code. Returns whether it is the first of its name.
    fn count(&mut self, code: &str) -> bool {
        let code = if code::is_well_formed(code) { code } else { MALFORMED };
        let known = self.0.contains_key(code);
        let name = if known || self.0.len() < MAX_CODES { code } else { OTHER };
        let count = self.0.entry(name.to_owned()).or_default();
        *count = count.saturating_add(1);
        *count == 1
    }
}

impl UndeclaredCodes {
    /// Makes a counter of all codes but those of a manifest. Without one, nothing is declared.
    pub(super) fn new(manifest: Option<&ManifestView>) -> Self {
        let declared =
            manifest.into_iter().flat_map(|manifest| manifest.error_codes.iter().cloned());
        Self { declared: declared.collect(), ..Self::default() }
    }

    /// Reads the text of an error that the adapter returned, and counts its code.
    pub(super) fn read_error(&self, text: &str) -> AdapterError {
        let error = read_error(text);
        self.count(&error);
        error
    }

    /// Reads an answer of the adapter as it crossed the ABI, and counts the code of its error.
    pub(super) fn read_answer(&self, answer: Result<&str, &str>) -> Result<Object, AdapterError> {
        answer.map_err(|error| self.read_error(error)).and_then(read_output)
    }

    /// Counts the code of an error, unless it is declared.
    fn count(&self, error: &AdapterError) {
        let code = error.code.as_str();
        if OF_THE_BOUNDARY.contains(&code) || self.declared.contains(code) {
            return;
        }
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).count(code);
    }

    /// Counts a code that a contract does not list for an operation, unless it is one of the boundary. Returns whether
    /// it is the first of its name.
    pub(super) fn count_failure(&self, operation: &str, code: &str) -> bool {
        if OF_THE_BOUNDARY.contains(&code) {
            return false;
        }
        let mut operations = self.of_operations.lock().unwrap_or_else(PoisonError::into_inner);
        match operations.get_mut(operation) {
            Some(counts) => counts.count(code),
            None => operations.entry(operation.to_owned()).or_default().count(code),
        }
    }

    /// Returns how often each code was returned, by code.
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Returns how often each operation failed with each code that its contract does not list.
    pub(super) fn of_operations(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let operations = self.of_operations.lock().unwrap_or_else(PoisonError::into_inner);
        operations.iter().map(|(name, counts)| (name.clone(), counts.0.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(declared: &[&str], returned: &[&str]) -> Vec<(String, u64)> {
        let error_codes = declared.iter().map(|code| (*code).to_owned()).collect();
        let manifest = ManifestView { error_codes, ..ManifestView::default() };
        let codes = UndeclaredCodes::new(Some(&manifest));
        for code in returned {
            codes.count(&AdapterError::operational(*code, "failed"));
        }
        codes.counts().into_iter().collect()
    }

    #[test]
    fn declared_codes_and_those_of_the_boundary_do_not_count() {
        let returned = ["TIMEOUT", "BUG_ERROR", "ADAPTER_PANICKED", "SOLD_OUT", "SOLD_OUT"];
        assert_eq!(counted(&["TIMEOUT"], &returned), [("SOLD_OUT".to_owned(), 2)]);
        let nothing_declared = [("SOLD_OUT".to_owned(), 2), ("TIMEOUT".to_owned(), 1)];
        assert_eq!(counted(&[], &returned), nothing_declared);
    }

    #[test]
    fn hostile_codes_take_bounded_room() {
        let codes = UndeclaredCodes::default();
        for number in 0..10_000 {
            codes.count(&AdapterError::operational(format!("CODE_{number}"), "failed"));
            codes.count(&AdapterError::operational("\u{1b}".repeat(10_000), "failed"));
        }
        let counts = codes.counts();
        assert_eq!(counts.len(), MAX_CODES + 1);
        assert_eq!(counts.values().sum::<u64>(), 20_000);
        assert_eq!((counts["CODE_0"], counts[MALFORMED]), (1, 10_000));
        assert_eq!(counts[OTHER], 10_000 - (MAX_CODES as u64 - 1));
        assert!(counts.keys().all(|name| name.len() <= 64));
    }

    #[test]
    fn failures_are_counted_by_operation_and_code() {
        let codes = UndeclaredCodes::default();
        assert!(codes.count_failure("search", "SOLD_OUT"));
        assert!(!codes.count_failure("search", "SOLD_OUT"));
        assert!(codes.count_failure("upsert", "SOLD_OUT"));
        assert!(!codes.count_failure("search", "BUG_ERROR"));
        let counts = codes.of_operations();
        assert_eq!((counts["search"]["SOLD_OUT"], counts["upsert"]["SOLD_OUT"]), (2, 1));
        assert_eq!(counts["search"].len(), 1);
        assert!(codes.counts().is_empty());
    }
}
