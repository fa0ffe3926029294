//! Many contracts at once, and what is no contract.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{contract, text};
use crate::support::{PROGRAM, World};

#[test]
fn a_directory_is_linted_whole_and_in_order() {
    let world = World::new();
    for n in (0..100).rev() {
        let name = format!("all/deep{}/c{n:03}.adapter_contract.json", n % 3);
        world.write(&name, &text(&contract(&format!("acme.c{n}"), "1.0.0", "{}")));
    }
    world.write("all/adapter_contract.json", "[]");
    world.write("all/other.json", "no contract at all");
    world.write("all/.hidden/x.adapter_contract.json", "{");
    std::os::unix::fs::symlink(world.path("all"), world.path("all/loop")).unwrap();
    let run = world.run(&["contract", "lint", "all"]);
    assert_eq!(run.code(), 1, "{}", run.stderr());
    let report = run.json();
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["ok", "checked", "failed", "contracts", "registry"]);
    assert_eq!((&report["checked"], &report["failed"]), (&json!(101), &json!(1)));
    let contracts = report["contracts"].as_array().unwrap();
    let paths: Vec<&str> = contracts.iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert!(paths.is_sorted() && paths[0] == "all/adapter_contract.json", "{paths:?}");
    assert_eq!(
        contracts[0]["errors"],
        json!(["declaration is not a JSON object but of type array"])
    );
    assert_eq!(report["registry"]["heads"].as_array().unwrap().len(), 100);
    assert_eq!(world.run(&["contract", "lint", "all"]).stdout(), run.stdout());
}

#[test]
fn contracts_are_held_to_each_other() {
    let world = World::new();
    let write = |name: &str, id: &str, version: &str, members: &str| {
        world.write(
            &format!("r/{name}.adapter_contract.json"),
            &text(&contract(id, version, members)),
        );
    };
    write("a1", "acme.a", "1.0.0", r#"{"replaced_by": "acme.a@2.0.0"}"#);
    write("a2", "acme.a", "2.0.0", r#"{"supersedes": "acme.a@1.0.0"}"#);
    write("a2_other", "acme.a", "2.0.0", r#"{"allowed_policy_fields": []}"#);
    write("b", "acme.b", "1.0.0", r#"{"supersedes": "acme.c@1.0.0"}"#);
    write(
        "c",
        "acme.c",
        "1.0.0",
        r#"{"supersedes": "acme.b@1.0.0", "replaced_by": "acme.z@1.0.0"}"#,
    );
    write("d", "acme.d", "1.0.0", r#"{"status": "revoked"}"#);
    let run = world.run(&["contract", "lint", "r"]);
    assert_eq!(run.code(), 1);
    let report = run.json();
    assert_eq!((&report["ok"], &report["failed"]), (&json!(false), &json!(0)));
    let registry = &report["registry"];
    let told = |key: &str, word: &str| {
        let list = registry[key].as_array().unwrap();
        list.iter().filter(|it| it.as_str().unwrap().starts_with(word)).count()
    };
    assert_eq!((told("errors", "collision"), told("errors", "cycle")), (1, 1), "{registry}");
    assert_eq!((told("warnings", "dangling"), told("warnings", "no active")), (1, 1), "{registry}");
    for finding in registry["findings"].as_array().unwrap() {
        assert!(finding["file"].as_str().unwrap().starts_with("r/"), "{finding}");
        assert!(finding["pointer"].as_str().unwrap().starts_with('/'), "{finding}");
        assert_ne!(finding["remedy"], "");
    }
    let head = json!({"adapter_id": "acme.a", "adapter_version": "2.0.0", "path": "r/a2.adapter_contract.json"});
    assert_eq!(registry["heads"][0], head);
    // What is named twice is there once.
    let twice = world.run(&["contract", "lint", "r/b.adapter_contract.json", "r", "r"]).json();
    assert_eq!(twice["checked"], 6);
    // Each of them alone is right.
    assert_eq!(world.run(&["contract", "lint", "r/b.adapter_contract.json"]).code(), 0);
}

#[test]
fn other_formats_tell_place_and_remedy() {
    let world = World::new();
    let mut wrong = contract("acme.a", "1.0.0", "{}");
    wrong.insert("output_fields", vec!["a".into(), "B\u{1b}[2J".into()]);
    world.write("w%,.json", &text(&wrong));
    let human = world.run(&["contract", "lint", "w%,.json", "--format", "human"]);
    assert_eq!(human.code(), 1);
    assert!(
        human
            .stdout()
            .contains("✗ w%,.json /output_fields/1: output_fields entry 'B\\x1b[2J' is not")
    );
    assert!(
        human.stdout().ends_with("not ok: 1 contracts, 2 errors, 1 warnings\n"),
        "{}",
        human.stdout()
    );
    let github = world.run(&["contract", "lint", "w%,.json", "--format", "github"]);
    let line = github.stdout().lines().next().unwrap().to_owned();
    assert!(
        line.starts_with("::error file=w%25%2C.json,title=signal contract::/output_fields/1: ")
    );
    assert!(line.contains("%0Ahint: ") && !line.contains('\u{1b}'), "{line}");
    let json = world.run(&["contract", "lint", "w%,.json", "--format", "json"]).json();
    assert_eq!(json["contracts"][0]["findings"][0]["pointer"], "/output_fields/1");
}

/// Runs the program with a standard input.
fn fed(world: &World, arguments: &[&str], input: &[u8]) -> (i32, String) {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .current_dir(world.directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have seen enough before it has read everything.
    drop(child.stdin.take().unwrap().write_all(input));
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn standard_input_is_a_contract_like_any_other() {
    let world = World::new();
    let good = text(&contract("acme.a", "1.0.0", "{}"));
    let (code, shown) = fed(&world, &["contract", "lint", "-"], good.as_bytes());
    let report: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, &report["ok"], &report["adapter_id"]), (0, &json!(true), &json!("acme.a")));
    let edited = good.replace("\"b\"", "\"c\"");
    assert_eq!(fed(&world, &["contract", "lint", "-"], edited.as_bytes()).0, 1);
    let (code, mended) = fed(&world, &["contract", "rehash", "-"], edited.as_bytes());
    assert_eq!((code, fed(&world, &["contract", "lint", "-"], mended.as_bytes()).0), (0, 0));
    assert_eq!(fed(&world, &["contract", "rehash", "-", "--check"], edited.as_bytes()).0, 1);
}

#[test]
fn hostile_texts_are_refused_with_a_finding() {
    let world = World::new();
    let names: Vec<String> = (0..60_000).map(|n| format!("\"x{n}\":1")).collect();
    let entries = format!("\"output_fields\":[{}1]", "\"a\",".repeat(50_000));
    for (name, bytes) in [
        ("deep", "[".repeat(1_000_000).into_bytes()),
        ("deep_value", format!("{{\"x\":{}1{}}}", "[".repeat(400), "]".repeat(400)).into_bytes()),
        ("huge", vec![b' '; 3 << 20]),
        ("many", format!("[{}1]", "1,".repeat(200_000)).into_bytes()),
        ("names", format!("{{{}}}", names.join(",")).into_bytes()),
        ("entries", format!("{{{entries}}}").into_bytes()),
        ("bytes", vec![0xff; 100]),
        ("nothing", Vec::new()),
        ("zero", vec![0; 10]),
        ("null", b"null".to_vec()),
        ("lone", br#"{"adapter_id": "\ud800"}"#.to_vec()),
        ("mixed", br#"{"output_fields": ["b", 1, "a", null, [2], {}]}"#.to_vec()),
    ] {
        fs::write(world.path("c.json"), &bytes).unwrap();
        for arguments in [
            &["lint", "c.json"][..],
            &["rehash", "c.json"],
            &["rehash", "c.json", "--check"],
            &["diff", "c.json", "c.json", "--format", "json"],
        ] {
            let arguments = [&["contract"], arguments].concat();
            let run = world.run(&arguments);
            assert!(matches!(run.code(), 1 | 2), "{name} {arguments:?}: {}", run.code());
            assert!(!run.stderr().contains("panicked"), "{name} {arguments:?}: {}", run.stderr());
            if arguments[1] == "lint" {
                assert_eq!(run.code(), 1, "{name}");
                assert_ne!(run.json()["errors"], json!([]), "{name}");
            }
        }
        let before = fs::read(world.path("c.json")).unwrap();
        let run = world.run(&["contract", "bump", "c.json", "--version", "x"]);
        assert_eq!((run.code(), fs::read(world.path("c.json")).unwrap() == before), (2, true));
    }
}

#[test]
fn what_cannot_be_read_leaves_no_answer() {
    let world = World::new();
    world.write("good.json", &text(&contract("acme.a", "1.0.0", "{}")));
    rustix::fs::mkfifoat(rustix::fs::CWD, world.path("pipe"), rustix::fs::Mode::from(0o600))
        .unwrap();
    let run = world.run(&["contract", "lint", "pipe"]);
    assert_eq!((run.code(), &run.json()["ok"]), (2, &json!(false)));
    // The others are told all the same.
    let run = world.run(&["contract", "lint", "good.json", "pipe", "missing.json"]);
    let report = run.json();
    assert_eq!((run.code(), &report["checked"], &report["failed"]), (2, &json!(3), &json!(2)));
    assert_eq!(report["contracts"][2]["errors"], json!(["file_not_found: missing.json"]));
    assert_eq!(world.run(&["contract", "rehash", "pipe"]).code(), 2);
    assert_eq!(world.run(&["contract", "diff", "pipe", "good.json"]).code(), 2);
    fs::create_dir(world.path("empty")).unwrap();
    assert_eq!(world.run(&["contract", "lint", "empty"]).code(), 1);
    assert_eq!(world.run(&["contract", "lint", "empty", "good.json"]).code(), 1);
}
