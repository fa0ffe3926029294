//! Files that mean harm, or that are none: an answer in every case, and none that steers a terminal.

use std::fs;

use serde_json::{Value, json};

use super::shop::Shop;

/// Documents that no verb takes for what it should be.
fn harmful() -> Vec<Vec<u8>> {
    let entry = |value: &str| format!(r#"{{"contracts": [{value}]}}"#).into_bytes();
    vec![
        vec![],
        b"{".to_vec(),
        b"null".to_vec(),
        b"[[]]".to_vec(),
        b"\xff\xfe{}".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        "[".repeat(200_000).into_bytes(),
        br#"{"contracts": [], "contracts": [1]}"#.to_vec(),
        br#"{"contracts": NaN}"#.to_vec(),
        br#"{"contracts": "x"}"#.to_vec(),
        br#"{"contracts": {"a": 1}}"#.to_vec(),
        br#"{"contracts": "\ud800"}"#.to_vec(),
        entry("1"),
        entry("[]"),
        entry(
            r#"{"adapter_id": ["a"], "adapter_version": {}, "contract_hash": 5, "entry_hash": 7}"#,
        ),
        entry(
            r#"{"adapter_id": "a\n", "adapter_version": "1.0.0\n", "contract_hash": null, "entry_signature": []}"#,
        ),
        entry(&format!(r#"{{"entry_hash": "{}", "contract_hash": [[]]}}"#, "é".repeat(5000))),
    ]
}

#[test]
fn no_file_makes_a_verb_fall() {
    let shop = Shop::new();
    let key = shop.key();
    shop.contract("a.json", "acme.a", "1.0.0", &json!({}));
    shop.build("good.json", &["a.json"]);
    let hash = "a".repeat(64);
    for (number, content) in harmful().into_iter().enumerate() {
        fs::write(shop.path("x.json"), &content).unwrap();
        let verbs: [&[&str]; 11] = [
            &["attest", "x.json"],
            &["sign", "x.json", "--key", "key.pem"],
            &["list", "--manifest", "x.json"],
            &["manifest", "verify", "x.json", "--public-key-base64", &key],
            &["manifest", "verify", "x.json", "--format", "human"],
            &["manifest", "verify", "good.json", "--publishers", "x.json"],
            &["manifest", "verify", "good.json", "--previous", "x.json"],
            &["manifest", "build", "x.json", "--key", "key.pem", "--publisher-id", "acme"],
            &[
                "pins",
                "check",
                "--manifest",
                "x.json",
                "--pins",
                "x.json",
                "--public-key-base64",
                &key,
            ],
            &[
                "pins",
                "check",
                "--manifest",
                "good.json",
                "--pins",
                "x.json",
                "--public-key-base64",
                &key,
                "x.json",
            ],
            &["pin", "--id", "a.b", "--version", "1.0.0", "--hash", &hash, "--out", "x.json"],
        ];
        for words in verbs {
            let run = shop.run(words);
            let said = run.stdout() + &run.stderr();
            assert!([1, 2].contains(&run.code()), "{number} {words:?}: {} {said}", run.code());
            assert!(!said.contains("panicked"), "{number} {words:?}: {said}");
            assert_eq!(fs::read(shop.path("x.json")).unwrap(), content, "{number} {words:?}");
        }
    }
}

#[test]
fn nothing_is_fetched_by_default() {
    let shop = Shop::new();
    let url = "https://example.com/m.json";
    let (code, report) = shop.verify(url, &[]);
    assert_eq!((code, &report["ok"]), (1, &json!(false)));
    assert!(report["error"].as_str().unwrap().contains("download it and name the file"));
    shop.contract("a.json", "acme.a", "1.0.0", &json!({}));
    shop.build("m.json", &["a.json"]);
    for words in
        [&["--fetch-publisher"][..], &["--fetch-publisher", "--from-publisher-document", url]]
    {
        let (code, report) = shop.verify("m.json", words);
        assert_eq!(code, 1);
        let error = report["error"].as_str().unwrap();
        assert!(error.starts_with("publisher_document_fetch_failed: "), "{error}");
    }
    for words in [&["list"][..], &["list", "--from", url], &["list", "--manifest", url]] {
        assert_eq!(shop.run(words).code(), 2, "{words:?}");
    }
    let hash = "a".repeat(64);
    let pin = ["pin", "--id", "a.b", "--version", "1.0.0", "--hash", &hash, "--manifest", url];
    assert_eq!(shop.run(&pin).code(), 2);
}

#[test]
fn foreign_text_does_not_steer_a_terminal() {
    let shop = Shop::new();
    let evil = "x\u{1b}[2J\n  [active]     good.one@1.0.0\u{202e}";
    let manifest = json!({"generated_at": evil, "contracts": [{
        "adapter_id": evil, "adapter_version": evil, "status": evil, "replaced_by": evil, "contract_hash": evil,
        "entry_hash": evil, "declaration_url": evil, "distribution_channel": [evil],
    }]});
    shop.write("m.json", &manifest);
    let key = shop.key();
    let runs: [&[&str]; 6] = [
        &["list", "--manifest", "m.json"],
        &["list", "--manifest", "m.json", "--format", "json"],
        &["manifest", "verify", "m.json"],
        &["manifest", "verify", "m.json", "--format", "human"],
        &["manifest", "verify", "m.json", "--format", "github", "--public-key-base64", &key],
        &["sign", "m.json", "--key", "key.pem"],
    ];
    for words in runs {
        let run = shop.run(words);
        let said = run.stdout() + &run.stderr();
        assert!(!said.contains(['\u{1b}', '\u{202e}']), "{words:?}: {said}");
        assert!(!said.lines().any(|line| line.starts_with("  [active] ")), "{words:?}: {said}");
    }
}

#[test]
fn many_entries_are_verified_in_order() {
    let shop = Shop::new();
    for number in 0..200 {
        let file = format!("contracts/{number}.adapter_contract.json");
        shop.contract(&file, &format!("acme.a{number}"), "1.0.0", &json!({}));
    }
    let mut manifest = shop.build("m.json", &["contracts"]);
    let key = shop.key();
    let (code, report) = shop.verify("m.json", &["--public-key-base64", &key, "--strict"]);
    assert_eq!((code, &report["verified"]), (0, &json!(true)));
    manifest["contracts"][150]["entry_signature"] =
        manifest["contracts"][151]["entry_signature"].clone();
    shop.write("m.json", &manifest);
    let (code, report) = shop.verify("m.json", &["--public-key-base64", &key]);
    assert_eq!(code, 1);
    for (index, row) in report["entries"].as_array().unwrap().iter().enumerate() {
        assert_eq!(row["index"], index);
        let expected = if index == 150 { "bad" } else { "ok" };
        assert_eq!(row["entry_signature_status"], Value::from(expected), "{index}");
    }
}

#[test]
fn a_time_that_is_none_is_an_error() {
    let shop = Shop::new();
    shop.contract("a.json", "acme.a", "1.0.0", &json!({}));
    for epoch in ["x", "-1", "99999999999999", "1e9", " 1"] {
        let run = shop.run_at(epoch, &["attest", "a.json"]);
        assert_eq!(run.code(), 2, "{epoch}");
        assert!(run.stderr().contains("SOURCE_DATE_EPOCH"), "{}", run.stderr());
    }
    let run = shop.run_at("0", &["attest", "a.json"]);
    assert_eq!(run.json()["entry"]["published_at"], "1970-01-01T00:00:00Z");
}
