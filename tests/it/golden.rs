//! What `validate` and `inspect` say, compared with what the Python router said of the same adapters.
//!
//! Every recorded adapter becomes a library file, and the program is run on it. Ten checks are those of
//! the specification; our further checks, and what only a file can tell, are left out of the comparison.

use serde_json::{Value, json};

use crate::mimic::Mimic;
use crate::support::{World, workspace};

/// How many checks the specification has.
const SPECIFIED: usize = 10;

/// Where we differ, and why: the ref of the case, the aspects, the reason.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[];

#[test]
fn golden_adapters_are_judged_as_the_peer_judged_them() {
    let mut unexpected = Vec::new();
    let mut unused: Vec<(&str, &str)> = EXCEPTIONS
        .iter()
        .flat_map(|(case, aspects, _)| aspects.iter().map(move |aspect| (*case, *aspect)))
        .collect();
    let cases = cases();
    for case in &cases {
        let factory_ref = text(&case["factory_ref"]);
        for (aspect, ours, theirs) in differences(case) {
            let excepted = (factory_ref, aspect);
            if EXCEPTIONS
                .iter()
                .any(|(case, aspects, _)| *case == excepted.0 && aspects.contains(&excepted.1))
            {
                unused.retain(|exception| *exception != excepted);
            } else {
                unexpected
                    .push(format!("{factory_ref}: {aspect}\n  ours: {ours}\n  peer: {theirs}"));
            }
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    assert_eq!(unused, [], "these exceptions are not needed any more");
    assert_eq!(cases.len(), 31, "the golden file has other cases than it had");
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
