//! Adapters whose checks fail are refused, unless the operator says that checks are not required.

use nexus_router::loader::{Placement, Reason};
use serde_json::json;

use super::TrialWorld;
use crate::mimic::Mimic;

/// A library that loads and fails a check, by the check.
fn failing() -> Vec<(&'static str, Mimic)> {
    let good = || Mimic::of_kind("mimic");
    vec![
        ("MANIFEST_KIND_MATCH", good().manifest("kind", "other")),
        ("MANIFEST_CAPS_MATCH", good().manifest("capabilities", json!([]))),
        ("MANIFEST_FIELDS_KNOWN", good().manifest("vendor", "x")),
        ("NO_SIDE_EFFECTS", good().script("leave_thread", true)),
        (
            "INSTANCES_INDEPENDENT",
            good().description(
                r#"{"adapter_id":"mimic-{n}","adapter_kind":"mimic","capabilities":["apply"]}"#,
            ),
        ),
    ]
}

#[test]
fn failed_checks_refuse_an_adapter_by_name() {
    for (id, mimic) in failing() {
        let trial = TrialWorld::new(&mimic);
        assert_eq!(trial.validate(&[]).code(), 1, "{id}");
        for placement in [Placement::inline(), Placement::worker()] {
            let error = trial.load(placement).unwrap_err();
            assert_eq!(error.reason(), Reason::ChecksFailed, "{id}: {error}");
            assert_eq!(error.details()["cause"], id, "{error}");
            assert_eq!(error.details()["cause_type"], "checks");
            assert!(error.to_string().contains(id), "{error}");
        }
    }
}

#[test]
fn adapters_load_where_checks_are_not_required() {
    for (id, mimic) in failing() {
        let trial = TrialWorld::new(&mimic);
        for placement in [Placement::inline(), Placement::worker()] {
            let lax = Placement { require_valid: false, ..placement.clone() };
            trial.load(lax).unwrap_or_else(|error| panic!("{id}: {error}"));
            // Such a load does not prove its checks.
            assert_eq!(trial.load(placement).unwrap_err().reason(), Reason::ChecksFailed, "{id}");
        }
    }
}

#[test]
fn daemon_settings_turn_the_refusal_off() {
    let trial = TrialWorld::new(&failing().remove(0).1);
    let library = trial.world.path("libmimic.so");
    let plan = r#"{"goal": "g", "mode": "apply", "policy": {"allow_apply": true}, "dispatch": {"adapter_id": "mimic"}, "plan_override": [{"step_id": "s", "intent": "i", "call": {"tool": "t", "method": "m", "args": {}}}]}"#;
    std::fs::write(trial.world.path("plan.json"), plan).unwrap();
    for (required, code) in [(true, 1), (false, 0)] {
        let text = format!(
            "[workers]\nrequire_valid = {required}\n[[adapters]]\nref = \"{}:create_adapter\"\n\
             [adapters.offer]\ntools = [\"*\"]\n",
            library.display()
        );
        let config = trial.world.path("router.toml");
        std::fs::write(&config, text).unwrap();
        let run =
            trial.world.run(&["run", "--config", "router.toml", "--db", "runs.db", "plan.json"]);
        let shown = run.stdout() + &run.stderr();
        assert_eq!(run.code(), code, "{required}: {shown}");
        assert_eq!(shown.contains("MANIFEST_KIND_MATCH"), required, "{shown}");
    }
}
