//! The signed manifest and the document of the publisher: sent byte for byte, read again when they change.

use serde_json::{Value, json};

use super::{check_kept, write};
use crate::daemon::support::{Daemon, Stage, until};

const CONFIG: &str = "data_dir = \"data\"\n[signals]\nmanifest = \"manifest.json\"\npublisher = \"publisher.json\"\n";
const MANIFEST: &str = "/specs/adapter-contracts.manifest.json";
const PUBLISHER: &str = "/.well-known/aigentsy-publisher.json";
const KEY: &str = "/protocol/merkle/public-key";
const PUBLIC: &str = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

fn publisher() -> Value {
    json!({ "publisher_id": "acme.publisher.v1", "publisher_key_id": "acme_key_1", "public_key_base64": PUBLIC,
        "status": "active" })
}

fn stage() -> Stage {
    let stage = Stage::new(CONFIG);
    // Neither the form nor the words are ours to change: others verify the bytes.
    write(&stage, "manifest.json", "{ \"contracts\" : [ ],\n\t\"note\": \"gr\u{fc}n\" }\n\n");
    write(&stage, "publisher.json", publisher().to_string());
    stage
}

#[test]
fn what_the_operator_names_is_told_to_anybody() {
    let daemon = stage().start(&[]);
    let manifest = daemon.get(MANIFEST).by_nobody().send();
    assert_eq!(manifest.status, 200, "{manifest:?}");
    assert_eq!(manifest.body, std::fs::read(daemon.stage.path("manifest.json")).unwrap());
    let etag = check_kept(&manifest, 60);
    let again = daemon.get(MANIFEST).by_nobody().header("If-None-Match", &etag).send();
    assert_eq!((again.status, again.body.len()), (304, 0));
    let mut document = publisher();
    for (key, value) in [("algorithm", "Ed25519"), ("verify_url", KEY), ("manifest_url", MANIFEST)]
    {
        document[key] = json!(value);
    }
    assert_eq!(daemon.get(PUBLISHER).by_nobody().ok(), document);
    check_kept(&daemon.get(PUBLISHER).by_nobody().send(), 60);
    assert_eq!(
        daemon.get(KEY).by_nobody().ok(),
        json!({ "algorithm": "Ed25519", "key_id": "acme_key_1", "public_key_base64": PUBLIC, "status": "active" })
    );
    // A document that leaves nothing out is sent as it is.
    let text = format!("{}\n\n", serde_json::to_string_pretty(&document).unwrap());
    write(&daemon.stage, "publisher.json", &text);
    let sent = || daemon.get(PUBLISHER).by_nobody().send().text();
    until("the other document", || (sent() == text).then_some(()));
    write(&daemon.stage, "manifest.json", "{\"contracts\":[1]}");
    let manifest = || daemon.get(MANIFEST).by_nobody().send().text();
    until("the other manifest", || (manifest() == "{\"contracts\":[1]}").then_some(()));
}

#[test]
fn what_is_not_published_is_told_so() {
    let daemon = Daemon::start("data_dir = \"data\"\n", &[]);
    for path in [MANIFEST, PUBLISHER, KEY] {
        let problem = daemon.get(path).by_nobody().refused(404, "NOT_PUBLISHED");
        assert!(problem["hint"].as_str().unwrap().contains("[signals]"), "{problem}");
    }
}

/// What must not be published, by the file, and a part of what is told about it.
const BAD: [(&str, &str, &str); 7] = [
    ("manifest.json", "[]", "a manifest is a JSON object"),
    ("manifest.json", "", "manifest.json"),
    ("manifest.json", "{\"a\": 1, \"a\": 2}", "manifest.json"),
    ("publisher.json", "{}", "publisher_id is missing"),
    (
        "publisher.json",
        r#"{"publisher_id": "a", "publisher_key_id": "b", "public_key_base64": "AAAA"}"#,
        "not the base64 of 32 bytes",
    ),
    (
        "publisher.json",
        r#"{"publisher_id": "a", "publisher_key_id": "b", "private_key": "x",
            "public_key_base64": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}"#,
        "would be published",
    ),
    ("publisher.json", "-----BEGIN PRIVATE KEY-----", "publisher.json"),
];

#[test]
fn what_is_no_manifest_and_no_publisher_keeps_a_daemon_from_starting() {
    for (file, text, told) in BAD {
        let stage = stage();
        write(&stage, file, text);
        let run = stage.refused(&["--data-dir", "data", "--listen", "127.0.0.1:0"]);
        assert!(run.code() != 0 && run.stderr().contains(told), "{text}: {}", run.stderr());
        assert!(run.stderr().contains("SIGNALS_UNUSABLE"), "{}", run.stderr());
        let mut check = stage.program();
        let check = check.args(["config", "check", "--config-file", "router.toml"]);
        let checked = crate::support::Run(check.output().unwrap());
        let all = format!("{}{}", checked.stdout(), checked.stderr());
        assert!(checked.code() != 0 && all.contains("signals."), "{text}: {all}");
    }
    let stage = stage();
    std::fs::remove_file(stage.path("manifest.json")).unwrap();
    let run = stage.refused(&["--data-dir", "data", "--listen", "127.0.0.1:0"]);
    assert!(run.code() != 0 && run.stderr().contains("cannot be read"), "{}", run.stderr());
}

#[test]
fn a_reload_with_what_must_not_be_published_changes_nothing() {
    let daemon = stage().start(&[]);
    let before: Vec<Vec<u8>> = [MANIFEST, PUBLISHER, KEY]
        .map(|path| daemon.get(path).by_nobody().send().body)
        .into_iter()
        .collect();
    for (file, text, _) in BAD {
        let good = std::fs::read(daemon.stage.path(file)).unwrap();
        write(&daemon.stage, file, text);
        daemon.ask("POST", "/v1/reload").refused(422, "SIGNALS_UNUSABLE");
        for (path, body) in [MANIFEST, PUBLISHER, KEY].iter().zip(&before) {
            assert_eq!(daemon.get(path).by_nobody().send().body, *body, "{text}");
        }
        write(&daemon.stage, file, good);
    }
    daemon.ask("POST", "/v1/reload").ok();
    daemon.stage.configure("data_dir = \"data\"\n");
    daemon.ask("POST", "/v1/reload").ok();
    daemon.get(MANIFEST).by_nobody().refused(404, "NOT_PUBLISHED");
}
