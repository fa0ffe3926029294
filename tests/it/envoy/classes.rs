//! What each class does, and what is sealed of it.

use serde_json::json;

use super::{Stage, read, shell_granted, statement, test};
use crate::confinement::lacking::assert_errata;

#[test]
fn a_program_runs_and_its_evidence_says_what_it_was() {
    let stage = Stage::new("", "run = [\"/bin/sh\"]\nenv = [\"GREETING\"]");
    std::fs::create_dir(stage.workspace("src")).unwrap();
    let args = json!({ "argv": ["sh", "-c", "read x; printf %s $x; echo $GREETING $SECRET $PWD >&2; exit 3"],
        "cwd": "src", "env": ["GREETING"], "stdin": "given", "timeout_s": 60 });
    let run = stage.run(&[json!({ "tool": "test_exec", "args": args })]);
    let output = &run["results"][0]["output"];
    let keys: Vec<&String> = output.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 9, "the nine of the role: {output}");
    assert_eq!(run["results"][0]["error"]["code"], "NONZERO_EXIT", "{run}");
    assert_eq!((&run["status"], &run["reason"]), (&json!("FAILED"), &json!("step_failed")));
    assert_eq!((&output["ok"], &output["exit_code"]), (&json!(false), &json!(3)));
    assert_eq!(output["stdout"], "given");
    let told = format!("hello {}\n", stage.workspace("src").display());
    assert_eq!(output["stderr"], told, "only what is named of the environment is there");

    let bundle = stage.evidence(&run).join("step-1");
    let spec = read(&bundle.join("exec_spec.json"));
    assert_eq!(spec["cmd_argv"], args["argv"]);
    assert_eq!((&spec["kind"], &spec["cwd"]), (&json!("shell"), &json!("src")));
    assert_eq!((&spec["env_allowlist"], &spec["timeout_s"]), (&json!(["GREETING"]), &json!(60)));
    assert_eq!((&spec["paths_allowlist"], &spec["role"]), (&json!(["."]), &json!("envoy")));
    let summary = read(&bundle.join("run_summary.json"));
    assert_eq!(
        (&summary["outcome"], &summary["reason"]),
        (&json!("FAILED"), &json!("exit_code:3"))
    );
    let parsed = read(&bundle.join("outputs/parsed.json"));
    assert_eq!(parsed.as_object().unwrap().len(), 9);
    assert_eq!(std::fs::read_to_string(bundle.join("stdout.txt")).unwrap(), "given");

    let sandbox = &statement(&bundle)["predicate"]["environment"]["sandbox"];
    assert_eq!((&sandbox["isolation"], &sandbox["fds"]), (&json!("sandbox"), &json!([0, 1, 2])));
    assert!(sandbox["landlock_abi"].as_u64().unwrap() >= 6, "{sandbox}");
    assert_errata(sandbox);
    assert_eq!(sandbox["seccomp_sha256"].as_str().unwrap().len(), 64);
    assert_eq!(
        (&sandbox["metadata_writes"], &sandbox["netns"]),
        (&json!("mediated"), &json!(false))
    );
    let decided = stage.world.path("sealed/evidence/verify");
    let decided =
        decided.join(summary["spec_sha256"].as_str().unwrap()).join("manifest.sha256.json");
    let decisions = read(&decided)["decisions"].clone();
    assert_eq!(
        (&decisions["network_granted"], &decisions["shell_granted"]),
        (&json!(false), &json!(false))
    );
    stage.assert_verified();
}

#[test]
fn failed_program_stops_the_plan_unless_expected() {
    let stage = Stage::usual();
    let failed = |expect: &str| {
        let mut step = test(&["sh", "-c", "echo broken; exit 1"]);
        step["expect"] = json!(expect);
        step
    };
    let write = |name: &str| json!({ "tool": "file_write", "args": { "path": name, "text": "x", "mode": "create" } });
    let run = stage.run(&[failed("success"), write("released.txt")]);
    assert_eq!(run["status"], "FAILED", "{run}");
    let statuses = |run: &serde_json::Value| [0, 1].map(|n| run["results"][n]["status"].clone());
    assert_eq!(statuses(&run), ["error", "skipped"]);
    let result = &run["results"][0];
    assert_eq!(result["error"]["code"], "NONZERO_EXIT", "{run}");
    assert_eq!(result["error"]["details"], json!({ "exit_code": 1 }));
    assert_eq!(result["output"]["stdout"], "broken\n");
    assert!(!stage.workspace("released.txt").exists());
    let summary = read(&stage.evidence(&run).join("step-1/run_summary.json"));
    assert_eq!(
        (&summary["outcome"], &summary["reason"]),
        (&json!("FAILED"), &json!("exit_code:1"))
    );
    let run = stage.run(&[failed("any"), write("released.txt")]);
    assert_eq!(
        (&run["status"], statuses(&run)),
        (&json!("COMPLETED"), ["ok", "ok"].map(Into::into))
    );
    assert!(stage.workspace("released.txt").exists());
    // A file that cannot be written is a failure of the role, not of a program.
    let run = stage.run(&[write("released.txt")]);
    assert_eq!(run["results"][0]["error"]["code"], "ROLE_FAILED", "{run}");
    stage.assert_verified();
}

#[test]
fn selection_says_that_every_execution_has_a_sandbox() {
    let stage = Stage::usual();
    let run = stage.run(&[test(&["sh", "-c", "true"])]);
    let run_id = run["run"]["run_id"].as_str().unwrap();
    let shown = stage.program(&["runs", "export", run_id, "--db", "runs.db"]);
    let bundle = shown.json();
    let events = bundle["events"].as_array().unwrap();
    let selected = events.iter().find(|event| event["type"] == "DISPATCH_SELECTED").unwrap();
    let payload = &selected["payload"];
    assert_eq!(payload["isolation"], "sandbox", "{payload}");
    assert_eq!(payload["confinement"], "full", "{payload}");
}

#[test]
fn a_file_is_written_made_longer_and_replaced() {
    let stage = Stage::usual();
    let write = |path: &str, text: &str, mode: &str| json!({ "tool": "file_write", "args": { "path": path, "text": text, "mode": mode } });
    let run = stage.run(&[
        write("a/b/c.txt", "one\n", "create"),
        write("a/b/c.txt", "two\n", "append"),
        json!({ "tool": "file_write", "args": { "path": "bin", "base64": "AAH/" } }),
    ]);
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert_eq!(std::fs::read_to_string(stage.workspace("a/b/c.txt")).unwrap(), "one\ntwo\n");
    assert_eq!(std::fs::read(stage.workspace("bin")).unwrap(), [0, 1, 255]);
    let again = stage.step(write("a/b/c.txt", "x", "create"));
    assert_eq!(again["output"]["ok"], false, "{again}");
    assert!(
        again["output"]["errors"][0]["message"].as_str().unwrap().contains("a/b/c.txt")
            || again["output"]["errors"][0]["message"].as_str().unwrap().contains("c.txt")
    );
    let replaced = stage.step(write("a/b/c.txt", "new", "replace"));
    assert_eq!(replaced["output"]["ok"], true, "{replaced}");
    assert_eq!(std::fs::read_to_string(stage.workspace("a/b/c.txt")).unwrap(), "new");
    assert_eq!(std::fs::read_dir(stage.workspace("a/b")).unwrap().count(), 1);
    let bundle = stage.evidence(&run).join("step-1");
    let spec = read(&bundle.join("exec_spec.json"));
    assert_eq!(spec["cmd_argv"], json!(["file_write", "create", "a/b/c.txt"]));
    let sandbox = &statement(&bundle)["predicate"]["environment"]["sandbox"];
    assert_eq!(sandbox["metadata_writes"], "denied");
    stage.assert_verified();
}

#[test]
fn what_is_packed_is_the_same_whenever_the_files_are() {
    let pack = || {
        let stage = Stage::usual();
        std::fs::create_dir(stage.workspace("out")).unwrap();
        for (name, text) in [("out/z", "zz"), ("out/a", "a"), ("b", &"b".repeat(1000))] {
            std::fs::write(stage.workspace(name), text).unwrap();
        }
        let args = json!({ "paths": ["out", "b", "out/a"], "name": "app.tar" });
        let run = stage.run(&[json!({ "tool": "artifact_pack", "args": args })]);
        let artifact = run["results"][0]["output"]["artifacts"][0].clone();
        let file = stage.evidence(&run).join("step-1/outputs/artifacts/app.tar");
        let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{error}: {run}"));
        stage.assert_verified();
        (artifact, bytes)
    };
    let (artifact, bytes) = pack();
    assert_eq!(artifact["name"], "app.tar");
    assert_eq!(artifact["size"], bytes.len());
    let digest = nexus_router::Digest::of(&bytes).to_string();
    assert_eq!(artifact["sha256"], digest);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(pack(), (artifact, bytes.clone()), "times and owners are not in it");
    // Any program that reads archives reads it.
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("app.tar"), &bytes).unwrap();
    let listed =
        std::process::Command::new("tar").args(["tf", "app.tar"]).current_dir(&place).output();
    if let Ok(listed) = listed {
        assert_eq!(String::from_utf8(listed.stdout).unwrap(), "b\nout/a\nout/z\n");
    }
}

#[test]
fn what_is_left_in_the_place_for_artifacts_comes_out() {
    let stage = Stage::new("", "run = [\"/bin/sh\", \"/bin/rm\", \"/bin/ln\"]");
    let args = json!({ "argv": ["sh", "-c", "echo x >$ARTIFACTS/report; echo y >$TMPDIR/gone; ln -s /etc/passwd $ARTIFACTS/link 2>&1"],
        "env": ["ARTIFACTS", "TMPDIR"] });
    let run = stage.run(&[json!({ "tool": "build_exec", "args": args })]);
    let artifacts = run["results"][0]["output"]["artifacts"].as_array().unwrap().clone();
    assert_eq!(artifacts.len(), 1, "{run}");
    let file = stage.evidence(&run).join("step-1/outputs/artifacts/report");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "x\n");
    stage.assert_verified();
    // Nobody gets what is elsewhere by putting a link in its place.
    let line = "rm -r $ARTIFACTS 2>/dev/null; ln -s /etc $ARTIFACTS 2>/dev/null; ln -s /etc/passwd $ARTIFACTS/p 2>/dev/null; true";
    let args = json!({ "argv": ["sh", "-c", line], "env": ["ARTIFACTS"] });
    let step = stage.step(json!({ "tool": "build_exec", "args": args }));
    assert_eq!(step["output"]["artifacts"], json!([]), "{step}");
    let left = std::fs::read_dir(stage.world.path("cache/staging")).unwrap().count();
    assert_eq!(left, 0, "nothing of an execution stays");
}

#[test]
fn a_shell_runs_if_plan_and_operator_say_so_and_the_plan_is_kept() {
    let stage = Stage::usual();
    let run = stage.run(&[shell_granted("echo $0")]);
    assert_eq!(run["results"][0]["output"]["stdout"], "sh\n", "{run}");
    let bundle = stage.evidence(&run).join("step-1");
    let inputs = read(&bundle.join("outputs/inputs.manifest.json"));
    let plan = inputs["files"]["plan/spec"].as_str().unwrap();
    let plan = read(&stage.world.path("sealed/plan").join(plan).join("plan_manifest.sha256.json"));
    assert_eq!(
        plan["grants"],
        json!([{ "exec_id": "step-1", "grant": "shell_exec", "targets": [] }])
    );
    stage.assert_verified();
}

#[test]
fn a_repository_is_worked_on_by_what_is_granted_for_it() {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|directory| directory.join("git"));
    // The last one is the system's, which has settings for all users.
    let program = found.filter(|file| file.is_file()).last().expect("git is on the PATH");
    // Nothing more: the settings for all users, which it must be able to read, are there for repo_ops.
    let stage = Stage::new("", &format!("run = [{program:?}]"));
    let git = |argv: &[&str]| {
        let argv: Vec<&str> = ["git", "-c", "user.name=n", "-c", "user.email=e"]
            .into_iter()
            .chain(argv.iter().copied())
            .collect();
        stage.step(json!({ "tool": "repo_ops", "args": { "argv": argv } }))["output"].clone()
    };
    let made = git(&["init", "-q", "."]);
    assert_eq!(made["exit_code"], 0, "{made}");
    std::fs::write(stage.workspace("file"), "x").unwrap();
    assert_eq!(git(&["add", "file"])["exit_code"], 0);
    let committed = git(&["commit", "-q", "-m", "one"]);
    assert_eq!(committed["exit_code"], 0, "{committed}");
    assert_eq!(git(&["log", "--format=%s"])["stdout"], "one\n");
}
