//! Proofs that were changed: each is refused, for its own reason.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{ARTIFACT, Copy, FIRST, SECOND, copy, weeks};

fn write(path: &Path, text: &str) {
    std::fs::metadata(path).unwrap();
    std::fs::write(path, text).unwrap();
}

fn remove(path: &Path) {
    if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
}

/// Replaces a text in the artifact, in both places.
fn edit(proof: &Copy, from: &str, to: &str) {
    for file in [ARTIFACT.to_owned(), format!("{SECOND}/weekly_proof.json")] {
        let path = proof.path(&file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(path, text.replacen(from, to, 1)).unwrap();
    }
}

/// Returns a member of the artifact.
fn member(proof: &Copy, pointer: &str) -> String {
    let text = std::fs::read_to_string(proof.path(ARTIFACT)).unwrap();
    let artifact: serde_json::Value = serde_json::from_str(&text).unwrap();
    artifact.pointer(pointer).and_then(|value| value.as_str()).unwrap().to_owned()
}

type Change = fn(&Copy);

const CHANGES: &[(&str, Change, &str)] = &[
    (
        "an output is replaced",
        |proof| {
            write(&proof.path(SECOND).join("evidence/weekly-envoy/step-2/stdout.txt"), "tampered");
        },
        "hash_mismatch:execution:evidence/weekly-envoy/step-2:stdout.txt",
    ),
    (
        "an output of the second execution is replaced",
        |proof| {
            write(
                &proof.path(SECOND).join("again/evidence/weekly-scout/step-1/stdout.txt"),
                "tampered",
            );
        },
        "hash_mismatch:execution:again/evidence/weekly-scout/step-1:stdout.txt",
    ),
    (
        "all evidence of the scout is deleted",
        |proof| {
            remove(&proof.path(SECOND).join("evidence/weekly-scout"));
            remove(&proof.path(SECOND).join("again/evidence/weekly-scout"));
        },
        "missing:evidence:evidence/weekly-scout",
    ),
    (
        "one execution is deleted",
        |proof| remove(&proof.path(SECOND).join("evidence/weekly-scout/step-4")),
        "missing_bundle:execution:",
    ),
    (
        "the evidence of a probe is deleted",
        |proof| remove(&proof.path(SECOND).join("evidence/probe-network/step-1")),
        "missing:evidence:evidence/probe-network",
    ),
    (
        "a rejection is deleted",
        |proof| remove(&proof.path(SECOND).join("evidence/probe-forbidden-action/rejections")),
        "missing:evidence:evidence/probe-forbidden-action",
    ),
    (
        "the list of rejections is empty",
        |proof| {
            let list = proof.path(SECOND).join("evidence/probe-shell-grant/rejections");
            remove(&list);
            std::fs::create_dir(&list).unwrap();
        },
        "missing:evidence:evidence/probe-shell-grant",
    ),
    (
        "what was rejected is put where something was executed",
        |proof| {
            let evidence = proof.path(SECOND).join("evidence");
            remove(&evidence.join("probe-path-outside/rejections"));
            let to = evidence.join("probe-path-outside/step-1");
            copy(&evidence.join("probe-network/step-1"), &to);
        },
        "missing:evidence:evidence/probe-path-outside",
    ),
    (
        "a decision is deleted",
        |proof| {
            let spec = member(proof, "/results/envoy/executions/0/spec_sha256");
            remove(&proof.path(SECOND).join("evidence/verify").join(spec));
        },
        "missing_bundle:verification:",
    ),
    (
        "digests are zeros",
        |proof| {
            let digest = member(proof, "/results/scout/executions/0/manifest_sha256");
            edit(proof, &digest, &"0".repeat(64));
        },
        "zero_hash:/results/scout/executions/0/",
    ),
    (
        "a summary is overwritten",
        |proof| {
            let path = proof.path(SECOND).join("evidence/weekly-envoy/step-1/run_summary.json");
            write(&path, r#"{"manifest_sha256":"00"}"#);
        },
        "malformed:execution:evidence/weekly-envoy/step-1:run_summary.json",
    ),
    (
        "the log is that of last week",
        |proof| {
            remove(&proof.path("log"));
            copy(&weeks().join("first"), &proof.path("log"));
        },
        "not_in_log:",
    ),
    (
        "a tile of the log is gone",
        |proof| remove(&proof.path("log/tile/entries")),
        "log_damaged:log",
    ),
    (
        "what failed then is what fails now",
        |proof| {
            let own = proof.path(SECOND).join("evidence/probe-network/step-1");
            remove(&own);
            copy(&proof.path(FIRST).join("evidence/probe-network/step-1"), &own);
        },
        "other_week:evidence/probe-network/step-1",
    ),
    (
        "the roles are others",
        |proof| {
            let digest = member(proof, "/role_table_sha256");
            edit(proof, &digest, &"a".repeat(64));
        },
        "role_table:aaaa",
    ),
    (
        "the operations are others",
        |proof| {
            let digest = member(proof, "/operation_table_sha256");
            edit(proof, &digest, &"a".repeat(64));
        },
        "operation_table:aaaa",
    ),
    (
        "a model is put in",
        |proof| edit(proof, r#""scout":null"#, r#""scout":"provider/other""#),
        "statement_mismatch:weekly_proof",
    ),
    (
        "the attestation is gone",
        |proof| remove(&proof.path(SECOND).join("attestation.intoto.jsonl")),
        "unsealed:weekly_proof",
    ),
    (
        "the attestation is that of last week",
        |proof| {
            for name in ["attestation.intoto.jsonl", "inclusion.tlog-proof"] {
                std::fs::copy(proof.path(FIRST).join(name), proof.path(SECOND).join(name)).unwrap();
            }
        },
        "statement_mismatch:weekly_proof",
    ),
    (
        "the statement is another, and nobody signed it",
        |proof| {
            let path = proof.path(SECOND).join("attestation.intoto.jsonl");
            let text = std::fs::read_to_string(&path).unwrap();
            let mut envelope: serde_json::Value = serde_json::from_str(&text).unwrap();
            let payload = STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap();
            let payload = String::from_utf8(payload).unwrap();
            assert!(payload.contains("probe/wrong_role"), "{payload}");
            let payload = payload.replace("probe/wrong_role", "probe/other_role");
            envelope["payload"] = STANDARD.encode(payload).into();
            write(&path, &format!("{envelope}\n"));
        },
        "bad_signature:weekly_proof",
    ),
    (
        "the place in the log is that of last week",
        |proof| {
            let name = "inclusion.tlog-proof";
            std::fs::copy(proof.path(FIRST).join(name), proof.path(SECOND).join(name)).unwrap();
        },
        "bad_proof:weekly_proof",
    ),
    (
        "the artifact that is published is another",
        |proof| write(&proof.path(ARTIFACT), "{}\n"),
        "artifact_differs:artifacts",
    ),
    (
        "an event of a run is another",
        |proof| {
            let path = proof.path(SECOND).join("runs/probe-network.json");
            let text = std::fs::read_to_string(&path).unwrap();
            write(&path, &text.replacen("exit_code\":77", "exit_code\":78", 1));
        },
        "hash_mismatch:run:runs/probe-network.json",
    ),
    (
        "the record of a run is gone",
        |proof| remove(&proof.path(SECOND).join("runs/weekly-envoy.json")),
        "missing:run:runs/weekly-envoy.json",
    ),
    (
        "the checkpoint of last week is gone",
        |proof| remove(&proof.path(SECOND).join("checkpoint.previous")),
        "checkpoint_untrusted:checkpoint.previous",
    ),
    (
        "the checkpoint of last week is that of this one",
        |proof| {
            let run = proof.path(SECOND);
            std::fs::copy(run.join("checkpoint"), run.join("checkpoint.previous")).unwrap();
        },
        "log_rewritten:checkpoint.previous",
    ),
    (
        "a file is put in",
        |proof| std::fs::write(proof.path(SECOND).join("notes.txt"), "x").unwrap(),
        "unlisted:proof:notes.txt",
    ),
    (
        "a bundle is put in",
        |proof| {
            let from = proof.path(SECOND).join("evidence/weekly-envoy/step-1");
            let to = proof.path(SECOND).join("evidence/weekly-other");
            std::fs::create_dir(&to).unwrap();
            copy(&from, &to.join("step-1"));
        },
        "unlisted:execution:evidence/weekly-other/step-1",
    ),
    (
        "there are no keys",
        |proof| remove(&proof.path("keys/trust.json")),
        "no_trust:keys/trust.json",
    ),
];

#[test]
fn whatever_is_changed_is_found_and_named() {
    let mut wrong = Vec::new();
    for (what, change, expected) in CHANGES {
        let proof = Copy::new();
        change(&proof);
        let (code, line) = proof.verdict(&[]);
        if code != 2 || !line.starts_with(&format!("FAIL:{expected}")) {
            wrong.push(format!("{what}: exit {code}, {line}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_week_that_was_taken_back_is_found_by_the_checkpoint_that_somebody_kept() {
    let proof = Copy::new();
    let kept = weeks().join("second/checkpoint");
    let kept = kept.to_str().unwrap();
    let held = (0, "OK:weekly_proof_verified".to_owned());
    assert_eq!(proof.verdict(&["--previous", kept]), held);
    assert_eq!(proof.verdict(&["--previous", weeks().join("proof").to_str().unwrap()]), held);
    remove(&proof.path(SECOND));
    remove(&proof.path("log"));
    copy(&weeks().join("first"), &proof.path("log"));
    std::fs::copy(proof.path(FIRST).join("weekly_proof.json"), proof.path(ARTIFACT)).unwrap();
    assert_eq!(proof.verdict(&[]), held, "it is what it was a week ago");
    let (code, line) = proof.verdict(&["--previous", kept]);
    assert_eq!((code, line.as_str()), (2, "FAIL:log_rewritten:previous"));
    let (code, line) = proof.verdict(&["--previous", "nowhere"]);
    assert_eq!((code, line.as_str()), (2, "FAIL:unreadable:previous"));
}

#[test]
fn keys_of_somebody_else_vouch_for_nothing() {
    let (proof, other) = (Copy::new(), tempfile::tempdir().unwrap());
    drop(nexus_router::seal::Sealer::open(other.path()).unwrap());
    let trust = nexus_router::seal::trust_path(other.path());
    let (code, line) = proof.verdict(&["--trust", trust.to_str().unwrap()]);
    assert_eq!(code, 2);
    assert!(line.starts_with("FAIL:untrusted_key:"), "{line}");
    let (code, line) = proof.verdict(&["--run", "run-0009"]);
    assert_eq!((code, line.as_str()), (2, "FAIL:missing:proof"));
}
