//! The gate for continuous integration: pins are held to the manifest, and contracts to the pins.

use serde_json::{Value, json};

use super::shop::Shop;

/// A shop whose four contracts are pinned: active, superseded, deprecated and revoked.
struct Project {
    shop: Shop,
    key: String,
}

impl Project {
    fn new() -> Self {
        let shop = Shop::new();
        for (name, more) in [
            ("a", json!({})),
            ("b", json!({"status": "active", "replaced_by": "acme.a@1.0.0"})),
            ("c", json!({"status": "deprecated", "replaced_by": "acme.a@1.0.0"})),
            ("d", json!({"status": "revoked"})),
        ] {
            let file = format!("contracts/{name}.adapter_contract.json");
            shop.contract(&file, &format!("acme.{name}"), "1.0.0", &more);
        }
        shop.build("m.json", &["contracts"]);
        let key = shop.key();
        let project = Self { shop, key };
        for name in ["a", "b"] {
            project.pin(name);
        }
        project
    }

    fn pin(&self, name: &str) {
        let contract = self.shop.read(&format!("contracts/{name}.adapter_contract.json"));
        let (id, hash) = (format!("acme.{name}"), contract["contract_hash"].as_str().unwrap());
        self.shop.yes(&[
            "pin",
            "--id",
            &id,
            "--version",
            "1.0.0",
            "--hash",
            hash,
            "--manifest",
            "m.json",
            "--public-key-base64",
            &self.key,
            "--allow-revoked-for-legacy-inspection",
        ]);
    }

    /// Runs the gate, and returns its exit code and the codes of what it calls an error.
    fn check(&self, words: &[&str]) -> (i32, Vec<String>) {
        let fixed = ["pins", "check", "--manifest", "m.json", "--public-key-base64", &self.key];
        let run = self.shop.run(&[&fixed[..], &["--format", "json"], words].concat());
        let report = run.json();
        let errors: Vec<String> = (report["findings"].as_array().unwrap().iter())
            .filter(|finding| finding["severity"] == "error")
            .map(|finding| finding["code"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(report["ok"], errors.is_empty(), "{report}");
        (run.code(), errors)
    }

    /// Changes a file, runs the gate, and puts the file back.
    fn check_with(&self, file: &str, change: impl FnOnce(&mut Value)) -> (i32, Vec<String>) {
        let good = self.shop.read(file);
        let mut changed = good.clone();
        change(&mut changed);
        self.shop.write(file, &changed);
        let found = self.check(&[]);
        self.shop.write(file, &good);
        found
    }
}

fn codes(codes: &[&str]) -> Vec<String> {
    codes.iter().map(|code| (*code).to_owned()).collect()
}

#[test]
fn what_holds_is_let_through() {
    let project = Project::new();
    let files = ["contracts/a.adapter_contract.json", "contracts/b.adapter_contract.json"];
    assert_eq!(project.check(&[]), (0, vec![]));
    assert_eq!(project.check(&files), (0, vec![]));
    let words = ["pins", "check", "--manifest", "m.json", "--publishers", "publishers"];
    let said = project.shop.yes(&[&words[..], &files].concat());
    assert!(said.contains("ok: 2 pins hold, 2 contracts are pinned"), "{said}");
    assert!(
        said.contains("! acme.b@1.0.0: it is superseded; its replacement is acme.a@1.0.0"),
        "{said}"
    );
}

#[test]
fn what_is_used_and_not_pinned_is_found() {
    let project = Project::new();
    assert_eq!(project.check(&["contracts"]), (1, codes(&["not_pinned", "not_pinned"])));
    project.shop.contract("new.json", "acme.a", "1.1.0", &json!({}));
    assert_eq!(project.check(&["new.json"]), (1, codes(&["not_pinned"])));
    project.shop.contract(
        "other.json",
        "acme.a",
        "1.0.0",
        &json!({"output_fields": ["tests_passed"]}),
    );
    assert_eq!(project.check(&["other.json"]), (1, codes(&["contract_differs"])));
    let mut wrong = project.shop.read("contracts/a.adapter_contract.json");
    wrong["output_fields"] = json!(["tests_passed", "reviewed", "more"]);
    project.shop.write("wrong.json", &wrong);
    let expected = ["contract_wrong", "contract_wrong", "contract_differs"];
    assert_eq!(project.check(&["wrong.json"]), (1, codes(&expected)));
}

#[test]
fn what_became_of_contracts_counts() {
    let project = Project::new();
    project.pin("c");
    assert_eq!(project.check(&[]), (1, codes(&["deprecated"])));
    assert_eq!(project.check(&["--allow-deprecated"]), (0, vec![]));
    project.pin("d");
    let flag = "--allow-revoked-for-legacy-inspection";
    assert_eq!(project.check(&["--allow-deprecated"]), (3, codes(&["revoked"])));
    assert_eq!(project.check(&["--allow-deprecated", flag]), (0, vec![]));
    // A pin that was not made to look at it is refused with the flag too.
    let pins = project.shop.read("pinned_adapters.json");
    let mut changed = pins.clone();
    changed["pinned_adapters"][3]["status"] = "active".into();
    project.shop.write("pinned_adapters.json", &changed);
    assert_eq!(project.check(&["--allow-deprecated", flag]), (3, codes(&["revoked"])));
    // One that is revoked after it was pinned.
    project.shop.write("pinned_adapters.json", &pins);
    project.shop.contract(
        "contracts/a.adapter_contract.json",
        "acme.a",
        "1.0.0",
        &json!({"status": "revoked"}),
    );
    project.shop.build("m.json", &["contracts"]);
    let (code, found) = project.check(&["--allow-deprecated", flag]);
    assert_eq!((code, found), (3, codes(&["entry_hash_differs", "revoked"])));
}

#[test]
fn pins_and_manifest_must_be_what_they_were() {
    let project = Project::new();
    let pins = "pinned_adapters.json";
    let pin = |key: &'static str, value: Value| {
        move |file: &mut Value| file["pinned_adapters"][0][key] = value
    };
    let hash = json!("0".repeat(64));
    let found = project.check_with(pins, pin("contract_hash", hash.clone()));
    assert_eq!(found, (1, codes(&["contract_hash_differs"])));
    let found = project.check_with(pins, pin("entry_hash", hash));
    assert_eq!(found, (1, codes(&["entry_hash_differs"])));
    let found = project.check_with(pins, pin("entry_hash", json!("")));
    assert_eq!(found, (1, codes(&["pin_not_verified"])));
    let found = project.check_with(pins, pin("adapter_version", json!("2.0.0")));
    assert_eq!(found, (1, codes(&["not_in_manifest"])));
    let found = project.check_with(pins, |file| file["pinned_adapters"] = json!(5));
    assert_eq!(found, (1, codes(&["malformed"])));
    let found = project.check_with(pins, |file| file["pinned_adapters"] = json!([]));
    assert_eq!(found, (1, codes(&["nothing_pinned"])));
    let entry =
        |key: &'static str, value: Value| move |file: &mut Value| file["contracts"][0][key] = value;
    let bad = json!("A".repeat(86) + "==");
    let found = project.check_with("m.json", entry("entry_signature", bad.clone()));
    assert_eq!(found, (1, codes(&["entry"])));
    let found = project.check_with("m.json", entry("release_notes", json!("new")));
    assert_eq!(found, (1, codes(&["entry"])));
    let found = project.check_with("m.json", |file| file["manifest_signature"] = bad);
    assert_eq!(found, (1, codes(&["manifest"])));
    let found = project.check_with("m.json", |file| file["freshness"]["sequence"] = json!(99));
    assert_eq!(found, (1, codes(&["manifest"])));
    // Somebody leaves out what nobody here pinned: the whole does not hold.
    let found =
        project.check_with("m.json", |it| drop(it["contracts"].as_array_mut().unwrap().pop()));
    assert_eq!(found, (1, codes(&["manifest"])));
    // What is wrong with an entry that nobody here pinned is no concern of this project.
    let found =
        project.check_with("m.json", |file| file["contracts"][3]["entry_signature"] = json!(1));
    assert_eq!(found, (0, vec![]));
}

#[test]
fn without_a_key_there_is_no_gate() {
    let project = Project::new();
    let words = ["pins", "check", "--manifest", "m.json"];
    assert_eq!(project.shop.run(&words).code(), 2);
    let empty = [&words[..], &["--public-key-base64", ""]].concat();
    assert_eq!(project.shop.run(&empty).code(), 2);
    let missing = ["--pins", "none.json"];
    let missing = [&words[..], &["--public-key-base64", &project.key], &missing].concat();
    assert_eq!(project.shop.run(&missing).code(), 2);
}

#[test]
fn workflows_get_annotations() {
    let project = Project::new();
    let words = ["pins", "check", "--manifest", "m.json", "--public-key-base64", &project.key];
    let said = project.shop.no(&[&words[..], &["--format", "github", "contracts"]].concat());
    let line = "::error file=contracts/c.adapter_contract.json,title=not_pinned::acme.c@1.0.0: it is used, and not pinned";
    assert!(said.lines().any(|it| it == line), "{said}");
    assert!(said.contains("::warning file=pinned_adapters.json,title=superseded::"), "{said}");
}

#[test]
fn a_contract_does_not_hide_from_the_gate() {
    let project = Project::new();
    let mut hidden = project.shop.read("contracts/a.adapter_contract.json");
    // It is one to whoever evaluates, and looks like a manifest.
    hidden["contracts"] = json!([]);
    project.shop.write("contracts/a.adapter_contract.json", &hidden);
    let (code, errors) = project.check(&["contracts/a.adapter_contract.json"]);
    assert_eq!((code, errors), (1, codes(&["malformed"])));
}

#[test]
fn nothing_that_is_pinned_is_an_error_whatever_else_there_is() {
    let project = Project::new();
    project.shop.write("pinned_adapters.json", &json!({}));
    let (code, errors) = project.check(&[]);
    assert_eq!((code, errors), (1, codes(&["nothing_pinned"])));
}

#[test]
fn a_revocation_is_not_undone_by_another_entry_before_it() {
    let project = Project::new();
    let mut manifest = project.shop.read("m.json");
    let entries = manifest["contracts"].as_array_mut().unwrap();
    let mut revoked = entries.iter().find(|it| it["adapter_id"] == "acme.a").unwrap().clone();
    revoked["status"] = json!("revoked");
    entries.push(revoked);
    project.shop.write("m.json", &manifest);
    // What was changed does not verify either; that it is revoked is told first of all.
    assert_eq!(project.check(&[]).0, 3);
}
