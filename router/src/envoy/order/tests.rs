//! What can be read, and what cannot.

use super::*;
use serde_json::json;

fn settings() -> Settings {
    Settings {
        workspace: "/w".into(),
        shell_exec: false,
        run_workspace: false,
        timeout: Duration::from_secs(300),
        processes: 1,
        output: 1,
        file: 1,
        disk: 1,
        files: 1,
        keep_free: 1,
    }
}

fn read(class: ActionClass, args: &serde_json::Value) -> Result<Order, Mistake> {
    let args = json::parse(args.to_string().as_bytes(), json::Limits::REQUEST).unwrap();
    Order::read(class, args.as_object().unwrap(), &settings())
}

#[test]
fn a_program_is_read_with_all_that_it_sees() {
    let args = json!({ "argv": ["git", "status"], "cwd": "a/b", "env": ["PATH", "HOME", "PATH"],
        "stdin": "x", "timeout_s": 5, "paths": ["a"] });
    let order = read(ActionClass::RepoOps, &args).unwrap();
    let ordered = order.described(&settings());
    assert_eq!(ordered.argv, ["git", "status"]);
    assert_eq!((ordered.cwd.as_str(), ordered.kind), ("a/b", Kind::Shell));
    assert_eq!(
        (ordered.env, ordered.paths),
        (vec!["HOME".into(), "PATH".into()], vec!["a".into()])
    );
    assert_eq!(ordered.timeout, Duration::from_secs(5));
}

#[test]
fn a_reference_to_a_secret_stands_for_itself() {
    let args = json!({ "argv": ["sh", { "$secret": "KEY" }] });
    let order = read(ActionClass::TestExec, &args).unwrap();
    assert_eq!(order.described(&settings()).argv, ["sh", r#"{"$secret":"KEY"}"#]);
}

#[test]
fn mistakes_are_told_with_their_place() {
    let run = ActionClass::TestExec;
    let (write, pack) = (ActionClass::FileWrite, ActionClass::ArtifactPack);
    let many = vec!["x"; MOST_ARGUMENTS + 1];
    let long = "x".repeat(MOST_ARGUMENT_BYTES);
    for (class, args, pointer, message) in [
        (run, json!({}), "", "argv is missing"),
        (run, json!({ "argv": [] }), "/argv", "at least the program"),
        (run, json!({ "argv": "ls -l" }), "/argv", "must be an array"),
        (run, json!({ "argv": ["sh", 1] }), "/argv/1", "must be a string"),
        (run, json!({ "argv": ["sh", ""] }), "/argv/1", "not be empty"),
        (run, json!({ "argv": ["sh", "a\0b"] }), "/argv/1", "NUL"),
        (run, json!({ "argv": ["s\0h"] }), "/argv/0", "NUL"),
        (run, json!({ "argv": many }), "/argv", "at most 4096"),
        (run, json!({ "argv": [long] }), "/argv", "at most 4096"),
        (run, json!({ "argv": ["sh"], "shell": true }), "/shell", "unknown key"),
        (run, json!({ "argv": ["sh"], "cwd": "/etc" }), "/cwd", "relative"),
        (run, json!({ "argv": ["sh"], "cwd": "a/../.." }), "/cwd", "relative"),
        (run, json!({ "argv": ["sh"], "cwd": "b", "paths": ["a"] }), "/cwd", "inside paths"),
        (run, json!({ "argv": ["sh"], "paths": ["/a"] }), "/paths/0", "relative"),
        (run, json!({ "argv": ["sh"], "env": ["LD_PRELOAD="] }), "/env/0", "variable"),
        (run, json!({ "argv": ["sh"], "timeout_s": 0 }), "/timeout_s", "1 to 300"),
        (run, json!({ "argv": ["sh"], "timeout_s": 301 }), "/timeout_s", "1 to 300"),
        (run, json!({ "argv": ["sh"], "timeout_s": "1" }), "/timeout_s", "1 to 300"),
        (ActionClass::RepoOps, json!({ "argv": ["sh"] }), "/argv/0", "repo_ops runs git"),
        (write, json!({ "text": "x" }), "", "path is missing"),
        (write, json!({ "path": "a" }), "", "either text or base64"),
        (write, json!({ "path": "a", "text": "", "base64": "" }), "", "either text or base64"),
        (write, json!({ "path": "a", "base64": "?" }), "/base64", "padding"),
        (write, json!({ "path": ".", "text": "" }), "/path", "file inside"),
        (write, json!({ "path": "../a", "text": "" }), "/path", "relative"),
        (write, json!({ "path": "a\0", "text": "" }), "/path", "relative"),
        (write, json!({ "path": "a", "text": "", "mode": "rw" }), "/mode", "create, replace"),
        (pack, json!({ "paths": ["a"] }), "", "name is missing"),
        (pack, json!({ "paths": [], "name": "a" }), "/paths", "at least one"),
        (pack, json!({ "paths": ["a"], "name": "../a" }), "/name", "a name of"),
        (pack, json!({ "paths": ["a", ".."], "name": "a" }), "/paths/1", "relative"),
    ] {
        let mistake = read(class, &args).unwrap_err();
        assert_eq!(mistake.pointer, pointer, "{args} {mistake:?}");
        assert!(mistake.message.contains(message), "{mistake:?}");
    }
}
