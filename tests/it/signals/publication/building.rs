//! Keys, signatures and manifests: what is made here holds, for one publisher and for several.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::shop::Shop;

#[test]
fn a_key_is_only_for_its_owner_and_never_made_twice() {
    let shop = Shop::new();
    let mode = fs::metadata(shop.path("key.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let said: Value = serde_json::from_str(&shop.yes(&["keygen", "two.pem"])).unwrap();
    let names: Vec<&String> = said.as_object().unwrap().keys().collect();
    assert_eq!(names, ["ok", "key_id", "public_key_base64", "public_key", "file"]);
    assert_eq!(
        said["public_key"],
        format!("ed25519:{}", said["public_key_base64"].as_str().unwrap())
    );
    assert!(said["key_id"].as_str().unwrap().starts_with("ed25519_"));
    let before = fs::read(shop.path("two.pem")).unwrap();
    assert_eq!(shop.run(&["keygen", "two.pem"]).code(), 2);
    assert_eq!(fs::read(shop.path("two.pem")).unwrap(), before);
    let words =
        ["keygen", "three.pem", "--publisher-id", "x", "--document", "publishers/acme.json"];
    assert_eq!(shop.run(&words).code(), 2);
    assert!(!shop.path("three.pem").exists());
}

#[test]
fn from_a_contract_to_a_manifest_that_is_verified() {
    let shop = Shop::new();
    shop.contract("c.json", "acme.a", "1.0.0", &json!({"_comment": "mine"}));
    let words = ["attest", "c.json", "--publisher-id", "acme", "--publisher-key-id", "k1"];
    let attested = shop.yes(&words);
    fs::write(shop.path("attested.json"), &attested).unwrap();
    let signed = shop.yes(&["sign", "attested.json", "--key", "key.pem"]);
    let entry: Value = serde_json::from_str(&signed).unwrap();
    let attested: Value = serde_json::from_str(&attested).unwrap();
    assert_eq!(entry["entry_hash"], attested["entry_hash"]);
    assert_eq!(entry["published_at"], "2027-01-15T08:00:00Z");
    fs::write(shop.path("a.entry.json"), signed).unwrap();
    let manifest = shop.build("m.json", &["a.entry.json"]);
    assert_eq!(manifest["contracts"], json!([entry]));
    let key = shop.key();
    let (code, report) =
        shop.verify("m.json", &["--public-key-base64", &key, "--require-signature"]);
    assert_eq!((code, &report["verified"], &report["findings"]), (0, &json!(true), &json!([])));
    let said = shop.yes(&[
        "manifest",
        "verify",
        "m.json",
        "--format",
        "human",
        "--public-key-base64",
        &key,
    ]);
    assert!(said.contains("✓ acme.a@1.0.0") && said.contains("every signature holds"), "{said}");
}

#[test]
fn the_same_manifest_is_built_again_to_the_byte() {
    let shop = Shop::new();
    for version in ["0.10.0", "0.9.0", "1.0.0"] {
        let name = format!("contracts/{version}.adapter_contract.json");
        shop.contract(&name, "acme.b", version, &json!({}));
    }
    shop.contract("contracts/below/adapter_contract.json", "acme.a", "1.0.0", &json!({}));
    shop.write("contracts/package.json", &json!({"name": "not ours"}));
    let first = shop.build("one.json", &["contracts"]);
    shop.build("two.json", &["contracts/below", "contracts"]);
    assert_eq!(fs::read(shop.path("one.json")).unwrap(), fs::read(shop.path("two.json")).unwrap());
    let names: Vec<String> = (first["contracts"].as_array().unwrap().iter())
        .map(|it| {
            format!(
                "{}@{}",
                it["adapter_id"].as_str().unwrap(),
                it["adapter_version"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(names, ["acme.a@1.0.0", "acme.b@0.9.0", "acme.b@0.10.0", "acme.b@1.0.0"]);
}

#[test]
fn what_did_not_change_stays_published_when_it_was() {
    let shop = Shop::new();
    shop.contract("a.adapter_contract.json", "acme.a", "1.0.0", &json!({}));
    let old = shop.build("old.json", &["a.adapter_contract.json"]);
    shop.contract("b.adapter_contract.json", "acme.b", "1.0.0", &json!({}));
    let words = [
        "manifest",
        "build",
        "a.adapter_contract.json",
        "b.adapter_contract.json",
        "--key",
        "key.pem",
        "--publisher-id",
        "acme",
        "--publisher-key-id",
        "k1",
        "--previous",
        "old.json",
    ];
    let run = shop.run_at("1800086400", &words);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let new = run.json();
    assert_eq!(new["contracts"][0], old["contracts"][0]);
    assert_eq!(new["contracts"][1]["published_at"], "2027-01-16T08:00:00Z");
    assert_eq!(new["freshness"]["sequence"], 2);
    assert_eq!(new["freshness"]["previous_manifest_hash"], old["manifest_hash"]);
}

#[test]
fn everything_that_is_wrong_is_told_and_nothing_is_built() {
    let shop = Shop::new();
    let mut wrong = shop.contract("wrong.json", "acme.a", "1.0.0", &json!({"status": "fine"}));
    wrong["contract_hash"] = "0".repeat(64).into();
    shop.write("wrong.json", &wrong);
    shop.contract("one.json", "acme.b", "1.0.0", &json!({}));
    shop.contract("two.json", "acme.b", "1.0.0", &json!({"output_fields": ["tests_passed"]}));
    fs::write(shop.path("broken.json"), "{").unwrap();
    shop.yes(&["attest", "one.json"]);
    fs::write(shop.path("foreign.json"), shop.yes(&["attest", "one.json"])).unwrap();
    let words = [
        "manifest",
        "build",
        "wrong.json",
        "one.json",
        "two.json",
        "broken.json",
        "foreign.json",
        "--key",
        "key.pem",
        "--publisher-id",
        "acme",
        "--out",
        "m.json",
    ];
    let said = shop.no(&words);
    for part in [
        "wrong.json: contract_hash mismatch",
        "wrong.json: status must be one of",
        "two.json: acme.b@1.0.0: one.json has another contract",
        "broken.json: expected",
        "foreign.json: acme.b@1.0.0: it is published by aigentsy.publisher.v1, who did not sign it",
        "nothing was built",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!shop.path("m.json").exists());
}

#[test]
fn several_publishers_stand_in_one_manifest_each_with_its_own_key() {
    let shop = Shop::new();
    shop.keygen("other.pem", "other", "publishers/other.json");
    shop.contract("a.adapter_contract.json", "acme.a", "1.0.0", &json!({}));
    shop.contract("b.json", "other.b", "1.0.0", &json!({}));
    fs::write(shop.path("b.entry.json"), shop.yes(&["attest", "b.json"])).unwrap();
    let sign =
        ["sign", "b.entry.json", "--in-place", "--key", "other.pem", "--publisher-id", "other"];
    shop.yes(&[&sign[..], &["--publisher-key-id", "k1"]].concat());
    let manifest = shop.build("m.json", &["a.adapter_contract.json", "b.entry.json"]);
    assert_eq!(manifest["contracts"][1]["publisher_id"], "other");
    let held = ["--publishers", "publishers", "--require-signature"];
    let (code, report) = shop.verify("m.json", &held);
    assert_eq!((code, &report["verified"]), (0, &json!(true)), "{report}");
    // One key alone is not enough.
    let (code, report) = shop.verify("m.json", &["--public-key-base64", &shop.key()]);
    assert_eq!((code, &report["entries"][1]["entry_signature_status"]), (1, &json!("bad")));
    // A key that is retired, a publisher who speaks for others, one who is not known.
    let document = shop.read("publishers/other.json");
    let changed = |key: &str, value: Value| {
        let mut document = document.clone();
        document[key] = value;
        document
    };
    for (document, status) in [
        (changed("status", json!("retired")), "retired_key"),
        (changed("namespaces", json!(["acme", "othe"])), "outside_namespace"),
        (changed("publisher_id", json!("somebody")), "unknown_publisher"),
        (changed("public_key_base64", json!(shop.key())), "bad"),
    ] {
        shop.write("publishers/other.json", &document);
        let (code, report) = shop.verify("m.json", &held);
        let entries = &report["entries"];
        assert_eq!((code, &entries[1]["entry_signature_status"]), (1, &json!(status)), "{report}");
        assert_eq!(entries[0]["entry_signature_status"], "ok");
        assert_eq!(report["verified"], false);
    }
    shop.write("publishers/other.json", &changed("namespaces", json!(["other"])));
    assert_eq!(shop.verify("m.json", &held).0, 0);
    // A publisher with two keys, in one document.
    let two = json!({"publisher_id": "other", "keys": [
        {"publisher_key_id": "k0", "public_key_base64": shop.key(), "status": "retired"},
        {"publisher_key_id": "k1", "public_key_base64": document["public_key_base64"]},
    ]});
    shop.write("publishers/other.json", &two);
    assert_eq!(shop.verify("m.json", &held).0, 0);
    // Building checks the signatures of others, if it is told their keys.
    let mut entry = shop.read("b.entry.json");
    entry["entry_signature"] = json!("A".repeat(86) + "==");
    shop.write("b.entry.json", &entry);
    let build = ["manifest", "build", "b.entry.json", "--key", "key.pem", "--publisher-id", "acme"];
    let said = shop.no(&[&build[..], &["--publishers", "publishers"]].concat());
    assert!(said.contains("its signature does not hold"), "{said}");
}

#[test]
fn documents_that_contradict_each_other_are_refused() {
    let shop = Shop::new();
    shop.contract("a.adapter_contract.json", "acme.a", "1.0.0", &json!({}));
    shop.build("m.json", &["a.adapter_contract.json"]);
    let mut document = shop.read("publishers/acme.json");
    document["public_key_base64"] = json!("A".repeat(43) + "=");
    shop.write("publishers/second.json", &document);
    shop.write("publishers/third.json", &json!({"publisher_id": 5}));
    shop.write(
        "publishers/fourth.json",
        &json!({"publisher_id": "x", "publisher_key_id": "k", "public_key": "AA"}),
    );
    let said = shop.no(&["manifest", "verify", "m.json", "--publishers", "publishers"]);
    for part in [
        "two documents tell different things",
        "publisher_id is missing",
        "not the base64 of 32 bytes",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_manifest_is_signed_by_those_whose_entries_are_in_it() {
    let shop = Shop::new();
    shop.keygen("other.pem", "other", "publishers/other.json");
    shop.contract("a.json", "acme.a", "1.0.0", &json!({}));
    shop.contract("b.json", "other.b", "1.0.0", &json!({}));
    let entry = |file: &str, publisher: &str| -> Value {
        let words = ["attest", file, "--publisher-id", publisher, "--publisher-key-id", "k1"];
        let said: Value = serde_json::from_str(&shop.yes(&words)).unwrap();
        said["entry"].clone()
    };
    let draft = json!({
        "manifest_schema_version": "1.0.0", "publisher_id": "acme", "publisher_key_id": "k1",
        "contracts": [entry("a.json", "acme"), entry("b.json", "other")],
    });
    shop.write("m.json", &draft);
    // A list is signed last: before, not everything in it is as it should be.
    let said = shop.no(&["sign", "m.json", "--key", "key.pem", "--publisher-id", "acme"]);
    assert!(said.contains("other.b@1.0.0: it is not signed"), "{said}");
    for (key, publisher) in [("other.pem", "other"), ("key.pem", "acme")] {
        shop.yes(&["sign", "m.json", "--in-place", "--key", key, "--publisher-id", publisher]);
    }
    let held = ["--publishers", "publishers", "--require-signature"];
    let (code, report) = shop.verify("m.json", &held);
    assert_eq!((code, &report["verified"]), (0, &json!(true)), "{report}");
    // What was changed after it was signed is not signed again unasked.
    let mut changed = shop.read("m.json")["contracts"][0].clone();
    changed["status"] = "revoked".into();
    shop.write("changed.entry.json", &changed);
    let said = shop.no(&["sign", "changed.entry.json", "--key", "key.pem"]);
    assert!(said.contains("changed since"), "{said}");
    let said = shop.no(&["sign", "a.json", "--key", "key.pem"]);
    assert!(said.contains("it is no entry"), "{said}");
}
