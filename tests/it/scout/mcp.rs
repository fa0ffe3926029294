//! A server of MCP as a source: its tools are data, its resources documents.

use serde_json::json;

use super::{assert_genuine, broker_log, daemon, run};
use crate::mcp_client::server::ROLE;

#[test]
fn tools_and_resources_of_a_server_are_sources() {
    let program = std::env::current_exe().unwrap();
    let source = |name: &str, class: &str, tool: &str, method: &str| {
        format!(
            "[[adapters.sources]]\nname = \"{name}\"\nadapter = \"server\"\ntool = \"{tool}\"\n\
             method = \"{method}\"\naction_class = \"{class}\"\n"
        )
    };
    let daemon = daemon(
        &[
            "[[adapters]]\nid = \"scout\"\nref = \"nexus_router_adapter_scout:create_adapter\"\n\
             role = \"scout\"\noffer = { tools = [\"*\"] }\n"
                .to_owned(),
            source("echoes", "data_lookup", "echo", "call"),
            source("pages", "doc_retrieval", "resources", "read"),
            source("lost", "data_lookup", "nosuch", "call"),
            source("sulks", "web_search", "sulk", "call"),
            format!(
                "[[adapters]]\nid = \"server\"\nref = \"nexus_router_adapter_mcp:create_adapter\"\n\
                 grants = {{ run = [{program:?}] }}\n[adapters.config]\n\
                 command = [{program:?}, \"--exact\", \"mcp_client::serve\", \"--nocapture\", \"scout\"]\n\
                 env = {{ {ROLE} = \"modern\", RUST_TEST_THREADS = \"1\" }}\n"
            ),
        ]
        .concat(),
    );
    // The catalogue of the server has the names of its operations, for sources too.
    let lost = run(&daemon, "scout", "data_lookup", json!({ "source": "lost", "input": {} }));
    assert!(lost.to_string().contains("UNKNOWN_OPERATION"), "{lost}");
    let echoed =
        run(&daemon, "scout", "data_lookup", json!({ "source": "echoes", "input": { "a": 1 } }));
    assert_eq!(echoed["status"], "COMPLETED", "{echoed}");
    let data = &echoed["results"][0]["output"]["result"]["data"];
    assert_eq!(data["structuredContent"]["arguments"], json!({ "a": 1 }), "{echoed}");
    let page = run(&daemon, "scout", "doc_retrieval", json!({ "input": { "uri": "test://a" } }));
    assert_eq!(page["status"], "COMPLETED", "{page}");
    assert!(page["results"][0]["output"]["result"]["text"].is_string(), "{page}");
    assert_eq!(broker_log(&daemon, &page)[1]["input"], json!({ "uri": "test://a" }));
    // A tool that reports an error is a source that failed.
    let failed = run(&daemon, "scout", "web_search", json!({ "query": "sea" }));
    assert_eq!(failed["results"][0]["error"]["code"], "SOURCE_FAILED", "{failed}");
    let log = broker_log(&daemon, &failed);
    assert_eq!(
        (&log[1]["outcome"], &log[1]["code"]),
        (&json!("failed"), &json!("SOURCE_FAILED")),
        "{log:?}"
    );
    assert_genuine(&daemon);
}
