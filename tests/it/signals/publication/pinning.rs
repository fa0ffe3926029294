//! Weak point 6: a pin is only what its manifest says, and says how far that was checked.

use std::fs;

use serde_json::{Value, json};

use super::shop::Shop;

/// A shop with a manifest of three contracts, and the words that pin the first.
struct Pinning {
    shop: Shop,
    key: String,
    hash: String,
}

impl Pinning {
    fn new() -> Self {
        let shop = Shop::new();
        let first =
            shop.contract("contracts/a.adapter_contract.json", "acme.a", "1.0.0", &json!({}));
        shop.contract(
            "contracts/b.adapter_contract.json",
            "acme.b",
            "1.0.0",
            &json!({"status": "revoked", "replaced_by": "acme.a@1.0.0"}),
        );
        shop.contract(
            "contracts/c.adapter_contract.json",
            "acme.c",
            "1.0.0",
            &json!({"status": "deprecated"}),
        );
        shop.build("m.json", &["contracts"]);
        let (key, hash) = (shop.key(), first["contract_hash"].as_str().unwrap().to_owned());
        Self { shop, key, hash }
    }

    fn words<'a>(&'a self, id: &'a str, hash: &'a str) -> Vec<&'a str> {
        vec!["pin", "--id", id, "--version", "1.0.0", "--hash", hash, "--manifest", "m.json"]
    }

    /// Pins `acme.a` from a manifest that was changed, and returns what is said. Nothing may be written.
    fn refused(&self, change: impl FnOnce(&mut Value), with_key: bool) -> String {
        let good = self.shop.read("m.json");
        let mut manifest = good.clone();
        change(&mut manifest);
        self.shop.write("m.json", &manifest);
        let mut words = self.words("acme.a", &self.hash);
        if with_key {
            words.extend(["--public-key-base64", &self.key]);
        }
        let said = self.shop.no(&words);
        assert!(!self.shop.path("pinned_adapters.json").exists(), "{said}");
        self.shop.write("m.json", &good);
        said
    }
}

#[test]
fn weak_point_6_the_hash_is_compared_with_the_entry() {
    let pinning = Pinning::new();
    let other = "0".repeat(64);
    for with_key in [true, false] {
        let mut words = pinning.words("acme.a", &other);
        if with_key {
            words.extend(["--public-key-base64", &pinning.key]);
        }
        let said = pinning.shop.no(&words);
        assert!(said.contains(&pinning.hash) && said.contains(&other), "{said}");
        assert!(!pinning.shop.path("pinned_adapters.json").exists());
    }
}

#[test]
fn weak_point_6_what_does_not_verify_is_not_pinned() {
    let pinning = Pinning::new();
    let bad = "A".repeat(86) + "==";
    for (change, with_key, reason) in [
        (("entry_signature", json!(bad)), true, "the entry: its signature does not hold"),
        (("entry_signature", json!(null)), true, "the entry: its signature does not hold"),
        (("entry_hash", json!("0".repeat(64))), false, "entry_hash does not hold"),
        (("entry_hash", json!(null)), true, "entry_hash does not hold"),
        (("release_notes", json!("better")), false, "entry_hash does not hold"),
        (("status", json!("fine")), false, "its status is none of"),
        (("status", json!(null)), false, "its status is none of"),
    ] {
        let (key, value) = change;
        let said = pinning.refused(|manifest| manifest["contracts"][0][key] = value, with_key);
        assert!(said.contains(reason), "{key}: {said}");
    }
    let take = |key: &'static str| {
        move |manifest: &mut Value| {
            manifest["contracts"][0].as_object_mut().unwrap().remove(key).unwrap();
        }
    };
    let said = pinning.refused(take("entry_signature"), true);
    assert!(said.contains("the entry: it is not signed"), "{said}");
    // The manifest as a whole: an entry that is good and was left out of it, and another signature.
    let said = pinning.refused(|it| drop(it["contracts"].as_array_mut().unwrap().pop()), false);
    assert!(said.contains("manifest_hash does not hold"), "{said}");
    let said = pinning.refused(|it| it["manifest_signature"] = json!(bad), true);
    assert!(said.contains("the manifest: its signature does not hold"), "{said}");
    let said = pinning.refused(
        |it| {
            let mut other = it["contracts"][0].clone();
            other["contract_hash"] = "1".repeat(64).into();
            it["contracts"].as_array_mut().unwrap().push(other);
        },
        false,
    );
    assert!(said.contains("more than one contract"), "{said}");
}

#[test]
fn weak_point_6_a_revoked_contract_is_only_pinned_to_be_looked_at() {
    let pinning = Pinning::new();
    let manifest = pinning.shop.read("m.json");
    let hash = manifest["contracts"][1]["contract_hash"].as_str().unwrap().to_owned();
    let words = pinning.words("acme.b", &hash);
    let run = pinning.shop.run(&words);
    assert_eq!(run.code(), 3, "{}", run.stderr());
    let told: Value = serde_json::from_str(&run.stderr()).unwrap();
    assert_eq!(told["error"], "pin_blocked_revoked");
    assert!(!pinning.shop.path("pinned_adapters.json").exists());
    // Who calls it active is found out by the hash.
    let mut changed = manifest.clone();
    changed["contracts"][1]["status"] = "active".into();
    pinning.shop.write("m.json", &changed);
    let said = pinning.shop.no(&words);
    assert!(said.contains("entry_hash does not hold"), "{said}");
    pinning.shop.write("m.json", &manifest);
    let flag = ["--allow-revoked-for-legacy-inspection", "--public-key-base64", &pinning.key];
    let run = pinning.shop.run(&[&words[..], &flag].concat());
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let pin = &run.json()["pinned"][0];
    assert_eq!((&pin["status"], &pin["entry_signature_status"]), (&json!("revoked"), &json!("ok")));
    assert!(pin["lifecycle_advice"].as_str().unwrap().contains("inspection-only"));
}

#[test]
fn weak_point_6_a_pin_file_that_is_not_one_is_never_overwritten() {
    let pinning = Pinning::new();
    let pin =
        json!({"adapter_id": "a.b", "adapter_version": "1.0.0", "contract_hash": "0".repeat(64)});
    for (content, reason) in [
        ("precious".to_owned(), "expected a value"),
        ("[]".to_owned(), "must be an object"),
        ("\"x\"".to_owned(), "must be an object"),
        (r#"{"pinned_adapters": 5}"#.to_owned(), "must be an array"),
        (
            r#"{"pinned_adapters": [1, {"adapter_id": 5}]}"#.to_owned(),
            "pinned_adapters/0 is integer",
        ),
        (
            r#"{"pinned_adapters": [1, {"adapter_id": 5}]}"#.to_owned(),
            "pinned_adapters/1/adapter_version",
        ),
        (json!({"pinned_adapters": [pin, pin]}).to_string(), "a.b@1.0.0 is pinned twice"),
        (r#"{"pinned_adapters": [], "pinned_adapters": []}"#.to_owned(), "pinned_adapters"),
        ("{".repeat(100_000), "{"),
    ] {
        fs::write(pinning.shop.path("pinned_adapters.json"), &content).unwrap();
        let said = pinning.shop.no(&pinning.words("acme.a", &pinning.hash));
        assert!(said.contains(reason), "{reason}: {said}");
        let after = fs::read_to_string(pinning.shop.path("pinned_adapters.json")).unwrap();
        assert_eq!(after, content);
    }
}

#[test]
fn weak_point_6_what_was_not_checked_is_never_called_ok() {
    let pinning = Pinning::new();
    let plain = pinning.words("acme.a", &pinning.hash);
    let pinned = |words: &[&str]| -> Value {
        let said: Value = serde_json::from_str(&pinning.shop.yes(words)).unwrap();
        let pin = said["pinned"][0].clone();
        let file = pinning.shop.read("pinned_adapters.json");
        assert_eq!(file["pinned_adapters"][0], pin);
        pin
    };
    let pin = pinned(&plain[..7]);
    assert_eq!(pin["entry_hash_status"], "no_manifest_supplied");
    assert_eq!(pin.get("entry_signature_status"), None);
    assert_eq!(pinned(&plain)["entry_signature_status"], "no_public_key");
    let with_key = [&plain[..], &["--public-key-base64", &pinning.key]].concat();
    assert_eq!(pinned(&with_key)["entry_signature_status"], "ok");
    let with_publishers = [&plain[..], &["--publishers", "publishers"]].concat();
    assert_eq!(pinned(&with_publishers)["entry_signature_status"], "ok");
    // A publisher whom nobody knows is not trusted.
    let mut document = pinning.shop.read("publishers/acme.json");
    document["publisher_key_id"] = "k2".into();
    pinning.shop.write("others.json", &document);
    let said = pinning.shop.no(&[&plain[..], &["--publishers", "others.json"]].concat());
    assert!(said.contains("not among those that are trusted"), "{said}");
}

#[test]
fn who_pins_at_once_loses_nothing() {
    let pinning = Pinning::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let shop = &pinning.shop;
            scope.spawn(move || {
                let version = format!("1.0.{number}");
                let hash = "a".repeat(64);
                shop.yes(&["pin", "--id", "x.y", "--version", &version, "--hash", &hash]);
            });
        }
    });
    let file = pinning.shop.read("pinned_adapters.json");
    assert_eq!(file["pinned_adapters"].as_array().unwrap().len(), 8, "{file}");
}
