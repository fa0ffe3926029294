//! Runs whose evaluations are exported as proof bundles: what verifies, for how long, and what does not.

use std::fs;

use nexus_router::json::{Limits, Value as Json, parse, to_pretty};
use nexus_router::signal::bundle;
use serde_json::json;

use super::runs::{gate, plan, run};
use super::{green, line, write};
use crate::run_cli::run_id;
use crate::support::World;

/// Makes a judged run, and exports it.
fn export(world: &World, out: &str) {
    let run_id = run_id(&run(world, &plan(&[green(), green()])).json());
    let words = format!(
        "contract bundle export {run_id} --db runs.db --key log.pem --log-dir log --out {out}"
    );
    let exported = line(world, &words);
    assert_eq!(exported.code(), 0, "{}", exported.stderr());
}

fn prepared() -> World {
    let world = gate();
    let made = line(&world, "contract keygen log.pem --document key.json --publisher-id acme.log");
    assert_eq!(made.code(), 0, "{}", made.stderr());
    world
}

/// Writes a bundle that was changed, with its hash computed anew.
fn write_rehashed(world: &World, bundle: &serde_json::Value) {
    let whole = parse(bundle.to_string().as_bytes(), Limits::REQUEST).unwrap();
    let mut whole = whole.into_object().unwrap();
    let hash = bundle::hash(&Json::Object(whole.clone()));
    whole.insert("bundle_hash", hash);
    write(world.directory.path(), "changed.json", to_pretty(&Json::Object(whole)));
}

const VERIFY: &str = "contract bundle verify --json --strict --public-key key.json";

#[test]
fn what_a_run_was_judged_by_is_proved_to_whoever_has_the_key() {
    let world = prepared();
    export(&world, "one.json");
    export(&world, "two.json");
    // Nothing of the router is needed: no configuration, no registry, no store.
    let elsewhere = World::new();
    for file in ["one.json", "two.json", "key.json"] {
        fs::copy(world.path(file), elsewhere.path(file)).unwrap();
    }
    for words in [format!("{VERIFY} one.json"), format!("{VERIFY} two.json --earlier one.json")] {
        let verified = line(&elsewhere, &words);
        assert_eq!(verified.code(), 0, "{words}: {}", verified.stdout());
        let report = verified.json();
        assert_eq!(report["verified"], true);
        assert_eq!(report["verification_level"], "full");
        assert_eq!(report["proof_count"], 2);
    }
    let input = fs::File::open(elsewhere.path("one.json")).unwrap();
    let words: Vec<&str> = VERIFY.split(' ').chain(["-"]).collect();
    let piped = elsewhere.run_with(&words, |command| command.stdin(input));
    assert_eq!(piped.code(), 0, "{}", piped.stdout());
    let backwards = line(&elsewhere, &format!("{VERIFY} one.json --earlier two.json"));
    assert_eq!(backwards.code(), 1, "{}", backwards.stdout());
}

#[test]
fn a_bundle_without_its_anchor_is_refused_by_whoever_has_the_key() {
    let world = prepared();
    export(&world, "one.json");
    let text = fs::read_to_string(world.path("one.json")).unwrap();
    let mut whole: serde_json::Value = serde_json::from_str(&text).unwrap();
    for member in ["signed_tree_head", "merkle_inclusion", "consistency"] {
        whole.as_object_mut().unwrap().remove(member);
    }
    // The seal goes too, so that nothing says any more who made it.
    whole["events"].as_array_mut().unwrap().pop();
    whole["proofs"][0]["evidence"]["adapter_evaluation"]["normalized_policy_inputs"]["lint_clean"] =
        json!(false);
    write_rehashed(&world, &whole);
    for words in ["--strict", "--public-key key.json", "--strict --public-key key.json"] {
        let refused = line(&world, &format!("contract bundle verify --json {words} changed.json"));
        assert_eq!(refused.code(), 1, "{words}: {}", refused.stdout());
    }
    // Without a key nobody can tell, and the level says so.
    let told = line(&world, "contract bundle verify --json changed.json").json();
    assert_eq!(told["verification_level"], "offline");
}

#[test]
fn a_changed_evaluation_is_found_also_when_the_bundle_is_hashed_again() {
    let world = prepared();
    export(&world, "one.json");
    let text = fs::read_to_string(world.path("one.json")).unwrap();
    let place = "/proofs/1/evidence/adapter_evaluation";
    for (pointer, value) in [
        (format!("{place}/normalized_policy_inputs/lint_clean"), json!(false)),
        (format!("{place}/validation_result"), json!("incomplete")),
        (format!("{place}/lifecycle_warnings"), json!([{ "kind": "revoked" }])),
        (format!("{place}/adapter_contract/status"), json!("revoked")),
        (format!("{place}/evaluated_at"), json!("2020-01-01T00:00:00.000Z")),
    ] {
        let mut whole: serde_json::Value = serde_json::from_str(&text).unwrap();
        match whole.pointer_mut(&pointer) {
            Some(old) => *old = value,
            None => {
                whole.pointer_mut(&format!("{place}/adapter_contract")).unwrap()["status"] = value;
            }
        }
        write_rehashed(&world, &whole);
        let verified = line(&world, &format!("{VERIFY} changed.json"));
        assert_eq!(verified.code(), 1, "{pointer}: {}", verified.stdout());
        assert_eq!(verified.json()["verified"], false, "{pointer}");
    }
}
