//! Contracts that are written and changed: nothing is lost, and the version says what it should.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::{contract, text};
use crate::support::World;

#[test]
fn a_contract_that_is_there_is_written_over_by_force_alone() {
    let world = World::new();
    world.write("adapter_contract.json", "precious");
    let arguments = ["contract", "scaffold", "--id", "acme.a"];
    let run = world.run(&arguments);
    assert_eq!((run.code(), world.read("adapter_contract.json").as_str()), (2, "precious"));
    assert!(run.stderr().contains("--force"), "{}", run.stderr());
    assert_eq!(world.run(&[&arguments[..], &["--force"]].concat()).code(), 0);
    let run = world.run(&["contract", "lint", "adapter_contract.json"]);
    assert_eq!((run.code(), &run.json()["warnings"]), (0, &json!([])));
    // What is refused leaves nothing behind.
    assert_eq!(world.run(&["contract", "scaffold", "--id", "BAD", "--out", "made"]).code(), 2);
    assert!(!world.path("made").exists());
}

/// The four lines of `next` are those of the specification, and `rehash`, without which the edited file is refused.
#[test]
fn next_lines_of_scaffold_lead_to_a_contract_in_use() {
    let world = World::new();
    let run = world.run(&["contract", "scaffold", "--id", "acme.a", "--out", "my contracts"]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let file = run.json()["out"].as_str().unwrap().to_owned();
    let next = run.json()["next"].as_array().unwrap().clone();
    let next: Vec<&str> = next.iter().map(|line| line.as_str().unwrap()).collect();
    let [lint, edit, rehash, drop] = next[..] else { panic!("{next:?}") };
    assert_eq!(lint, format!("nexus-router contract lint '{file}'"));
    assert_eq!(edit, "edit output_fields / allowed_policy_fields to match your adapter");
    assert_eq!(rehash, format!("nexus-router contract rehash '{file}'"));
    assert_eq!(drop, "drop the file into AIGENTSY_ADAPTER_CONTRACTS_DIR on the runtime");
    assert_eq!(world.paste(lint).code(), 0);
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("signal_a", "done")).unwrap();
    assert_eq!(world.paste(lint).code(), 1);
    assert_eq!(world.paste(rehash).code(), 0);
    fs::create_dir(world.path("runtime")).unwrap();
    fs::copy(&file, world.path("runtime/acme.adapter_contract.json")).unwrap();
    world.write("fields.json", r#"{"done": true, "signal_b": true, "signal_c": true}"#);
    let words = ["contract", "evaluate", "--id", "acme.a", "fields.json"];
    let run =
        world.run_with(&words, |command| command.env("AIGENTSY_ADAPTER_CONTRACTS_DIR", "runtime"));
    assert_eq!(run.json()["evaluation"]["validation_result"], "passed", "{}", run.stderr());
}

#[test]
fn rehash_mends_an_edited_contract_and_nothing_else() {
    let world = World::new();
    let good = text(&contract("acme.a", "1.0.0", r#"{"_comment": "x"}"#)).replace("\"x\"", "\"é\"");
    let edited = good.replace("    \"b\"", "    \"c\"");
    let path = world.write("d/x.adapter_contract.json", &edited);
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&path, world.path("link.json")).unwrap();
    assert_eq!(world.run(&["contract", "lint", "link.json"]).code(), 1);
    let run = world.run(&["contract", "rehash", "d", "--check"]);
    assert_eq!((run.code(), &run.json()["changed"]), (1, &json!(1)));
    assert_eq!(world.read("d/x.adapter_contract.json"), edited);

    let run = world.run(&["contract", "rehash", "link.json"]);
    assert_eq!((run.code(), &run.json()["contracts"][0]["changed"]), (0, &json!(true)));
    let mended = world.read("d/x.adapter_contract.json");
    let differ = mended.lines().zip(edited.lines()).filter(|(one, two)| one != two).count();
    assert_eq!((differ, mended.contains('é')), (2, true));
    assert!(world.path("link.json").is_symlink());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(world.run(&["contract", "lint", "link.json"]).code(), 0);
    for arguments in [&["rehash", "d"][..], &["rehash", "d", "--check"]] {
        let run = world.run(&[&["contract"], arguments].concat());
        assert_eq!((run.code(), &run.json()["changed"]), (0, &json!(0)));
    }
    // What is wrong besides the hashes is told, and the hashes are right all the same.
    world.write("w.json", &good.replace("\"acme.a\"", "\"Acme\""));
    let run = world.run(&["contract", "rehash", "w.json"]);
    assert_eq!((run.code(), &run.json()["contracts"][0]["changed"]), (1, &json!(true)));
    let errors = world.run(&["contract", "lint", "w.json"]).json()["errors"].clone();
    assert_eq!(errors, json!(["adapter_id must be reverse-DNS style (e.g. org.team.adapter)"]));
}

#[test]
fn bump_points_back_if_asked_and_tells_what_is_out_of_date() {
    let world = World::new();
    let old = contract("acme.a", "1.0.0", r#"{"status": "deprecated"}"#);
    world.write("c.json", &text(&old));
    let arguments = ["contract", "bump", "c.json", "--version", "1.1.0", "--set-supersedes"];
    let run = world.run(&arguments);
    assert_eq!((run.code(), &run.json()["new_version"]), (0, &json!("1.1.0")));
    assert!(run.stderr().contains("c.json /status: status=deprecated"), "{}", run.stderr());
    let report = world.run(&["contract", "lint", "c.json", "--format", "json"]).json();
    assert_eq!((&report["ok"], &report["registry"]["heads"]), (&json!(true), &json!([])));
    assert!(world.read("c.json").contains("\"supersedes\": \"acme.a@1.0.0\""));
    let entries = fs::read_dir(world.directory.path()).unwrap();
    let left = entries.flatten().filter(|it| it.file_name().to_string_lossy().starts_with(".new"));
    assert_eq!(left.count(), 0);
}

#[test]
fn diff_judges_the_version_if_asked() {
    let world = World::new();
    world.write("old.json", &text(&contract("acme.a", "1.0.0", "{}")));
    let more = r#"{"output_fields": ["a", "b", "c"]}"#;
    let fewer = r#"{"allowed_policy_fields": ["a"]}"#;
    let revoked = r#"{"status": "revoked"}"#;
    for (version, members, code, expected) in [
        ("1.0.0", "{}", 0, json!([null, null, "none"])),
        ("1.0.0", revoked, 0, json!(["patch", null, "none"])),
        ("1.0.1", more, 1, json!(["minor", "minor", "patch"])),
        ("1.1.0", more, 0, json!(["minor", "minor", "minor"])),
        ("1.1.0", fewer, 1, json!(["major", "major", "minor"])),
        ("2.0.0", fewer, 0, json!(["major", "major", "major"])),
        ("0.9.0", "{}", 1, json!([null, null, "lowered"])),
    ] {
        world.write("new.json", &text(&contract("acme.a", version, members)));
        let run = world.run(&["contract", "diff", "old.json", "new.json", "--format", "json"]);
        let report = run.json();
        let got =
            json!([report["compatibility"], report["required_bump"], report["declared_bump"]]);
        assert_eq!((run.code(), &got), (code, &expected), "{version} {members}");
        assert_eq!(report["ok"], code == 0);
        // The form of the AiGentsy tools has no verdict.
        assert_eq!(world.run(&["contract", "diff", "old.json", "new.json"]).code(), 0);
    }
    world.write("new.json", &text(&contract("acme.a", "1.1.0", fewer)));
    let human = world.run(&["contract", "diff", "old.json", "new.json", "--format", "human"]);
    assert_eq!(
        human.stdout(),
        "major  /allowed_policy_fields: allowed_policy_fields has no 'b' any more\n\
         not ok: 1.0.0 to 1.1.0 is too little for a major change; call it 2.0.0\n"
    );
    let github = world.run(&["contract", "diff", "old.json", "new.json", "--format", "github"]);
    let shown = github.stdout();
    assert!(
        shown.contains("\n::error file=new.json,title=signal contract::not ok: 1.0.0"),
        "{shown}"
    );
}
