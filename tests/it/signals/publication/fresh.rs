//! Weak point 7: an old manifest is not taken for the present one, and yes never means that nothing was checked.

use serde_json::{Value, json};

use super::shop::Shop;

/// A shop with two manifests, of which the second follows the first.
fn two() -> Shop {
    let shop = Shop::new();
    shop.contract("a.json", "acme.a", "1.0.0", &json!({"status": "revoked"}));
    shop.contract("b.json", "acme.b", "1.0.0", &json!({}));
    shop.build("one.json", &["a.json"]);
    shop.build("two.json", &["a.json", "b.json", "--previous", "one.json"]);
    shop
}

/// Returns the messages of the errors that a manifest has.
fn errors(shop: &Shop, manifest: &str, words: &[&str]) -> Vec<String> {
    let key = shop.key();
    let words = [&["--public-key-base64", &key, "--require-freshness"], words].concat();
    let (code, report) = shop.verify(manifest, &words);
    let errors: Vec<String> = (report["findings"].as_array().unwrap().iter())
        .filter(|finding| finding["severity"] == "error")
        .map(|finding| finding["message"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(code, i32::from(!errors.is_empty()), "{report}");
    assert_eq!(report["ok"], errors.is_empty());
    errors
}

#[test]
fn weak_point_7_a_manifest_expires() {
    let shop = Shop::new();
    shop.contract("a.json", "acme.a", "1.0.0", &json!({}));
    let manifest = shop.build("m.json", &["a.json", "--valid-for", "30"]);
    assert_eq!(manifest["freshness"]["expires_at"], "2027-02-14T08:00:00Z");
    assert!(errors(&shop, "m.json", &["--at", "2027-02-14T07:59:59Z"]).is_empty());
    let expired = errors(&shop, "m.json", &["--at", "2027-02-14T08:00:00Z"]);
    assert!(expired[0].contains("expired at 2027-02-14T08:00:00Z"), "{expired:?}");
    // The time to write into what is made has no say in what is checked.
    let old = shop.run_at(
        "1000000000",
        &[
            "manifest",
            "build",
            "a.json",
            "--key",
            "key.pem",
            "--publisher-id",
            "acme",
            "--valid-for",
            "1",
            "--out",
            "old.json",
        ],
    );
    assert_eq!(old.code(), 0, "{}", old.stderr());
    let run = shop.run_at("1000000000", &["manifest", "verify", "old.json"]);
    assert_eq!((run.code(), &run.json()["ok"]), (1, &json!(false)));
    let late = shop.run(&[
        "manifest",
        "build",
        "a.json",
        "--key",
        "key.pem",
        "--publisher-id",
        "acme",
        "--expires",
        "2020-01-01T00:00:00Z",
    ]);
    assert_eq!(late.code(), 2);
}

#[test]
fn weak_point_7_an_older_manifest_is_refused() {
    let shop = two();
    assert!(errors(&shop, "two.json", &["--previous", "one.json"]).is_empty());
    assert!(
        errors(&shop, "two.json", &["--previous", "two.json", "--min-sequence", "2"]).is_empty()
    );
    let back = errors(&shop, "one.json", &["--previous", "two.json"]);
    assert!(back[0].contains("a step back: sequence 1 after 2"), "{back:?}");
    let low = errors(&shop, "one.json", &["--min-sequence", "2"]);
    assert!(low[0].contains("its sequence is 1, and must be at least 2"), "{low:?}");
    // Two manifests of one number, and one that follows another.
    shop.build("fork.json", &["a.json", "--sequence", "2", "--previous", "one.json"]);
    let fork = errors(&shop, "fork.json", &["--previous", "two.json"]);
    assert!(fork[0].contains("two manifests have the sequence 2"), "{fork:?}");
    shop.build("three.json", &["a.json", "b.json", "--previous", "two.json"]);
    let gap = errors(&shop, "three.json", &["--previous", "fork.json"]);
    assert!(gap[0].contains("the manifest follows"), "{gap:?}");
    assert!(errors(&shop, "three.json", &["--previous", "one.json"]).is_empty());
}

#[test]
fn weak_point_7_what_is_fresh_is_signed() {
    let shop = two();
    let good = shop.read("two.json");
    let cases: [(&str, Value, &str); 6] = [
        ("/freshness/sequence", json!(9), "its signature does not hold"),
        ("/freshness/expires_at", json!("2999-01-01T00:00:00Z"), "its signature does not hold"),
        ("/freshness/previous_manifest_hash", json!(null), "its signature does not hold"),
        ("/freshness/sequence", json!("9"), "sequence is no number"),
        ("/freshness", json!([]), "freshness is no object"),
        ("/generated_at", json!("2999-01-01T00:00:00Z"), "the one that is signed is"),
    ];
    for (pointer, value, reason) in cases {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        shop.write("changed.json", &changed);
        let found = errors(&shop, "changed.json", &[]);
        assert!(found.iter().any(|it| it.contains(reason)), "{pointer}: {found:?}");
    }
    // The freshness of one manifest is none of another, and none is not enough.
    let mut changed = good;
    changed["freshness"] = shop.read("one.json")["freshness"].clone();
    shop.write("changed.json", &changed);
    let found = errors(&shop, "changed.json", &[]);
    assert!(found[0].contains("its signature does not hold"), "{found:?}");
    changed.as_object_mut().unwrap().remove("freshness");
    shop.write("changed.json", &changed);
    let found = errors(&shop, "changed.json", &["--previous", "one.json"]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("the previous manifest has the sequence 1; this one has none"));
}

#[test]
fn weak_point_7_a_version_is_one_contract_for_ever_and_stays_revoked() {
    let shop = two();
    shop.contract("a.json", "acme.a", "1.0.0", &json!({"output_fields": ["tests_passed"]}));
    let fixed = ["manifest", "build", "a.json", "--key", "key.pem", "--publisher-id", "acme"];
    let said = shop.no(&[&fixed[..], &["--previous", "one.json"]].concat());
    assert!(said.contains("it was another contract before"), "{said}");
    assert!(said.contains("it was revoked before"), "{said}");
    shop.build("new.json", &["a.json", "--sequence", "7"]);
    let found = errors(&shop, "new.json", &["--previous", "one.json"]);
    assert_eq!(found.len(), 2, "{found:?}");
    // Somebody else's manifest is none that this one follows.
    shop.keygen("other.pem", "other", "other.json");
    let said = shop.no(&[
        "manifest",
        "build",
        "b.json",
        "--key",
        "other.pem",
        "--publisher-id",
        "other",
        "--previous",
        "one.json",
    ]);
    assert!(said.contains("signed with another key"), "{said}");
}

#[test]
fn weak_point_7_yes_does_not_mean_that_nothing_was_checked() {
    let shop = two();
    let key = shop.key();
    let (code, report) = shop.verify("two.json", &["--require-signature"]);
    assert_eq!((code, &report["manifest_signature_status"]), (1, &json!("no_public_key")));
    let human = shop.yes(&["manifest", "verify", "two.json", "--format", "human"]);
    assert!(human.contains("NOT VERIFIED") && human.contains("was NOT checked"), "{human}");
    assert!(!human.contains("ok:") && !human.contains('✓'), "{human}");
    let mut bare = shop.read("two.json");
    for member in ["manifest_hash", "manifest_signature", "freshness"] {
        bare.as_object_mut().unwrap().remove(member);
    }
    shop.write("bare.json", &bare);
    let with_key = ["--public-key-base64", key.as_str()];
    assert_eq!(shop.verify("bare.json", &with_key).0, 0, "as the peer: its statuses say absent");
    for strict in ["--require-signature", "--strict", "--require-freshness"] {
        assert_eq!(shop.verify("bare.json", &[&with_key[..], &[strict]].concat()).0, 1, "{strict}");
    }
    for nothing in [json!({}), json!({"contracts": []}), json!({"contracts": null})] {
        shop.write("nothing.json", &nothing);
        let (code, report) = shop.verify("nothing.json", &with_key);
        assert_eq!(code, 1);
        assert!(report["findings"][0]["message"].as_str().unwrap().contains("nothing to verify"));
    }
}

#[test]
fn weak_point_7_pointers_that_lead_nowhere_or_in_circles_are_told() {
    let shop = Shop::new();
    shop.contract("a.json", "acme.a", "1.0.0", &json!({"replaced_by": "acme.a@1.1.0"}));
    shop.contract("b.json", "acme.a", "1.1.0", &json!({"replaced_by": "acme.a@1.0.0"}));
    shop.contract("c.json", "acme.c", "1.0.0", &json!({"replaced_by": "acme.c@9.0.0"}));
    shop.build("m.json", &["a.json", "b.json", "c.json"]);
    let key = shop.key();
    let words = ["--public-key-base64", key.as_str()];
    let (code, report) = shop.verify("m.json", &words);
    let told = report["findings"].to_string();
    assert_eq!(code, 0, "{report}");
    assert!(told.contains("acme.c@9.0.0 is not in the manifest"), "{told}");
    assert_eq!(told.matches("lead back to it").count(), 1, "{told}");
    assert_eq!(shop.verify("m.json", &[&words[..], &["--strict"]].concat()).0, 1);
}
