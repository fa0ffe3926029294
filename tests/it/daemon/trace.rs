//! The trace of a caller: in the answer, in the record, and on to what adapters call.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use super::support::{Daemon, plan};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn a_trace_goes_from_the_caller_to_what_an_adapter_calls() {
    let far = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[[adapters]]\nref = \"nexus_router_adapter_http:create_adapter\"\nid = \"web\"\n\
         config = {{ base_url = \"http://{far}/\" }}\ngrants = {{ connect = [\"{far}\"] }}\n",
        far = far.local_addr().unwrap()
    );
    let server = std::thread::spawn(move || {
        let (mut stream, _) = far.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        stream
            .write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                content-length: 2\r\nconnection: close\r\n\r\n{}",
            )
            .unwrap();
        head
    });
    let daemon = Daemon::start(&config, &[]);
    let sent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let answer =
        daemon.post("/v1/runs", &plan("web", "t", "m")).header("traceparent", &sent).send();
    assert_eq!(answer.json()["status"], "COMPLETED", "{answer:?}");
    let of_trace = |parent: &str| {
        let parts: Vec<&str> = parent.split('-').collect();
        assert_eq!((parts.len(), parts[0], parts[1]), (4, "00", TRACE), "{parent}");
        assert_ne!(parts[2], "00f067aa0ba902b7", "a place of its own: {parent}");
    };
    of_trace(answer.header("traceparent").unwrap());
    let bundle = daemon.get(&format!("/v1/runs/{}/bundle", answer.run_id())).ok();
    assert_eq!(bundle["events"][0]["payload"]["trace_id"], TRACE, "{}", bundle["events"][0]);
    let head = server.join().unwrap();
    let passed = head.iter().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("traceparent: ").map(str::to_owned)
    });
    of_trace(&passed.unwrap_or_else(|| panic!("no traceparent: {head:?}")));
}

#[test]
fn what_is_no_trace_is_passed_over() {
    let daemon = Daemon::usual();
    for bad in ["", "nonsense", "00-0-0-0", &format!("ff-{TRACE}-00f067aa0ba902b7-01")] {
        let answer = daemon.post("/v1/runs", &plan("echo", "t", "m")).header("traceparent", bad);
        let answer = answer.send();
        assert_eq!(answer.json()["status"], "COMPLETED", "{answer:?}");
        assert_eq!(answer.header("traceparent"), None);
    }
}
