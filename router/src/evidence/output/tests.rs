//! Outputs held to the schema of their role: every rule, its reason and its place.

use super::*;
use crate::json::{self, Limits};

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), Limits::REQUEST).unwrap()
}

fn scout() -> Object {
    let text = r#"{"adapter_role": "scout", "adapter_version": "1.0.0", "action_class": "web_search",
        "ok": true, "result": {}, "sources": [], "errors": []}"#;
    value(text).into_object().unwrap()
}

fn envoy() -> Object {
    let text = r#"{"adapter_role": "envoy", "adapter_version": "1.0.0-rc.1+b", "action_class": "test_exec",
        "ok": false, "exit_code": 1, "stdout": "", "stderr": "", "artifacts": [], "errors": []}"#;
    value(text).into_object().unwrap()
}

fn reasons(role: Role, object: Object) -> Vec<String> {
    match Output::check(role, None, false, &object.into()) {
        Ok(_) => Vec::new(),
        Err(findings) => findings.reasons(),
    }
}

#[test]
fn what_keeps_to_the_schema_passes() {
    let output =
        Output::check(Role::Scout, Some(ActionClass::WebSearch), false, &scout().into()).unwrap();
    assert_eq!((output.ok, output.exit_code, output.class), (true, None, ActionClass::WebSearch));
    let output = Output::check(Role::Envoy, None, false, &envoy().into()).unwrap();
    assert_eq!((output.ok, output.exit_code), (false, Some(1)));
    assert_eq!(output.version.to_string(), "1.0.0-rc.1+b");
}

#[test]
fn a_missing_key_fails_closed() {
    for (role, whole) in [(Role::Scout, scout()), (Role::Envoy, envoy())] {
        assert_eq!(whole.len(), keys(role).len());
        for (key, _) in keys(role) {
            let mut object = whole.clone();
            object.remove(key);
            assert_eq!(reasons(role, object), [format!("missing_key:{key}")]);
        }
    }
}

#[test]
fn a_forbidden_key_fails_closed() {
    for (role, mut object) in [(Role::Scout, scout()), (Role::Envoy, envoy())] {
        object.insert("zz", 1);
        object.insert("model", "m");
        assert_eq!(reasons(role, object), ["forbidden_key:model", "forbidden_key:zz"]);
    }
    let mut object = scout();
    object.insert("exit_code", 0);
    assert_eq!(reasons(Role::Scout, object), ["forbidden_key:exit_code"]);
}

#[test]
fn another_role_fails_closed() {
    let mut object = scout();
    object.insert("adapter_role", "Scout");
    assert_eq!(reasons(Role::Scout, object), ["role_mismatch:Scout"]);
    let found = reasons(Role::Envoy, scout());
    assert!(found.contains(&"role_mismatch:scout".to_owned()), "{found:?}");
    assert!(found.contains(&"action_not_allowed:web_search".to_owned()), "{found:?}");
}

#[test]
fn another_action_fails_closed() {
    for class in ActionClass::ALL {
        let mut object = scout();
        object.insert("action_class", class.name());
        let expected = match class.role() {
            Role::Scout => Vec::new(),
            Role::Envoy => vec![format!("action_not_allowed:{}", class.name())],
        };
        assert_eq!(reasons(Role::Scout, object), expected);
    }
    let asked = Some(ActionClass::DataLookup);
    let findings = Output::check(Role::Scout, asked, false, &scout().into()).unwrap_err();
    assert_eq!(findings.reasons(), ["action_mismatch:web_search"]);
}

#[test]
fn other_types_fail_closed() {
    let others = ["null", "true", "1", "1.0", "\"x\"", "[]", "{}"];
    for (role, whole) in [(Role::Scout, scout()), (Role::Envoy, envoy())] {
        for (key, kind) in keys(role) {
            for other in others.map(value).into_iter().filter(|it| it.type_name() != kind.name()) {
                let mut object = whole.clone();
                object.insert(*key, other.clone());
                let found = reasons(role, object);
                let expected = format!("wrong_type:{key}:{}", other.type_name());
                assert!(found.contains(&expected), "{found:?} {expected}");
            }
        }
    }
    for version in ["1", "1.0", "v1.0.0", "1.0.0 ", "", "01.0.0"] {
        let mut object = scout();
        object.insert("adapter_version", version);
        let found = reasons(Role::Scout, object);
        assert!(found.len() == 1 && found[0].starts_with("bad_version"), "{version:?}: {found:?}");
    }
    let findings = Output::check(Role::Scout, None, false, &Value::Null).unwrap_err();
    assert_eq!(findings.reasons(), ["not_an_object:null"]);
}

#[test]
fn an_exit_code_may_only_be_absent_where_no_process_was() {
    for class in ActionClass::ALL.into_iter().filter(|class| class.role() == Role::Envoy) {
        let excused = matches!(class, ActionClass::FileWrite | ActionClass::ArtifactPack);
        for in_process in [true, false] {
            let mut object = envoy();
            object.insert("action_class", class.name());
            object.remove("exit_code");
            let result = Output::check(Role::Envoy, None, in_process, &object.clone().into());
            assert_eq!(result.is_ok(), excused && in_process, "{} {in_process}", class.name());
            object.insert("exit_code", Value::Null);
            let findings =
                Output::check(Role::Envoy, None, in_process, &object.into()).unwrap_err();
            assert_eq!(findings.reasons(), ["wrong_type:exit_code:null"]);
        }
    }
}

#[test]
fn everything_is_told_at_once_and_bounded() {
    let mut object = scout();
    object.remove("ok");
    object.insert("adapter_role", "envoy");
    object.insert("action_class", "shell_exec");
    object.insert("extra", 1);
    object.insert("result", "x");
    assert_eq!(
        reasons(Role::Scout, object),
        [
            "missing_key:ok",
            "forbidden_key:extra",
            "role_mismatch:envoy",
            "action_not_allowed:shell_exec",
            "wrong_type:result:string"
        ]
    );
    let hostile: Object = (0..200_000).map(|index| (format!("k{index}"), Value::Null)).collect();
    assert_eq!(reasons(Role::Scout, hostile).len(), 101);
}

#[test]
fn what_is_sealed_instead_keeps_to_the_schema() {
    let findings = Output::check(Role::Envoy, None, false, &scout().into()).unwrap_err();
    let version = semver::Version::new(1, 2, 3);
    for class in ActionClass::ALL {
        let refused = Output::refused(class.role(), class, &version, None, &findings);
        let output = Output::check(class.role(), Some(class), false, &refused).unwrap();
        assert!(!output.ok);
        assert_eq!(output.exit_code, (class.role() == Role::Envoy).then_some(NO_OUTPUT));
        let errors = refused.get("errors").unwrap().as_array().unwrap();
        assert_eq!(errors.len(), findings.count());
    }
}
