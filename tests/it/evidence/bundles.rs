//! Executions, rejections and verifications as directories.

mod others;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_router::Digest;
use nexus_router::evidence::canonical::{self, Domain};
use nexus_router::evidence::{
    Cabinet, Error, Execution, ExecutionSpec, Inputs, Kind, Manifest, Outcome, Published, Redactor,
    Rejection, RunSummary, SealFiles, SpecFields, Staged, StagedKind, Verification, normalize,
};
use nexus_router::json::{self, Limits, Object, Value};
use nexus_router::role::{ActionClass, Role};

use crate::support::workspace;

const SEAL: SealFiles<'_> = SealFiles { attestation: "{}\n", proof: "proof\n" };

fn spec_for(action: ActionClass, exec_id: &str, inputs: &Inputs) -> ExecutionSpec {
    ExecutionSpec::new(SpecFields {
        action,
        cmd_argv: vec!["true".to_owned()],
        cwd: ".".to_owned(),
        env_allowlist: Vec::new(),
        exec_id: exec_id.to_owned(),
        inputs_manifest_sha256: inputs.digest(),
        kind: Kind::Shell,
        note: None,
        paths_allowlist: vec![".".to_owned()],
        role: action.role(),
        task_id: "t1".to_owned(),
        timeout_s: 60,
    })
    .unwrap()
}

fn spec(exec_id: &str) -> (ExecutionSpec, Inputs) {
    let mut inputs = Inputs::new();
    inputs.add("input/a file", Digest::of(b"a")).unwrap();
    (spec_for(ActionClass::FileWrite, exec_id, &inputs), inputs)
}

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), Limits::REQUEST).unwrap()
}

/// The files below a directory, by relative path.
fn tree(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(next).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                files.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    files
}

fn verification() -> Verification {
    let (spec_sha256, reason) = (Digest::of(b"spec"), "ok".to_owned());
    Verification { spec_sha256, reason, idempotency_key: None, decisions: Object::new() }
}

fn staging_is_empty(root: &Path) -> bool {
    std::fs::read_dir(root.join("staging")).unwrap().next().is_none()
}

fn open() -> (tempfile::TempDir, PathBuf, Cabinet) {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("sealed");
    let cabinet = Cabinet::open(&root).unwrap();
    (place, root, cabinet)
}

#[test]
fn canonical_text_is_what_python_writes() {
    let golden = workspace().join("tests/golden/evidence/python_canonical.txt");
    let golden = std::fs::read_to_string(golden).unwrap();
    assert_eq!(golden.lines().count(), 204);
    for line in golden.lines() {
        let (digest, text) = line.split_once(' ').unwrap();
        let ours = canonical::digest(&value(text), Domain::Control).unwrap();
        assert_eq!(ours.to_string(), digest, "{text}");
    }
}

#[test]
fn an_execution_is_a_directory_of_exactly_these_files() {
    let (_place, root, cabinet) = open();
    let mut inputs = Inputs::new();
    let redactor = Redactor::AnsiAndDurations;
    inputs.add(Inputs::REDACTOR, redactor.digest()).unwrap();
    let spec = spec_for(ActionClass::TestExec, "e1", &inputs);
    let output = r#"{"adapter_role": "envoy", "adapter_version": "1.0.0", "action_class": "test_exec",
        "ok": true, "exit_code": 0, "stdout": "ok in 1.5s", "stderr": "", "artifacts": [], "errors": []}"#;
    let parsed = normalize(Role::Envoy, None, redactor, value(output)).unwrap();
    let mut execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
    execution.stdout = b"ok in 1.5s";
    execution.stderr = b"\xff not text";
    execution.redactor = redactor;
    execution.parsed = Some(&parsed);
    execution.outputs.insert("deep/er/a.bin", &[0, 1]);
    execution.outputs.insert("a.bin", &[0, 1]);
    execution.volatile.insert("clock.txt", b"now");

    let staged = cabinet.stage_execution(&execution).unwrap();
    assert_eq!(staged.kind(), StagedKind::Execution);
    assert_eq!(staged.spec_sha256(), Some(spec.digest()));
    assert!(tree(&root.join("evidence")).is_empty(), "nothing is to be seen yet");
    let (subjects, volatile) = (staged.subjects().to_vec(), staged.volatile().clone());
    let manifest_sha256 = staged.manifest_sha256();
    let Published { path, fresh } = staged.publish(Some(SEAL)).unwrap();
    assert!(fresh && staging_is_empty(&root));
    assert_eq!(path, root.join("evidence/t1/e1"));
    assert_eq!(path, cabinet.execution("t1", "e1"));

    let files = tree(&path);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let listed = [
        "exec_spec.json",
        "outputs/a.bin",
        "outputs/deep/er/a.bin",
        "outputs/inputs.manifest.json",
        "outputs/parsed.json",
        "stderr.txt",
        "stdout.txt",
    ];
    let apart = [
        "attestation.intoto.jsonl",
        "inclusion.tlog-proof",
        "manifest.sha256.json",
        "run_summary.json",
        "volatile/clock.txt",
        "volatile/removed.json",
        "volatile/stdout.txt",
    ];
    let all: BTreeSet<&str> = listed.into_iter().chain(apart).collect();
    assert_eq!(names, all.into_iter().collect::<Vec<_>>());

    let manifest = Manifest::parse(&files["manifest.sha256.json"]).unwrap();
    assert_eq!(manifest.files().keys().map(String::as_str).collect::<Vec<_>>(), listed);
    for (name, digest) in manifest.files() {
        assert_eq!(Digest::of(&files[name]), *digest, "{name}");
    }
    assert_eq!(Digest::of(&files["manifest.sha256.json"]), manifest_sha256);
    for (name, digest) in &subjects {
        assert_eq!(Digest::of(&files[*name]), *digest, "{name}");
    }
    assert_eq!(volatile.len(), 3);
    for (name, digest) in &volatile {
        assert_eq!(Digest::of(&files[name]), *digest, "{name}");
    }
    let summary = RunSummary::parse(&files["run_summary.json"]).unwrap();
    assert_eq!(
        summary,
        RunSummary {
            task_id: "t1".to_owned(),
            exec_id: "e1".to_owned(),
            outcome: Outcome::Succeeded,
            reason: "ok".to_owned(),
            idempotency_key: None,
            inputs_manifest_sha256: inputs.digest(),
            spec_sha256: spec.digest(),
            manifest_sha256,
        }
    );
    assert_eq!(ExecutionSpec::parse_canonical(&files["exec_spec.json"]).unwrap(), spec);
    assert_eq!(Inputs::parse(&files["outputs/inputs.manifest.json"]).unwrap(), inputs);
    assert_eq!(files["outputs/parsed.json"], parsed.text().as_bytes());
    assert_eq!(files["stdout.txt"], b"ok in <duration>");
    assert_eq!(files["stderr.txt"], b"\xff not text");
    assert_eq!(files["volatile/stdout.txt"], b"ok in 1.5s");
    assert_eq!(files["volatile/removed.json"], br#"{"/stdout":"ok in 1.5s"}"#);
    assert_eq!(files["attestation.intoto.jsonl"], b"{}\n");
}

#[test]
fn an_execution_without_anything_still_has_its_directories() {
    let (_place, root, cabinet) = open();
    let (spec, inputs) = spec("e1");
    let execution = Execution::new(&spec, &inputs, Outcome::Failed, "exit_code:1");
    let path = cabinet.stage_execution(&execution).unwrap().publish(None).unwrap().path;
    let mut names: Vec<_> =
        std::fs::read_dir(&path).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    let expected = [
        "exec_spec.json",
        "manifest.sha256.json",
        "outputs",
        "run_summary.json",
        "stderr.txt",
        "stdout.txt",
        "volatile",
    ];
    assert_eq!(names, expected);
    assert!(staging_is_empty(&root));
}

#[test]
fn an_execution_that_is_given_up_leaves_nothing() {
    let (_place, root, cabinet) = open();
    let (spec, inputs) = spec("e1");
    let mut execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
    execution.outputs.insert("a/b/c", b"x");
    drop(cabinet.stage_execution(&execution).unwrap());
    assert!(tree(&root.join("evidence")).is_empty() && staging_is_empty(&root));
    assert!(cabinet.stage_execution(&execution).unwrap().publish(None).is_ok());
}

#[test]
fn an_execution_is_never_replaced() {
    let (_place, root, cabinet) = open();
    let (spec, inputs) = spec("e1");
    let mut execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
    execution.stdout = b"first";
    let first = cabinet.stage_execution(&execution).unwrap();
    execution.stdout = b"second";
    let second = cabinet.stage_execution(&execution).unwrap();
    first.publish(None).unwrap();
    let before = tree(&root.join("evidence"));
    assert!(
        matches!(second.publish(None), Err(Error::Exists(path)) if path == root.join("evidence/t1/e1"))
    );
    assert!(matches!(cabinet.stage_execution(&execution), Err(Error::Exists(_))));
    assert_eq!(tree(&root.join("evidence")), before);
    assert!(staging_is_empty(&root));
}

#[test]
fn what_a_verifier_would_refuse_is_not_written() {
    let (_place, root, cabinet) = open();
    let (spec, inputs) = spec("e1");
    let reason = |change: &dyn Fn(&mut Execution<'_>)| {
        let mut execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
        change(&mut execution);
        match cabinet.stage_execution(&execution) {
            Err(Error::Invalid(findings)) => findings.reason().to_owned(),
            other => panic!("{other:?}"),
        }
    };
    for name in ["../x", "/x", "", "a//b", "a b", "é", "parsed.json", "inputs.manifest.json", "a/."]
    {
        let found = reason(&|it| it.outputs.extend([(name, &b""[..])]));
        assert!(found.starts_with("bad_name"), "{name}: {found}");
    }
    for name in ["..", "removed.json", "stdout.txt", "removed.json/x"] {
        let found = reason(&|it| it.volatile.extend([(name, &b""[..])]));
        assert!(found.starts_with("bad_name"), "{name}: {found}");
    }
    let both = reason(&|it| it.outputs.extend([("a", &b""[..]), ("a/b", b"")]));
    assert_eq!(both, "bad_name:a/b");
    assert_eq!(
        reason(&|it| it.redactor = Redactor::AnsiAndDurations),
        "redactor_mismatch:redact:ansi+durations"
    );
    assert_eq!(reason(&|it| it.reason = ""), "bad_value:reason");
    let other = Inputs::new();
    let mut execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
    execution.inputs = &other;
    assert!(
        matches!(cabinet.stage_execution(&execution), Err(Error::Invalid(it)) if it.reason() == "inputs_mismatch")
    );

    let output = r#"{"adapter_role": "envoy", "adapter_version": "1.0.0", "action_class": "file_write",
        "ok": false, "exit_code": 1, "stdout": "", "stderr": "", "artifacts": [], "errors": []}"#;
    let parsed = |text: &str| normalize(Role::Envoy, None, Redactor::Nothing, value(text)).unwrap();
    for (text, expected) in [
        (output.to_owned(), "outcome_mismatch:SUCCEEDED"),
        (output.replace("\"ok\"", "\"model\": 1, \"ok\""), "forbidden_key:model"),
        (output.replace("file_write", "repo_ops"), "action_mismatch:repo_ops"),
    ] {
        let parsed = parsed(&text);
        let mut execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
        execution.parsed = Some(&parsed);
        let error = cabinet.stage_execution(&execution).unwrap_err();
        assert!(matches!(&error, Error::Invalid(it) if it.reason() == expected), "{error}");
    }
    assert!(tree(&root.join("evidence")).is_empty() && staging_is_empty(&root));
}

#[test]
fn leftovers_are_swept_and_what_somebody_holds_is_not() {
    let (_place, root, cabinet) = open();
    let (spec, inputs) = spec("e1");
    let execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
    let staged = cabinet.stage_execution(&execution).unwrap();
    // What a process leaves that was killed while it wrote.
    let left = root.join("staging/left/outputs");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("half"), "x").unwrap();
    let again = Cabinet::open(&root).unwrap();
    assert_eq!((cabinet.swept(), again.swept()), (0, 1));
    assert!(!root.join("staging/left").exists());
    assert!(staged.publish(None).unwrap().fresh);
    assert!(staging_is_empty(&root));
}

#[test]
fn links_lead_nowhere() {
    let (place, root, cabinet) = open();
    let outside = place.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("evidence/t1")).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("evidence/verify")).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("staging/left")).unwrap();
    std::fs::write(outside.join("kept"), "x").unwrap();
    let (spec, inputs) = spec("e1");
    let execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
    assert!(matches!(cabinet.stage_execution(&execution), Err(Error::File { .. })));
    assert!(matches!(cabinet.stage_rejection(&Rejection::new("t1", "r")), Err(Error::File { .. })));
    assert!(matches!(cabinet.stage_verification(&verification()), Err(Error::File { .. })));
    assert_eq!(Cabinet::open(&root).unwrap().swept(), 0);
    // A link that comes between staging and publishing leads nowhere either.
    std::fs::remove_file(root.join("evidence/t1")).unwrap();
    let staged = cabinet.stage_execution(&execution).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("evidence/t1")).unwrap();
    assert!(matches!(staged.publish(None), Err(Error::File { .. })));
    assert_eq!(tree(&outside).keys().collect::<Vec<_>>(), ["kept"]);
}

#[test]
fn a_root_of_links_is_no_cabinet() {
    for part in ["evidence", "plan", "staging"] {
        let place = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/", place.path().join(part)).unwrap();
        let error = Cabinet::open(place.path()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// Whoever looks while bundles are published sees each whole or not at all.
#[test]
fn a_bundle_is_there_whole_or_not_at_all() {
    let (_place, root, cabinet) = open();
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            loop {
                let last = done.load(Ordering::Acquire);
                let Ok(task) = std::fs::read_dir(root.join("evidence/t1")) else { continue };
                for entry in task.flatten() {
                    let files = tree(&entry.path());
                    assert_eq!(files.len(), 9, "{:?}", files.keys());
                    let manifest = Manifest::parse(&files["manifest.sha256.json"]).unwrap();
                    for (name, digest) in manifest.files() {
                        assert_eq!(Digest::of(&files[name]), *digest);
                    }
                    seen.insert(entry.file_name());
                }
                if last {
                    return seen.len();
                }
            }
        });
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (cabinet, root) = (&cabinet, &root);
                scope.spawn(move || {
                    // Every second writer is another process, as far as the cabinet can tell.
                    let own = (writer % 2 == 1).then(|| Cabinet::open(root).unwrap());
                    let cabinet = own.as_ref().unwrap_or(cabinet);
                    for number in 0..10 {
                        let (spec, inputs) = spec(&format!("e{writer}-{number}"));
                        let mut execution =
                            Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
                        execution.outputs.insert("a", b"x");
                        cabinet.stage_execution(&execution).unwrap().publish(Some(SEAL)).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Release);
        looker.join().unwrap()
    });
    assert_eq!(seen, 40);
    assert!(staging_is_empty(&root));
}

#[test]
fn many_are_published_at_once_and_each_has_its_own_fate() {
    let (_place, root, cabinet) = open();
    let specs: Vec<_> = (0..50).map(|index| spec(&format!("e{index}"))).collect();
    let stage = |index: usize| {
        let (spec, inputs) = &specs[index];
        cabinet.stage_execution(&Execution::new(spec, inputs, Outcome::Succeeded, "ok")).unwrap()
    };
    let taken = stage(7);
    let batch: Vec<_> = (0..50).map(|index| (stage(index), Some(SEAL))).collect();
    taken.publish(None).unwrap();
    let results = Staged::publish_all(batch);
    for (index, result) in results.iter().enumerate() {
        match result {
            Err(Error::Exists(_)) => assert_eq!(index, 7),
            other => assert!(other.as_ref().unwrap().path.ends_with(format!("e{index}"))),
        }
    }
    assert_eq!(results.len(), 50);
    assert_eq!(std::fs::read_dir(root.join("evidence/t1")).unwrap().count(), 50);
    assert!(staging_is_empty(&root));
}

#[test]
fn a_thousand_outputs_are_written_with_few_open_files() {
    let (_place, root, cabinet) = open();
    let (spec, inputs) = spec("e1");
    let names: Vec<String> = (0..1000).map(|index| format!("d{}/{index}", index % 7)).collect();
    let mut execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
    execution.outputs = names.iter().map(|name| (name.as_str(), &b"x"[..])).collect();
    let staged = cabinet.stage_execution(&execution).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let staging = |path: &PathBuf| path.starts_with(root.join("staging"));
    let open =
        open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).filter(staging).count();
    assert!((1..10).contains(&open), "{open}");
    let path = staged.publish(None).unwrap().path;
    assert_eq!(tree(&path).len(), 1000 + 6);
}
