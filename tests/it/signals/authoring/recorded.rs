//! What was recorded of the AiGentsy tools, reproduced.

use nexus_router::digest::Digest;
use nexus_router::json::{self, Limits, Value, to_canonical, to_spaced};
use nexus_router::signal::{contract_hash, input_schema_hash};

use super::super::transcript::{Exception, golden, play};
use crate::support::workspace;

const LINE_END: &str = "a line end after a name, a version or a hash is no part of its pattern";
const STRICT: &str = "a text that others read differently, or that is no JSON, is refused";

#[test]
fn scaffold_agrees() {
    const EXCEPTIONS: &[Exception] = &[
        (
            "scaffold-dup-fields",
            "a field that is named twice is refused: no lint would let it pass",
        ),
        ("scaffold-overwrite", "a file that is there is written over with --force alone"),
        ("scaffold-id-trailing-newline", LINE_END),
    ];
    play("cli_scaffold.json", |_| true, EXCEPTIONS);
}

#[test]
fn lint_agrees() {
    const EXCEPTIONS: &[Exception] = &[
        ("lint-id-and-newline", LINE_END),
        ("lint-version-and-newline", LINE_END),
        ("lint-hash-and-newline", LINE_END),
        ("lint-life-supersedes-9", LINE_END),
        ("lint-parse-dup-keys", STRICT),
        ("lint-parse-dup-keys-bad", STRICT),
        ("lint-parse-nan", STRICT),
    ];
    play("cli_lint.json", |_| true, EXCEPTIONS);
}

#[test]
fn bump_agrees() {
    play("cli_bump.json", |_| true, &[]);
}

#[test]
fn diff_agrees() {
    // One of its numbers is beyond all floats.
    play("cli_diff.json", |_| true, &[("diff-float-literals", STRICT)]);
}

#[test]
fn random_contracts_agree() {
    let ours = ["fuzz-lint", "fuzz-diff", "fuzz-bump"];
    play("cli_fuzz.json", |id| ours.iter().any(|it| id.starts_with(it)), &[]);
}

#[test]
fn whole_workflows_agree() {
    play("cli_fuzz.json", |id| id.starts_with("workflow"), &[]);
}

#[test]
fn hashes_agree() {
    // With our own parser: some declarations have integers beyond 64 bits.
    let path = workspace().join("tests/golden/aigentsy/hash_contracts.json");
    let recorded = json::parse(&std::fs::read(path).unwrap(), Limits::REQUEST).unwrap();
    let cases = recorded.get("cases").and_then(Value::as_array).unwrap();
    for case in cases {
        let text = |key: &str| case.get(key).and_then(Value::as_str).unwrap().to_owned();
        let declaration = case.get("declaration").and_then(Value::as_object).unwrap();
        assert_eq!(contract_hash(declaration), Ok(text("contract_hash")), "{}", text("id"));
        assert_eq!(input_schema_hash(declaration), Ok(text("input_schema_hash")), "{}", text("id"));
    }
    assert_eq!(cases.len(), 38);
}

#[test]
fn canonical_texts_agree() {
    // What Python reads and we refuse.
    let refused = [r#"{"a":1,"a":2}"#, r#""\ud800""#, "[1e400,-1e400]", "[NaN,Infinity,-Infinity]"];
    let recorded = golden("canonical_json.json");
    let cases = recorded["cases"].as_array().unwrap();
    let mut same = 0;
    for case in cases {
        let text = case["json_text"].as_str().unwrap();
        let read = json::parse(text.as_bytes(), Limits::REQUEST);
        assert_eq!(read.is_err(), refused.contains(&text), "{text}: {read:?}");
        let Ok(value) = read else { continue };
        for (form, got) in [("compact", to_canonical(&value)), ("spaced", to_spaced(&value))] {
            assert_eq!(got, case[form], "{form} text of {text}");
            let digest = Digest::of(got.as_bytes()).to_string();
            assert_eq!(digest, case[format!("{form}_sha256")], "{form} digest of {text}");
        }
        same += 1;
    }
    assert_eq!((same, cases.len()), (49, 53));
}
