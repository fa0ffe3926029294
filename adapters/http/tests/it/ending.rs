//! Holds up that the caller can end a call: by its deadline, by cancelling it, by shutting down.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use nexus_router_sdk::code;
use serde_json::json;

use crate::canned::{Canned, deserted, reply};
use crate::linked::Linked;

/// A server that writes these bytes, then says so, waits for the client to go, and says that too.
fn silent_after(bytes: &'static str) -> (Canned, mpsc::Receiver<()>) {
    let (sender, receiver) = mpsc::channel();
    let server = Canned::new(move |_, mut stream| {
        stream.write_all(bytes.as_bytes()).unwrap();
        sender.send(()).unwrap();
        drop(stream.read(&mut [0]));
        drop(sender.send(()));
    });
    (server, receiver)
}

/// A listener that takes no more connections: its queue is full and nobody accepts.
fn crowded() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queue.push(stream);
    }
    (address, listener, queue)
}

#[test]
fn cancelling_ends_the_wait_for_the_response_and_closes_the_connection() {
    for bytes in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "HTTP/1.1 200 OK\r\n\r\n{}"]
    {
        let (server, events) = silent_after(bytes);
        let adapter = Linked::new(&server.url());
        let error = std::thread::scope(|scope| {
            let call = scope.spawn(|| adapter.call(json!({})));
            events.recv().unwrap();
            adapter.cancel();
            call.join().unwrap()
        });
        if bytes.ends_with("{}") && error.is_ok() {
            // The end of the connection is the end of such a body, and this one was complete.
            continue;
        }
        let error = error.unwrap_err();
        assert_eq!(error.code, code::CANCELLED);
        assert_eq!(error.details["url"], format!("{}/t/m", server.url()));
        events.recv_timeout(Duration::from_secs(10)).expect("the connection is closed");
    }
}

#[test]
fn cancelling_ends_the_wait_for_a_connection() {
    let (address, _listener, _queue) = crowded();
    let adapter = Linked::new(&format!("http://{address}"));
    let error = std::thread::scope(|scope| {
        let call = scope.spawn(|| adapter.call(json!({})));
        while !call.is_finished() {
            // A cancel before the call has begun finds nothing, so it is repeated.
            adapter.cancel();
            std::thread::yield_now();
        }
        call.join().unwrap()
    });
    assert_eq!(error.unwrap_err().code, code::CANCELLED);
}

#[test]
fn a_cancelled_call_leaves_the_adapter_usable() {
    let (sender, receiver) = mpsc::channel();
    let server = Canned::new(move |_, mut stream| {
        if sender.send(()).is_ok() {
            drop(stream.read(&mut [0]));
        }
        drop(stream.write_all(reply("200 OK", "", "{}").as_bytes()));
    });
    let adapter = Linked::new(&server.url());
    std::thread::scope(|scope| {
        let call = scope.spawn(|| adapter.call(json!({})));
        receiver.recv().unwrap();
        adapter.cancel();
        assert_eq!(call.join().unwrap().unwrap_err().code, code::CANCELLED);
    });
    drop(receiver);
    adapter.call(json!({})).unwrap();
}

#[test]
fn the_deadline_of_the_call_counts_when_it_is_nearer() {
    let (server, _events) = silent_after("");
    let error = Linked::new(&server.url()).call(json!({ "deadline_ms": 100 })).unwrap_err();
    assert_eq!(error.code, code::TIMEOUT);
    assert_eq!(
        error.message,
        "HTTP request met the deadline of the call before its own timeout of 30.0s"
    );
}

#[test]
fn the_deadline_also_ends_the_wait_for_a_connection() {
    let (address, _listener, _queue) = crowded();
    let adapter = Linked::new(&format!("http://{address}"));
    assert_eq!(adapter.call(json!({ "deadline_ms": 100 })).unwrap_err().code, code::TIMEOUT);
}

#[test]
fn nothing_is_sent_after_the_deadline_or_in_a_dry_run() {
    let server = Canned::replying(reply("200 OK", "", "{}"));
    let adapter = Linked::new(&server.url());
    assert_eq!(adapter.call(json!({ "deadline_ms": 0 })).unwrap_err().code, code::TIMEOUT);
    let error = adapter.call(json!({ "dry_run": true })).unwrap_err();
    assert_eq!(error.code, code::INVALID_ARGUMENT);
    assert!(server.seen().is_empty());
}

#[test]
fn shutting_down_ends_calls_and_refuses_new_ones() {
    let (server, events) = silent_after("");
    let adapter = Linked::new(&server.url());
    std::thread::scope(|scope| {
        let call = scope.spawn(|| adapter.call(json!({})));
        events.recv().unwrap();
        adapter.shutdown();
        assert_eq!(call.join().unwrap().unwrap_err().code, code::HTTP_ERROR);
    });
    let error = adapter.call(json!({})).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED);
    assert_eq!(error.details["error"], "the adapter was shut down");
}

#[test]
fn an_adapter_that_never_connected_shuts_down_quietly() {
    Linked::new(&format!("http://{}", deserted())).shutdown();
}
