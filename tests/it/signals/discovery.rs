//! Signal contracts as anybody finds them: over HTTP, without a token, and as a published schema.

mod published;
mod schema;

use std::fs;

use nexus_router::digest::Digest;
use nexus_router::json::{Object, to_pretty};
use nexus_router::signal::scaffold;
use serde_json::{Value, json};

use crate::daemon::client::Response;
use crate::daemon::support::{Daemon, Stage, until};

const CONFIG: &str = "data_dir = \"data\"\n[signals]\ndirectory = \"signals\"\n";
const LIST: &str = "/protocol/adapter-contracts";

fn contract(id: &str, version: &str, more: &[(&str, &str)]) -> Object {
    let mut contract = scaffold(id, version, "a,b").unwrap();
    for (key, value) in more {
        contract.insert(*key, *value);
    }
    contract
}

fn write(stage: &Stage, name: &str, text: impl AsRef<[u8]>) {
    let path = stage.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Whole at once: who looks at the directory sees all of it or nothing.
    fs::write(stage.path("new"), text).unwrap();
    fs::rename(stage.path("new"), path).unwrap();
}

fn put(stage: &Stage, id: &str, version: &str, more: &[(&str, &str)]) {
    let text = to_pretty(&contract(id, version, more).into());
    write(stage, &format!("signals/{id}-{version}.adapter_contract.json"), text);
}

/// A daemon with some contracts, some of which nobody should use any more, and some files that are none.
fn daemon() -> Daemon {
    let stage = Stage::new(CONFIG);
    put(&stage, "acme.x", "1.0.0", &[("status", "revoked"), ("_comment", "not for you")]);
    put(&stage, "acme.x", "1.9.0", &[("status", "deprecated"), ("replaced_by", "acme.x@1.10.0")]);
    put(&stage, "acme.x", "1.10.0", &[("supersedes", "acme.x@1.9.0")]);
    put(&stage, "acme.gone", "1.0.0", &[("status", "revoked")]);
    write(&stage, "signals/broken.adapter_contract.json", "{\"adapter_id\": ");
    write(&stage, "signals/hollow.adapter_contract.json", "{}");
    write(&stage, "signals/other.json", to_pretty(&contract("acme.other", "1.0.0", &[]).into()));
    stage.start(&[])
}

fn ask(daemon: &Daemon, path: &str) -> Value {
    daemon.get(path).by_nobody().ok()
}

fn names(list: &Value) -> Vec<String> {
    let name = |it: &Value| {
        format!(
            "{}@{}",
            it["adapter_id"].as_str().unwrap(),
            it["adapter_version"].as_str().unwrap()
        )
    };
    list.as_array().unwrap().iter().map(name).filter(|it| it.starts_with("acme.")).collect()
}

/// Holds an answer that may be kept to what such answers are.
fn check_kept(answer: &Response, seconds: u32) -> String {
    let etag = answer.header("etag").unwrap().to_owned();
    assert_eq!(etag, format!("\"{}\"", Digest::of(&answer.body)), "{answer:?}");
    let kept = format!("public, max-age={seconds}");
    assert_eq!(answer.header("cache-control"), Some(kept.as_str()), "{answer:?}");
    assert_eq!(answer.header("vary"), Some("origin"), "{answer:?}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{answer:?}");
    etag
}

#[test]
fn anybody_finds_every_contract_with_what_became_of_it() {
    let daemon = daemon();
    // There are tokens, and other routes ask for one.
    daemon.get("/v1/status").by_nobody().refused(401, "TOKEN_MISSING");
    let list = ask(&daemon, LIST);
    assert_eq!(
        names(&list["contracts"]),
        ["acme.gone@1.0.0", "acme.x@1.0.0", "acme.x@1.9.0", "acme.x@1.10.0"]
    );
    assert_eq!(list["count"], list["contracts"].as_array().unwrap().len());
    assert_eq!(list["count"], 4 + nexus_router::signal::builtins().len());
    assert_eq!(list["active_heads"]["acme.x"], "1.10.0");
    assert_eq!(list["active_heads"]["aigentsy.settlement_native_mcp.starter"], "1.0.0");
    assert!(list["active_heads"].get("acme.gone").is_none());
    let text = list.to_string();
    for hidden in
        ["not for you", "_comment", "broken", ".json", daemon.stage.path("").to_str().unwrap()]
    {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }

    let one = ask(&daemon, &format!("{LIST}/acme.x"));
    assert_eq!(names(&one["versions"]), ["acme.x@1.0.0", "acme.x@1.9.0", "acme.x@1.10.0"]);
    assert_eq!((&one["adapter_id"], &one["count"]), (&json!("acme.x"), &json!(3)));
    assert_eq!(one["active_head"], one["versions"][2]);
    let head = &one["active_head"];
    assert_eq!((&head["is_active_head"], &head["status"]), (&json!(true), &json!("active")));
    assert_eq!(head["supersedes"], "acme.x@1.9.0");
    assert_eq!(head["contract_hash"], head["declaration"]["contract_hash"]);
    let gone = ask(&daemon, &format!("{LIST}/acme.gone"));
    assert_eq!(
        (&gone["active_head"], &gone["versions"][0]["status"]),
        (&json!(null), &json!("revoked"))
    );

    let exact = ask(&daemon, &format!("{LIST}/acme.x?version=1.9.0"));
    assert_eq!(exact, one["versions"][1]);
    assert_eq!(
        (&exact["status"], &exact["replaced_by"]),
        (&json!("deprecated"), &json!("acme.x@1.10.0"))
    );
    // A token that is no longer good does no harm where none is needed.
    let stranger = daemon.get(LIST).by_nobody().header("Authorization", "Bearer nonsense").ok();
    assert_eq!(stranger, list);
    // What the daemon could not take is told to the operator.
    assert!(daemon.stderr().contains("broken.adapter_contract.json"), "{}", daemon.stderr());
}

#[test]
fn what_a_caller_has_is_not_sent_again_and_head_sends_nothing() {
    let daemon = daemon();
    for (path, seconds) in [
        (LIST.to_owned(), 60),
        (format!("{LIST}/acme.x"), 60),
        (format!("{LIST}/acme.x?version=1.0.0"), 60),
        ("/specs/adapter-contract.schema.json".to_owned(), 3600),
    ] {
        let first = daemon.get(&path).by_nobody().send();
        assert_eq!(first.status, 200, "{path}: {first:?}");
        let etag = check_kept(&first, seconds);
        let again = daemon.get(&path).by_nobody().send();
        assert_eq!((&again.body, again.header("etag")), (&first.body, Some(etag.as_str())));
        for known in [etag.clone(), format!("W/{etag}"), format!("\"x\", {etag}"), "*".to_owned()] {
            let answer = daemon.get(&path).by_nobody().header("If-None-Match", &known).send();
            assert_eq!(answer.status, 304, "{path} {known}: {answer:?}");
            assert!(answer.body.is_empty() && answer.header("content-type").is_none());
            assert_eq!(answer.header("etag"), Some(etag.as_str()));
            assert_eq!(answer.header("cache-control"), first.header("cache-control"));
        }
        let other = daemon.get(&path).by_nobody().header("If-None-Match", "\"x\"").send();
        assert_eq!((other.status, &other.body), (200, &first.body));
        let mut wire = daemon.ask("HEAD", &path).by_nobody().header("Connection", "close").begin();
        let head = wire.head();
        assert_eq!((head.status, head.header("etag")), (200, Some(etag.as_str())), "{path}");
        assert_eq!(head.header("content-length"), Some(first.body.len().to_string().as_str()));
        assert!(wire.is_closed(), "{path}");
    }
    let origin = format!("http://{}", daemon.address);
    let page = daemon.get(LIST).by_nobody().header("Origin", &origin).send();
    assert_eq!(page.header("access-control-allow-origin"), Some(origin.as_str()));
    assert!(page.header("access-control-expose-headers").unwrap().contains("etag"));
    let strange = daemon.get(LIST).by_nobody().header("Origin", "https://evil.example");
    strange.refused(403, "ORIGIN_REFUSED");
}

#[test]
fn what_is_not_there_is_told_and_nothing_is_looked_for_on_disk() {
    let daemon = daemon();
    let refused = |path: &str| {
        daemon.get(&format!("{LIST}/{path}")).by_nobody().refused(404, "SIGNAL_CONTRACT_NOT_FOUND")
    };
    assert_eq!(refused("acme.xx")["hint"], "did you mean acme.x?");
    assert_eq!(refused("acme.x?version=1.0")["hint"], "did you mean acme.x@1.10.0?");
    assert_eq!(refused("acme.x?version=9.9.9")["hint"], "did you mean acme.x@1.10.0?");
    for id in [
        "broken",
        "acme.other",
        "..%2F..%2Fetc%2Fpasswd",
        "..%2fsignals%2facme.x-1.0.0.adapter_contract.json",
        "%2Fetc%2Fpasswd",
        "acme.x%00",
        "acme.x%0A",
        "ACME.X",
        "%F0%9F%92%A5%1B%5B31m",
        "acme.x%20",
        "acme.x@1.0.0",
        "__proto__",
    ] {
        let problem = refused(id);
        let told = problem.to_string();
        assert!(!told.contains("signals") || id.contains("signals"), "{id}: {told}");
        assert!(!told.contains('\u{1b}') && !told.contains("root:"), "{id}: {told}");
    }
    let long = refused(&"a".repeat(20_000));
    assert!(long["detail"].as_str().unwrap().len() < 300, "{long}");
    for (path, status, code) in [
        (format!("{LIST}/"), 404, "NO_SUCH_ROUTE"),
        (format!("{LIST}/acme.x/1.0.0"), 404, "NO_SUCH_ROUTE"),
        (format!("{LIST}/../../etc/passwd"), 404, "NO_SUCH_ROUTE"),
        (format!("{LIST}/%ff"), 400, "HTTP_QUERY_INVALID"),
        (format!("{LIST}/acme.x?versions=1"), 400, "HTTP_QUERY_INVALID"),
        (format!("{LIST}?limit=1"), 400, "HTTP_QUERY_INVALID"),
        ("/specs/router.toml".to_owned(), 404, "NO_SUCH_ROUTE"),
        ("/.well-known/".to_owned(), 404, "NO_SUCH_ROUTE"),
    ] {
        daemon.get(&path).by_nobody().refused(status, code);
    }
    daemon.ask("POST", LIST).by_nobody().refused(405, "METHOD_NOT_ALLOWED");
    assert_eq!(ask(&daemon, LIST)["active_heads"]["acme.x"], "1.10.0");
}

#[test]
fn contracts_come_and_go_while_the_daemon_runs() {
    let daemon = daemon();
    let stage = &daemon.stage;
    let before = daemon.get(LIST).by_nobody().send();
    let etag = before.header("etag").unwrap().to_owned();
    put(stage, "acme.new", "0.1.0", &[]);
    until("the new contract", || {
        let status = daemon.get(&format!("{LIST}/acme.new")).by_nobody().send().status;
        (status == 200).then_some(())
    });
    let after = daemon.get(LIST).by_nobody().header("If-None-Match", &etag).send();
    assert_eq!(after.status, 200, "{after:?}");
    assert_ne!(after.header("etag"), Some(etag.as_str()));
    // What is revoked stays in the list, and says so.
    put(stage, "acme.x", "1.10.0", &[("status", "revoked")]);
    daemon.ask("POST", "/v1/reload").ok();
    let one = ask(&daemon, &format!("{LIST}/acme.x"));
    assert_eq!(
        (&one["active_head"], &one["versions"][2]["status"]),
        (&json!(null), &json!("revoked"))
    );
    // A file that goes bad takes its contract along, and no other.
    write(stage, "signals/acme.new-0.1.0.adapter_contract.json", "no JSON");
    daemon.ask("POST", "/v1/reload").ok();
    daemon.get(&format!("{LIST}/acme.new")).by_nobody().refused(404, "SIGNAL_CONTRACT_NOT_FOUND");
    assert_eq!(
        names(&ask(&daemon, LIST)["contracts"]),
        ["acme.gone@1.0.0", "acme.x@1.0.0", "acme.x@1.9.0", "acme.x@1.10.0"]
    );
    // Two files that say different things under one name are both passed over.
    put(stage, "acme.new", "0.1.0", &[]);
    let mut other = scaffold("acme.new", "0.1.0", "c").unwrap();
    other.remove("_comment");
    write(stage, "signals/sub/new.adapter_contract.json", to_pretty(&other.into()));
    daemon.ask("POST", "/v1/reload").ok();
    daemon.get(&format!("{LIST}/acme.new")).by_nobody().refused(404, "SIGNAL_CONTRACT_NOT_FOUND");
    fs::remove_dir_all(stage.path("signals")).unwrap();
    daemon.ask("POST", "/v1/reload").ok();
    let list = ask(&daemon, LIST);
    assert_eq!(list["count"], nexus_router::signal::builtins().len());
}

#[test]
fn without_a_directory_there_are_the_contracts_of_the_program() {
    let daemon = Daemon::start("data_dir = \"data\"\n", &[]);
    assert_eq!(ask(&daemon, LIST)["count"], nexus_router::signal::builtins().len());
    let starter = ask(&daemon, &format!("{LIST}/aigentsy.settlement_native_mcp.starter"));
    assert_eq!(
        starter["active_head"]["contract_hash"],
        "b25b162884759e534f2c0041ec7b14924ba75fbb818bce2ebea5ce9b88b6c8a5"
    );
}
