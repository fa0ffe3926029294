//! What every tool answers, and what it refuses.

use std::path::Path;

use super::*;
use crate::app::Named;
use crate::config::{ConfigFile, Environment};
use crate::json::{Limits, parse, to_canonical};

fn app(directory: &Path, paths: Paths) -> App {
    let environment = Environment { cache_dir: directory.join("cache"), ..Environment::default() };
    let named = Named { db: Some(directory.join("own.db")), paths, ..Named::default() };
    App::new(&environment, ConfigFile::default(), named)
}

fn value(text: &str) -> Value {
    parse(text.as_bytes(), Limits::REQUEST).unwrap()
}

fn request(db_path: Option<&str>, members: &[(&str, &str)]) -> Value {
    let mut object = Object::new();
    if let Some(path) = db_path {
        object.insert("db_path", path);
    }
    for (key, text) in members {
        object.insert(*key, value(text));
    }
    object.into()
}

const PLAN: &str =
    r#"[{"step_id":"s","intent":"","call":{"tool":"t","method":"m","args":{"n":1}}}]"#;

#[test]
fn there_are_the_tools_of_the_python_router() {
    let ids: Vec<&str> = TOOLS.iter().map(|tool| tool.id).collect();
    let known = [
        "run",
        "inspect",
        "replay",
        "export",
        "import",
        "adapters",
        "validate_adapter",
        "inspect_adapter",
        "generate_adapter_docs",
    ];
    assert_eq!(ids, known.map(|name| format!("nexus-router.{name}")));
    assert!(TOOLS.iter().all(|tool| tool.doc.ends_with('.')));
    let directory = tempfile::tempdir().unwrap();
    let app = app(directory.path(), Paths::Allowed);
    let error = app.tool("nexus-router.runn", Value::Null).unwrap_err();
    assert_eq!(error.hint(), "did you mean nexus-router.run?");
    assert_eq!(error.code(), "UNKNOWN_TOOL");
}

#[test]
fn run_goes_from_store_to_store() {
    let directory = tempfile::tempdir().unwrap();
    let app = app(directory.path(), Paths::Allowed);
    let [one, two] =
        ["one.db", "two.db"].map(|name| directory.path().join(name).display().to_string());
    let (one, two) = (Some(one.as_str()), Some(two.as_str()));
    let ran = app
        .tool("nexus-router.run", request(one, &[("goal", r#""g""#), ("plan_override", PLAN)]))
        .unwrap();
    assert_eq!(ran.get("status").unwrap().as_str(), Some("COMPLETED"));
    let run_id = to_canonical(ran.pointer("/run/run_id").unwrap());
    let of_run = |db| request(db, &[("run_id", &run_id)]);
    let replayed = app.tool("nexus-router.replay", of_run(one)).unwrap();
    assert_eq!(replayed.get("ok"), Some(&Value::Bool(true)));
    let exported = app.tool("nexus-router.export", of_run(one)).unwrap();
    assert_eq!(exported.get("ok"), Some(&Value::Bool(true)));
    let bundle = to_canonical(exported.get("artifact").unwrap());
    let import =
        |bundle: &str| app.tool("nexus-router.import", request(two, &[("bundle", bundle)]));
    let spoilt = import(&bundle.replace(r#""n":1"#, r#""n":2"#)).unwrap();
    assert_eq!(spoilt.get("status").unwrap().as_str(), Some("error"));
    assert!(!Path::new(two.unwrap()).exists());
    assert_eq!(import(&bundle).unwrap().get("status").unwrap().as_str(), Some("ok"));
    let again = import(&bundle).unwrap();
    assert_eq!(again.get("status").unwrap().as_str(), Some("skipped"));
    let listed = app.tool("nexus-router.inspect", request(two, &[])).unwrap();
    assert_eq!(listed.pointer("/summary/completed"), Some(&Value::Int(1)));
    let nobody = request(two, &[("run_id", r#""nobody""#)]);
    for (tool, pointer) in [("replay", "/violations/0/code"), ("export", "/error/code")] {
        let answer = app.tool(&format!("nexus-router.{tool}"), nobody.clone()).unwrap();
        assert_eq!(answer.pointer(pointer).unwrap().as_str(), Some("RUN_NOT_FOUND"));
    }
    // The app's own store was never asked for.
    assert!(!directory.path().join("own.db").exists());
}

#[test]
fn store_in_memory_is_gone_with_the_answer() {
    let directory = tempfile::tempdir().unwrap();
    let app = app(directory.path(), Paths::Allowed);
    let memory = request(Some(":memory:"), &[("goal", r#""g""#)]);
    let ran = app.tool("nexus-router.run", memory).unwrap();
    assert_eq!(ran.get("status").unwrap().as_str(), Some("COMPLETED"));
    for tool in ["replay", "export"] {
        let asked = request(Some(":memory:"), &[("run_id", r#""x""#)]);
        let error = app.tool(&format!("nexus-router.{tool}"), asked).unwrap_err();
        assert_eq!(error.code(), "STORE_UNOPENABLE");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn host_with_one_store_takes_no_paths() {
    let directory = tempfile::tempdir().unwrap();
    let app = app(directory.path(), Paths::Own);
    let goal = ("goal", r#""g""#);
    let error = app.tool("nexus-router.run", request(Some("/x.db"), &[goal])).unwrap_err();
    assert_eq!((error.code(), error.pointer()), ("REQUEST_INVALID", Some("/db_path")));
    let ran = app.tool("nexus-router.run", request(None, &[goal])).unwrap();
    let run_id = to_canonical(ran.pointer("/run/run_id").unwrap());
    let replayed = app.tool("nexus-router.replay", request(None, &[("run_id", &run_id)])).unwrap();
    assert_eq!(replayed.get("ok"), Some(&Value::Bool(true)));
    for tool in ["replay", "export"] {
        let asked = request(Some("own.db"), &[("run_id", &run_id)]);
        let error = app.tool(&format!("nexus-router.{tool}"), asked).unwrap_err();
        assert_eq!(error.pointer(), Some("/db_path"));
    }
    let path = request(None, &[("factory_ref", r#""/tmp/libx.so:f""#)]);
    for tool in ["validate_adapter", "inspect_adapter"] {
        let error = app.tool(&format!("nexus-router.{tool}"), path.clone()).unwrap_err();
        assert_eq!(error.pointer(), Some("/factory_ref"));
    }
}

#[test]
fn adapters_are_listed_validated_and_documented() {
    let directory = tempfile::tempdir().unwrap();
    let app = app(directory.path(), Paths::Allowed);
    let listed = app.tool("nexus-router.adapters", request(None, &[])).unwrap();
    let expected = r#"{"adapters":[{"adapter_id":"null","adapter_kind":"null","capabilities":["dry_run"],"circuit":null,"circuit_error":null,"circuit_until":null,"isolation":"inline","last_end":null,"restarts":0,"state":"inline","undeclared_error_codes":{},"undeclared_failure_codes":{},"until":null,"workers":0}],"default_adapter_id":"null","total":1}"#;
    assert_eq!(to_canonical(&listed), expected);
    let none = request(None, &[("capability", r#""apply""#)]);
    assert_eq!(app.tool("nexus-router.adapters", none).unwrap().get("total"), Some(&Value::Int(0)));
    let unknown = request(None, &[("factory_ref", r#""no_such:f""#), ("strict", "false")]);
    let validated = app.tool("nexus-router.validate_adapter", unknown.clone()).unwrap();
    assert_eq!(validated.get("ok"), Some(&Value::Bool(false)));
    let inspected = app.tool("nexus-router.inspect_adapter", unknown).unwrap();
    assert_eq!(inspected.get("ok"), Some(&Value::Bool(false)));
    assert_eq!(inspected.get("rendered"), None);
    let with = request(None, &[("title", r#""Ours""#)]);
    let without = request(None, &[("title", r#""Ours""#), ("include_header", "false")]);
    let [with, without] = [with, without].map(|asked| {
        let answer = app.tool("nexus-router.generate_adapter_docs", asked).unwrap();
        assert_eq!(answer.get("adapters_failed"), Some(&Value::Int(0)));
        answer.get("markdown").unwrap().as_str().unwrap().to_owned()
    });
    assert!(with.starts_with("<!-- ") && without.starts_with("# Ours\n"), "{without}");
    assert!(with.ends_with(&without));
}

#[test]
fn mistakes_in_requests_have_a_pointer() {
    let directory = tempfile::tempdir().unwrap();
    let app = app(directory.path(), Paths::Allowed);
    for (tool, text, pointer) in [
        ("adapters", "[]", ""),
        ("adapters", r#"{"a/b":1}"#, "/a~1b"),
        ("adapters", r#"{"capability":1}"#, "/capability"),
        ("validate_adapter", "{}", "/factory_ref"),
        ("validate_adapter", r#"{"factory_ref":"a:b","strict":1}"#, "/strict"),
        ("inspect_adapter", r#"{"factory_ref":"a:b","config":[]}"#, "/config"),
        ("generate_adapter_docs", r#"{"include_footer":"no"}"#, "/include_footer"),
        ("run", r#"{"gaol":"g"}"#, "/gaol"),
        ("replay", r#"{"db_path":"x"}"#, ""),
        ("inspect", r#"{"db_path":"x","limit":0}"#, "/limit"),
        ("export", r#"{"db_path":1,"run_id":"x"}"#, "/db_path"),
        ("import", r#"{"db_path":"x","bundle":{}}"#, "/bundle"),
    ] {
        let error = app.tool(&format!("nexus-router.{tool}"), value(text)).unwrap_err();
        assert_eq!(error.code(), "REQUEST_INVALID", "{tool} {text}");
        assert_eq!(error.pointer(), Some(pointer), "{tool} {text}");
        assert!(!error.hint().is_empty());
        let shown = error.to_json();
        assert_eq!(shown.pointer("/error/pointer").unwrap().as_str(), Some(pointer));
    }
}
