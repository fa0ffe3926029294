//! Runs whose steps are judged: what is recorded, what is answered, and that it replays and moves.

use nexus_router::digest::Digest;
use nexus_router::json::{Limits, parse, to_canonical};
use nexus_router::store::Store;
use serde_json::{Value, json};

use super::{CI_GATE, booleans, contract, green, line, policy, write};
use crate::run_cli::{ECHO, run_id};
use crate::support::{Run, World};

fn stage(entry: &str, more: &str) -> World {
    let world = World::new();
    let config =
        format!("[[adapters]]\nref = \"{ECHO}\"\nisolation = \"inline\"\n{entry}\n{more}\n");
    write(world.directory.path(), "router.toml", config);
    write(world.directory.path(), "policy.json", policy().to_string());
    world
}

/// A world whose echo adapter keeps the contract of a gate, and is judged by [`policy`].
pub(super) fn gate() -> World {
    stage(
        &format!("signal = \"{CI_GATE}\"\nsignal_fields = \"/args\"\nacceptance = \"policy.json\""),
        "",
    )
}

pub(super) fn plan(steps: &[Value]) -> Value {
    let step = |(index, args): (usize, &Value)| {
        json!({ "step_id": format!("s{index}"), "intent": "",
            "call": { "tool": "ci", "method": "check", "args": args } })
    };
    json!({ "goal": "ship", "mode": "apply", "policy": { "allow_apply": true },
        "plan_override": steps.iter().enumerate().map(step).collect::<Vec<_>>() })
}

pub(super) fn run(world: &World, request: &Value) -> Run {
    write(world.directory.path(), "request.json", request.to_string());
    line(world, "run request.json --db runs.db --format json")
}

/// Returns the kinds and the payloads of a run's events.
fn events(world: &World, run_id: &str) -> Vec<(String, Value)> {
    let store = Store::open_read_only(&world.path("runs.db")).unwrap();
    let log = store.log(run_id).unwrap().unwrap();
    let read = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        (event["type"].as_str().unwrap().to_owned(), event["payload"].clone())
    };
    log.lines().map(read).collect()
}

fn evaluated(world: &World, run_id: &str) -> Value {
    let found = events(world, run_id).into_iter().find(|(kind, _)| kind == "SIGNALS_EVALUATED");
    found.unwrap().1
}

fn hash(value: &Value) -> String {
    let value = parse(value.to_string().as_bytes(), Limits::REQUEST).unwrap();
    Digest::of(to_canonical(&value).as_bytes()).to_string()
}

/// Holds a value to a schema that is published.
fn fits(schema: &str, value: &Value) {
    let (mut compiler, mut schemas) = (boon::Compiler::new(), boon::Schemas::new());
    let text = nexus_router::schema::find(schema).unwrap().text;
    compiler
        .add_resource("https://schemas.invalid/x", serde_json::from_str(text).unwrap())
        .unwrap();
    let compiled = compiler.compile("https://schemas.invalid/x", &mut schemas).unwrap();
    if let Err(error) = schemas.validate(value, compiled) {
        panic!("{schema}: {error}\n{value}");
    }
}

/// Says that a run replays without a violation, is moved to another store, and is answered from its record as it was.
fn keeps(world: &World, run: &Run) {
    let id = run_id(&run.json());
    fits("run.response.v0.7", &run.json());
    for (kind, payload) in events(world, &id) {
        let event = json!({ "event_id": "e", "run_id": id, "seq": 0, "ts": "t", "type": kind, "payload": payload });
        fits("event.v1", &event);
    }
    let replayed = line(world, &format!("runs replay {id} --db runs.db"));
    assert_eq!(replayed.code(), 0, "{}{}", replayed.stdout(), replayed.stderr());
    let exported = line(world, &format!("runs export {id} --db runs.db --output {id}.json"));
    assert_eq!(exported.code(), 0, "{}", exported.stderr());
    let imported = line(world, &format!("runs import {id}.json --db other.db"));
    assert_eq!(imported.code(), 0, "{}{}", imported.stdout(), imported.stderr());
    let replayed = line(world, &format!("runs replay {id} --db other.db"));
    assert_eq!(replayed.code(), 0, "{}{}", replayed.stdout(), replayed.stderr());
    let checked = line(world, "store check --db runs.db");
    assert_eq!(checked.code(), 0, "{}{}", checked.stdout(), checked.stderr());
}

#[test]
fn an_accepted_step_goes_on_and_says_why() {
    let world = gate();
    let run = run(&world, &plan(&[green(), green()]));
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let answer = run.json();
    assert_eq!(answer["review"], json!(null));
    assert_eq!(
        answer["results"][0]["signals"],
        json!({ "action": "auto_accept", "reason": "rule 1, green, holds", "rule_index": 1, "adapter_id": CI_GATE,
            "adapter_version": "1.0.0", "validation_result": "passed" })
    );
    let id = run_id(&answer);
    let kinds: Vec<String> = events(&world, &id).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(
        kinds[4..8],
        ["TOOL_CALL_REQUESTED", "TOOL_CALL_SUCCEEDED", "SIGNALS_EVALUATED", "STEP_COMPLETED"][..]
    );
    assert_eq!(kinds.iter().filter(|kind| *kind == "SIGNALS_EVALUATED").count(), 2);
    let event = evaluated(&world, &id);
    let evaluation = &event["adapter_evaluation"];
    assert_eq!(evaluation["input_hash"], hash(&green()));
    assert_eq!(evaluation["output_hash"], hash(&evaluation["normalized_policy_inputs"]));
    assert_eq!(evaluation["adapter_contract"]["contract_hash"], evaluation["contract_hash"]);
    assert_eq!(event["policy_snapshot"]["matched_rule"], policy()["rules"][1]);
    assert_eq!(event["policy_snapshot"]["evaluated_inputs"], green());
    keeps(&world, &run);
}

#[test]
fn a_step_that_needs_a_review_stands_and_the_run_says_so() {
    let world = gate();
    let mut less = green();
    less.as_object_mut().unwrap().remove("coverage_met");
    let run = run(&world, &plan(&[less, green()]));
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let answer = run.json();
    assert_eq!((&answer["status"], &answer["review"]), (&json!("COMPLETED"), &json!("required")));
    assert_eq!(answer["results"][0]["output"]["args"]["lint_clean"], true);
    let signals = &answer["results"][0]["signals"];
    assert_eq!(signals["validation_result"], "incomplete", "{signals}");
    assert_eq!(signals["reason"], "fields are missing: coverage_met (missing)");
    let event = evaluated(&world, &run_id(&answer));
    assert_eq!(event["adapter_evaluation"]["normalized_policy_inputs"], json!({}));
    assert_eq!(event["policy_snapshot"]["rule_index"], -1);
    let shown = line(&world, &format!("runs show {} --db runs.db", run_id(&answer)));
    assert!(shown.stdout().contains("needs review: fields are missing"), "{}", shown.stdout());
    keeps(&world, &run);
}

#[test]
fn a_rejected_step_fails_and_what_it_gave_is_not_passed_on() {
    let world = gate();
    let mut red = green();
    red["all_tests_passed"] = json!(false);
    let run = run(&world, &plan(&[red, green()]));
    assert_eq!(run.code(), 1, "{}", run.stderr());
    let answer = run.json();
    let first = &answer["results"][0];
    assert_eq!((&first["status"], &first["output"]), (&json!("error"), &json!({})));
    assert_eq!(first["error"]["code"], "SIGNALS_REJECTED");
    assert_eq!(first["error"]["kind"], "operational");
    assert_eq!(
        first["error"]["message"],
        "the signals of the call are rejected: rule 0, red, holds"
    );
    assert_eq!(first["error"]["details"]["adapter_id"], CI_GATE);
    assert_eq!(answer["results"][1]["status"], "skipped");
    assert_eq!(answer["review"], json!(null));
    let shown = line(&world, &format!("runs show {} --db runs.db", run_id(&answer)));
    assert!(shown.stdout().contains("SIGNALS_REJECTED"), "{}", shown.stdout());
    keeps(&world, &run);
}

#[test]
fn answer_from_the_record_is_the_answer_of_the_run() {
    let world = gate();
    let mut red = green();
    red["all_tests_passed"] = json!(false);
    for fields in [red, json!({})] {
        let mut request = plan(std::slice::from_ref(&fields));
        request["idempotency_key"] = json!(format!("k{fields}"));
        let (first, again) = (run(&world, &request), run(&world, &request));
        assert_eq!((first.code(), first.json()), (again.code(), again.json()));
    }
}

#[test]
fn dry_runs_and_adapters_without_a_contract_are_not_judged() {
    let world = gate();
    let mut dry = plan(&[green()]);
    dry["mode"] = json!("dry_run");
    let answer = run(&world, &dry).json();
    assert!(events(&world, &run_id(&answer)).iter().all(|(kind, _)| kind != "SIGNALS_EVALUATED"));
    let world = stage("", "[signals]\npolicy = \"gone.json\"\ndirectory = \"gone\"");
    let run = run(&world, &plan(&[green()]));
    assert_eq!(run.code(), 0, "nothing is read that nobody needs: {}", run.stderr());
    assert!(
        events(&world, &run_id(&run.json())).iter().all(|(kind, _)| kind != "SIGNALS_EVALUATED")
    );
}

#[test]
fn a_revoked_contract_lets_nothing_through() {
    let world = stage(
        "signal = \"acme.suite@1.0.0\"\nsignal_fields = \"/args\"",
        "[signals]\ndirectory = \"signals\"\npolicy = \"policy.json\"",
    );
    let fields = booleans(&["all_tests_passed", "coverage_met", "lint_clean"]);
    let at = |more: &Value| {
        let text = contract("acme.suite", "1.0.0", &fields, more);
        write(world.directory.path(), "signals/acme.adapter_contract.json", text);
        let run = run(&world, &plan(&[green()]));
        assert_eq!(run.code(), 0, "{}", run.stderr());
        (run.json(), evaluated(&world, &run_id(&run.json()))["adapter_evaluation"].clone())
    };
    let (answer, _) = at(&json!({}));
    assert_eq!(answer["review"], json!(null), "{answer}");
    let (answer, evaluation) =
        at(&json!({ "status": "deprecated", "replaced_by": "acme.suite@2.0.0" }));
    assert_eq!(answer["review"], json!(null), "{answer}");
    assert_eq!(
        evaluation["lifecycle_warnings"],
        json!([{ "kind": "deprecated", "adapter_id": "acme.suite", "adapter_version": "1.0.0",
            "replaced_by": "acme.suite@2.0.0" }])
    );
    let (answer, evaluation) = at(&json!({ "status": "revoked" }));
    assert_eq!(answer["review"], "required", "{answer}");
    assert_eq!(evaluation["validation_result"], "unknown_adapter");
    assert_eq!(evaluation["lifecycle_warnings"][0]["kind"], "revoked");
    assert_eq!(evaluation["normalized_policy_inputs"], json!({}));
    assert_eq!(evaluation["adapter_contract"]["adapter_id"], "acme.suite");
}

/// The table of the lifecycle, for an adapter whose configuration names no version.
#[test]
fn deprecated_contract_is_used_when_no_version_is_named() {
    let world = stage(
        "signal = \"acme.suite\"\nsignal_fields = \"/args\"",
        "[signals]\ndirectory = \"signals\"\npolicy = \"policy.json\"",
    );
    let fields = booleans(&["all_tests_passed", "coverage_met", "lint_clean"]);
    let put = |version: &str, more: &Value| {
        let text = contract("acme.suite", version, &fields, more);
        let file = format!("signals/{version}.adapter_contract.json");
        write(world.directory.path(), &file, text);
    };
    let evaluate = || {
        let run = run(&world, &plan(&[green()]));
        assert_eq!(run.code(), 0, "{}", run.stderr());
        let answer = run.json();
        let event = evaluated(&world, &run_id(&answer));
        (answer["review"].clone(), event["adapter_evaluation"].clone(), run.stderr())
    };
    put("1.0.0", &json!({ "status": "deprecated", "replaced_by": "acme.other@1.0.0" }));
    put("2.0.0", &json!({ "status": "revoked" }));
    let (review, evaluation, told) = evaluate();
    assert_eq!(review, json!(null), "{evaluation}");
    assert_eq!(evaluation["validation_result"], "passed");
    assert_eq!(evaluation["adapter_version"], "1.0.0");
    assert_eq!(evaluation["normalized_policy_inputs"], green());
    assert_eq!(
        evaluation["lifecycle_warnings"],
        json!([{ "kind": "deprecated", "adapter_id": "acme.suite", "adapter_version": "1.0.0",
            "replaced_by": "acme.other@1.0.0" }])
    );
    assert!(told.contains("acme.suite@1.0.0") && told.contains("deprecated"), "{told}");
    put("1.0.0", &json!({ "status": "revoked" }));
    let (review, evaluation, _) = evaluate();
    assert_eq!(review, "required", "{evaluation}");
    assert_eq!(evaluation["validation_result"], "unknown_adapter");
    assert_eq!(evaluation["normalized_policy_inputs"], json!({}));
    assert_eq!(evaluation["lifecycle_warnings"][0]["kind"], "revoked");
}

/// A policy is held to the contract that evaluations use, not to a newer one that is revoked.
#[test]
fn policy_is_checked_against_the_deprecated_contract_in_use() {
    let world = stage(
        "signal = \"acme.suite\"\nsignal_fields = \"/args\"\nacceptance = \"policy.json\"",
        "[signals]\ndirectory = \"signals\"",
    );
    let put = |version: &str, names: &[&str], status: &str| {
        let text = contract("acme.suite", version, &booleans(names), &json!({ "status": status }));
        let file = format!("signals/{version}.adapter_contract.json");
        write(world.directory.path(), &file, text);
    };
    let all = ["all_tests_passed", "coverage_met", "lint_clean"];
    put("1.0.0", &all, "deprecated");
    put("2.0.0", &["something_else"], "revoked");
    let good = run(&world, &plan(&[green()]));
    assert_eq!((good.code(), &good.json()["review"]), (0, &json!(null)), "{}", good.stderr());
    put("1.0.0", &["something_else"], "deprecated");
    put("2.0.0", &all, "revoked");
    let bad = run(&world, &plan(&[green()]));
    assert_eq!(bad.code(), 2);
    assert!(bad.stderr().contains("has no such field"), "{}", bad.stderr());
}

#[test]
fn what_cannot_be_used_keeps_a_run_from_being_begun() {
    let unfit = json!({ "rules": [{ "conditions": [{ "field": "nothing", "op": "==", "value": 1 }],
        "action": "auto_reject" }] });
    let fields = "signal_fields = \"/args\"";
    for (entry, more, told) in [
        (
            "signal = \"nexus_router.examples.cigate\"",
            "",
            "did you mean nexus_router.examples.ci_gate?",
        ),
        (&*format!("signal = \"{CI_GATE}@9.0.0\""), "", &*format!("did you mean {CI_GATE}@1.0.0?")),
        ("signal = \"nope\"", "", "adapters[0].signal is neither ID nor ID@VERSION"),
        (fields, "", "adapters[0].signal_fields stands without signal"),
        (&*format!("signal = \"{CI_GATE}\"\nsignal_fields = \"args\""), "", "is no JSON pointer"),
        (
            &*format!("signal = \"{CI_GATE}\"\nacceptance = \"gone.json\""),
            "",
            "gone.json cannot be used",
        ),
        (&*format!("signal = \"{CI_GATE}\"\nacceptance = \"unfit.json\""), "", "has no such field"),
        (
            &*format!("signal = \"{CI_GATE}\""),
            "[signals]\ndirectory = \"gone\"",
            "SIGNALS_UNUSABLE",
        ),
    ] {
        let world = stage(entry, more);
        write(world.directory.path(), "unfit.json", unfit.to_string());
        let run = run(&world, &plan(&[green()]));
        assert_eq!(run.code(), 2, "{entry}: {}", run.stdout());
        assert!(run.stderr().contains(told), "{entry}: {}", run.stderr());
        assert!(!world.path("runs.db").exists(), "{entry}");
    }
    let world = stage(&format!("signal = \"{CI_GATE}\"\nacceptance = \"open.json\""), "");
    write(world.directory.path(), "open.json", r#"{"default_action": "auto_accept"}"#);
    let checked = line(&world, "config check");
    assert_eq!(checked.code(), 1, "{}{}", checked.stdout(), checked.stderr());
    let said = format!("{}{}", checked.stdout(), checked.stderr());
    assert!(said.contains("adapters[0].acceptance: default_action must not be"), "{said}");
}

#[test]
fn secrets_are_in_no_evaluation_and_hashes_are_of_what_is_recorded() {
    let world = stage(
        "signal = \"acme.notes\"\nsignal_fields = \"/args\"",
        "[secrets.SAUCE]\nfrom = \"env:SAUCE\"\nadapters = [\"*\"]\n[signals]\ndirectory = \"signals\"",
    );
    let fields =
        json!({ "note": { "type": "string", "max_length": 100 }, "done": { "type": "boolean" } });
    let text = contract("acme.notes", "1.0.0", &fields, &json!({}));
    write(world.directory.path(), "signals/notes.adapter_contract.json", text);
    let request = plan(&[json!({ "note": { "$secret": "SAUCE" }, "done": true })]);
    write(world.directory.path(), "request.json", request.to_string());
    let run = world
        .run_with(&["run", "request.json", "--db", "runs.db", "--format", "json"], |command| {
            command.env("SAUCE", "hunter22-and-more")
        });
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let event = evaluated(&world, &run_id(&run.json()));
    assert!(!event.to_string().contains("hunter22"), "{event}");
    let evaluation = &event["adapter_evaluation"];
    assert_eq!(evaluation["validation_result"], "passed", "{evaluation}");
    assert_eq!(evaluation["normalized_policy_inputs"]["note"], "[REDACTED]");
    assert_eq!(evaluation["input_hash"], hash(&json!({ "note": "[REDACTED]", "done": true })));
}

#[test]
fn whole_output_is_judged_when_no_place_is_named() {
    let config = r#"config = { responses = [{ tool = "*", method = "*", return = { all_tests_passed = true,
        coverage_met = true, lint_clean = true } }] }"#;
    let entry = format!(
        "signal = \"{CI_GATE}\"\nacceptance = \"policy.json\"\n{}",
        config.replace('\n', " ")
    );
    let world = stage(&entry, "");
    let run = run(&world, &plan(&[json!({})]));
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert_eq!(run.json()["results"][0]["signals"]["action"], "auto_accept", "{}", run.json());
}
