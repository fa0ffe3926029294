//! The network: none without the plan and the operator, and with both by way of the router, written down.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};

use super::escapes::{attempts, probing};
use super::{read, statement};

/// Answers whoever connects.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            drop(stream.write_all(b"hello"));
        }
    });
    address
}

#[test]
fn a_connect_needs_the_plan_and_the_operator_and_is_written_down() {
    let (granted, other) = (server(), server());
    let stage = probing(&format!("connect = [\"{granted}\"]"));
    let connect = |address: SocketAddr| json!(["tcp_connect", { "address": address.to_string(), "port": address.port() }]);
    let wanted = json!([connect(granted), connect(other), ["udp", {}], ["mptcp", {}]]);
    let grants = |targets: &Value| json!([{ "grant": "network", "targets": targets }]);

    // Without the plan's word there is none, whatever the operator has opened.
    let (run, answers) = attempts(&stage, "test_exec", &wanted, None);
    assert!(answers.iter().all(|answer| answer["errno"] == 1), "{answers:?}");
    assert!(!stage.evidence(&run).join("step-1/outputs/network.jsonl").exists());

    // With both there is what both have, and nothing else.
    let (run, answers) =
        attempts(&stage, "test_exec", &wanted, Some(grants(&json!([granted.to_string()]))));
    let errnos: Vec<&Value> = answers.iter().map(|answer| &answer["errno"]).collect();
    assert_eq!(errnos, [&json!(0), &json!(13), &json!(1), &json!(1)], "{answers:?}");
    let bundle = stage.evidence(&run).join("step-1");
    let log = std::fs::read_to_string(bundle.join("outputs/network.jsonl")).unwrap();
    let expected = format!(
        "{{\"granted\":true,\"result\":\"connected\",\"target\":\"{granted}\"}}\n\
         {{\"granted\":false,\"result\":\"refused\",\"target\":\"{other}\"}}\n"
    );
    assert_eq!(log, expected);
    let spec = read(&bundle.join("run_summary.json"))["spec_sha256"].clone();
    let decided = stage.world.path("sealed/evidence/verify").join(spec.as_str().unwrap());
    let decisions = read(&decided.join("manifest.sha256.json"))["decisions"].clone();
    assert_eq!(decisions["network_granted"], true);
    assert_eq!(decisions["network_targets"], json!([granted.to_string()]));
    let sandbox = &statement(&bundle)["predicate"]["environment"]["sandbox"];
    assert_eq!(sandbox["grants"]["connect"], json!([granted.to_string()]));
    stage.assert_verified();

    // The plan alone is refused before anything runs.
    let mut step = json!({ "tool": "test_exec", "args": { "argv": ["sh", "-c", "true"] } });
    step["grants"] = grants(&json!([other.to_string()]));
    let run = stage.run(&[step]);
    assert_eq!(stage.rejection(&run), "policy_gate_closed:network");
}
