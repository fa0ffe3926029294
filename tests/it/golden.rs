//! What `validate` and `inspect` say, compared with what the Python router said of the same adapters.
//!
//! Every recorded adapter becomes a library file, and the program is run on it. Ten checks are those of
//! the specification; our further checks, and what only a file can tell, are left out of the comparison.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::mimic::Mimic;
use crate::support::{World, workspace};

/// How many checks the specification has.
const SPECIFIED: usize = 10;

/// Where we differ, and why: the ref of the case, the aspects, the reason.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "nxv_schema_bad_items:create_adapter",
        &["inspect"],
        "the peer crashed on error codes that are no strings",
    ),
    (
        "nxv_schema_bad_config:create_adapter",
        &["inspect"],
        "the peer crashed on a config_schema entry that is no object",
    ),
    (
        "nxv_schema_bad_types:create_adapter",
        &["supported_router_versions", "error_codes", "rendered"],
        "the peer passes values of a wrong type on; we leave them out of the typed members",
    ),
    (
        "nxv_missing_module:f",
        &["messages", "error", "rendered"],
        "only Python can say 'No module named'; we name the file and the searched directories",
    ),
    (
        "a:b:c",
        &["messages", "error", "rendered"],
        "only Python can say 'No module named'; we name the file and the searched directories",
    ),
    (
        "nxv_load:none",
        &["statuses", "messages", "errors", "warnings", "metadata", "error", "rendered"],
        "only a Python factory can return None; the nearest is an instance without a description, \
         which has loaded and fails the checks",
    ),
    (
        "nexus_router_adapter_http:create_adapter",
        &[
            "metadata",
            "supported_router_versions",
            "config_params",
            "error_codes",
            "manifest",
            "rendered",
        ],
        "our own adapter: it supports our router, has further parameters and codes, and adapter_id is \
         a parameter of every factory, not of this one",
    ),
    (
        "nexus_router_adapter_stdout:create_adapter",
        &["metadata", "supported_router_versions", "config_params", "manifest", "rendered"],
        "our own adapter: it supports our router, describes its parameters in other words, and \
         adapter_id is a parameter of every factory, not of this one",
    ),
];

#[test]
fn golden_adapters_are_judged_as_the_peer_judged_them() {
    let excepted: BTreeSet<(&str, &str)> = EXCEPTIONS
        .iter()
        .flat_map(|(case, aspects, _)| aspects.iter().map(move |aspect| (*case, *aspect)))
        .collect();
    let (mut needed, mut unexpected) = (BTreeSet::new(), Vec::new());
    let cases = cases();
    for case in &cases {
        let factory_ref = text(&case["factory_ref"]);
        for (aspect, ours, theirs) in differences(case) {
            match excepted.get(&(factory_ref, aspect)) {
                Some(exception) => drop(needed.insert(*exception)),
                None => unexpected.push(format!("{factory_ref}: {aspect}\n{ours}\n{theirs}")),
            }
        }
    }
    assert!(unexpected.is_empty(), "ours, then the peer's:\n{}", unexpected.join("\n"));
    assert_eq!(needed, excepted, "an exception is not needed any more");
    assert_eq!(cases.len(), 31, "the golden file has other cases than it had");
}

#[test]
fn golden_parameters_and_codes_of_official_adapters_are_kept() {
    let world = World::new();
    let mut compared = 0;
    for case in cases().iter().filter(|case| case["name"] == "official") {
        let (factory_ref, config) = (text(&case["factory_ref"]), case["config"].to_string());
        let inspect = ["adapter", "inspect", factory_ref, "--config", &config, "--format", "json"];
        let ours = world.run(&inspect).json();
        let codes = ours["error_codes"].as_array().unwrap();
        for code in case["inspect"]["error_codes"].as_array().unwrap() {
            assert!(codes.contains(code), "{factory_ref}: {code}");
        }
        let params = ours["config_params"].as_array().unwrap();
        let theirs = case["inspect"]["config_params"].as_array().unwrap();
        for param in theirs.iter().filter(|param| param["name"] != "adapter_id") {
            let kept = params.iter().find(|ours| ours["name"] == param["name"]);
            let kept = kept.unwrap_or_else(|| panic!("{factory_ref} lacks {}", param["name"]));
            for member in ["type", "required", "default"] {
                if param.get(member).is_some() {
                    assert_eq!(kept[member], param[member], "{factory_ref}: {}", param["name"]);
                }
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 8);
}

fn cases() -> Vec<Value> {
    let file = workspace().join("tests/golden/nexus/adapters.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Runs the program on a case and returns every aspect in which it differs from the peer: its name, our
/// value, the peer's.
fn differences(case: &Value) -> Vec<(&'static str, Value, Value)> {
    let world = World::new();
    let factory_ref = text(&case["factory_ref"]);
    if case.get("adapter").is_some() {
        let (module, _) = factory_ref.rsplit_once(':').unwrap();
        let library = world.path(&nexus_router::loader::library_name(module));
        Mimic::new(&case["adapter"], &case["manifest"]).write(&library);
    } else if factory_ref.starts_with("nxv_load:") {
        Mimic::of_kind("load").write(&world.path("libnxv_load.so"));
    }
    let config = case.get("config").map_or_else(|| "{}".to_owned(), Value::to_string);
    let mut options = vec![factory_ref, "--adapter-path", ".", "--config", &config];
    if case["strict"] == json!(false) {
        options.push("--lenient");
    }
    let run = |verb: &str, format: &str| {
        let run = world.run(&[&["adapter", verb], &options[..], &["--format", format]].concat());
        assert!(run.code() < 2, "{factory_ref}: {}", run.stderr());
        run
    };

    let (validation, theirs) = (run("validate", "json").json(), &case["validate"]);
    let mut differing = compare_validations(&validation, theirs);
    let (inspection, theirs) = (run("inspect", "json").json(), &case["inspect"]);
    if theirs.get("raises").is_some() {
        differing.push(("inspect", inspection, theirs.clone()));
        return differing;
    }
    assert_eq!(inspection["validation"], validation, "{factory_ref}");
    let mut compare = |aspect, ours: Value, theirs: &Value| {
        if ours != *theirs {
            differing.push((aspect, ours, theirs.clone()));
        }
    };
    for member in [
        "adapter_id",
        "adapter_kind",
        "capabilities",
        "supported_router_versions",
        "config_params",
        "error_codes",
        "manifest",
    ] {
        compare(member, inspection[member].clone(), &theirs[member]);
    }
    let rendered = as_the_peer_renders(&run("inspect", "human").stdout(), is_ok(&validation));
    compare("rendered", rendered.into(), &theirs["rendered"]);
    differing
}

fn compare_validations(ours: &Value, theirs: &Value) -> Vec<(&'static str, Value, Value)> {
    let statuses = |report: &Value| -> Value {
        specified(report).iter().map(|check| json!([check["id"], check["status"]])).collect()
    };
    let messages = |report: &Value| -> Value {
        specified(report).iter().map(|check| check["message"].clone()).collect()
    };
    let listed = |list: &str, report: &Value| -> Value {
        let named = |check: &&Value| specified(report).contains(check);
        report[list]
            .as_array()
            .unwrap()
            .iter()
            .filter(named)
            .map(|check| check["id"].clone())
            .collect()
    };
    let member = |name: &str, report: &Value| report.get(name).cloned().unwrap_or(Value::Null);
    let pairs = [
        ("statuses", statuses(ours), statuses(theirs)),
        ("messages", messages(ours), messages(theirs)),
        ("ok", is_ok(ours).into(), theirs["ok"].clone()),
        ("errors", listed("errors", ours), listed("errors", theirs)),
        ("warnings", listed("warnings", ours), listed("warnings", theirs)),
        ("metadata", member("metadata", ours), member("metadata", theirs)),
        ("error", member("error", ours), member("error", theirs)),
    ];
    pairs.into_iter().filter(|(_, ours, theirs)| ours != theirs).collect()
}

/// Returns the checks of the specification in a report.
fn specified(report: &Value) -> &[Value] {
    let checks = report["checks"].as_array().unwrap();
    &checks[..checks.len().min(SPECIFIED)]
}

/// Says whether none of the specified checks failed.
fn is_ok(report: &Value) -> bool {
    specified(report).iter().all(|check| check["status"] != "fail")
}

/// Returns our report for people without what the peer's has not: our further checks with their
/// messages, the block about the file, and a verdict that only our further checks have brought about.
fn as_the_peer_renders(report: &str, ok: bool) -> String {
    let ours: Vec<&str> =
        nexus_router::check::CHECKS[SPECIFIED..].iter().map(|check| check.id).collect();
    let is_ours = |line: &str| {
        let id = line.trim_start().split_once(' ').map(|(_, rest)| rest);
        id.and_then(|rest| rest.split(':').next()).is_some_and(|id| ours.contains(&id))
    };
    let verdict =
        if ok { "✓ Adapter validation PASSED" } else { "✗ Adapter validation FAILED" };
    let mut blocks = vec![verdict.to_owned()];
    for block in report.trim_end_matches('\n').split("\n\n").skip(1) {
        let (heading, lines) = block.split_once('\n').unwrap_or((block, ""));
        let filtered = ["## Validation", "## Errors", "## Warnings"].contains(&heading);
        let kept: Vec<&str> = lines.lines().filter(|line| !(filtered && is_ours(line))).collect();
        if heading != "## Library" && !(filtered && kept.is_empty()) {
            blocks.push([&[heading], &kept[..]].concat().join("\n"));
        }
    }
    blocks.join("\n\n") + "\n"
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
