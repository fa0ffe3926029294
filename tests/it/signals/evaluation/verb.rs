//! `contract evaluate`, on good and on bad input.

use serde_json::json;

use super::{CI_GATE, booleans, contract, green, line, policy, write};
use crate::support::World;

fn stage() -> World {
    let world = World::new();
    let here = world.directory.path();
    write(here, "policy.json", policy().to_string());
    write(here, "green.json", green().to_string());
    world
}

#[test]
fn answer_is_the_exit_code() {
    let world = stage();
    let mut fields = green();
    for (field, value, code, action, rule) in [
        ("lint_clean", json!(true), 0, "auto_accept", json!(1)),
        ("lint_clean", json!(false), 3, "require_review", json!(null)),
        ("all_tests_passed", json!(false), 1, "auto_reject", json!(0)),
        ("all_tests_passed", json!(1), 3, "require_review", json!(null)),
        ("more", json!(true), 3, "require_review", json!(null)),
    ] {
        fields[field] = value;
        write(world.directory.path(), "fields.json", fields.to_string());
        let run = line(
            &world,
            &format!("contract evaluate --id {CI_GATE} --policy policy.json fields.json"),
        );
        assert_eq!(run.code(), code, "{fields}: {}", run.stderr());
        let answer = run.json();
        assert_eq!(answer["decision"]["action"], action, "{answer}");
        assert_eq!(answer["decision"]["rule_index"], rule, "{answer}");
        let passed = answer["evaluation"]["validation_result"] == "passed";
        let inputs = answer["evaluation"]["normalized_policy_inputs"].as_object().unwrap();
        assert_eq!(inputs.len(), if passed { 3 } else { 0 });
        assert_eq!(answer["evaluation"]["adapter_contract"]["adapter_id"], CI_GATE);
    }
    let run = line(&world, &format!("contract evaluate --id {CI_GATE} green.json --format human"));
    assert_eq!(run.code(), 3);
    assert!(run.stdout().ends_with("require_review: there is no acceptance policy\n"));
    let run = line(
        &world,
        &format!(
            "contract evaluate --id {CI_GATE} green.json --policy policy.json --format github"
        ),
    );
    assert_eq!(run.stdout(), "::notice title=auto_accept::rule 1, green, holds\n");
    let run = line(
        &world,
        &format!("contract evaluate --id {CI_GATE} green.json --policy policy.json --format human"),
    );
    assert!(run.stdout().contains("✗ all_tests_passed == false, got true"), "{}", run.stdout());
}

#[test]
fn fields_come_from_standard_input_and_contracts_from_a_file() {
    let world = stage();
    let text = contract(
        "acme.suite",
        "2.1.0",
        &json!({ "score": { "type": "integer", "minimum": 0, "maximum": 10 },
        "grade": { "type": "enum", "values": ["a", "b"] } }),
        &json!({}),
    );
    write(world.directory.path(), "acme.json", &text);
    write(world.directory.path(), "fields.json", r#"{"score": 11, "grade": "c"}"#);
    let input = std::fs::File::open(world.path("fields.json")).unwrap();
    let run = world
        .run_with(&["contract", "evaluate", "--contract", "acme.json", "-"], |command| {
            command.stdin(input)
        });
    assert_eq!(run.code(), 3, "{}", run.stderr());
    let answer = run.json();
    assert_eq!(
        answer["evaluation"]["rejected_fields"],
        json!([
            { "field": "score", "reason": "out_of_range", "expected": "integer from 0 to 10", "got": "integer" },
            { "field": "grade", "reason": "not_in_values", "expected": "one of a, b", "got": "string" }])
    );
    assert_eq!(answer["evaluation"]["adapter_version"], "2.1.0");
    // Types that were changed after the contract was bound are found.
    write(world.directory.path(), "acme.json", text.replace("10", "100"));
    let run = line(&world, "contract evaluate --contract acme.json fields.json");
    assert_eq!(run.code(), 1);
    assert!(
        run.stderr().contains("/validator_name: validator_name must be 'typed_"),
        "{}",
        run.stderr()
    );
}

#[test]
fn directory_is_that_of_the_option_the_file_the_variable_or_the_working_directory() {
    let world = stage();
    let here = world.directory.path();
    for (place, version) in [
        ("data/adapter_contracts/examples", "1.0.0"),
        ("variable", "2.0.0"),
        ("configured", "3.0.0"),
        ("option", "4.0.0"),
    ] {
        let text = contract("acme.suite", version, &booleans(&["x"]), &json!({}));
        write(here, &format!("{place}/x.adapter_contract.json"), text);
    }
    write(here, "x.json", r#"{"x": true}"#);
    let version = |arguments: &[&str], variable: bool| {
        let words = ["contract", "evaluate", "--id", "acme.suite", "x.json"];
        let run = world.run_with(&[&words, arguments].concat(), |command| match variable {
            true => command.env("AIGENTSY_ADAPTER_CONTRACTS_DIR", "variable"),
            false => command,
        });
        run.json()["evaluation"]["adapter_version"].as_str().unwrap_or("none").to_owned()
    };
    assert_eq!(version(&[], false), "1.0.0");
    assert_eq!(version(&[], true), "2.0.0");
    write(here, "router.toml", "[signals]\ndirectory = \"configured\"\n");
    assert_eq!(version(&[], true), "3.0.0");
    assert_eq!(version(&["--dir", "option"], true), "4.0.0");
    assert_eq!(version(&["--dir", "option", "--version", "1.0.0"], true), "1.0.0");
    let run = line(&world, "contract evaluate --id acme.suite --dir nowhere x.json");
    assert_eq!(run.code(), 2);
    assert!(run.stderr().contains("nowhere: cannot be read"), "{}", run.stderr());
}

#[test]
fn id_alone_names_a_deprecated_contract_but_no_revoked_one() {
    let world = stage();
    for (status, code, result) in [("deprecated", 0, "passed"), ("revoked", 3, "unknown_adapter")] {
        let fields = booleans(&["all_tests_passed", "coverage_met", "lint_clean"]);
        let text = contract("acme.suite", "1.0.0", &fields, &json!({ "status": status }));
        write(world.directory.path(), "dir/x.adapter_contract.json", text);
        let words = "contract evaluate --id acme.suite --dir dir --policy policy.json green.json";
        let run = line(&world, words);
        assert_eq!(run.code(), code, "{status}: {}", run.stderr());
        let evaluation = &run.json()["evaluation"];
        assert_eq!(evaluation["validation_result"], result, "{evaluation}");
        assert_eq!(evaluation["lifecycle_warnings"][0]["kind"], status, "{evaluation}");
    }
}

#[test]
fn what_is_malformed_is_refused_and_what_cannot_be_read_is_no_answer() {
    let world = stage();
    let here = world.directory.path();
    let mut unfit = policy();
    unfit["rules"][0]["conditions"][0]["field"] = json!("secret_sauce");
    write(here, "unfit.json", unfit.to_string());
    write(here, "open.json", r#"{"default_action": "auto_accept", "rule": []}"#);
    for (name, text) in [
        ("nan", "{\"a\": NaN}".to_owned()),
        ("twice", r#"{"a": 1, "a": 1}"#.to_owned()),
        ("deep", "[".repeat(100_000)),
        ("empty", String::new()),
    ] {
        write(here, &format!("{name}.json"), text);
    }
    for (words, told) in [
        ("nan.json", "JSON_NOT_FINITE"),
        ("twice.json", "JSON_DUPLICATE_KEY"),
        ("deep.json", "JSON_TOO_DEEP"),
        ("empty.json", "JSON_SYNTAX"),
        ("gone.json", "cannot read gone.json"),
        ("green.json --policy gone.json", "cannot read gone.json"),
        ("green.json --policy nan.json", "JSON_NOT_FINITE"),
        ("green.json --policy open.json", "default_action must not be auto_accept"),
        ("green.json --policy open.json", "unknown member 'rule'"),
        ("green.json --policy unfit.json", "has no such field"),
        ("green.json --contract gone.json", "gone.json: cannot be read"),
        ("green.json --contract nan.json", "json_parse_failed: JSON_NOT_FINITE"),
        ("green.json --contract green.json", "missing required field: adapter_id"),
    ] {
        let run = line(&world, &format!("contract evaluate --id {CI_GATE} {words}"));
        let code = if told.contains("read") { 2 } else { 1 };
        assert_eq!(run.code(), code, "{words}: {}", run.stdout());
        assert!(run.stderr().contains(told), "{words}: {}", run.stderr());
        assert_eq!(run.stdout(), "", "{words}");
    }
    let run = line(&world, "contract evaluate --id nexus_router.examples.cigate green.json");
    assert_eq!(run.code(), 3);
    assert!(run.stderr().contains(&format!("did you mean {CI_GATE}?")), "{}", run.stderr());
    assert_eq!(run.json()["evaluation"]["adapter_contract"], json!(null));
}
