//! The confinement of the child, proven by a library that tries to get out of it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use nexus_router::Call;
use nexus_router::check::validate;
use nexus_router::loader::{DryRun, LoadRequest};
use nexus_router::{Loader, Strictness};
use nexus_router_sdk::Object;
use serde_json::{Value, json};

use super::Corpus;
use super::factories::factory_ref;

/// The factory that makes the attempts.
pub const FUNCTION: &str = "escapes";

fn place(corpus: &Corpus) -> std::path::PathBuf {
    let directory = corpus.world.path("attempts");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("victim"), "untouched").unwrap();
    fs::set_permissions(directory.join("victim"), fs::Permissions::from_mode(0o600)).unwrap();
    directory
}

/// Fails on a kernel that has nothing to confine with: a proof that did not happen is not a proof. A kernel
/// whose Landlock is older is made up for by the denied system calls.
fn assert_confinable(loader: &Loader) {
    let (factory_ref, config) = ("good:create_adapter", json!({}));
    let request = LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None };
    let validation = validate(loader, &request, Strictness::Strict).unwrap();
    let state = validation.checks.iter().find(|check| check.id == "TRIED_CONFINED").unwrap();
    assert!(
        !state.message.contains("none"),
        "this kernel cannot confine ({}): run the tests where Landlock and seccomp are on",
        state.message
    );
}

fn state(directory: &Path) -> Value {
    let victim = fs::metadata(directory.join("victim")).unwrap();
    let names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    json!({
        "names": names,
        "contents": fs::read_to_string(directory.join("victim")).unwrap(),
        "mode": victim.mode(),
        "modified": victim.mtime(),
    })
}

#[test]
fn nothing_gets_out_of_the_confinement() {
    let corpus = Corpus::new();
    assert_confinable(&corpus.loader);
    let directory = place(&corpus);
    let before = state(&directory);
    let (factory_ref, config) = (factory_ref(FUNCTION), json!({ "directory": directory }));
    let request =
        LoadRequest { factory_ref: &factory_ref, adapter_id: None, config: &config, pin: None };
    let trial = corpus.loader.try_call(&request, &Call::new("t", "m", &Object::new())).unwrap();
    let outcomes = trial.answer.unwrap();
    assert!(outcomes.len() > 20, "{outcomes:?}");
    let out: Vec<_> = outcomes
        .iter()
        .filter(|(_, outcome)| !["EPERM", "EACCES", "ENOSYS"].contains(&outcome.as_str().unwrap()))
        .collect();
    assert!(out.is_empty(), "not denied: {out:?}");
    assert_eq!(state(&directory), before);
    corpus.assert_host_goes_on(FUNCTION);
}

/// Without this, the test above could pass because the attempts fail by themselves.
#[test]
fn attempts_succeed_without_the_confinement() {
    let corpus = Corpus::new();
    let directory = place(&corpus);
    let config = json!({ "directory": directory, "harmless_only": true });
    let factory_ref = factory_ref(FUNCTION);
    let request =
        LoadRequest { factory_ref: &factory_ref, adapter_id: None, config: &config, pin: None };
    let unconfined = Loader { dry_run: DryRun::Off, ..corpus.loader };
    let adapter = unconfined.load(&request).unwrap();
    let outcomes = adapter.call(&Call::new("t", "m", &Object::new())).unwrap();
    let failed: Vec<_> = outcomes
        .iter()
        .filter(|(_, outcome)| !["succeeded", "ENOSYS"].contains(&outcome.as_str().unwrap()))
        .filter(|(attempt, _)| !(attempt.ends_with("_parent") && parent_is_another_users()))
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Says whether this process could not touch its parent anyway.
fn parent_is_another_users() -> bool {
    let parent = format!("/proc/{}", std::os::unix::process::parent_id());
    let own = rustix::process::geteuid().as_raw();
    fs::metadata(parent).map_or(true, |parent| parent.uid() != own)
}
