//! Refusals are remembered, for this library, configuration and placement, until they are forgotten.

use std::path::PathBuf;

use nexus_router::Loader;
use nexus_router::grant::Grants;
use nexus_router::loader::{DryRun, Placement, Reason};
use serde_json::json;

use super::{MIMIC, TrialWorld, load, request};
use crate::mimic::Mimic;
use crate::support::PROGRAM;

/// A program for children that counts how often it is started.
fn counting_helper(trial: &TrialWorld) -> (PathBuf, impl Fn() -> usize) {
    use std::os::unix::fs::PermissionsExt as _;
    let (helper, count) = (trial.world.path("helper"), trial.world.path("count"));
    // Another process writes it: what this one has open for writing could not be started.
    let script = format!("#!/bin/sh\necho >> {}\nexec {PROGRAM} \"$@\"\n", count.display());
    std::fs::write(trial.world.path("helper.text"), script).unwrap();
    let copied =
        std::process::Command::new("cp").arg(trial.world.path("helper.text")).arg(&helper).status();
    assert!(copied.unwrap().success());
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let counted = move || std::fs::read_to_string(&count).map_or(0, |text| text.lines().count());
    (helper, counted)
}

fn crashing() -> Mimic {
    Mimic::of_kind("mimic").script("abort_when_opened", true)
}

fn hanging_loader(trial: &TrialWorld, helper: PathBuf) -> Loader {
    let placement =
        Placement { start_timeout: std::time::Duration::from_secs(5), ..Placement::worker() };
    Loader { dry_run: DryRun::Helper(helper), ..trial.loader(placement) }
}

#[test]
fn refusal_is_remembered_and_forgotten() {
    for (mimic, reason) in [
        (crashing(), Reason::LibraryCrashed),
        (Mimic::of_kind("mimic").manifest("kind", "other"), Reason::ChecksFailed),
    ] {
        for placement in [Placement::inline(), Placement::worker()] {
            let trial = TrialWorld::new(&mimic);
            let (helper, count) = counting_helper(&trial);
            let loader = Loader { dry_run: DryRun::Helper(helper), ..trial.loader(placement) };
            let first = load(&loader).unwrap_err();
            assert_eq!((first.reason(), first.refused_since()), (reason, None), "{first}");
            assert_eq!(count(), 1);
            let second = load(&loader).unwrap_err();
            assert_eq!(second.reason(), reason);
            assert_eq!(count(), 1, "a child was started for what is remembered");
            let since = second.refused_since().expect("it says since when").to_string();
            assert!(second.to_string().contains(&first.to_string()), "{second}");
            assert!(second.to_string().contains(&since), "{second}");
            assert_eq!(second.details()["refused_since"], since);
            assert!(second.hint().contains("adapter retry"), "{}", second.hint());
            assert_eq!(second.details()["cause"], first.details()["cause"]);

            assert!(loader.forget_refusal(&request(&json!({}))).unwrap());
            assert!(!loader.forget_refusal(&request(&json!({}))).unwrap());
            assert_eq!(load(&loader).unwrap_err().refused_since(), None);
            assert_eq!(count(), 2);
        }
    }
}

#[test]
fn whatever_differs_is_tried_again() {
    let trial = TrialWorld::new(&crashing());
    let (helper, count) = counting_helper(&trial);
    let loader = Loader { dry_run: DryRun::Helper(helper), ..trial.loader(Placement::worker()) };
    load(&loader).unwrap_err();
    assert_eq!(count(), 1);
    // Another configuration.
    let config = json!({"k": 1});
    let other = Loader { ..loader.clone() }.load(&request(&config)).unwrap_err();
    assert_eq!(other.refused_since(), None);
    assert_eq!(count(), 2);
    // Another id.
    let named = nexus_router::LoadRequest { adapter_id: Some("b"), ..request(&config) };
    assert_eq!(loader.load(&named).unwrap_err().refused_since(), None);
    assert_eq!(count(), 3);
    // Other bytes.
    trial.write(&crashing().record("package", "another"));
    assert_eq!(load(&loader).unwrap_err().refused_since(), None);
    assert_eq!(count(), 4);
    trial.write(&Mimic::of_kind("mimic"));
    load(&loader).unwrap();
}

#[test]
fn other_grants_are_tried_again() {
    let capabilities = json!(["apply", "external"]);
    let trial = TrialWorld::new(&Mimic::new(
        &json!({"adapter_id": "mimic", "adapter_kind": "mimic", "capabilities": capabilities}),
        &json!({"schema_version": 1, "kind": "other", "capabilities": capabilities}),
    ));
    let (helper, count) = counting_helper(&trial);
    let with = |read: &[&str]| {
        let read = read.iter().map(PathBuf::from).collect();
        let grants = Grants { read, ..Grants::default() };
        let placement = Placement { grants, ..Placement::worker() };
        let loader = trial.loader(placement);
        Loader { dry_run: DryRun::Helper(helper.clone()), ..loader }
    };
    load(&with(&[])).unwrap_err();
    let error = load(&with(&["/usr/share"])).unwrap_err();
    assert_eq!((error.reason(), error.refused_since()), (Reason::ChecksFailed, None));
    assert_eq!(count(), 2);
    assert!(load(&with(&["/usr/share"])).unwrap_err().refused_since().is_some());
    assert!(load(&with(&[])).unwrap_err().refused_since().is_some());
    assert_eq!(count(), 2);
}

#[test]
fn orderly_errors_are_not_remembered() {
    let trial = TrialWorld::new(&Mimic::of_kind("mimic").script("factory_error", "not now"));
    let (helper, count) = counting_helper(&trial);
    let loader = Loader { dry_run: DryRun::Helper(helper), ..trial.loader(Placement::worker()) };
    for tries in 1..=2 {
        let error = load(&loader).unwrap_err();
        assert_eq!((error.reason(), error.refused_since()), (Reason::FactoryFailed, None));
        assert_eq!(count(), tries);
    }
    assert!(!loader.forget_refusal(&request(&json!({}))).unwrap());
    std::fs::remove_file(trial.world.path("libmimic.so")).unwrap();
    assert!(!loader.forget_refusal(&request(&json!({}))).unwrap());
}

#[test]
fn children_that_others_kill_are_not_held_against_a_library() {
    let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
    let (helper, _) = counting_helper(&trial);
    // It kills itself as somebody else would: before the library is opened, and by a signal of others.
    std::fs::remove_file(&helper).unwrap();
    let text = "#!/bin/sh\nkill -9 $$\n";
    std::fs::write(trial.world.path("helper.text"), text).unwrap();
    let copied =
        std::process::Command::new("cp").arg(trial.world.path("helper.text")).arg(&helper).status();
    assert!(copied.unwrap().success());
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&helper, executable).unwrap();
    let loader = Loader { dry_run: DryRun::Helper(helper), ..trial.loader(Placement::worker()) };
    for _ in 0..2 {
        let error = load(&loader).unwrap_err();
        assert_eq!((error.reason(), error.refused_since()), (Reason::DryRunUnavailable, None));
    }
}

#[test]
fn library_that_hangs_is_not_waited_for_twice() {
    let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
    let (helper, count) = counting_helper(&trial);
    let library = crate::support::built_library("bad_adapters");
    std::fs::copy(library, trial.world.path("libmimic.so")).unwrap();
    let loader = hanging_loader(&trial, helper);
    let config = json!({});
    let factory_ref = MIMIC.replace("create_adapter", "factory_hangs");
    let request = nexus_router::LoadRequest { factory_ref: &factory_ref, ..request(&config) };
    let first = loader.load(&request).unwrap_err();
    assert_eq!((first.reason(), count()), (Reason::LibraryTimedOut, 1), "{first}");
    let second = loader.load(&request).unwrap_err();
    assert_eq!(second.reason(), Reason::LibraryTimedOut);
    // A machine that was too busy to run the library has not shown that it hangs.
    assert_eq!(count(), if second.refused_since().is_some() { 1 } else { 2 });
}

#[test]
fn damaged_memory_is_no_verdict() {
    let trial = TrialWorld::new(&crashing());
    let (helper, count) = counting_helper(&trial);
    let loader = Loader { dry_run: DryRun::Helper(helper), ..trial.loader(Placement::worker()) };
    load(&loader).unwrap_err();
    let verdicts = std::fs::read_dir(trial.world.path("cache/verdicts")).unwrap();
    for verdict in verdicts {
        let path = verdict.unwrap().path();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "{\"refused\": {\"reason\": \"LIBRARY_CR").unwrap();
    }
    assert_eq!(load(&loader).unwrap_err().refused_since(), None);
    assert_eq!(count(), 2);
}

#[test]
fn gate_that_accepts_a_library_ends_its_refusal() {
    let verdicts = |trial: &TrialWorld| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(trial.world.path("cache/verdicts")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let refused = TrialWorld::new(&Mimic::of_kind("mimic").manifest("kind", "other"));
    refused.load(Placement::worker()).unwrap_err();
    let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
    trial.load(Placement::worker()).unwrap();
    // As if it had been refused when its surroundings were others.
    let (from, to) = (verdicts(&refused).remove(0), verdicts(&trial).remove(0));
    std::fs::remove_file(&to).unwrap();
    std::fs::copy(from, to).unwrap();
    assert!(trial.load(Placement::worker()).unwrap_err().refused_since().is_some());
    assert_eq!(trial.validate(&[]).code(), 0);
    trial.load(Placement::worker()).unwrap();
}

#[test]
fn memory_holds_neither_configuration_nor_output() {
    let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
    let library = crate::support::built_library("bad_adapters");
    std::fs::copy(library, trial.world.path("libmimic.so")).unwrap();
    let loader = trial.loader(Placement::inline());
    let config = json!({"plain": "corpus-not-marked-value"});
    for function in ["factory_panics_unguarded", "effect_output"] {
        let factory_ref = MIMIC.replace("create_adapter", function);
        let request = nexus_router::LoadRequest { factory_ref: &factory_ref, ..request(&config) };
        loader.load(&request).unwrap_err();
        assert!(loader.load(&request).unwrap_err().refused_since().is_some(), "{function}");
    }
    for verdict in std::fs::read_dir(trial.world.path("cache/verdicts")).unwrap() {
        let text = std::fs::read_to_string(verdict.unwrap().path()).unwrap();
        assert!(text.contains("refused"), "{text}");
        for secret in ["corpus-not-marked-value", "nothing holds this", "hello from the factory"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }
}
