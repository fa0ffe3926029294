//! A daemon takes up what becomes of contracts while it runs.

use serde_json::{Value, json};

use super::{booleans, contract, write};
use crate::daemon::support::{Stage, until};

const CONFIG: &str = "data_dir = \"data\"\n[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\n\
    isolation = \"inline\"\nsignal = \"acme.suite\"\nsignal_fields = \"/args\"\nacceptance = \"policy.json\"\n\
    [signals]\ndirectory = \"signals\"\n[server]\nrequests_per_second = 0\n\
    [[tools]]\nname = \"check\"\ndescription = \"d\"\nadapter = \"echo\"\nmethod = \"check\"\n";

/// Over HTTP, after a reload: a contract that was deprecated stays in use, and one that was revoked does not.
#[test]
fn daemon_uses_a_contract_that_was_deprecated_later() {
    let stage = Stage::new(CONFIG);
    let file = "signals/acme.adapter_contract.json";
    let at = |fields: &Value, more: &Value| contract("acme.suite", "1.0.0", fields, more);
    let (one, two) = (booleans(&["x"]), booleans(&["x", "y"]));
    write(&stage.path(""), file, at(&one, &json!({})));
    let rule = json!({ "conditions": [{ "field": "x", "op": "==", "value": true }], "action": "auto_accept" });
    write(&stage.path(""), "policy.json", json!({ "rules": [rule] }).to_string());
    let daemon = stage.clone().start(&[]);
    let review = |args: &Value| {
        daemon.post("/v1/tools/check", &json!({ "args": args })).ok()["review"].clone()
    };
    assert_eq!(review(&json!({ "x": true })), json!(null));
    // The second field shows when the new state of the file is in use.
    write(&stage.path(""), file, at(&two, &json!({ "status": "deprecated" })));
    until("the deprecated contract", || {
        (review(&json!({ "x": true })) == "required").then_some(())
    });
    assert_eq!(review(&json!({ "x": true, "y": true })), json!(null));
    write(&stage.path(""), file, at(&two, &json!({ "status": "revoked" })));
    until("the end of the contract", || {
        (review(&json!({ "x": true, "y": true })) == "required").then_some(())
    });
}

#[test]
fn a_contract_that_is_revoked_or_gone_counts_at_once() {
    let stage = Stage::new(CONFIG);
    let file = "signals/acme.adapter_contract.json";
    let at = |more: &Value| contract("acme.suite", "1.0.0", &booleans(&["x"]), more);
    write(&stage.path(""), file, at(&json!({})));
    let rule = json!({ "conditions": [{ "field": "x", "op": "==", "value": true }], "action": "auto_accept" });
    write(&stage.path(""), "policy.json", json!({ "rules": [rule] }).to_string());
    let daemon = stage.clone().start(&[]);
    let review =
        || daemon.post("/v1/tools/check", &json!({ "args": { "x": true } })).ok()["review"].clone();
    assert_eq!(review(), json!(null));
    write(&stage.path(""), file, at(&json!({ "status": "revoked" })));
    until("the end of the contract", || (review() == "required").then_some(()));
    write(&stage.path(""), file, at(&json!({})));
    until("the contract again", || review().is_null().then_some(()));
    std::fs::remove_file(stage.path(file)).unwrap();
    until("the end of the contract that is gone", || (review() == "required").then_some(()));
    write(&stage.path(""), file, at(&json!({})));
    until("the contract once more", || review().is_null().then_some(()));
    // A contract that nobody knows is a mistake, also while the daemon runs: nothing changes.
    stage.configure(&CONFIG.replace("acme.suite", "acme.siute"));
    daemon.ask("POST", "/v1/reload").refused(422, "UNKNOWN_SIGNAL_CONTRACT");
    assert_eq!(review(), json!(null));
    stage.configure(CONFIG);
    let reject = json!({ "rules": [{ "conditions": [], "action": "auto_reject" }] });
    write(&stage.path(""), "policy.json", reject.to_string());
    until("the other policy", || {
        let answer = daemon.post("/v1/tools/check", &json!({ "args": { "x": true } })).ok();
        (answer["error"]["code"] == "SIGNALS_REJECTED").then_some(())
    });
}
