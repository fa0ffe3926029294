//! The work flow of authors: drafts, comparison with the lock, and directories that are not there.

use serde_json::{Value, json};

use super::{Desk, ECHO, contract};

fn described(version: &str, description: &str) -> Value {
    let mut described = contract(version);
    described["description"] = json!(description);
    described
}

#[test]
fn diff_compares_with_the_locked_revision() {
    let desk = Desk::new();
    desk.contract(&contract("1.0.0"));
    let file = "data/interfaces/echo.interface.json";
    assert!(desk.no(&format!("interface diff echo {file}")).contains("echo is not locked"));
    assert_eq!(desk.freeze().code(), 0);
    desk.contract(&described("1.0.1", "Other words."));
    for line in [format!("interface diff echo {file}"), "interface diff echo".to_owned()] {
        let told = desk.yes(&line);
        assert!(told.contains("ok: 1.0.0 to 1.0.1 says that it is patch"), "{line}: {told}");
    }
    desk.write("other.json", &described("1.0.0", "Yet other words."));
    assert!(desk.no("interface diff echo other.json").contains("call it 1.0.1"));
    assert!(desk.no("interface diff loki").contains("there is no file loki.interface.json"));
}

#[test]
fn show_prints_locked_revision_and_notes_differing_file() {
    let desk = Desk::new();
    desk.contract(&contract("1.0.0"));
    let show = |line: &str| {
        let run = desk.run(line);
        assert_eq!(run.code(), 0, "{}", run.stderr());
        (run.json()["description"].clone(), run.stderr())
    };
    let (_, told) = show("interface show echo --format json");
    assert!(told.contains("echo is not locked"), "{told}");
    assert_eq!(desk.freeze().code(), 0);
    let (locked, told) = show("interface show echo --format json");
    assert!(told.is_empty(), "{told}");
    desk.contract(&described("1.0.1", "Other words."));
    let (shown, told) = show("interface show echo --format json");
    assert_eq!(shown, locked);
    assert!(told.contains("echo.interface.json has 1.0.1, which is not the 1.0.0"), "{told}");
    std::fs::write(desk.world.path("data/interfaces/echo.interface.json"), "{").unwrap();
    let (shown, told) = show("interface show echo --format json");
    assert_eq!(shown, locked);
    assert!(told.contains("is not the 1.0.0 that is locked"), "{told}");
}

#[test]
fn removed_contract_is_not_shown_as_if_it_were_there() {
    let desk = Desk::new();
    desk.frozen(&contract("1.0.0"));
    desk.yes("interface freeze --remove echo");
    assert!(
        desk.no("interface show echo").contains("echo is removed in the lock, in version 2.0.0")
    );
    assert!(desk.yes("interface show echo@1.0.0").contains("echo.hello"));
}

#[test]
fn draft_is_written_and_nobody_is_held_to_it() {
    let desk = Desk::new();
    let output = json!({ "echo": true, "tool": "greeter", "method": "hello", "args": { "n": 1 } });
    let examples = json!({ "hello": {
        "tool": "greeter", "method": "hello", "examples": [{ "input": { "n": 1 }, "output": output }],
    } });
    desk.write("calls.json", &examples);
    let from = format!("interface freeze --from {ECHO} --examples calls.json --id echo");
    desk.yes(&from);
    let draft = "data/interfaces/drafts/echo.interface.json";
    let written = desk.world.path("data/interfaces/echo.interface.json");
    assert!(desk.world.path(draft).exists() && !written.exists());
    assert!(desk.yes("interface verify").contains("ok: 8 contracts hold"));
    assert_eq!(desk.run(&from).code(), 2, "what is there is not written over");
    desk.yes(&format!("interface freeze {draft}"));
    assert!(written.exists() && !desk.world.path(draft).exists());
    assert!(desk.yes("interface verify").contains("ok: 9 contracts hold"));
    // A file becomes a draft, too.
    desk.write("next.json", &described("1.0.1", "Other words."));
    desk.yes("interface freeze --draft next.json");
    assert!(desk.world.path(draft).exists());
    assert!(desk.yes("interface verify").contains("ok: 9 contracts hold"));
    assert_eq!(desk.run("interface freeze --draft --remove echo").code(), 2);
}

#[test]
fn named_directory_must_be_there() {
    let desk = Desk::new();
    for verb in ["verify", "list", "docs", "show loki", "diff loki loki", "anchors"] {
        let run = desk.run(&format!("interface {verb} --dir typo"));
        assert_eq!(run.code(), 2, "{verb}: {}", run.stdout());
        assert!(run.stderr().contains("typo is not a directory"), "{}", run.stderr());
    }
    std::fs::write(desk.world.path("router.toml"), "[contracts]\ninterfaces = \"typo\"\n").unwrap();
    assert_eq!(desk.run("interface verify").code(), 2);
    assert!(!desk.world.path("typo").exists());
    // Who freezes makes it.
    desk.write("echo.json", &contract("1.0.0"));
    desk.yes("interface freeze echo.json --dir new");
    desk.yes("interface verify --dir new");
}

#[test]
fn unknown_key_approves_nothing() {
    let desk = Desk::new();
    desk.frozen(&contract("1.0.0"));
    desk.yes("interface keygen a.pem");
    let lock = desk.world.path("data/interfaces/interfaces.lock");
    let before = std::fs::read(&lock).unwrap();
    let told = desk.no("interface approve echo --as author --key a.pem");
    assert!(
        told.contains("is not the key of a known author") && told.contains("nothing was signed")
    );
    assert_eq!(std::fs::read(&lock).unwrap(), before);
}

#[test]
fn lint_of_signal_contracts_tells_interface_contracts() {
    let desk = Desk::new();
    desk.frozen(&contract("1.0.0"));
    let lint =
        |name: &str| desk.no(&format!("contract lint data/interfaces/{name} --format human"));
    assert!(lint("echo.interface.json").contains("this is an interface contract"));
    assert!(lint("interfaces.lock").contains("this is a lock of interface contracts"));
}
