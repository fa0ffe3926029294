//! Proofs that are made: what they say, that they are the same everywhere, and what becomes of those that are not finished.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::{ARTIFACT, Copy, FIRST, PROGRAM, artifact, command, proof, weeks};
use crate::daemon::support::until;
use crate::support::Run;

#[test]
fn a_proof_executes_every_class_of_both_roles_and_every_probe() {
    let run = proof(&weeks().join("proof"), &["verify"]);
    assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    let lines: Vec<String> = run.stdout().lines().map(str::to_owned).collect();
    assert_eq!((lines.len(), lines[1].as_str()), (2, "OK:weekly_proof_verified"));
    let artifact = artifact(&run);
    assert_eq!(artifact["schema_version"], "agentos-weekly-proof/v1");
    assert_eq!(artifact["roles"], json!(["envoy", "scout"]));
    let mut classes = BTreeSet::new();
    for role in ["envoy", "scout"] {
        let result = &artifact["results"][role];
        assert_eq!((&result["ok"], &result["skipped"]), (&json!(true), &json!(false)), "{result}");
        assert_eq!((&result["adapter_role"], &result["exit_code"]), (&json!(role), &json!(0)));
        for row in result["executions"].as_array().unwrap() {
            assert_eq!(row["evaluation_spec_sha256"], row["spec_sha256"], "{row}");
            assert_eq!(row["evaluation_manifest_sha256"], row["manifest_sha256"], "{row}");
            assert_eq!((&row["ok"], &row["outcome"]), (&json!(true), &json!("SUCCEEDED")), "{row}");
            classes.insert(row["action_class"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(classes.len(), 12, "{classes:?}");
    let probes = artifact["probes"].as_array().unwrap();
    let names: BTreeSet<&str> = probes.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let needed = [
        "forbidden_action",
        "forbidden_key",
        "missing_key",
        "network_attempt",
        "write_outside_scope",
        "wrong_role",
    ];
    assert!(needed.iter().all(|name| names.contains(name)), "{names:?}");
    assert!(probes.iter().all(|probe| probe["ok"] == true), "{probes:?}");
    let writes = probes.iter().find(|probe| probe["name"] == "write_outside_scope").unwrap();
    assert_eq!(writes["attempts"], 6, "{writes}");
    // The file is what is printed, and nothing in it is a path of this machine.
    let file = std::fs::read_to_string(weeks().join("proof").join(ARTIFACT)).unwrap();
    assert_eq!(file, format!("{}\n", lines[0]));
    assert!(!file.contains(weeks().to_str().unwrap()));
}

#[test]
fn proofs_say_the_same_on_every_machine_apart_from_what_the_log_adds() {
    let root = weeks().join("proof");
    let [first, second] =
        ["run-0001", "run-0002"].map(|run| artifact(&proof(&root, &["verify", "--run", run])));
    let of_log = ["checkpoint_root", "prev_tree_size", "run_id", "store_root", "tree_size"];
    let rest = |artifact: &Value| {
        let mut rest = artifact.as_object().unwrap().clone();
        rest.retain(|name, _| !of_log.contains(&name.as_str()));
        rest
    };
    assert_eq!(rest(&first), rest(&second));
    for name in of_log {
        assert_ne!(first[name], second[name], "{name}");
    }
    assert_eq!(second["prev_tree_size"], first["tree_size"].as_u64().unwrap() + 1);
    // Another directory, other keys, another workspace, and another model behind a role.
    let elsewhere = tempfile::tempdir().unwrap();
    let run = proof(
        &elsewhere.path().join("a/longer/name"),
        &["run", "--assign", "scout=provider/model-2"],
    );
    assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    let other = artifact(&run);
    for (name, value) in rest(&first) {
        let assigned = ["role_assignments", "role_assignments_sha256", "content_sha256"];
        assert_eq!(other[&name] != value, assigned.contains(&name.as_str()), "{name}: {value}");
    }
    assert_eq!(other["role_assignments"], json!({ "envoy": null, "scout": "provider/model-2" }));
}

#[test]
fn what_assigns_nothing_is_refused() {
    let place = tempfile::tempdir().unwrap();
    for (wrong, told) in
        [("recon=x", "no role"), ("scout", "assigns nothing"), ("scout=a b", "without spaces")]
    {
        let run = proof(&place.path().join("proof"), &["run", "--assign", wrong]);
        assert_eq!(run.code(), 2);
        assert!(run.stderr().contains(told), "{}", run.stderr());
    }
    assert!(!place.path().join("proof").exists());
}

#[test]
fn the_attestation_says_which_tests_passed() {
    use base64::Engine as _;
    let copy = Copy::new();
    let line = std::fs::read_to_string(copy.path(FIRST).join("attestation.intoto.jsonl")).unwrap();
    let envelope: Value = serde_json::from_str(&line).unwrap();
    let payload = base64::engine::general_purpose::STANDARD
        .decode(envelope["payload"].as_str().unwrap())
        .unwrap();
    let statement: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(statement["predicateType"], "https://in-toto.io/attestation/test-result/v0.1");
    let predicate = &statement["predicate"];
    assert_eq!((&predicate["result"], &predicate["failedTests"]), (&json!("PASSED"), &json!([])));
    assert!(predicate["passedTests"].as_array().unwrap().contains(&json!("probe/network_attempt")));
    assert_eq!(predicate["configuration"][0]["name"], "role/contract.json");
}

#[test]
fn a_scout_that_is_not_there_is_skipped_and_that_is_never_good() {
    let place = tempfile::tempdir().unwrap();
    // A program without libraries beside it.
    let program = place.path().join("nexus-router");
    crate::support::copy_program(&program);
    let root = place.path().join("proof");
    let run = Run(command(&program, &root, &["run"]).output().unwrap());
    assert_eq!(run.code(), 3, "{}{}", run.stdout(), run.stderr());
    assert!(run.stdout().ends_with("\nFAIL:skipped:scout\n"), "{}", run.stdout());
    assert_eq!(artifact(&run)["results"]["scout"], json!({ "ok": false, "skipped": true }));
    let run = Run(command(&program, &root, &["verify", "--scout", "optional"]).output().unwrap());
    assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    assert!(run.stdout().ends_with("\nOK:weekly_proof_verified skipped=scout\n"));
}

#[test]
fn a_proof_whose_process_was_killed_leaves_the_next_one_clean() {
    let copy = Copy::new();
    let unfinished = copy.path("store/weekly_proof/role_contract/.unfinished-run-0003");
    let mut run = command(PROGRAM, &copy.root(), &["run"])
        .env("NEXUS_ROUTER_ADAPTER_PATH", crate::support::built_directory())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until("some evidence", || {
        unfinished.join("evidence/weekly-envoy/step-2").exists().then_some(())
    });
    // Nobody else makes a proof there meanwhile.
    let second = proof(&copy.root(), &["run"]);
    assert_eq!(second.code(), 2);
    assert!(second.stderr().contains("another process"), "{}", second.stderr());
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(copy.verdict(&[]), (0, "OK:weekly_proof_verified".to_owned()));
    let run = proof(&copy.root(), &["run"]);
    assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    assert_eq!(artifact(&run)["run_id"], "run-0003");
    assert!(!Path::new(&unfinished).exists());
    for run in ["run-0001", "run-0002", "run-0003"] {
        assert_eq!(copy.verdict(&["--run", run]), (0, "OK:weekly_proof_verified".to_owned()));
    }
}
