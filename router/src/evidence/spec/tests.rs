//! Specs held to their golden digest, and every mistake to its place.

use super::*;
use crate::json::{self, to_jcs};

const EMPTY: &str = "aae5a71db7cd42382ef749f87ca847684d9d4a517cc8235f53ea31bd492c3577";

fn golden() -> Value {
    let text = format!(
        r#"{{"task_id": "t1", "exec_id": "e1", "role": "envoy", "action": "file_write", "kind": "shell",
            "cmd_argv": ["true"], "cwd": ".", "env_allowlist": [], "timeout_s": 60,
            "inputs_manifest_sha256": "{EMPTY}", "paths_allowlist": ["."], "note": null}}"#
    );
    json::parse(text.as_bytes(), Limits::REQUEST).unwrap()
}

/// The golden spec with one member changed, given as JSON.
fn with(key: &str, member: &str) -> Value {
    let mut object = golden().into_object().unwrap();
    object.insert(key, json::parse(member.as_bytes(), Limits::REQUEST).unwrap());
    object.into()
}

#[test]
fn golden_digest_comes_out() {
    let spec = ExecutionSpec::read(&golden()).unwrap();
    let expected = "1e9b5aa46e9afb63bc9d21a61c0ce0ea05ce2ee380487e395c424140304b9ba7";
    assert_eq!(spec.digest().to_string(), expected);
    assert_eq!(spec.text(), to_jcs(&golden()).unwrap());
    assert_eq!(ExecutionSpec::new(spec.fields().clone()).unwrap(), spec);
    assert_eq!(ExecutionSpec::parse_canonical(spec.text().as_bytes()).unwrap(), spec);
    assert_eq!(KEYS.len(), spec.fields().to_json().as_object().unwrap().len());
}

#[test]
fn the_other_name_of_the_action_is_read_and_never_written() {
    let mut object = golden().into_object().unwrap();
    let action = object.remove("action").unwrap();
    object.insert(ALIAS, action.clone());
    let aliased = Value::from(object.clone());
    assert_eq!(ExecutionSpec::read(&aliased).unwrap(), ExecutionSpec::read(&golden()).unwrap());
    let text = to_jcs(&aliased).unwrap();
    let findings = ExecutionSpec::parse_canonical(text.as_bytes()).unwrap_err();
    assert_eq!(findings.reason(), "forbidden_key:action_class");
    object.insert("action", action);
    let findings = ExecutionSpec::read(&object.into()).unwrap_err();
    assert_eq!(findings.reason(), "forbidden_key:action_class");
}

#[test]
fn every_mistake_is_told_with_its_place() {
    for (key, member, reason, pointer) in [
        ("action", "1", "wrong_type:action:integer", "/action"),
        ("action", "\"web_search\"", "action_not_allowed:web_search", "/action"),
        ("action", "\"fly\"", "action_not_allowed:fly", "/action"),
        ("role", "\"scout\"", "action_not_allowed:file_write", "/action"),
        ("role", "\"pilot\"", "bad_value:role", "/role"),
        ("cmd_argv", "\"ls -l\"", "wrong_type:cmd_argv:string", "/cmd_argv"),
        ("cmd_argv", "[]", "bad_value:cmd_argv", "/cmd_argv"),
        ("cmd_argv", "[\"a\", \"\"]", "bad_value:cmd_argv", "/cmd_argv/1"),
        ("cmd_argv", "[\"a\\u0000\"]", "bad_value:cmd_argv", "/cmd_argv/0"),
        ("cmd_argv", "[1]", "wrong_type:cmd_argv:integer", "/cmd_argv/0"),
        ("cwd", "\"/tmp\"", "bad_value:cwd", "/cwd"),
        ("cwd", "\"a/../..\"", "bad_value:cwd", "/cwd"),
        ("cwd", "\"\"", "bad_value:cwd", "/cwd"),
        ("env_allowlist", "[\"B\", \"A\"]", "bad_order:env_allowlist", "/env_allowlist/1"),
        ("env_allowlist", "[\"A\", \"A\"]", "bad_order:env_allowlist", "/env_allowlist/1"),
        ("env_allowlist", "[\"A=b\"]", "bad_value:env_allowlist", "/env_allowlist/0"),
        ("exec_id", "\"rejections\"", "bad_value:exec_id", "/exec_id"),
        ("exec_id", "\"../e\"", "bad_value:exec_id", "/exec_id"),
        (
            "inputs_manifest_sha256",
            "\"AA\"",
            "bad_value:inputs_manifest_sha256",
            "/inputs_manifest_sha256",
        ),
        ("kind", "\"ruby\"", "bad_value:kind", "/kind"),
        ("note", "1", "wrong_type:note:integer", "/note"),
        ("paths_allowlist", "[\"rw:a\"]", "bad_value:paths_allowlist", "/paths_allowlist/0"),
        ("paths_allowlist", "[\"b\", \"a\"]", "bad_order:paths_allowlist", "/paths_allowlist/1"),
        ("task_id", "\"verify\"", "bad_value:task_id", "/task_id"),
        ("task_id", "\"T1\"", "bad_value:task_id", "/task_id"),
        ("timeout_s", "0", "bad_value:timeout_s", "/timeout_s"),
        ("timeout_s", "3601", "bad_value:timeout_s", "/timeout_s"),
        ("timeout_s", "60.0", "wrong_type:timeout_s:number", "/timeout_s"),
        ("timeout_s", "true", "wrong_type:timeout_s:boolean", "/timeout_s"),
        ("more", "1", "forbidden_key:more", "/more"),
    ] {
        let findings = ExecutionSpec::read(&with(key, member)).unwrap_err();
        let found: Vec<_> = findings.list().iter().map(|it| (&*it.reason, &*it.pointer)).collect();
        assert_eq!(found, [(reason, pointer)], "{key}: {member}");
    }
    for key in KEYS {
        let mut object = golden().into_object().unwrap();
        object.remove(key);
        let findings = ExecutionSpec::read(&object.into()).unwrap_err();
        assert_eq!(findings.reasons(), [format!("missing_key:{key}")]);
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let mut object = golden().into_object().unwrap();
    object.insert("cwd", "/");
    object.insert("timeout_s", 0);
    object.remove("note");
    let findings = ExecutionSpec::read(&object.into()).unwrap_err();
    assert_eq!(findings.reasons(), ["missing_key:note", "bad_value:cwd", "bad_value:timeout_s"]);
}

#[test]
fn only_one_text_is_sealed() {
    let text = ExecutionSpec::read(&golden()).unwrap().text().to_owned();
    for other in
        [format!("{text}\n"), text.replace(':', ": "), text.replacen("true", "tr\\u0075e", 1)]
    {
        assert!(ExecutionSpec::parse(other.as_bytes()).is_ok(), "{other}");
        let findings = ExecutionSpec::parse_canonical(other.as_bytes()).unwrap_err();
        assert_eq!(findings.reason(), "not_canonical", "{other}");
    }
    let twice = text.replacen('{', "{\"cwd\":\".\",", 1);
    let findings = ExecutionSpec::parse(twice.as_bytes()).unwrap_err();
    assert_eq!(findings.reason(), "not_json:JSON_DUPLICATE_KEY");
    let deep = "[".repeat(1 << 19);
    assert_eq!(
        ExecutionSpec::parse(deep.as_bytes()).unwrap_err().reason(),
        "not_json:JSON_TOO_DEEP"
    );
    let huge = vec![b' '; LIMITS.bytes + 1];
    assert_eq!(ExecutionSpec::parse(&huge).unwrap_err().reason(), "not_json:JSON_TOO_LARGE");
}

#[test]
fn lists_are_sorted_for_whoever_makes_a_spec() {
    let mut fields = ExecutionSpec::read(&golden()).unwrap().fields().clone();
    fields.env_allowlist = ["PATH", "HOME", "PATH"].map(str::to_owned).to_vec();
    fields.note = Some("Größe".to_owned());
    let spec = ExecutionSpec::new(fields).unwrap();
    assert_eq!(spec.fields().env_allowlist, ["HOME", "PATH"]);
    assert!(spec.text().contains("\"note\":\"Größe\""));
}

#[test]
fn scopes_follow_from_the_paths_and_the_role() {
    let spec = ExecutionSpec::read(&with("paths_allowlist", "[\"a/b\", \"c\"]")).unwrap();
    for (path, covered) in [
        ("a/b", true),
        ("a/b/x", true),
        ("c/d", true),
        ("a", false),
        ("a/bc", false),
        (".", false),
        ("c/../x", false),
        ("/c", false),
    ] {
        assert_eq!(spec.covers(path), covered, "{path}");
    }
    assert_eq!(spec.write_scope(), ["a/b", "c"]);
    let whole = ExecutionSpec::read(&golden()).unwrap();
    assert!(whole.covers("anything/at/all") && !whole.covers("../x") && !whole.in_process());
    let mut fields = whole.fields().clone();
    (fields.role, fields.action, fields.kind) = (Role::Scout, ActionClass::WebSearch, Kind::Http);
    let scout = ExecutionSpec::new(fields).unwrap();
    assert!(scout.write_scope().is_empty() && scout.in_process());
}
