//! Holds up that the caller can end a call: by its deadline, by cancelling it, by shutting down.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use nexus_router_adapter_http::HttpAdapter;
use nexus_router_sdk::testing::Recorder;
use nexus_router_sdk::{Adapter, AdapterError, CallContext, Object, code};
use serde_json::json;

use crate::adapter;
use crate::canned::{Canned, deserted, reply};

fn call(adapter: &HttpAdapter, context: &CallContext) -> Result<Object, AdapterError> {
    adapter.call(context, "t", "m", Object::new())
}

fn within(milliseconds: u64) -> CallContext {
    Recorder::default().context_with_time(Duration::from_millis(milliseconds))
}

/// Begins a call, cancels it after `begun` returns, and returns its answer.
fn cancelled_call(adapter: &HttpAdapter, begun: impl FnOnce()) -> Result<Object, AdapterError> {
    let (context, cancel) = Recorder::default().cancellable_context();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| call(adapter, &context));
        begun();
        cancel();
        call.join().unwrap()
    })
}

/// A server that writes these bytes and says so, then waits for the client to go and says that too.
fn silent_after(bytes: &'static str) -> (Canned, mpsc::Receiver<&'static str>) {
    let (sender, receiver) = mpsc::channel();
    let server = Canned::new(move |_, mut stream| {
        stream.write_all(bytes.as_bytes()).unwrap();
        sender.send("written").unwrap();
        drop(stream.read(&mut [0]));
        sender.send("closed").ok();
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
    for bytes in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "HTTP/1.1 200 OK\r\n\r\n{"] {
        let (server, events) = silent_after(bytes);
        let adapter = adapter(&server.url(), json!({}));
        let written = || assert_eq!(events.recv().unwrap(), "written");
        let error = cancelled_call(&adapter, written).unwrap_err();
        assert_eq!(error.code, code::CANCELLED);
        assert_eq!(error.details["url"], format!("{}/t/m", server.url()));
        assert_eq!(events.recv_timeout(Duration::from_secs(10)), Ok("closed"));
    }
}

#[test]
fn cancelling_ends_the_wait_for_a_connection() {
    let (address, _listener, _queue) = crowded();
    let adapter = adapter(&format!("http://{address}"), json!({}));
    // Nothing tells that the dial has begun; a cancel that comes too early ends the call as well.
    let begun = || std::thread::sleep(Duration::from_millis(100));
    assert_eq!(cancelled_call(&adapter, begun).unwrap_err().code, code::CANCELLED);
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
    let adapter = adapter(&server.url(), json!({}));
    let answer = cancelled_call(&adapter, || receiver.recv().unwrap());
    assert_eq!(answer.unwrap_err().code, code::CANCELLED);
    drop(receiver);
    call(&adapter, &Recorder::default().context()).unwrap();
}

#[test]
fn the_deadline_of_the_call_counts_when_it_is_nearer() {
    let (server, _events) = silent_after("");
    let error = call(&adapter(&server.url(), json!({})), &within(100)).unwrap_err();
    assert_eq!(error.code, code::TIMEOUT);
    assert_eq!(
        error.message,
        "HTTP request met the deadline of the call before its own timeout of 30.0s"
    );
}

#[test]
fn the_deadline_also_ends_the_wait_for_a_connection() {
    let (address, _listener, _queue) = crowded();
    let adapter = adapter(&format!("http://{address}"), json!({}));
    assert_eq!(call(&adapter, &within(100)).unwrap_err().code, code::TIMEOUT);
}

#[test]
fn nothing_is_sent_when_the_call_is_over_or_only_pretends() {
    let server = Canned::replying(reply("200 OK", "", "{}"));
    let adapter = adapter(&server.url(), json!({}));
    assert_eq!(call(&adapter, &within(0)).unwrap_err().code, code::TIMEOUT);
    let (context, cancel) = Recorder::default().cancellable_context();
    cancel();
    assert_eq!(call(&adapter, &context).unwrap_err().code, code::CANCELLED);
    let context = Recorder::default().dry_run_context();
    assert_eq!(call(&adapter, &context).unwrap_err().code, code::INVALID_ARGUMENT);
    assert_eq!(server.connections(), 0);
}

#[test]
fn shutting_down_ends_calls_and_refuses_new_ones() {
    let (server, events) = silent_after("");
    let adapter = adapter(&server.url(), json!({}));
    let context = Recorder::default().context();
    std::thread::scope(|scope| {
        let under_way = scope.spawn(|| call(&adapter, &context));
        assert_eq!(events.recv().unwrap(), "written");
        adapter.shutdown();
        assert_eq!(under_way.join().unwrap().unwrap_err().code, code::HTTP_ERROR);
    });
    let error = call(&adapter, &context).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED);
    assert_eq!(error.details["error"], "the adapter was shut down");
}

#[test]
fn an_adapter_that_never_connected_shuts_down_quietly() {
    adapter(&format!("http://{}", deserted()), json!({})).shutdown();
}
