//! Revisions of contracts: the version that each needs, the lock, and who approves what breaks others.

use serde_json::{Value, json};

use super::{Desk, ECHO, contract};

/// A contract with an input more, which callers may leave out.
fn wider(version: &str) -> Value {
    let mut wider = contract(version);
    let input = &mut wider["operations"]["hello"]["input_schema"];
    input["properties"]["title"] = json!({ "type": "string" });
    wider
}

/// A contract that demands what was not demanded before.
fn narrower(version: &str) -> Value {
    let mut narrower = wider(version);
    let hello = &mut narrower["operations"]["hello"];
    hello["input_schema"]["required"] = json!(["name", "title"]);
    hello["examples"][0]["input"]["title"] = json!("Dr");
    hello["examples"][0]["output"]["args"]["title"] = json!("Dr");
    narrower
}

#[test]
fn the_eight_are_there_without_any_file() {
    let desk = Desk::new();
    assert!(desk.yes("interface verify").contains("ok: 8 contracts hold"));
    let listed = desk.yes("interface list");
    assert_eq!(listed.lines().count(), 9, "{listed}");
    assert!(listed.lines().skip(1).all(|line| line.contains("1.0.0    frozen")), "{listed}");
    let shown: Value =
        serde_json::from_str(&desk.yes("interface show loki --format json")).unwrap();
    assert_eq!(shown["operations"].as_object().unwrap().len(), 1);
    assert!(desk.yes("interface show livekit@1.0.0").contains("### livekit.join_room"));
    assert!(desk.no("interface show nothing").contains("there is no contract nothing"));
    assert!(!desk.world.path("data").exists(), "who only reads makes nothing");
}

#[test]
fn a_change_needs_the_version_that_it_is_worth() {
    let desk = Desk::new();
    desk.contract(&contract("1.0.0"));
    assert!(desk.no("interface verify").contains("INTERFACE_NOT_LOCKED"));
    assert_eq!(desk.freeze().code(), 0);
    assert!(desk.yes("interface verify").contains("ok: 9 contracts hold"));
    // White space and order are no change.
    let text = contract("1.0.0").to_string();
    std::fs::write(desk.world.path("data/interfaces/echo.interface.json"), text).unwrap();
    desk.yes("interface verify");
    desk.contract(&wider("1.0.0"));
    let told = desk.no("interface verify");
    assert!(
        told.contains("INTERFACE_CHANGED") && told.contains("raise the minor version"),
        "{told}"
    );
    desk.contract(&wider("1.0.1"));
    assert!(desk.no("interface verify").contains("INTERFACE_BUMP_TOO_SMALL"));
    let refused = desk.freeze();
    assert_eq!(refused.code(), 1, "{}", refused.stderr());
    assert!(refused.stderr().contains("nothing was locked"), "{}", refused.stderr());
    desk.frozen(&wider("1.1.0"));
    desk.yes("interface verify");
    desk.contract(&contract("1.0.0"));
    assert!(desk.no("interface verify").contains("INTERFACE_ROLLED_BACK"));
    std::fs::remove_file(desk.world.path("data/interfaces/echo.interface.json")).unwrap();
    assert!(desk.no("interface verify").contains("INTERFACE_REMOVED"));
}

#[test]
fn what_breaks_others_needs_tests_and_two_people() {
    let desk = Desk::new();
    desk.two_people();
    desk.frozen(&contract("1.0.0"));
    desk.frozen(&narrower("2.0.0"));
    let told = desk.no("interface verify");
    assert!(told.contains("no known author") && told.contains("no known reviewer"), "{told}");
    assert!(told.contains("INTERFACE_NOT_TESTED") && told.contains("8 contracts hold"), "{told}");
    let test = format!("interface test echo --adapter {ECHO}");
    assert!(desk.yes(&test).contains("the examples of 1 operations passed"));
    desk.yes("interface approve echo --as author --key a.pem");
    assert!(desk.no("interface verify").contains("no known reviewer has signed"));
    // Nobody reviews their own change, under whatever name.
    let told = desk.no("interface approve echo --as reviewer --key a.pem");
    assert!(told.contains("is not the key of a known reviewer"), "{told}");
    assert!(desk.no("interface verify").contains("no known reviewer has signed"));
    desk.yes("interface approve echo --as reviewer --key b.pem");
    desk.yes("interface verify");
    // Testing again says so of something else than was signed.
    desk.yes(&test);
    assert!(desk.no("interface verify").contains("no known author"));
    desk.yes("interface approve echo --as author --key a.pem");
    desk.yes("interface approve echo --as reviewer --key b.pem");
    assert!(desk.yes("interface verify").contains("ok: 9 contracts hold"));
    // A signature is for what was signed.
    let lock = desk.world.path("data/interfaces/interfaces.lock");
    let text = std::fs::read_to_string(&lock).unwrap();
    let (before, after) = text.rsplit_once("\"signature\": \"").unwrap();
    let flipped = if after.starts_with('A') { "B" } else { "A" };
    std::fs::write(&lock, format!("{before}\"signature\": \"{flipped}{}", &after[1..])).unwrap();
    assert!(desk.no("interface verify").contains("is not for this revision as it is"));
}

#[test]
fn one_key_for_both_is_one_person() {
    let desk = Desk::new();
    let key = desk.yes("interface keygen a.pem").trim().to_owned();
    let config = format!("[contracts]\nauthors = [{key:?}]\nreviewers = [{key:?}]\n");
    std::fs::write(desk.world.path("router.toml"), config).unwrap();
    desk.frozen(&contract("1.0.0"));
    desk.frozen(&narrower("2.0.0"));
    desk.yes(&format!("interface test echo --adapter {ECHO}"));
    desk.yes("interface approve echo --as author --key a.pem");
    desk.yes("interface approve echo --as reviewer --key a.pem");
    assert!(desk.no("interface verify").contains("author and reviewer are the same key"));
}

#[test]
fn what_says_that_it_breaks_others_is_taken_at_its_word_and_gives_way_until_it_is_approved() {
    let desk = Desk::new();
    desk.two_people();
    desk.frozen(&contract("1.0.0"));
    let mut major = contract("2.0.0");
    major["description"] = json!("Only other words.");
    desk.frozen(&major);
    assert!(desk.no("interface verify").contains("INTERFACE_NOT_APPROVED"));
    // Nobody relied on it, so it may be changed until it is approved.
    major["description"] = json!("Yet other words.");
    desk.contract(&major);
    let again = desk.freeze();
    assert!(again.stderr().contains("gives way"), "{}", again.stderr());
    desk.yes(&format!("interface test echo@2.0.0 --adapter {ECHO}"));
    desk.yes("interface approve echo@2.0.0 --as author --key a.pem");
    desk.yes("interface approve echo --as reviewer --key b.pem");
    desk.yes("interface verify");
    let refused = desk.freeze();
    assert_eq!(refused.code(), 0, "it is locked already: {}", refused.stderr());
    for (member, value) in [("read_only", json!(false)), ("idempotent", json!(false))] {
        let mut other = contract("2.1.0");
        other["operations"]["hello"][member] = value;
        desk.write("other.json", &other);
        assert!(desk.no("interface diff echo other.json").contains("major"), "{member}");
    }
}

#[test]
fn processes_lose_no_revision() {
    let desk = Desk::new();
    let ids: Vec<String> = (0..8).map(|n| format!("echo-{n}")).collect();
    for id in &ids {
        let mut own = contract("1.0.0");
        own["adapter_id"] = json!(id);
        desk.write(&format!("data/interfaces/{id}.interface.json"), &own);
    }
    std::thread::scope(|scope| {
        for id in &ids {
            let desk = &desk;
            scope.spawn(move || {
                desk.yes(&format!("interface freeze data/interfaces/{id}.interface.json"))
            });
        }
    });
    assert!(desk.yes("interface verify").contains("ok: 16 contracts hold"));
}

#[test]
fn examples_that_do_not_come_out_are_no_test() {
    let desk = Desk::new();
    let mut wrong = contract("1.0.0");
    wrong["operations"]["hello"]["examples"][0]["output"]["args"] = json!({ "name": "Bob" });
    desk.frozen(&wrong);
    let told = desk.no(&format!("interface test echo --adapter {ECHO}"));
    assert!(told.contains("example 0") && told.contains("Bob"), "{told}");
    wrong["version"] = json!("1.0.1");
    wrong["operations"]["hello"]["volatile"] = json!([]);
    wrong["operations"]["hello"]["examples"] = json!([]);
    desk.frozen(&wrong);
    assert!(
        desk.no(&format!("interface test echo --adapter {ECHO}")).contains("it has no example")
    );
}

#[test]
fn a_removed_adapter_is_a_revision_that_breaks_others() {
    let desk = Desk::new();
    desk.two_people();
    desk.frozen(&contract("1.0.0"));
    desk.yes("interface freeze --remove echo");
    assert!(desk.no("interface verify").contains("INTERFACE_NOT_APPROVED"));
    desk.yes("interface approve echo --as author --key a.pem");
    desk.yes("interface approve echo --as reviewer --key b.pem");
    assert!(desk.no("interface verify").contains("delete it"), "its file is still there");
    std::fs::remove_file(desk.world.path("data/interfaces/echo.interface.json")).unwrap();
    assert!(desk.yes("interface verify").contains("ok: 8 contracts hold"));
    assert!(desk.no("interface freeze --remove echo").contains("there is no contract of echo"));
}

#[test]
fn frozen_contracts_grow_by_revisions_like_all_others() {
    let desk = Desk::new();
    let mut loki: Value =
        serde_json::from_str(&desk.yes("interface show loki --format json")).unwrap();
    loki["operations"]["query_logs"]["timeout_ms"] = json!(60_000);
    desk.write("data/interfaces/loki.interface.json", &loki);
    assert!(desk.no("interface verify").contains("INTERFACE_CHANGED"));
    loki["version"] = json!("1.1.0");
    desk.write("data/interfaces/loki.interface.json", &loki);
    desk.yes("interface freeze data/interfaces/loki.interface.json");
    assert!(desk.yes("interface verify").contains("ok: 8 contracts hold"));
    assert!(desk.yes("interface list").contains("1.1.0    locked"));
    let diff = desk.yes("interface diff loki@1.0.0 loki");
    assert!(diff.contains("ok: 1.0.0 to 1.1.0 says that it is minor"), "{diff}");
}

#[test]
fn diff_tells_what_differs_and_which_version_that_needs() {
    let desk = Desk::new();
    for (name, value) in [
        ("old.json", contract("1.0.0")),
        ("wider.json", wider("1.0.1")),
        ("narrower.json", narrower("1.1.0")),
        ("good.json", narrower("2.0.0")),
    ] {
        desk.write(name, &value);
    }
    assert!(desk.no("interface diff old.json wider.json").contains("call it 1.1.0"));
    let told = desk.no("interface diff old.json narrower.json");
    assert!(told.contains("major") && told.contains("call it 2.0.0"), "{told}");
    let report = desk.yes("interface diff old.json good.json --format json");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["ok"], &report["needed"]), (&json!(true), &json!("major")));
    let major = report["changes"].as_array().unwrap().iter().find(|it| it["class"] == "major");
    assert_eq!(major.unwrap()["operation"], "hello");
    assert!(desk.no("interface diff good.json old.json").contains("goes back"));
    assert!(desk.yes("interface diff old.json old.json").contains("nothing differs"));
}

#[test]
fn a_contract_is_written_from_an_adapter_and_examples() {
    let desk = Desk::new();
    let output = json!({ "echo": true, "tool": "greeter", "method": "hello", "args": { "n": 1 } });
    let examples = json!({ "hello": {
        "tool": "greeter", "method": "hello", "examples": [{ "input": { "n": 1 }, "output": output }],
    } });
    desk.write("calls.json", &examples);
    desk.yes(&format!("interface freeze --from {ECHO} --lock --examples calls.json --id echo"));
    desk.yes("interface verify");
    desk.yes(&format!("interface test echo --adapter {ECHO}"));
    let shown: Value =
        serde_json::from_str(&desk.yes("interface show echo --format json")).unwrap();
    let hello = &shown["operations"]["hello"];
    assert_eq!(hello["input_schema"]["properties"]["n"]["type"], "integer");
    assert_eq!(hello["read_only"], true, "it reaches nothing outside");
    let again =
        desk.run(&format!("interface freeze --from {ECHO} --examples calls.json --id echo"));
    assert_eq!(again.code(), 2, "what is there is not written over: {}", again.stderr());
    let none = desk.no(&format!("interface freeze --from {ECHO} --id other"));
    assert!(none.contains("--examples"), "{none}");
}

#[test]
fn the_document_is_that_of_the_contracts() {
    let desk = Desk::new();
    let written = desk.yes("interface docs");
    let shipped = crate::support::workspace().join("adapters/ADAPTER_CONTRACTS.md");
    assert_eq!(written, std::fs::read_to_string(&shipped).unwrap());
    desk.yes(&format!("interface docs --check {}", shipped.display()));
    desk.frozen(&contract("1.0.0"));
    assert!(
        desk.no(&format!("interface docs --check {}", shipped.display())).contains("out of date")
    );
    assert!(desk.yes("interface docs").contains("### echo.hello"));
}
