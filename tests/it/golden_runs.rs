//! The Python router's runs: its bundles imported, its databases read in place and taken over, with what it
//! said of them itself. Every difference is listed with its reason, and one that is gone must go from the list.

mod bundles;
mod damage;
mod sequences;
mod stores;

use std::path::{Path, PathBuf};

use nexus_router::bundle::{self, Check, ImportOptions, Imported, Provenance, Replays, Source};
use nexus_router::clock::Timestamp;
use nexus_router::json::{Limits, Object, Value, parse};
use nexus_router::replay::{Strictness, replay};
use nexus_router::store::Store;

use crate::support::workspace;

/// The time at which the tests import and export.
const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn golden(name: &str) -> PathBuf {
    workspace().join("tests/golden/nexus").join(name)
}

fn read(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text, Limits::BUNDLE).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    member(value, name).as_str().unwrap_or_else(|| panic!("{name} is no text"))
}

fn member<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or_else(|| panic!("there is no {name}"))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    member(value, name).as_array().unwrap_or_else(|| panic!("{name} is no list"))
}

/// Returns an answer without what ours has besides the peer's.
fn without(answer: Value, additions: &[&str]) -> Value {
    let mut answer = answer.into_object().unwrap();
    for addition in additions {
        answer.remove(addition);
    }
    answer.into()
}

/// Returns what importing a bundle gives, in the form of the peer.
fn import(store: &Store, bundle: &[u8], options: &ImportOptions) -> Value {
    answer(bundle::import(store, bundle, options))
}

/// Returns what importing a bundle that was parsed gives, in the form of the peer.
fn import_parsed(store: &Store, bundle: &Value, options: &ImportOptions) -> Value {
    answer(bundle::import_value(store, bundle, options))
}

fn answer(imported: Result<Imported, bundle::Error>) -> Value {
    let answer = match imported {
        Ok(imported) => imported.to_json(),
        Err(error) => error.to_json(),
    };
    without(answer, &["warnings"])
}

/// Returns what strict replay of a stored run gives, in the form of the peer.
fn replayed(store: &Store, run_id: &str) -> Value {
    let log = store.log(run_id).unwrap().unwrap_or_else(|| panic!("there is no run {run_id}"));
    without(replay(&log).to_json(Strictness::Strict), &["warnings"])
}

/// Returns the digest of a stored run's bundle, or the code of the error.
fn export_digest(store: &Store, run_id: &str) -> Value {
    let log = store.log(run_id).unwrap().unwrap_or_else(|| panic!("there is no run {run_id}"));
    match bundle::export(&log, &Source::of(store), Provenance::Omit, NOW) {
        Ok(exported) => exported.digest.to_string().into(),
        Err(error) => error.code().into(),
    }
}

/// The three ways in which the peer's imports were recorded.
fn ways() -> [(&'static str, ImportOptions); 3] {
    let usual = ImportOptions::new(NOW);
    [
        ("import_default", usual.clone()),
        ("import_no_verify", ImportOptions { check: Check::Skip, ..usual.clone() }),
        ("import_no_replay", ImportOptions { replays: Replays::Never, ..usual }),
    ]
}

/// A case, the aspects in which it differs, and the reason.
type Exception = (&'static str, &'static [&'static str], &'static str);

/// Compares the differences that were found with those that are meant.
fn settle(exceptions: &[Exception], found: &[(String, &'static str, String)]) {
    for (case, aspect, difference) in found {
        let meant =
            exceptions.iter().any(|(other, aspects, _)| other == case && aspects.contains(aspect));
        assert!(meant, "{case}, {aspect}: {difference}");
    }
    for (case, aspects, reason) in exceptions {
        assert!(!reason.is_empty(), "{case}");
        for aspect in *aspects {
            let needed =
                found.iter().any(|(other, differing, _)| other == case && differing == aspect);
            assert!(needed, "{case} no longer differs in {aspect}");
        }
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Object>().into()
}
