//! Taking runs from store to store: bundles, copies, and stores of the Python router.

use serde_json::{Value, json};

use super::showing::python_store;
use super::{completed, traces};
use crate::support::{Run, World};

fn export(world: &World, run_id: &str) -> String {
    let run = world.run(&["runs", "export", run_id, "--db", "runs.db", "-o", "bundle.json"]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    std::fs::read_to_string(world.path("bundle.json")).unwrap()
}

fn import(world: &World, arguments: &[&str]) -> Run {
    let base = ["runs", "import", "bundle.json", "--db", "other.db", "--format", "json"];
    world.run(&[&base[..], arguments].concat())
}

#[test]
fn bundle_goes_to_another_store_and_comes_back_the_same() {
    let world = World::new();
    let id = completed(&world);
    let text = export(&world, &id);
    assert_eq!(world.run(&["runs", "export", &id, "--db", "runs.db"]).code(), 0);
    let bundle: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(bundle["bundle_version"], "0.3");
    assert_eq!(bundle["provenance"]["source_db_path"], "runs.db");
    let run = import(&world, &[]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert_eq!(
        run.json(),
        json!({ "status": "ok", "imported_run_id": id, "events_inserted": 13, "replay_ok": true })
    );
    let again = world.run(&["runs", "export", &id, "--db", "other.db", "--format", "json"]).json();
    assert_eq!(again["ok"], true);
    for part in ["run", "events", "digests", "chain"] {
        assert_eq!(again["artifact"][part], bundle[part], "{part}");
    }
    let bare = ["runs", "export", &id, "--db", "runs.db", "--no-provenance", "--format", "json"];
    assert_eq!(world.run(&bare).json()["artifact"].get("provenance"), None);
}

#[test]
fn runs_that_are_there_are_skipped_renamed_or_replaced() {
    let world = World::new();
    let id = completed(&world);
    export(&world, &id);
    assert_eq!(import(&world, &[]).code(), 0);
    let skipped = import(&world, &[]);
    assert_eq!((skipped.code(), &skipped.json()["status"]), (1, &json!("skipped")));
    assert_eq!(skipped.json()["conflict"]["existing_run_id"], id.as_str());
    let renamed = import(&world, &["--mode", "new-id", "--new-run-id", "mine"]);
    assert_eq!((renamed.code(), &renamed.json()["imported_run_id"]), (0, &json!("mine")));
    let replaced = import(&world, &["--mode", "overwrite"]);
    assert_eq!((replaced.code(), &replaced.json()["status"]), (0, &json!("ok")));
    let run = import(&world, &["--new-run-id", "mine"]);
    assert_eq!(run.code(), 2);
    assert!(run.stderr().contains("--mode new-id"), "{}", run.stderr());
    let checked = world.run(&["store", "check", "--db", "other.db"]);
    assert_eq!(
        (checked.code(), checked.stdout().as_str()),
        (0, "ok: 2 runs, 26 events, 0 findings\n")
    );
}

#[test]
fn changed_bundles_are_refused_and_make_no_store() {
    let world = World::new();
    let text = {
        let source = World::new();
        export(&source, &completed(&source))
    };
    for (changed, code) in [
        (text.replace("Ada", "Eve"), "DIGEST_MISMATCH"),
        (text.replace("\"events\":", "\"evnts\":"), "INVALID_BUNDLE"),
        (text[..text.len() / 2].to_owned(), "INVALID_BUNDLE"),
        ("{}".to_owned(), "INVALID_BUNDLE"),
        ("[1".to_owned(), "INVALID_BUNDLE"),
    ] {
        std::fs::write(world.path("bundle.json"), changed).unwrap();
        let run = import(&world, &[]);
        assert_eq!(run.code(), 1, "{}", run.stderr());
        assert_eq!(run.json()["status"], "error");
        assert_eq!(run.json()["error"]["code"], code);
        let human = world.run(&["runs", "import", "bundle.json", "--db", "other.db"]);
        assert_eq!((human.code(), human.stdout().as_str()), (1, ""));
        assert!(human.stderr().starts_with(&format!("error[{code}]: ")), "{}", human.stderr());
        assert_eq!(traces(&world), [] as [std::path::PathBuf; 0]);
    }
    std::fs::write(world.path("bundle.json"), text.replace("Ada", "Eve")).unwrap();
    // Nobody looks at the digest, and the chain and the provenance still tell.
    let strict = import(&world, &["--no-verify", "--strict"]);
    assert_eq!(strict.code(), 1, "{}", strict.stdout());
    assert_eq!(strict.json()["error"]["code"], "REPLAY_FAILED");
    assert_eq!(import(&world, &["--no-verify", "--no-replay"]).code(), 0);
    assert_eq!(world.run(&["runs", "import", "nowhere.json", "--db", "other.db"]).code(), 2);
}

#[test]
fn copies_are_made_and_put_back() {
    let world = World::new();
    let id = completed(&world);
    let store = |arguments: &[&str]| {
        world.run(&[&["store"], arguments, &["--db", "runs.db", "--format", "json"]].concat())
    };
    let backup = store(&["backup", "copy.db"]);
    assert_eq!((backup.code(), &backup.json()["backup"]), (0, &json!("copy.db")));
    let again = store(&["backup", "copy.db"]);
    assert_eq!(again.code(), 2);
    assert!(again.stderr().contains("exists already"), "{}", again.stderr());
    let later = completed(&world);
    let restored = store(&["restore", "copy.db"]);
    assert_eq!(restored.code(), 0, "{}", restored.stderr());
    let kept = restored.json()["kept"].as_str().unwrap().to_owned();
    let show = |run_id: &str, db: &str| world.run(&["runs", "show", run_id, "--db", db]).code();
    assert_eq!((show(&id, "runs.db"), show(&later, "runs.db")), (0, 1));
    assert_eq!(show(&later, &kept), 0);
    assert_eq!(store(&["check"]).json()["ok"], true);
}

#[test]
fn python_store_is_taken_over_with_a_backup() {
    let world = World::new();
    python_store(&world.path("python.db"));
    let before = std::fs::read(world.path("python.db")).unwrap();
    let taken = world.run(&["store", "take-over", "--db", "python.db", "--format", "json"]);
    assert_eq!(taken.code(), 0, "{}", taken.stderr());
    let backup = taken.json()["backup"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::read(world.path(&backup)).unwrap().len(), before.len());
    // It is ours now, and the run that was left can be recovered.
    let recovered = world.run(&["runs", "recover", "--db", "python.db", "--format", "json"]);
    assert_eq!(recovered.code(), 0, "{}\n{}", recovered.stdout(), recovered.stderr());
    assert_eq!(recovered.json()["recovered"][0]["run_id"], "r-1");
    assert_eq!(recovered.json()["recovered"][0]["status"], "FAILED");
    let again = world.run(&["store", "take-over", "--db", "python.db"]);
    assert_eq!(again.code(), 2, "{}", again.stdout());
}
