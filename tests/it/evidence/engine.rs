//! What the engine seals: steps that are carried out in a role, and whole runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nexus_router::access::{NewToken, Scope};
use nexus_router::digest::Digest;
use nexus_router::evidence::{Acting, Given, Keeper, Planned};
use nexus_router::json::Object;
use nexus_router::metrics::Metrics;
use nexus_router::notary;
use nexus_router::role::{ActionClass, Role};
use nexus_router::seal::{Sealer, Trust, trust_path};
use serde_json::{Value, json};

use crate::daemon::support::{Daemon, Stage, plan, until};

/// An adapter that is put into the form of a role, and one that answers in it, well or badly.
const CONFIG: &str = r#"
default_adapter = "echo"
[[adapters]]
ref = "nexus_router_adapter_echo:create_adapter"
[[adapters]]
ref = "probe_adapters:fake"
id = "scout"
role = "scout"
isolation = "inline"
[adapters.config]
traces = "TRACES"
RESPONSES
[[tools]]
name = "greet"
description = "Greets somebody."
adapter = "echo"
tool = "greeter"
method = "hello"
action_class = "data_lookup"
[[tools]]
name = "write"
description = "Writes a file."
adapter = "echo"
tool = "files"
method = "write"
action_class = "file_write"
"#;

/// What the adapter that answers as a scout gives by method, and why that is refused, if it is.
fn answers() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let good = json!({ "adapter_role": "scout", "adapter_version": "1.0.0",
        "action_class": "web_search", "ok": true, "result": { "answer": "x", "latency_ms": 12 },
        "sources": [{ "url": "https://b.example/" }, { "url": "https://a.example/" }],
        "errors": [] });
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut output = good.clone();
        change(&mut output);
        output
    };
    let without = changed(&|output| drop(output.as_object_mut().unwrap().remove("result")));
    let more = changed(&|output| output["model"] = json!("m"));
    let other_role = changed(&|output| output["adapter_role"] = json!("envoy"));
    let other_class = changed(&|output| output["action_class"] = json!("shell_exec"));
    let not_ok = changed(&|output| output["ok"] = json!(false));
    vec![
        ("good", good, None),
        ("not_ok", not_ok, None),
        ("without", without, Some("missing_key:result")),
        ("more", more, Some("forbidden_key:model")),
        ("other_role", other_role, Some("role_mismatch:envoy")),
        ("other_class", other_class, Some("action_not_allowed:shell_exec")),
    ]
}

fn stage() -> Stage {
    let mut stage = Stage::new("");
    let mut responses = String::new();
    let mut tools = String::new();
    for (method, output, _) in answers() {
        let output = output.to_string().replace('\'', "");
        responses += &format!(
            "[[adapters.config.responses]]\ntool = \"web\"\nmethod = \"{method}\"\nbehaviour = {}\n",
            toml(&json!({ "return": serde_json::from_str::<Value>(&output).unwrap() }))
        );
        tools += &format!(
            "[[tools]]\nname = \"web.{method}\"\ndescription = \"Searches.\"\nadapter = \"scout\"\ntool = \"web\"\nmethod = \"{method}\"\naction_class = \"web_search\"\n"
        );
    }
    let config = CONFIG
        .replace("TRACES", stage.path("traces").to_str().unwrap())
        .replace("RESPONSES", &responses);
    stage.configure(&format!("{config}{tools}"));
    for role in Role::ALL {
        stage.token_as(NewToken {
            name: role.name().to_owned(),
            scope: Scope::Apply,
            role: Some(role),
            expires_at: None,
        });
    }
    stage
}

/// Writes JSON as a value of TOML.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let members = object.iter().map(|(name, value)| format!("{name} = {}", toml(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn sealed(daemon: &Daemon) -> PathBuf {
    daemon.stage.path("data/sealed")
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}")))
        .unwrap()
}

/// Returns the bundle of a run, as soon as it has a seal.
fn bundle(daemon: &Daemon, run_id: &str) -> Vec<u8> {
    until("the seal", || {
        let text = daemon.get(&format!("/v1/runs/{run_id}/bundle")).send().text();
        text.contains("\"attestation\"").then(|| text.into_bytes())
    })
}

fn verified(daemon: &Daemon) -> (i32, Value) {
    let mut command = daemon.stage.program();
    let root = sealed(daemon);
    let run = command
        .args(["evidence", "verify", "--format", "json", "--trust"])
        .args([trust_path(&root), root])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let told = String::from_utf8_lossy(&run.stderr).into_owned();
    (
        run.status.code().unwrap(),
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{told}")),
    )
}

#[test]
fn a_run_is_sealed_and_its_bundle_proves_it() {
    let daemon = Daemon::usual();
    let run = daemon.post("/v1/runs", &plan("echo", "t", "m")).ok();
    let run_id = run["run"]["run_id"].as_str().unwrap();
    let text = bundle(&daemon, run_id);
    let trust = Trust::read(&trust_path(&sealed(&daemon))).unwrap();
    let genuine = notary::verify(&text, &trust).unwrap();
    assert_eq!(genuine.index, 0);
    let value: Value = serde_json::from_slice(&text).unwrap();
    let subject = &genuine.statement.subjects[0];
    assert_eq!(subject.sha256.to_string(), value["digests"]["sha256"]);
    assert_eq!(subject.name, format!("runs/{run_id}"));
    // Whatever is changed in what is sealed is found; the rest nobody vouches for.
    let free = ["/exported_at", "/provenance"];
    let mut pointers = Vec::new();
    walk(&value, String::new(), &mut pointers);
    assert!(pointers.len() > 60, "{}", pointers.len());
    for pointer in pointers {
        if free.iter().any(|free| pointer.starts_with(free)) {
            continue;
        }
        let mut other = value.clone();
        let place = other.pointer_mut(&pointer).unwrap();
        *place = match place.take() {
            Value::String(text) => json!(format!("{text}x")),
            Value::Number(number) => json!(number.as_i64().unwrap() + 1),
            Value::Bool(truth) => json!(!truth),
            _ => json!(0),
        };
        let forged = serde_json::to_vec(&other).unwrap();
        assert!(notary::verify(&forged, &trust).is_err(), "{pointer}");
    }
    for name in ["attestation", "proof"] {
        let mut other = value.clone();
        other.as_object_mut().unwrap().remove(name);
        let error = notary::verify(&serde_json::to_vec(&other).unwrap(), &trust).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    let another = Daemon::usual();
    another.post("/v1/runs", &plan("echo", "t", "m")).ok();
    let foreign = until("keys", || Trust::read(&trust_path(&sealed(&another))).ok());
    notary::verify(&text, &foreign).unwrap_err();
    // What is beside the digest is in nobody's way.
    let imported = another.ask("POST", "/v1/bundles").json(&value).send();
    assert!(imported.status < 300, "{imported:?}");
}

/// Lists every value that is no object and no array.
fn walk(value: &Value, pointer: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                walk(value, format!("{pointer}/{name}"), pointers);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, format!("{pointer}/{index}"), pointers);
            }
        }
        _ => pointers.push(pointer),
    }
}

#[test]
fn what_a_process_left_unsealed_the_next_one_seals() {
    let stage =
        Stage::new(&format!("{}\n[evidence]\nseal = false\n", crate::daemon::support::ADAPTERS));
    let mut daemon = stage.start(&[]);
    let run = daemon.post("/v1/runs", &plan("echo", "t", "m")).ok();
    daemon.kill();
    assert!(!sealed(&daemon).exists(), "nothing is sealed");
    daemon.stage.configure(crate::daemon::support::ADAPTERS);
    let daemon = daemon.again();
    let text = bundle(&daemon, run["run"]["run_id"].as_str().unwrap());
    let trust = Trust::read(&trust_path(&sealed(&daemon))).unwrap();
    notary::verify(&text, &trust).unwrap();
    assert!(daemon.metric("nexus_router_seals_total") >= 1.0);
}

#[test]
fn a_run_of_the_command_line_is_sealed_when_it_returns() {
    let world = crate::support::World::new();
    std::fs::write(world.path("plan.json"), plan("echo", "t", "m").to_string()).unwrap();
    let adapter = ["--adapter", "nexus_router_adapter_echo:create_adapter"];
    let run =
        world.run(&["run", "plan.json", "--db", "runs.db", "--id-only", adapter[0], adapter[1]]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let exported = world.run(&["runs", "export", run.stdout().trim(), "--db", "runs.db"]);
    let trust = Trust::read(&trust_path(&world.path("sealed"))).unwrap();
    notary::verify(exported.stdout().as_bytes(), &trust).unwrap();
}

#[test]
fn a_step_in_a_role_leaves_evidence_and_so_does_what_is_refused() {
    let daemon = stage().start(&[]);
    let run = daemon.post("/v1/runs", &plan("echo", "greeter", "hello")).by("scout").ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let evidence = sealed(&daemon).join("evidence");
    let task = evidence.join(run["run"]["run_id"].as_str().unwrap());
    let spec = read(&task.join("step-1/exec_spec.json"));
    assert_eq!((&spec["role"], &spec["action"]), (&json!("scout"), &json!("data_lookup")));
    assert_eq!(spec["cmd_argv"], json!(["echo", "greeter", "hello"]));
    let output = read(&task.join("step-1/outputs/parsed.json"));
    assert_eq!(output["result"]["args"], json!({ "name": "Ada" }));
    assert_eq!(output["result"].get("adapter_id"), None, "the router adds nothing");
    assert_eq!(run["results"][0]["output"].get("adapter_id"), None, "{run}");
    let summary = read(&task.join("step-1/run_summary.json"));
    assert_eq!((&summary["outcome"], &summary["reason"]), (&json!("SUCCEEDED"), &json!("ok")));
    let spec_sha256 = summary["spec_sha256"].as_str().unwrap();
    let decided = read(&evidence.join("verify").join(spec_sha256).join("manifest.sha256.json"));
    assert_eq!(decided["decisions"]["caller"], "scout");
    let inputs = read(&task.join("step-1/outputs/inputs.manifest.json"));
    for (name, digest) in inputs["files"].as_object().unwrap() {
        assert_ne!(digest, &json!(Digest::ZERO.to_string()), "{name}");
    }
    let plan_sha256 = inputs["files"]["plan/spec"].as_str().unwrap();
    let planned = sealed(&daemon).join("plan").join(plan_sha256);
    assert_eq!(read(&planned.join("plan_manifest.sha256.json"))["steps"][0]["role"], "scout");
    // The other role, and what has no class, are refused before anything runs.
    for (token, tool, method, reason) in [
        ("scout", "files", "write", "role_refused:scout:file_write"),
        ("envoy", "greeter", "hello", "role_refused:envoy:data_lookup"),
        ("scout", "t", "m", "role_refused:scout:none"),
    ] {
        let run = daemon.post("/v1/runs", &plan("echo", tool, method)).by(token).ok();
        assert_eq!(run["results"][0]["error"]["code"], "ROLE_REFUSED", "{run}");
        let task = evidence.join(run["run"]["run_id"].as_str().unwrap());
        let id = &Digest::of(reason.as_bytes()).to_string()[..16];
        let rejection = read(&task.join("rejections").join(id).join("rejection.json"));
        assert_eq!(
            (&rejection["reason"], &rejection["outcome"]),
            (&json!(reason), &json!("REJECTED"))
        );
        assert_eq!(rejection["context"]["caller"], token);
    }
    let (code, verdict) = verified(&daemon);
    assert_eq!(code, 0, "{verdict:#}");
}

#[test]
fn an_output_that_is_not_that_of_its_role_fails_closed_with_evidence() {
    let daemon = stage().start(&[]);
    for (method, _, refused) in answers() {
        let run = daemon.post("/v1/runs", &plan("scout", "web", method)).by("scout").send().json();
        // An output that is not that of its role is a bug of the adapter, and the run stands in the problem.
        let run = if refused.is_some() { run["run"].clone() } else { run };
        let step = sealed(&daemon)
            .join("evidence")
            .join(run["run"]["run_id"].as_str().unwrap())
            .join("step-1");
        let summary = read(&step.join("run_summary.json"));
        let output = read(&step.join("outputs/parsed.json"));
        match refused {
            None => {
                let (status, outcome, code) = match method {
                    "good" => ("COMPLETED", "SUCCEEDED", Value::Null),
                    _ => ("FAILED", "FAILED", json!("ROLE_FAILED")),
                };
                assert_eq!(
                    (&run["status"], &summary["outcome"]),
                    (&json!(status), &json!(outcome))
                );
                assert_eq!(run["results"][0]["error"]["code"], code, "{run}");
                let whole = &run["results"][0]["output"];
                assert_eq!(whole["result"], json!({ "answer": "x", "latency_ms": 12 }), "{run}");
                assert_eq!(
                    whole["sources"][0]["url"], "https://b.example/",
                    "as the adapter gave it"
                );
                assert_eq!(output["result"], json!({ "answer": "x" }), "what varies is removed");
                assert_eq!(output["sources"][0]["url"], "https://a.example/");
                let removed = read(&step.join("volatile/removed.json"));
                assert_eq!(removed["/result/latency_ms"], 12);
            }
            Some(reason) => {
                assert_eq!(run["results"][0]["error"]["code"], "ROLE_OUTPUT_INVALID", "{run}");
                assert_eq!(
                    (&summary["outcome"], &summary["reason"]),
                    (&json!("FAILED"), &json!(reason))
                );
                assert_eq!(output["ok"], false);
                let findings = output["errors"][0]["findings"].as_array().unwrap();
                assert!(findings.contains(&json!(reason)), "{output}");
            }
        }
    }
    let (code, verdict) = verified(&daemon);
    assert_eq!(code, 0, "{verdict:#}");
}

#[test]
fn what_cannot_be_shown_later_is_not_done() {
    let daemon = stage().start(&[]);
    let call = || daemon.post("/v1/runs", &plan("scout", "web", "good")).by("scout").ok();
    let traces = || std::fs::read_to_string(daemon.stage.path("traces")).unwrap_or_default();
    assert_eq!(call()["status"], "COMPLETED");
    let before = traces();
    assert_eq!(before.lines().count(), 1);
    let (log, aside) = (sealed(&daemon).join("log"), sealed(&daemon).join("aside"));
    until("the seal of the run", || {
        (daemon.metric("nexus_router_seals_total") >= 3.0).then_some(())
    });
    std::fs::rename(&log, &aside).unwrap();
    std::fs::write(&log, "a file").unwrap();
    let run = call();
    assert_eq!(run["results"][0]["error"]["code"], "EVIDENCE_UNWRITABLE", "{run}");
    assert_eq!(traces(), before, "nothing was called");
    // Other calls go on: their seals follow.
    let other = daemon.post("/v1/runs", &plan("echo", "t", "m")).ok();
    assert_eq!(other["status"], "COMPLETED", "{other}");
    std::fs::remove_file(&log).unwrap();
    std::fs::rename(&aside, &log).unwrap();
    until("evidence again", || (call()["status"] == "COMPLETED").then_some(()));
    bundle(&daemon, other["run"]["run_id"].as_str().unwrap());
    let (code, verdict) = verified(&daemon);
    assert_eq!(code, 0, "{verdict:#}");
}

#[test]
fn an_output_that_cannot_be_sealed_is_a_failure_with_evidence() {
    let daemon = stage().start(&[]);
    let mut request = plan("echo", "greeter", "hello");
    // Programs disagree about such an integer, so no canonical text has it.
    request["plan_override"][0]["call"]["args"] = json!({ "n": 9_007_199_254_740_993_i64 });
    let run = daemon.post("/v1/runs", &request).by("scout").ok();
    assert_eq!(run["results"][0]["error"]["code"], "ROLE_OUTPUT_INVALID", "{run}");
    let task = sealed(&daemon).join("evidence").join(run["run"]["run_id"].as_str().unwrap());
    let summary = read(&task.join("step-1/run_summary.json"));
    assert_eq!(summary["outcome"], "FAILED");
    let reason = summary["reason"].as_str().unwrap();
    assert!(reason.starts_with("inexact_number:"), "{reason}");
    assert_eq!(verified(&daemon).0, 0);
}

#[test]
fn a_second_attempt_has_evidence_of_its_own() {
    let place = tempfile::tempdir().unwrap();
    let sealer = Arc::new(Sealer::open(place.path()).unwrap());
    let keeper = Keeper::open(place.path(), sealer, Metrics::default()).unwrap();
    let acting = || Acting {
        run_id: "run".to_owned(),
        step: 1,
        attempt: 1,
        class: ActionClass::DataLookup,
        command: ["a", "t", "m"].map(str::to_owned),
        call: Object::new(),
        native: false,
        library: None,
        interface: None,
        timeout: Duration::from_secs(1),
        plan: Arc::new(Planned::new(vec![(1, ActionClass::DataLookup)], Vec::new())),
        ordered: None,
        isolation: "inline",
        grants: Object::new(),
        caller: None,
    };
    for exec_id in ["step-1", "step-1-2", "step-1-3"] {
        let case = keeper.open_case(acting()).unwrap();
        assert_eq!(keeper.close_case(&case, &Given::Output(Object::new())).unwrap().len(), 0);
        assert!(place.path().join("evidence/run").join(exec_id).is_dir(), "{exec_id}");
    }
}

#[test]
fn an_older_log_that_is_put_back_is_not_continued() {
    let daemon = stage().start(&[]);
    let call = || daemon.post("/v1/runs", &plan("echo", "greeter", "hello")).by("scout").ok();
    let seals = |count: f64| {
        until("the seals", || (daemon.metric("nexus_router_seals_total") >= count).then_some(()));
    };
    let (log, old) = (sealed(&daemon).join("log"), daemon.stage.path("old"));
    assert_eq!(call()["status"], "COMPLETED");
    seals(3.0);
    copy(&log, &old);
    assert_eq!(call()["status"], "COMPLETED");
    seals(6.0);
    std::fs::remove_dir_all(&log).unwrap();
    copy(&old, &log);
    for _ in 0..3 {
        let run = call();
        assert_eq!(run["results"][0]["error"]["code"], "EVIDENCE_UNWRITABLE", "{run}");
    }
}

pub(super) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
