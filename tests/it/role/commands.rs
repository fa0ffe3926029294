//! `nexus-router role …`, as people and scripts use it.

use nexus_router::Digest;
use nexus_router::role::{CONTRACT_SHA256, TABLE_SHA256};

use crate::support::World;

#[test]
fn show_tells_the_roles_and_their_pins() {
    let world = World::new();
    let run = world.run(&["role", "show"]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let text = run.stdout();
    for part in [
        "scout  web_search",
        "envoy  shell_exec",
        "a grant of the plan",
        TABLE_SHA256,
        CONTRACT_SHA256,
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let json = world.run(&["role", "show", "--format", "json"]).json();
    assert_eq!(json["role_table_sha256"], TABLE_SHA256);
    assert_eq!(json["contract"]["roles"]["envoy"]["actions"], json["roles"]["envoy"]);
}

#[test]
fn the_exported_contract_has_the_pinned_digest() {
    let run = World::new().run(&["role", "export", "--format", "contract"]);
    assert_eq!(Digest::of(run.stdout().as_bytes()).to_string(), CONTRACT_SHA256);
}

#[test]
fn decide_answers_each_line() {
    let world = World::new();
    let line = |role: &str, action: &str| {
        format!(
            r#"{{"role":"{role}","action":"{action}","plan_authorized":false,"policy_gate":true,"network_requested":false}}"#
        )
    };
    let ask = |text: &str| {
        std::fs::write(world.path("requests.jsonl"), text).unwrap();
        world.run(&["role", "decide", "requests.jsonl"])
    };
    let run = ask(&line("scout", "web_search"));
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert!(run.stdout().starts_with(r#"{"allow":true,"reason":"allowed""#), "{}", run.stdout());
    let run = ask(&format!("{}\n\n{}\n", line("scout", "web_search"), line("envoy", "shell_exec")));
    assert_eq!(run.code(), 1);
    assert_eq!(run.stdout().lines().count(), 2);
    assert!(run.stdout().contains("plan_grant_missing:shell_exec"), "{}", run.stdout());
}

#[test]
fn what_is_no_request_is_told_by_its_line() {
    let world = World::new();
    let good = r#"{"role":"scout","action":"web_search","plan_authorized":true,"policy_gate":true,"network_requested":false}"#;
    for (text, part) in [
        ("", "has no request"),
        ("{}", "line 1: role is no string"),
        ("[]", "line 1: it is no object"),
        (&format!("{good}\n{{"), "line 2: "),
        (&good.replace("false", "0"), "network_requested is neither true nor false"),
        (&good.replace("\"role\"", "\"\\u001b[2Jroll\""), "there is no member"),
        (&"[".repeat(1 << 20), "line 1: "),
    ] {
        std::fs::write(world.path("requests.jsonl"), text).unwrap();
        let run = world.run(&["role", "decide", "requests.jsonl"]);
        assert_eq!((run.code(), run.stdout().as_str()), (2, ""), "{text:.80}");
        assert!(run.stderr().contains(part), "no {part} in {}", run.stderr());
        assert!(!run.stderr().contains('\u{1b}'));
    }
    let run = world.run(&["role", "decide", "nowhere.jsonl"]);
    assert_eq!(run.code(), 2);
}
