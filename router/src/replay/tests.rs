//! Replay of logs of ours: sound ones, and each way of being changed.

use super::*;
use crate::json::{Limits, parse, to_canonical};
use crate::store::{Header, Progress, RunRecord};

const PLAN: &str = r#"[{"call":{"args":{},"method":"m","tool":"t"},"intent":"i","step_id":"a"},{"call":{"args":{},"method":"n","tool":"t"},"intent":"i","step_id":"b\u00e9"}]"#;
const OUTPUT: &str = r#"{"deep":[[{"x":[]}]],"text":"\u00e9\n"}"#;

/// The output of the second step, which fails.
const FAILED_OUTPUT: &str = r#"{"isError":true}"#;

/// The events of a run of ours in which the first step succeeds and the second fails.
fn events() -> Vec<(&'static str, String)> {
    events_with(Some(FAILED_OUTPUT))
}

/// The same events, with the output of the failed call or without one.
fn events_with(failed: Option<&str>) -> Vec<(&'static str, String)> {
    let covered = failed.unwrap_or("{}");
    let failed = failed.map(|output| format!(r#""output":{output},"#)).unwrap_or_default();
    let request = format!(
        r#"{{"request":{{"mode":"apply","policy":{{"allow_apply":true}},"goal":"g","plan_override":{PLAN}}},
        "results":[{{"step_id":"a","status":"ok","simulated":false,"output":{OUTPUT},"evidence":[]}},
        {{"step_id":"bé","status":"error","simulated":false,"output":{covered},"evidence":[]}}]}}"#
    );
    let covered = to_canonical(&parse(request.as_bytes(), Limits::REQUEST).unwrap());
    let digest = Digest::of(covered.as_bytes());
    let text = |text: &str| text.to_owned();
    vec![
        (
            "RUN_STARTED",
            text(
                r#"{"goal":"g","mode":"apply","request":{"mode":"apply","policy":{"allow_apply":true}},"router_version":"1.2.0"}"#,
            ),
        ),
        ("PLAN_CREATED", format!(r#"{{"plan":{PLAN}}}"#)),
        ("DISPATCH_SELECTED", text(r#"{"adapter_id":"x"}"#)),
        ("STEP_STARTED", text(r#"{"step_id":"a"}"#)),
        ("TOOL_CALL_REQUESTED", text(r#"{"call":{"method":"m"},"step_id":"a"}"#)),
        ("TOOL_CALL_SUCCEEDED", format!(r#"{{"output":{OUTPUT},"step_id":"a"}}"#)),
        ("STEP_COMPLETED", text(r#"{"status":"ok","step_id":"a"}"#)),
        ("STEP_STARTED", text(r#"{"step_id":"b\u00e9"}"#)),
        ("TOOL_CALL_REQUESTED", text(r#"{"call":{"method":"n"},"step_id":"b\u00e9"}"#)),
        ("TOOL_CALL_FAILED", format!(r#"{{{failed}"step_id":"b\u00e9"}}"#)),
        ("STEP_COMPLETED", text(r#"{"status":"error","step_id":"b\u00e9"}"#)),
        (
            "PROVENANCE_EMITTED",
            format!(r#"{{"provenance":{{"records":[{{"digests":[{{"value":"{digest}"}}]}}]}}}}"#),
        ),
        ("RUN_FAILED", text(r#"{"outcome":"error","reason":"step_failed"}"#)),
    ]
}

/// Makes a log of events, with the chain that belongs to them.
fn log(events: &[(&str, String)], status: Status) -> Log {
    let (mut body, mut head) = (String::new(), Digest::ZERO);
    for (seq, (kind, payload)) in events.iter().enumerate() {
        let line = format!(
            r#"{{"event_id":"e{seq}","payload":{payload},"run_id":"r","seq":{seq},"ts":"t","type":"{kind}"}}"#
        );
        head = head.chain(&line);
        body.push_str(&line);
        body.push('\n');
    }
    let text = |text: &str| text.to_owned();
    let header =
        Header { run_id: text("r"), mode: text("apply"), goal: text("g"), created_at: text("t") };
    let progress = Progress {
        status,
        steps_planned: 0,
        steps_executed: 0,
        tools_used: Vec::new(),
        outcome: None,
        last_failure_reason: None,
        events: events.len() as u64,
        head,
    };
    let record = RunRecord { header, progress, origin: None, owned: false, waits: false };
    Log { record, bodies: vec![body] }
}

fn codes(violations: &[Violation]) -> Vec<&'static str> {
    violations.iter().map(|violation| violation.code).collect()
}

/// Returns the codes of the violations after a change to the events.
fn after(change: impl FnOnce(&mut Vec<(&'static str, String)>)) -> Vec<&'static str> {
    let mut events = events();
    change(&mut events);
    let replay = replay(&log(&events, Status::Failed));
    assert_eq!(replay.warnings, []);
    codes(&replay.violations)
}

#[test]
fn a_sound_log_has_no_violations() {
    let mut told = Vec::new();
    let log = log(&events(), Status::Failed);
    let replay = replay_with(&log, |done, of| told.push((done, of)));
    assert_eq!(replay.violations, []);
    assert_eq!((replay.warnings, replay.origin), (vec![], Origin::Ours));
    assert_eq!((replay.events, replay.head), (13, log.record.progress.head));
    assert_eq!(replay.view.outcome(), Some("error"));
    assert_eq!(replay.view.tools_used(), ["m", "n"]);
    assert_eq!(told, []);
}

#[test]
fn failed_calls_need_no_output() {
    let replay = replay(&log(&events_with(None), Status::Failed));
    assert_eq!((replay.violations, replay.warnings), (vec![], vec![]));
}

#[test]
fn progress_is_told_of_long_logs() {
    let mut events = events();
    events.extend((0..STRIDE).map(|_| ("STEP_STARTED", "{}".to_owned())));
    let mut told = Vec::new();
    let log = log(&events, Status::Failed);
    let replay = replay_with(&log, |done, of| told.push((done, of)));
    assert_eq!(told, [(STRIDE, STRIDE + 13)]);
    assert_eq!(codes(&replay.violations), ["EVENT_AFTER_TERMINAL"]);
}

#[test]
fn a_run_without_an_adapter_replays_cleanly() {
    let mut events = events();
    events.truncate(2);
    events.push(("RUN_FAILED", r#"{"reason":"dispatch_selection_failed"}"#.to_owned()));
    assert_eq!(replay(&log(&events, Status::Failed)).violations, []);
}

#[test]
fn a_log_that_is_cut_off_anywhere_only_lacks_its_end() {
    let events = events();
    for length in 2..events.len() {
        let replay = replay(&log(&events[..length], Status::Running));
        assert_eq!(codes(&replay.violations), ["NO_TERMINAL_EVENT"], "{length}");
    }
}

#[test]
fn changes_to_the_log_are_found() {
    assert_eq!(after(|_| {}), [""; 0]);
    let provenance = ["PROVENANCE_MISMATCH"];
    assert_eq!(after(|events| events[0].1 = events[0].1.replace("\"g\"", "\"h\"")), provenance);
    assert_eq!(after(|events| events[1].1 = events[1].1.replace("\"i\"", "\"j\"")), provenance);
    assert_eq!(after(|events| events[5].1 = events[5].1.replace("deep", "flat")), provenance);
    assert_eq!(after(|events| events[11].1 = events[11].1.replace("value", "valve")), provenance);
    assert_eq!(after(|events| events[2].0 = "HELLO"), ["UNKNOWN_EVENT_TYPE"]);
    assert_eq!(after(|events| events.swap(3, 4)), ["TOOL_CALL_WITHOUT_STEP", "EVENT_OUT_OF_ORDER"]);
    assert_eq!(
        after(|events| events[12].0 = "RUN_COMPLETED"),
        ["OUTCOME_MISMATCH", "STATUS_MISMATCH"]
    );
    assert_eq!(
        after(|events| events[3].1 = "[]".to_owned()),
        [
            "TOOL_CALL_WITHOUT_STEP",
            "TOOL_RESULT_WITHOUT_STEP",
            "STEP_COMPLETED_WITHOUT_START",
            "PAYLOAD_INVALID"
        ]
    );
    assert_eq!(
        after(|events| events[4].1 = "{\"x\":NaN,\"step_id\":\"a\"}".to_owned()),
        ["PAYLOAD_INVALID"]
    );
    assert_eq!(
        after(|events| events[6].1 = events[6].1.replace("ok", "error")),
        ["OUTCOME_MISMATCH", "PROVENANCE_MISMATCH"]
    );
}

#[test]
fn changes_beside_the_log_are_found() {
    let sound = log(&events(), Status::Failed);
    let found = |change: &dyn Fn(&mut Log)| {
        let mut log = sound.clone();
        change(&mut log);
        codes(&replay(&log).violations)
    };
    assert_eq!(found(&|log| log.record.progress.head = Digest::ZERO), ["CHAIN_BROKEN"]);
    assert_eq!(found(&|log| log.record.progress.status = Status::Completed), ["STATUS_MISMATCH"]);
    assert_eq!(found(&|log| log.record.header.run_id.push('x')), ["EVENT_RUN_ID_MISMATCH"; 13]);
    let damaged = found(&|log| log.bodies[0] = log.bodies[0].replacen("event_id", "event_ix", 1));
    assert!(damaged.contains(&"EVENT_INVALID") && damaged.contains(&"CHAIN_BROKEN"), "{damaged:?}");
}

#[test]
fn rules_of_ours_are_warnings_in_foreign_logs_but_damage_is_not() {
    let foreign = |events: &[(&str, String)]| {
        let mut events = events.to_vec();
        events[0].1 = r#"{"goal":"g","mode":"apply"}"#.to_owned();
        replay(&log(&events, Status::Completed))
    };
    let mut events = events();
    events[11].1 = "{}".to_owned();
    let replay = foreign(&events);
    assert_eq!(
        (codes(&replay.violations), codes(&replay.warnings)),
        (vec![], vec!["STATUS_MISMATCH"])
    );
    assert_eq!(replay.origin, Origin::Foreign);
    events[12].1 = "{".to_owned();
    let replay = foreign(&events);
    assert_eq!(codes(&replay.violations), ["PAYLOAD_INVALID"]);
}

#[test]
fn no_code_means_two_things() {
    for code in crate::run::Illegal::CODES {
        assert!(CODES.iter().all(|row| row.0 != code), "{code}");
    }
}

/// The events of the same run, in which a person is asked about the first step, and decides.
fn asked(decision: &str) -> Vec<(&'static str, String)> {
    let mut events = events();
    let question = r#"{"approval_id":"q","step_id":"a"}"#.to_owned();
    let answer = format!(r#"{{"approval_id":"q","decision":"{decision}","step_id":"a"}}"#);
    events.insert(4, ("APPROVAL_REQUESTED", question));
    events.insert(5, ("APPROVAL_DECIDED", answer));
    events
}

fn found(events: &[(&'static str, String)]) -> Vec<&'static str> {
    codes(&replay(&log(events, Status::Failed)).violations)
}

#[test]
fn a_call_succeeds_only_if_it_was_approved() {
    assert_eq!(found(&asked("approved")), [""; 0]);
    for decision in ["denied", "expired", "void"] {
        assert_eq!(found(&asked(decision)), ["CALL_NOT_APPROVED"], "{decision}");
    }
    assert_eq!(found(&asked("perhaps")), ["APPROVAL_MISMATCH"]);
}

#[test]
fn approvals_are_asked_and_decided_in_order() {
    let after = |change: fn(&mut Vec<(&'static str, String)>)| {
        let mut events = asked("approved");
        change(&mut events);
        found(&events)
    };
    let order = ["EVENT_OUT_OF_ORDER"];
    assert_eq!(after(|events| drop(events.remove(5))), order, "a call is made while it waits");
    assert_eq!(after(|events| drop(events.remove(4))), order, "what was not asked is decided");
    assert_eq!(after(|events| events.insert(5, events[5].clone())), order, "it is decided twice");
    let mismatch = ["APPROVAL_MISMATCH"];
    assert_eq!(after(|events| events[5].1 = events[5].1.replace("\"q\"", "\"p\"")), mismatch);
    // The same question again, after its answer; another one is another question.
    let again = |events: &mut Vec<(&'static str, String)>, id: &str| {
        let pair = [events[4].clone(), events[5].clone()];
        let pair = pair.map(|(kind, payload)| (kind, payload.replace("\"q\"", id)));
        events.splice(6..6, pair);
    };
    let mut twice = asked("approved");
    again(&mut twice, "\"q\"");
    assert_eq!(found(&twice), mismatch);
    let mut other = asked("denied");
    again(&mut other, "\"r\"");
    other[7].1 = other[7].1.replace("denied", "approved");
    assert_eq!(found(&other), [""; 0], "the last answer counts");
    assert_eq!(
        after(|events| events[4].1 = events[4].1.replace("\"a\"", "\"b\"")),
        ["STEP_MISMATCH"]
    );
}

/// The events of the same run, in which what the first step gave is judged.
fn judged(action: &str) -> Vec<(&'static str, String)> {
    let mut events = events();
    let payload = format!(r#"{{"decision":{{"action":"{action}"}},"step_id":"a"}}"#);
    events.insert(6, ("SIGNALS_EVALUATED", payload));
    events
}

#[test]
fn signals_are_judged_between_the_answer_and_the_end_of_their_step() {
    for action in ["auto_accept", "require_review"] {
        assert_eq!(found(&judged(action)), [""; 0], "{action}");
    }
    assert_eq!(found(&judged("perhaps")), ["OUTCOME_MISMATCH"]);
    let mut rejected = judged("auto_reject");
    assert_eq!(found(&rejected)[0], "OUTCOME_MISMATCH", "a step that is rejected is not ok");
    rejected[7].1 = rejected[7].1.replace("ok", "error");
    let run = log(&rejected[..8], Status::Running);
    assert_eq!(codes(&replay(&run).violations), ["NO_TERMINAL_EVENT"]);
    let moved = |to: usize| {
        let mut events = judged("auto_accept");
        let event = events.remove(6);
        events.insert(to, event);
        found(&events)
    };
    for place in [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11] {
        assert!(!moved(place).is_empty(), "at {place}");
    }
    let mut twice = judged("auto_accept");
    twice.insert(7, twice[6].clone());
    assert_eq!(found(&twice), ["EVENT_OUT_OF_ORDER"]);
    let mut other = judged("auto_accept");
    other[6].1 = other[6].1.replace("\"a\"", "\"z\"");
    assert_eq!(found(&other), ["STEP_MISMATCH"]);
}

/// The events of the same run, in which the call of the first step is retried.
fn retried(attempts: &[u64]) -> Vec<(&'static str, String)> {
    let mut events = events();
    for (place, attempt) in (5..).zip(attempts) {
        let payload = format!(r#"{{"attempt":{attempt},"step_id":"a"}}"#);
        events.insert(place, ("TOOL_CALL_RETRIED", payload));
    }
    events
}

#[test]
fn retries_are_counted_between_request_and_result() {
    assert_eq!(found(&retried(&[2, 3, 4])), [""; 0]);
    for wrong in [&[1][..], &[3], &[2, 2], &[2, 4], &[0]] {
        assert_eq!(found(&retried(wrong)), ["EVENT_OUT_OF_ORDER"], "{wrong:?}");
    }
    for place in [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11] {
        let mut moved = retried(&[2]);
        let event = moved.remove(5);
        moved.insert(place, event);
        assert!(!found(&moved).is_empty(), "at {place}");
    }
    // A request after a crash begins to count afresh.
    let mut resumed = retried(&[2]);
    let again = r#"{"attempt":2,"call":{"method":"m"},"step_id":"a"}"#.to_owned();
    resumed.insert(6, ("TOOL_CALL_REQUESTED", again));
    resumed.insert(7, resumed[5].clone());
    assert_eq!(found(&resumed), [""; 0]);
    let mut bare = retried(&[2]);
    bare[5].1 = r#"{"step_id":"a"}"#.to_owned();
    assert_eq!(found(&bare), ["EVENT_OUT_OF_ORDER"]);
}
