//! The program itself: its verbs, its exit codes, and what it prints.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use nexus_router::evidence::verify::Reason;
use serde_json::Value;

use super::samples::{Samples, copy};
use crate::support::{Run, World};

fn verify(world: &World, arguments: &[&str]) -> Run {
    world.run(&[&["evidence", "verify"], arguments].concat())
}

#[test]
fn exit_codes_are_genuine_not_and_could_not_tell() {
    let (world, samples) = (World::new(), Samples::new());
    let root = samples.root();
    let root_text = root.to_str().unwrap();
    let bundle = root.join("evidence/t1/e2");
    let bundle = bundle.to_str().unwrap();
    // The whole cabinet, by its own keys.
    let run = verify(&world, &["--root", root_text]);
    assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    assert!(run.stdout().contains("8 genuine, 0 not genuine"), "{}", run.stdout());
    let run = verify(&world, &[bundle, "--root", root_text, "--format", "json"]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let json = run.json();
    assert_eq!((&json["verdict"], &json["total"]["genuine"]), (&"genuine".into(), &1.into()));
    let verdict = &json["verdicts"][0];
    assert_eq!((&verdict["task_id"], &verdict["exec_id"]), (&"t1".into(), &"e2".into()));
    assert_eq!(
        (&verdict["kind"], &verdict["findings"]),
        (&"execution".into(), &Value::Array(vec![]))
    );
    assert!(verdict["rests_on"]["attestation_key"].as_str().unwrap().starts_with("ed25519:"));
    // By keys of the command line.
    let trust = samples.trust();
    let key = trust.public_keys()[0].to_string();
    let log_key = trust.verifiers()[0].to_string();
    let run = verify(&world, &[bundle, "--key", &key, "--log-key", &log_key]);
    assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    assert!(run.stdout().contains(&format!("rests on attestation key {key}")), "{}", run.stdout());
    // Without keys: what is verified vouches not for itself.
    let run = verify(&world, &[root_text, "--data-dir", "nowhere"]);
    assert_eq!(run.code(), 2, "{}", run.stdout());
    assert!(
        run.stdout().contains("no_trust:") && run.stderr().contains("--trust"),
        "{}",
        run.stderr()
    );
    // With those of others.
    let other = Samples::empty().trust().to_json();
    fs::write(world.path("other.json"), other).unwrap();
    let run = verify(&world, &[bundle, "--trust", "other.json"]);
    assert_eq!(run.code(), 1);
    assert!(run.stdout().contains("untrusted_key:execution:"), "{}", run.stdout());
    // One that is not genuine decides, whatever the others are.
    let changed = world.path("changed");
    copy(&root.join("evidence/t1/e1"), &changed);
    fs::write(changed.join("stdout.txt"), "tampered").unwrap();
    let run = verify(&world, &[bundle, "changed", "missing", "--root", root_text]);
    assert_eq!(run.code(), 1, "{}", run.stdout());
    assert!(
        run.stdout().contains("hash_mismatch:execution:changed:stdout.txt"),
        "{}",
        run.stdout()
    );
    assert!(
        run.stdout().contains("1 genuine, 1 not genuine, 1 could not be told"),
        "{}",
        run.stdout()
    );
    let run = verify(&world, &[bundle, "missing", "--root", root_text]);
    assert_eq!(run.code(), 2, "{}", run.stdout());
    // What is wrong is told before anything is verified.
    for arguments in [
        &["--key", &key, bundle][..],
        &["--trust", "missing.json", bundle],
        &["--since", "x", bundle],
    ] {
        let run = verify(&world, arguments);
        assert_eq!(run.code(), 2, "{arguments:?}");
        assert!(!run.stderr().is_empty());
    }
}

#[test]
fn damage_is_found_without_keys() {
    let (world, samples) = (World::new(), Samples::new());
    let root = samples.root();
    let run = verify(&world, &["--root", root.to_str().unwrap(), "--hashes-only"]);
    assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    fs::write(root.join("evidence/t1/e2/outputs/a.bin"), "x").unwrap();
    let run = verify(&world, &["--root", root.to_str().unwrap(), "--hashes-only"]);
    assert_eq!(run.code(), 1);
    let expected = "hash_mismatch:execution:evidence/t1/e2:outputs/a.bin";
    assert!(run.stdout().contains(expected), "{}", run.stdout());
}

#[test]
fn an_earlier_checkpoint_is_held_to() {
    let (world, samples) = (World::new(), Samples::new());
    let root = samples.root();
    let root_text = root.to_str().unwrap();
    fs::copy(root.join("log/checkpoint"), world.path("early")).unwrap();
    samples.scout("e7", "t7");
    let run = verify(&world, &["--root", root_text, "--since", "early"]);
    assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    assert!(run.stdout().contains("consistency"), "{}", run.stdout());
    let other = Samples::new();
    fs::copy(other.root().join("log/checkpoint"), world.path("foreign")).unwrap();
    let run = verify(&world, &["--root", root_text, "--since", "foreign"]);
    assert_eq!(run.code(), 2, "{}", run.stdout());
}

#[test]
fn bundles_are_listed_and_shown() {
    let (world, samples) = (World::new(), Samples::new());
    let root = samples.root();
    let root = root.to_str().unwrap();
    let run = world.run(&["evidence", "list", "--root", root]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(
        run.stdout().contains("t1/e2") && run.stdout().contains("SUCCEEDED"),
        "{}",
        run.stdout()
    );
    let run = world.run(&["evidence", "list", "--root", root, "--task", "t2", "--format", "json"]);
    let list = run.json();
    assert_eq!(list.as_array().unwrap().len(), 1, "{list}");
    assert_eq!((&list[0]["action"], &list[0]["sealed"]), (&"web_search".into(), &true.into()));
    let run = world.run(&["evidence", "show", "t1/e2", "--root", root]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(
        run.stdout().contains("cmd_argv") && run.stdout().contains("outputs/a.bin"),
        "{}",
        run.stdout()
    );
    let run = world.run(&["evidence", "show", "t1/e2", "--root", root, "--format", "json"]);
    let shown = run.json();
    assert_eq!(shown["documents"]["exec_spec.json"]["role"], "envoy", "{shown}");
    assert_eq!(
        shown["documents"]["attestation.intoto.jsonl"]["predicate"]["name"],
        "envoy/test_exec"
    );
    for arguments in [&["show", "t9/e9"][..], &["show", "../t1/e1"], &["list", "--root", "nowhere"]]
    {
        let run = world.run(&[&["evidence"], arguments, &["--data-dir", "nowhere"]].concat());
        assert_eq!(run.code(), 2, "{arguments:?}: {}", run.stdout());
        assert!(run.stderr().contains("hint:"), "{}", run.stderr());
    }
}

#[test]
fn an_export_has_all_that_an_auditor_needs() {
    let (world, samples) = (World::new(), Samples::new());
    let root = samples.root();
    let root_text = root.to_str().unwrap();
    let run = world.run(&["evidence", "export", "t1/e2", "--root", root_text, "--to", "audit"]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    for file in ["verify.sh", "keys/trust.json", "keys/attestation.pub.pem", "keys/log.pub.pem"] {
        assert!(world.path("audit").join(file).is_file(), "{file}");
    }
    let run = verify(&world, &["audit/bundle", "--trust", "audit/keys/trust.json"]);
    assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    // Nobody may read the copy who may not read the original, whatever the umask.
    let open = |command: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", command, "sh"]).arg(crate::support::PROGRAM);
        shell.args(["evidence", "export", "t1/e2", "--root", root_text, "--to"]);
        shell.arg(world.path("open")).output().unwrap()
    };
    assert!(open("umask 0; exec \"$@\"").status.success());
    let mode = |path: &str| fs::metadata(world.path("open").join(path)).unwrap().mode() & 0o777;
    assert_eq!((mode(""), mode("bundle"), mode("bundle/outputs")), (0o700, 0o700, 0o700));
    for file in ["bundle/exec_spec.json", "bundle/stdout.txt", "bundle/outputs/parsed.json"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    // Nothing is overwritten, and nothing leaves that is not genuine.
    let run = world.run(&["evidence", "export", "t1/e2", "--root", root_text, "--to", "audit"]);
    assert_eq!(run.code(), 2, "{}", run.stdout());
    fs::write(root.join("evidence/t1/e1/stdout.txt"), "tampered").unwrap();
    let export = ["evidence", "export", "t1/e1", "--root", root_text, "--to", "bad"];
    let run = world.run(&export);
    assert_eq!((run.code(), world.path("bad").exists()), (2, false), "{}", run.stderr());
    let run = world.run(&[&export[..], &["--force"]].concat());
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert_eq!(fs::read_to_string(world.path("bad/bundle/stdout.txt")).unwrap(), "tampered");
}

#[test]
fn keys_are_shown_and_rotated() {
    let (world, samples) = (World::new(), Samples::new());
    let root = samples.root();
    let root = root.to_str().unwrap();
    let run = world.run(&["evidence", "keys", "show", "--root", root, "--format", "json"]);
    assert_eq!(run.json()["attestation_keys"].as_array().unwrap().len(), 1, "{}", run.stderr());
    for key in ["attestation", "log"] {
        let run = world.run(&["evidence", "keys", "rotate", key, "--root", root]);
        assert_eq!(run.code(), 0, "{}", run.stderr());
    }
    samples.scout("e8", "t8");
    let run = world.run(&["evidence", "keys", "show", "--root", root]);
    assert_eq!(run.stdout().lines().count(), 5, "{}", run.stdout());
    let run = verify(&world, &["--root", root]);
    assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    let run = world.run(&["evidence", "keys", "rotate", "log", "--root", "nowhere"]);
    assert_eq!((run.code(), world.path("nowhere").exists()), (2, false), "{}", run.stderr());
}

#[test]
fn reasons_are_stable_and_each_has_one_name() {
    let ids: Vec<&str> = Reason::ALL.iter().map(|reason| reason.id()).collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len());
    let recorded = include_str!("../../../golden/evidence/reasons.txt");
    // The list only grows: programs of others know these names.
    for line in recorded.lines() {
        let (id, standing) = line.split_once(' ').unwrap();
        let known = Reason::ALL.iter().find(|reason| reason.id() == id);
        let known = known.unwrap_or_else(|| panic!("{id} is gone"));
        assert_eq!(known.standing().name(), standing, "{id}");
    }
    assert_eq!(recorded.lines().count(), ids.len(), "add new reasons to the list");
}
