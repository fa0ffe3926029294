//! A server that is a program: calls, and what becomes of them when it does not behave.

use std::time::{Duration, Instant};

use nexus_router_sdk::{Interaction, Object, code};
use serde_json::{Value, json};

use crate::stage::{ERAS, Stage, program, until};

#[test]
fn an_answer_comes_through_as_the_server_gave_it() {
    for era in ERAS {
        let stage = Stage::program(era);
        let output = stage.call("echo", json!({ "big": 12_345_678_901_234_567_890_u64 })).unwrap();
        let output = Value::Object(output);
        assert_eq!(output["content"][0], json!({ "type": "text", "text": "you said", "x-own": 1 }));
        assert_eq!(output["content"][1], json!({ "type": "hologram", "of": "tea" }));
        assert_eq!(output["_meta"], json!({ "test/a": 1 }));
        assert_eq!(output["x-own"], json!([1.5, null]));
        assert!(output.get("resultType").is_none());
        let sent = &output["structuredContent"];
        assert_eq!(sent["arguments"], json!({ "big": 12_345_678_901_234_567_890_u64 }));
        let version = &sent["_meta"]["io.modelcontextprotocol/protocolVersion"];
        let expected = if era == "modern" { json!("2026-07-28") } else { Value::Null };
        assert_eq!(version, &expected);
    }
}

#[test]
fn progress_and_log_lines_come_while_the_call_goes_on() {
    for era in ERAS {
        let stage = Stage::program(era);
        stage.call("progress", json!({})).unwrap();
        let progress = stage.notices("progress");
        let done: Vec<_> = progress.iter().map(|notice| notice["done"].as_f64().unwrap()).collect();
        assert_eq!(done, [1.0, 2.0, 3.0], "{era}");
        assert_eq!((&progress[0]["total"], &progress[0]["message"]), (&json!(3.0), &json!("step")));
        let line = stage.told("a line", |notice| notice["message"] == "test: careful now");
        assert_eq!(line["level"], "warn");
    }
}

#[test]
fn an_error_of_the_server_is_an_error_of_the_call() {
    for era in ERAS {
        let stage = Stage::program(era);
        let error = stage.call("fail", json!({})).unwrap_err();
        assert_eq!(error.code, "UPSTREAM_ERROR");
        let expected = json!({ "code": -32050, "message": "no luck", "data": { "dice": 3 } });
        assert_eq!(json!(*error.details), expected);
        assert_eq!(stage.call("garbage", json!({})).unwrap_err().code, code::INVALID_JSON);
        assert_eq!(stage.call("gone", json!({})).unwrap_err().code, code::NOT_FOUND);
        // That one is not even asked for.
        assert_eq!(stage.call("nowhere", json!({})).unwrap_err().code, code::NOT_FOUND);
        assert_eq!(
            stage.operation("echo", "shout", json!({})).unwrap_err().code,
            code::INVALID_ARGUMENT
        );
    }
}

#[test]
fn a_server_is_told_of_calls_that_are_over() {
    for era in ERAS {
        let stage = Stage::program(era);
        stage.time_out();
        let (before, _) = stage.abandoned();
        let (context, cancel) = stage.recorder.cancellable_context();
        std::thread::scope(|scope| {
            let call = scope.spawn(|| stage.call_with(&context, "wait", "call", json!({})));
            until("the call", || (stage.abandoned().0 > before).then_some(()));
            cancel();
            assert_eq!(call.join().unwrap().unwrap_err().code, code::CANCELLED);
        });
        until("the cancellations", || {
            let (waiting, cancelled) = stage.abandoned();
            (waiting == cancelled).then_some(())
        });
    }
}

#[test]
fn a_server_that_crashes_costs_its_calls_and_is_started_again() {
    for era in ERAS {
        let stage = Stage::program(era);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| stage.call("wait", json!({})));
            until("the call", || (stage.abandoned().0 > 0).then_some(()));
            for error in [stage.call("crash", json!({})), waiting.join().unwrap()] {
                let error = error.unwrap_err();
                assert_eq!(error.code, code::CONNECTION_FAILED);
                assert_eq!(error.details["may_have_been_carried_out"], true);
                assert!(error.message.contains("exit status: 9"), "{error}");
            }
        });
        stage.call("echo", json!({})).unwrap();
    }
}

#[test]
fn a_server_that_keeps_crashing_is_started_ever_more_seldom() {
    let stage = Stage::program("legacy");
    let start = Instant::now();
    let mut paused = None;
    while paused.is_none() {
        let error = stage.call("crash", json!({})).unwrap_err();
        assert_eq!(error.code, code::CONNECTION_FAILED);
        paused = error.details.get("retry_in_ms").and_then(Value::as_u64);
    }
    // Each pause is twice the one before, and they add up before a call is refused at once.
    assert!(start.elapsed() >= Duration::from_millis(3100) && paused.unwrap() > 2000);
}

#[test]
fn what_cannot_be_started_fails_calls_and_not_the_adapter() {
    let stage = Stage::new(json!({ "command": ["/nowhere/server"] }));
    let error = stage.call("echo", json!({})).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED);
    assert_eq!(error.details["may_have_been_carried_out"], false);
    assert!(error.message.contains("cannot run /nowhere/server"), "{error}");
    // One that says nothing is given up.
    let silent = json!({ "command": ["/bin/sleep", "1000"], "timeout_ms": 200 });
    let error = Stage::new(silent).call("echo", json!({})).unwrap_err();
    assert_eq!(
        (error.code.as_str(), &error.details["timeout_ms"]),
        (code::CONNECTION_FAILED, &json!(200))
    );
}

#[test]
fn a_server_that_floods_is_disconnected() {
    for era in ERAS {
        let stage = Stage::program(era);
        let error = stage.call("giant", json!({})).unwrap_err();
        assert_eq!(error.code, code::OUTPUT_TOO_LARGE);
        let error = stage.call("flood", json!({})).unwrap_err();
        assert_eq!(error.code, code::CONNECTION_FAILED);
        assert!(error.message.contains("messages a second unasked"), "{error}");
        stage.call("echo", json!({})).unwrap();
    }
}

#[test]
fn a_server_that_no_longer_listens_is_given_up() {
    let stage = Stage::program("modern");
    stage.call("echo", json!({})).unwrap();
    let hasty = |tool: &str, args: Value| {
        let context = stage.recorder.context_with_time(Duration::from_millis(500));
        stage.call_with(&context, tool, "call", args)
    };
    assert_eq!(hasty("deaf", json!({})).unwrap_err().code, code::TIMEOUT);
    // More than fits any pipe: that this call is over cannot be told either.
    let error = hasty("echo", json!({ "text": "x".repeat(4 << 20) })).unwrap_err();
    assert_eq!(error.code, code::TIMEOUT);
    until("another server", || hasty("echo", json!({})).ok());
}

#[test]
fn a_server_that_ends_when_asked_for_the_new_era_is_spoken_to_in_the_old_way() {
    let stage = Stage::program("shy");
    stage.call("echo", json!({})).unwrap();
    let only = |protocol: &str, role: &str| {
        let mut config = program(role);
        config["protocol"] = protocol.into();
        Stage::new(config).call("echo", json!({}))
    };
    only("2025-06-18", "legacy").unwrap();
    only("2026-07-28", "modern").unwrap();
    assert_eq!(only("2026-07-28", "legacy").unwrap_err().code, "UPSTREAM_ERROR");
}

#[test]
fn what_the_program_murmurs_is_logged_without_secrets_and_it_gets_little_of_the_environment() {
    let stage = Stage::program("modern");
    let output = stage.call("murmur", json!({})).unwrap();
    let line = stage.told("a murmur", |notice| {
        notice["message"].as_str().is_some_and(|text| text.starts_with("a murmur of"))
    });
    assert!(!line["message"].as_str().unwrap().contains("very-secret-token"), "{line}");
    let names = output["structuredContent"].as_array().unwrap();
    assert!(
        names.contains(&json!("TOKEN")) && !names.contains(&json!("CARGO_MANIFEST_DIR")),
        "{names:?}"
    );
}

#[test]
fn questions_of_the_server_go_to_the_caller_in_the_new_era() {
    let stage = Stage::program("modern");
    let error = stage.call("ask", json!({})).unwrap_err();
    assert_eq!(error.code, code::CLIENT_CAPABILITY_MISSING);
    assert_eq!(error.details["required"], json!({ "elicitation": {} }));
    let able = |inputs: Value, state: Option<&str>| Interaction {
        inputs: inputs.as_object().cloned().unwrap_or_default(),
        state: state.map(ToOwned::to_owned),
        client: [("elicitation".to_owned(), json!({}))].into_iter().collect::<Object>(),
    };
    let context = stage.recorder.context_with(able(Value::Null, None));
    let error = stage.call_with(&context, "ask", "call", json!({})).unwrap_err();
    assert_eq!(error.code, code::INPUT_REQUIRED);
    assert_eq!(error.details["requests"]["who"]["method"], "elicitation/create");
    assert_eq!(error.details["state"], "sealed");
    let answers = json!({ "who": { "action": "accept", "content": { "name": "Ada" } } });
    let context = stage.recorder.context_with(able(answers.clone(), Some("sealed")));
    let output = stage.call_with(&context, "ask", "call", json!({})).unwrap();
    assert_eq!(output["structuredContent"], json!({ "got": answers, "state": "sealed" }));
}

#[test]
fn questions_of_the_server_are_declined_in_the_old_era() {
    let stage = Stage::program("legacy");
    let output = Value::Object(stage.call("ask", json!({})).unwrap());
    assert_eq!(output["structuredContent"]["result"]["action"], "decline");
}

#[test]
fn nothing_of_a_server_is_left_behind() {
    let stage = Stage::new(json!({ "command": ["/bin/sh", "-c", "sleep 4711 & exec sleep 4711"] }));
    let context = stage.recorder.context_with_time(Duration::from_millis(300));
    drop(stage.call_with(&context, "echo", "call", json!({})));
    until("what was started", || (sleepers() == 2).then_some(()));
    drop(stage);
    until("the end of what was started", || (sleepers() == 0).then_some(()));
}

/// Counts the processes that the test above leaves to their sleep.
fn sleepers() -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    commands.filter(|command| command.starts_with(b"sleep\x004711\0")).count()
}

#[test]
fn many_calls_share_one_server() {
    let stage = Stage::program("modern");
    std::thread::scope(|scope| {
        let stage = &stage;
        let calls: Vec<_> = (0..50)
            .map(|n| (n, scope.spawn(move || stage.call("echo", json!({ "n": n })))))
            .collect();
        for (n, call) in calls {
            let output = Value::Object(call.join().unwrap().unwrap());
            assert_eq!(output["structuredContent"]["arguments"]["n"], n);
        }
    });
}
