//! Adapters that come with the router, with grants and without, as callers of a daemon see them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::support::{Daemon, plan};

/// Answers every request with an object, until the test ends.
fn service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            drop(stream.read(&mut [0; 4096]));
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\
                          connection: close\r\n\r\n{\"here\":42}";
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    address
}

fn result(daemon: &Daemon, id: &str, args: &Value) -> Value {
    let mut plan = plan(id, "t", "m");
    plan["plan_override"][0]["call"]["args"] = args.clone();
    daemon.post("/v1/runs", &plan).ok()["results"][0].clone()
}

#[test]
fn a_service_is_reached_where_it_is_granted_and_the_error_elsewhere_tells_why() {
    let service = service();
    let entry = |id: &str, more: &str| {
        format!(
            "[[adapters]]\nid = \"{id}\"\nref = \"nexus_router_adapter_http:create_adapter\"\n\
             config = {{ base_url = \"http://{service}\" }}\n{more}\n"
        )
    };
    let daemon = Daemon::start(
        &[
            entry("granted", &format!("grants = {{ connect = [\"{service}\"] }}")),
            entry("elsewhere", "grants = { connect = [\"127.0.0.1:9\"] }"),
            entry("nothing", ""),
            entry("inline", "isolation = \"inline\""),
            entry("named", "").replace("http://127.0.0.1", "http://some.example"),
        ]
        .concat(),
        &[],
    );
    for id in ["granted", "inline"] {
        assert_eq!(result(&daemon, id, &json!({}))["output"]["here"], 42, "{id}");
    }
    for id in ["elsewhere", "nothing", "named"] {
        let error = result(&daemon, id, &json!({}))["error"].clone();
        assert_eq!(error["code"], "CONNECTION_FAILED", "{id}: {error}");
        let told = error["details"]["error"].as_str().unwrap();
        assert!(told.contains("its grants name under 'connect'"), "{id}: {error}");
    }
}

#[test]
fn a_command_that_is_granted_gets_its_arguments_and_one_that_is_not_does_not_run() {
    let shell: PathBuf = std::fs::canonicalize("/bin/sh").unwrap();
    // Whatever stands in the file is the answer.
    let script = r#"IFS= read -r line < "$4"; printf "%s" "$line""#;
    let entry = |id: &str, more: &str| {
        format!(
            "[[adapters]]\nid = \"{id}\"\nref = \"nexus_router_adapter_subprocess:create_adapter\"\n\
             config = {{ base_cmd = [{shell:?}, \"-c\", '{script}'] }}\n{more}\n"
        )
    };
    let daemon = Daemon::start(
        &[
            entry("granted", &format!("grants = {{ run = [{shell:?}] }}")),
            entry("elsewhere", "grants = { run = [\"/bin/true\"] }"),
            entry("with_a_file", &format!("grants = {{ run = [{shell:?}], write = [\"/tmp\"] }}")),
            entry("nothing", ""),
            entry("inline", "isolation = \"inline\""),
        ]
        .concat(),
        &[],
    );
    // One that fits any pipe, and one that fits none.
    for length in [10, 300_000] {
        let args = json!({ "text": "x".repeat(length) });
        for id in ["granted", "with_a_file", "inline"] {
            let result = result(&daemon, id, &args);
            assert_eq!(result["output"]["args"], args, "{id}: {result}");
        }
    }
    for id in ["elsewhere", "nothing"] {
        let error = result(&daemon, id, &json!({}))["error"].clone();
        assert_eq!(error["code"], "PERMISSION_DENIED", "{id}: {error}");
        let hint = error["details"]["hint"].as_str().unwrap();
        assert!(hint.contains("its grants name under 'run'"), "{id}: {error}");
    }
}
