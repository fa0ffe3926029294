//! Where adapters run and what they may reach, changed by a reload.

use serde_json::json;

use super::support::{Home, reload};

/// An adapter that reaches outside, with more lines of its entry, and what holds for all adapters.
fn config(entry: &str, grants: &str, workers: &str) -> String {
    format!(
        "[[adapters]]\nid = 'web'\nref = 'nexus_router_adapter_http:create_adapter'\n{entry}\n\
         config = {{ base_url = 'http://127.0.0.1:9' }}\n[adapters.grants]\n{grants}\n\
         [workers]\n{workers}\n"
    )
}

#[test]
fn adapter_is_made_anew_when_it_runs_elsewhere_or_may_reach_other_things() {
    let home = Home::new(&config("", "", ""));
    let daemon = home.start();
    let mut client = daemon.client();
    // Each differs from the one before it.
    for (entry, grants, workers, anew) in [
        ("", "", "", false),
        ("", "env = ['HOME']", "", true),
        ("", "env = ['HOME']", "", false),
        ("", "connect = ['127.0.0.1:9']", "", true),
        ("processes = 2", "connect = ['127.0.0.1:9']", "", true),
        // The same, said in another place.
        ("", "connect = ['127.0.0.1:9']", "processes = 2", false),
        ("memory_mb = 1024", "connect = ['127.0.0.1:9']", "processes = 2", true),
        ("memory_mb = 1024", "", "processes = 2\nquarantine_ms = 1000", true),
        ("isolation = 'inline'", "", "", true),
        // Inline there is nothing that these could hold for.
        ("", "", "isolation = 'inline'\nprocesses = 3\ncrashes = 1", false),
        ("isolation = 'worker'", "", "isolation = 'inline'", true),
    ] {
        home.configure(&config(entry, grants, workers));
        let told = reload(&mut client);
        let list = if anew { "replaced" } else { "kept" };
        assert_eq!(told[list], json!(["web"]), "{entry} {grants} {workers}: {told}");
    }
}

#[test]
fn grants_that_bind_nobody_change_nothing() {
    let home = Home::new(&config("", "", ""));
    let daemon = home.start();
    let mut client = daemon.client();
    home.configure(&config("isolation = 'inline'", "env = ['HOME']", ""));
    let refused = client.post("/v1/reload", &json!({})).unwrap();
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("would bind nobody"), "{}", refused.text());
    home.configure(&config("", "", ""));
    assert_eq!(reload(&mut client)["kept"], json!(["web"]));
}
