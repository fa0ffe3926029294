//! Factories and instances that fail when they are loaded, and those that only the checks find.

use std::collections::BTreeSet;

use nexus_router::check::{Status, validate};
use nexus_router::loader::{LoadRequest, Reason};
use nexus_router::{Loader, Strictness};
use serde_json::{Value, json};

use super::{Corpus, SECRET};
use crate::support::built_library;

/// A case: the factory, the reason, and what the error says.
type Case = (&'static str, Reason, &'static str);

const LOADED: &[Case] = &[
    ("factory_panics", Reason::FactoryPanicked, "the factory gave up"),
    ("factory_panics_with_a_bomb", Reason::FactoryPanicked, "no message"),
    ("factory_panics_unguarded", Reason::LibraryCrashed, "SIGABRT (signal 6) in its factory"),
    ("factory_errs", Reason::FactoryFailed, "is not good"),
    ("factory_is_buggy", Reason::FactoryFailed, "found its own mistake"),
    ("factory_error_is_not_json", Reason::FactoryFailed, "not the error object of the ABI"),
    ("factory_aborts", Reason::LibraryCrashed, "SIGABRT (signal 6) in its factory"),
    ("factory_segfaults", Reason::LibraryCrashed, "SIGSEGV (signal 11) in its factory"),
    ("factory_overflows_the_stack", Reason::LibraryCrashed, "in its factory"),
    ("factory_allocates_without_end", Reason::LibraryCrashed, "in its factory"),
    ("factory_exits_0", Reason::LibraryExited, "exit code 0 in its factory"),
    ("factory_exits_3", Reason::LibraryExited, "exit code 3 in its factory"),
    ("describe_panics", Reason::ProtocolInvalid, "nothing to say"),
    ("describe_panics_with_a_bomb", Reason::ProtocolInvalid, "ADAPTER_PANICKED"),
    ("describe_segfaults", Reason::LibraryCrashed, "while it described itself"),
    ("description_is_not_json", Reason::ProtocolInvalid, "is not JSON"),
    ("description_is_empty", Reason::ProtocolInvalid, "is not JSON"),
    ("description_is_an_array", Reason::ProtocolInvalid, "is not an object"),
    ("description_is_deep", Reason::ProtocolInvalid, "1000000 bytes"),
    ("description_is_large", Reason::ProtocolInvalid, "104857602 bytes"),
    ("kind_is_missing", Reason::ProtocolInvalid, "'adapter_kind' is missing"),
    ("id_is_a_number", Reason::ProtocolInvalid, "'adapter_id' must be"),
    ("id_is_empty", Reason::ProtocolInvalid, "'adapter_id' must be"),
    ("id_has_control_characters", Reason::ProtocolInvalid, "'adapter_id' must be"),
    ("id_is_long", Reason::ProtocolInvalid, "'adapter_id' must be"),
    ("capabilities_missing", Reason::ProtocolInvalid, "'capabilities' is missing"),
    ("capabilities_null", Reason::CapabilitiesInvalid, "an array of strings"),
    ("capabilities_string", Reason::CapabilitiesInvalid, "an array of strings"),
    ("capabilities_mixed", Reason::CapabilitiesInvalid, "only strings"),
    ("capabilities_unknown", Reason::CapabilitiesInvalid, "'fly' is not one of"),
    ("capabilities_twice", Reason::CapabilitiesInvalid, "declared twice"),
    ("drop_segfaults", Reason::LibraryCrashed, "while its instance was dropped"),
    ("drop_panics_unguarded", Reason::LibraryExited, "while its instance was dropped"),
    ("shutdown_panics_unguarded", Reason::LibraryExited, "while its instance was dropped"),
    ("crashes_when_the_process_ends", Reason::LibraryCrashed, "while the process ended"),
    ("manifest_excludes_this_router", Reason::RouterVersionUnsupported, "routers >=0.9,<1.0"),
    ("manifest_version_is_no_specifier", Reason::ManifestInvalid, "is not a specifier"),
    ("manifest_lacks_kind", Reason::ManifestInvalid, "Missing required field: kind"),
    ("manifest_is_an_array", Reason::ManifestInvalid, "must be a dict"),
];

/// Factories that never come back.
const HANGING: &[&str] =
    &["factory_hangs", "factory_prints_without_end", "drop_hangs", "hangs_when_the_process_ends"];

/// Factories whose instances load, and the check that fails.
const FAILED_CHECKS: &[(&str, &str, &str)] = &[
    ("manifest_has_unknown_fields", "MANIFEST_FIELDS_KNOWN", "/vendor"),
    ("manifest_has_wrong_default", "MANIFEST_DEFAULTS_TYPED", "must be number, got string"),
    ("manifest_has_malformed_error_codes", "ERROR_CODES_FORMAT", "time-out; A__B"),
    ("manifest_has_another_kind", "MANIFEST_KIND_MATCH", "'good'"),
    ("manifest_has_other_capabilities", "MANIFEST_CAPS_MATCH", "external"),
    ("effect_thread", "NO_SIDE_EFFECTS", "threads: 2 before, 3 after"),
    ("effect_descriptor", "NO_SIDE_EFFECTS", "open descriptors"),
    ("effect_environment", "NO_SIDE_EFFECTS", "BAD_ADAPTER was set"),
    ("effect_signal", "NO_SIDE_EFFECTS", "signal handling"),
    ("effect_directory", "NO_SIDE_EFFECTS", "working directory"),
    ("effect_output", "NO_SIDE_EFFECTS", "printed"),
    ("shares_state", "INSTANCES_INDEPENDENT", "bad-1"),
    ("works_once", "INSTANCES_INDEPENDENT", "there can be only one"),
];

/// Factories that are good as far as loading goes: the guard of the SDK holds.
const GUARDED: &[&str] = &["drop_panics", "shutdown_panics"];

fn refused(corpus: &Corpus, loader: &Loader, (function, reason, says): Case) {
    let config = json!({ "api_key": SECRET, "nested": { "password": [SECRET] } });
    corpus.assert_refused(loader, &factory_ref(function), &config, reason, says);
}

pub fn factory_ref(function: &str) -> String {
    format!("bad_adapters:{function}")
}

#[test]
fn bad_factories_are_refused() {
    let corpus = Corpus::new();
    for case in LOADED {
        refused(&corpus, &corpus.loader, *case);
    }
}

#[test]
fn factories_that_never_come_back_are_ended() {
    let corpus = Corpus::new();
    let loader = corpus.impatient();
    std::thread::scope(|scope| {
        for function in HANGING {
            let (corpus, loader) = (&corpus, &loader);
            let case = (*function, Reason::LibraryTimedOut, "did not answer within 3s");
            scope.spawn(move || refused(corpus, loader, case));
        }
    });
}

#[test]
fn checks_find_what_loading_lets_pass() {
    let corpus = Corpus::new();
    for (function, id, says) in FAILED_CHECKS {
        let (factory_ref, config) = (factory_ref(function), json!({}));
        let request =
            LoadRequest { factory_ref: &factory_ref, adapter_id: None, config: &config, pin: None };
        let validation = validate(&corpus.loader, &request, Strictness::Strict).unwrap();
        let failed: Vec<_> = validation.with_status(Status::Fail).collect();
        let ids: Vec<&str> = failed.iter().map(|check| check.id).collect();
        assert_eq!(ids, [*id], "{function}: {failed:?}");
        assert!(failed[0].message.contains(says), "{function}: {failed:?}");
        assert!(!failed[0].message.contains("do-not-tell"), "{function}: {failed:?}");
        corpus.assert_host_goes_on(function);
    }
}

#[test]
fn guarded_panics_harm_nobody() {
    let corpus = Corpus::new();
    for function in GUARDED {
        let (factory_ref, config) = (factory_ref(function), json!({}));
        let request =
            LoadRequest { factory_ref: &factory_ref, adapter_id: None, config: &config, pin: None };
        drop(corpus.loader.load(&request).unwrap());
        corpus.assert_host_goes_on(function);
    }
}

#[test]
fn one_library_holds_many_factories_and_each_has_a_case() {
    let records = nexus_router::Loader::factories(&built_library("bad_adapters")).unwrap();
    let exported: BTreeSet<&str> = records.iter().map(|record| record.factory.as_str()).collect();
    let mut tried: BTreeSet<&str> = LOADED.iter().map(|case| case.0).collect();
    tried.extend(HANGING);
    tried.extend(FAILED_CHECKS.iter().map(|case| case.0));
    tried.extend(GUARDED);
    tried.extend(super::calls::functions());
    tried.insert(super::confinement::FUNCTION);
    let untried: Vec<_> = exported.difference(&tried).collect();
    assert!(untried.is_empty(), "no case tries {untried:?}");
    assert_eq!(exported.len(), tried.len(), "a case names a factory that is not there");
}

#[test]
fn factory_gets_the_config_it_was_given_and_no_error_repeats_it() {
    let corpus = Corpus::new();
    let config: Value = json!({ "api_key": SECRET, "adapter_id": SECRET });
    let reason = Reason::FactoryFailed;
    corpus.assert_refused(&corpus.loader, &factory_ref("factory_errs"), &config, reason, "the key");
}
