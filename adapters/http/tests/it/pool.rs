//! Holds up that connections are kept and shared, against an ordinary HTTP server.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use nexus_router_sdk::{code, testing};
use serde_json::{Value, json};
use tiny_http::{Header, Response, Server};

use crate::adapter;
use crate::canned::{Canned, kept_reply};

/// A server that echoes the body, fails for the tool `missing` and redirects the tool `moved`.
struct Echo {
    url: String,
    server: Arc<Server>,
    peers: Arc<Mutex<BTreeSet<SocketAddr>>>,
}

impl Echo {
    fn start() -> Self {
        let server = Arc::new(Server::http("127.0.0.1:0").unwrap());
        let url = format!("http://{}", server.server_addr());
        let peers = Arc::new(Mutex::new(BTreeSet::new()));
        let (inner, kept) = (Arc::clone(&server), Arc::clone(&peers));
        std::thread::spawn(move || {
            while let Ok(mut request) = inner.recv() {
                kept.lock().unwrap().insert(*request.remote_addr().unwrap());
                let mut body = String::new();
                request.as_reader().read_to_string(&mut body).unwrap();
                let response = Response::from_string(body);
                let response = match request.url() {
                    "/missing/m" => response.with_status_code(404),
                    "/moved/m" => response.with_status_code(307).with_header(
                        Header::from_bytes(&b"Location"[..], &b"/found/m"[..]).unwrap(),
                    ),
                    _ => response,
                };
                drop(request.respond(response));
            }
        });
        Self { url, server, peers }
    }

    fn connections(&self) -> usize {
        self.peers.lock().unwrap().len()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.server.unblock();
    }
}

#[test]
fn calls_in_turn_share_one_connection() {
    let server = Echo::start();
    let adapter = adapter(&server.url, json!({ "follow_redirects": 1 }));
    for round in 0..5 {
        let output = testing::call(&adapter, "t", "m", json!({ "round": round })).unwrap();
        assert_eq!(output["round"], round);
    }
    assert_eq!(server.connections(), 1);
    let error = testing::call(&adapter, "missing", "m", json!({ "round": 5 })).unwrap_err();
    assert_eq!(error.code, code::HTTP_ERROR);
    let output = testing::call(&adapter, "moved", "m", json!({ "round": 6 })).unwrap();
    assert_eq!(output["round"], 6);
    assert_eq!(server.connections(), 1, "an error or a redirect costs the connection");
}

#[test]
fn without_a_pool_every_call_connects() {
    let server = Echo::start();
    let adapter = adapter(&server.url, json!({ "pool_max_idle": 0 }));
    for _ in 0..5 {
        testing::call(&adapter, "t", "m", json!({})).unwrap();
    }
    assert_eq!(server.connections(), 5);
}

#[test]
fn instances_share_nothing() {
    let server = Echo::start();
    for _ in 0..3 {
        testing::call(&adapter(&server.url, json!({})), "t", "m", json!({})).unwrap();
    }
    assert_eq!(server.connections(), 3);
}

#[test]
fn concurrent_calls_get_their_own_answers() {
    const CALLERS: usize = 32;
    const CALLS: usize = 20;
    // Not tiny_http: it lets new connections wait behind kept ones when many come at once.
    let server = Canned::keeping(|seen| kept_reply("200 OK", "", &seen.body));
    let adapter = adapter(&server.url(), json!({ "pool_max_idle": CALLERS }));
    let call = |caller: usize, round: usize| {
        let args = json!({ "caller": caller, "round": round, "filler": "x".repeat(caller * 100) });
        let output = testing::call(&adapter, "t", "m", args.clone()).unwrap();
        assert_eq!(Value::Object(output), args);
    };
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            scope.spawn(move || (0..CALLS).for_each(|round| call(caller, round)));
        }
    });
    assert_eq!(server.seen().len(), CALLERS * CALLS);
    assert!(server.connections() <= CALLERS, "{}", server.connections());
}
