//! The history of a contract: anchored in the configuration, signed by keys that were valid then.

use serde_json::{Value, json};

use super::{Desk, ECHO, contract};

const LOCK: &str = "data/interfaces/interfaces.lock";
const FILE: &str = "data/interfaces/echo.interface.json";

fn described(version: &str, description: &str) -> Value {
    let mut described = contract(version);
    described["description"] = json!(description);
    described
}

/// Locks 1.0.0 and 1.0.1, and anchors them.
fn anchored() -> Desk {
    let desk = Desk::new();
    desk.frozen(&contract("1.0.0"));
    desk.frozen(&described("1.0.1", "Says it again."));
    let anchors = desk.yes("interface anchors");
    std::fs::write(desk.world.path("router.toml"), anchors).unwrap();
    let told = desk.yes("interface verify --require-anchors");
    assert!(told.contains("ok: 9 contracts hold") && !told.contains("not anchored"), "{told}");
    desk
}

fn edit_lock(desk: &Desk, edit: impl FnOnce(&mut Vec<Value>)) {
    let path = desk.world.path(LOCK);
    let mut lock: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    edit(lock["revisions"].as_array_mut().unwrap());
    std::fs::write(path, lock.to_string()).unwrap();
}

#[test]
fn history_without_an_anchor_is_told() {
    let desk = Desk::new();
    desk.frozen(&contract("1.0.0"));
    let told = desk.yes("interface verify");
    assert!(told.contains("not anchored: echo 1.0.0 is not anchored"), "{told}");
    let report: Value = serde_json::from_str(&desk.yes("interface verify --format json")).unwrap();
    assert_eq!(report["not_anchored"], json!(["echo"]));
    assert!(desk.no("interface verify --require-anchors").contains("INTERFACE_NOT_ANCHORED"));
}

#[test]
fn lock_that_is_made_anew_is_found() {
    let desk = anchored();
    std::fs::remove_file(desk.world.path(LOCK)).unwrap();
    assert!(desk.no("interface verify").contains("INTERFACE_HISTORY_REPLACED"));
    desk.frozen(&described("1.0.1", "Says it again."));
    let told = desk.no("interface verify");
    assert!(told.contains("INTERFACE_HISTORY_REPLACED") && told.contains("made anew"), "{told}");
    assert!(desk.no("interface anchors").contains("nothing is anchored"));
}

#[test]
fn rollback_of_lock_and_file_is_found() {
    let desk = anchored();
    edit_lock(&desk, |revisions| drop(revisions.pop()));
    desk.contract(&contract("1.0.0"));
    assert!(desk.no("interface verify").contains("INTERFACE_HISTORY_REPLACED"));
}

#[test]
fn cut_history_is_found() {
    let desk = anchored();
    edit_lock(&desk, |revisions| {
        revisions.remove(0);
        revisions[0]["previous"] = Value::Null;
    });
    assert!(desk.no("interface verify").contains("INTERFACE_HISTORY_REPLACED"));
}

#[test]
fn history_that_vanished_as_a_whole_is_found_and_closed() {
    let desk = anchored();
    std::fs::remove_dir_all(desk.world.path("data/interfaces")).unwrap();
    std::fs::create_dir(desk.world.path("data/interfaces")).unwrap();
    assert!(desk.no("interface verify").contains("INTERFACE_HISTORY_REPLACED"));
    desk.write("plan.json", &crate::daemon::support::plan("echo", "greeter", "hello"));
    let run = desk.run(&format!("run plan.json --adapter {ECHO} --db runs.db --format json"));
    assert_eq!(run.json()["results"][0]["error"]["code"], "CONTRACT_INVALID");
}

#[test]
fn newer_revision_is_anchored_by_the_next_anchor() {
    let desk = anchored();
    desk.frozen(&described("1.0.2", "Once more."));
    let told = desk.yes("interface verify");
    assert!(told.contains("1.0.2 is not anchored, only 1.0.1"), "{told}");
    desk.no("interface verify --require-anchors");
    let anchors = desk.yes("interface anchors");
    std::fs::write(desk.world.path("router.toml"), anchors).unwrap();
    desk.yes("interface verify --require-anchors");
}

#[test]
fn anchor_of_a_frozen_contract_is_for_its_revisions_too() {
    let desk = Desk::new();
    let mut loki: Value =
        serde_json::from_str(&desk.yes("interface show loki --format json")).unwrap();
    loki["description"] = json!("Other words.");
    loki["version"] = json!("1.0.1");
    desk.write("loki.json", &loki);
    desk.yes("interface freeze loki.json");
    let anchors = desk.yes("interface anchors");
    std::fs::write(desk.world.path("router.toml"), anchors).unwrap();
    desk.yes("interface verify --require-anchors");
    std::fs::remove_file(desk.world.path(LOCK)).unwrap();
    std::fs::remove_file(desk.world.path("data/interfaces/loki.interface.json")).unwrap();
    assert!(desk.no("interface verify").contains("INTERFACE_HISTORY_REPLACED"));
}

/// A desk with an approved 2.0.0, and the keys of author and reviewer.
fn approved() -> (Desk, [String; 2]) {
    let desk = Desk::new();
    let keys = ["a.pem", "b.pem"].map(|name| desk.yes(&format!("interface keygen {name}")));
    let keys = keys.map(|key| key.trim().to_owned());
    let [a, b] = &keys;
    configure(&desk, &format!("authors = [{a:?}]\nreviewers = [{b:?}]\n"));
    desk.frozen(&contract("1.0.0"));
    desk.frozen(&described("2.0.0", "Something else."));
    desk.yes(&format!("interface test echo --adapter {ECHO}"));
    desk.yes("interface approve echo --as author --key a.pem");
    desk.yes("interface approve echo --as reviewer --key b.pem");
    desk.yes("interface verify");
    (desk, keys)
}

fn configure(desk: &Desk, contracts: &str) {
    let config = format!("[contracts]\n{contracts}");
    std::fs::write(desk.world.path("router.toml"), config).unwrap();
}

#[test]
fn former_reviewer_does_not_invalidate_history() {
    let (desk, [a, b]) = approved();
    let limited = |limits: &str| {
        configure(
            &desk,
            &format!("authors = [{a:?}]\nreviewers = [{{ key = {b:?}, {limits} }}]\n"),
        );
    };
    limited("until = \"2999-01-01T00:00:00Z\"");
    desk.yes("interface verify");
    // The reviewer left after they had signed.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let now = desk_time();
    limited(&format!("until = {now:?}"));
    desk.yes("interface verify");
    let told = desk.no("interface approve echo --as reviewer --key b.pem");
    assert!(told.contains("is valid until"), "{told}");
    desk.yes("interface verify");
    // Before they signed, they had left already, or were not there yet.
    limited("until = \"2020-01-01T00:00:00Z\"");
    assert!(desk.no("interface verify").contains("is valid until"));
    limited("from = \"2999-01-01T00:00:00Z\"");
    assert!(desk.no("interface verify").contains("is valid from"));
    limited("from = \"2020-01-01T00:00:00Z\", until = 2999-01-01T00:00:00Z");
    desk.yes("interface verify");
    limited("from = \"2020\"");
    assert_eq!(desk.run("interface verify").code(), 2);
}

/// Returns the present moment.
fn desk_time() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    nexus_router::clock::Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap()).to_string()
}

#[test]
fn freeze_without_the_keys_changes_nothing() {
    let (desk, _) = approved();
    let before = std::fs::read(desk.world.path(LOCK)).unwrap();
    configure(&desk, "");
    desk.contract(&described("2.0.1", "Yet other words."));
    for line in
        ["interface freeze data/interfaces/echo.interface.json", "interface freeze --remove echo"]
    {
        let run = desk.run(line);
        assert_eq!(run.code(), 2, "{}", run.stderr());
        assert!(run.stderr().contains("which [contracts] does not have"), "{}", run.stderr());
    }
    assert_eq!(std::fs::read(desk.world.path(LOCK)).unwrap(), before);
}

#[test]
fn freeze_does_not_drop_a_signed_revision() {
    let (desk, [a, b]) = approved();
    // The author is a reviewer now, so the revision does not hold; it is signed all the same.
    configure(&desk, &format!("authors = [{b:?}]\nreviewers = [{a:?}]\n"));
    desk.contract(&described("2.1.0", "Yet other words."));
    let before = std::fs::read(desk.world.path(LOCK)).unwrap();
    let run = desk.freeze();
    assert_eq!(run.code(), 1, "{}", run.stderr());
    assert!(run.stderr().contains("does not give way"), "{}", run.stderr());
    assert_eq!(std::fs::read(desk.world.path(LOCK)).unwrap(), before);
    assert_eq!(desk.run("interface freeze --remove echo").code(), 1);
    assert!(desk.world.path(FILE).exists());
}
