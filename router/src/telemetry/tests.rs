//! Tests of logs and traces, with real sinks and a real receiver.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar};

use super::*;
use crate::json::{Limits, Value, parse};

/// A sink that keeps what it gets, and takes nothing while it is held.
#[derive(Clone, Default)]
struct Sink(Arc<(Mutex<Taken>, Condvar)>);

/// Whether the sink is held, and what it got.
type Taken = (bool, Vec<u8>);

impl Sink {
    fn hold(&self, held: bool) {
        self.0.0.lock().unwrap().0 = held;
        self.0.1.notify_all();
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.0.lock().unwrap().1.clone()).unwrap()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let (state, changed) = &*self.0;
        let mut state = changed.wait_while(state.lock().unwrap(), |state| state.0).unwrap();
        state.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn settings(level: &str, format: Format) -> Settings {
    Settings { level: level.to_owned(), format, otlp: None }
}

/// Logs what `log` logs, and returns the lines.
fn logged(settings: &Settings, log: impl FnOnce(&Telemetry)) -> Vec<String> {
    let sink = Sink::default();
    let (telemetry, subscriber) =
        build(settings, Box::new(sink.clone()), Duration::from_secs(60)).unwrap();
    tracing::subscriber::with_default(subscriber, || log(&telemetry));
    drop(telemetry);
    sink.text().lines().map(str::to_owned).collect()
}

#[test]
fn what_nobody_wants_costs_nothing() {
    logged(&settings("info", Format::Text), |telemetry| {
        let of_library = || tracing::info_span!(target: "rmcp::service", "serve").is_disabled();
        let ours = || tracing::info_span!(target: "nexus_router", "run").is_disabled();
        assert_eq!((of_library(), ours()), (true, false));
        telemetry.set_level("info,rmcp=info").unwrap();
        assert!(!of_library());
    });
}

#[test]
fn json_lines_have_the_fields_of_event_and_spans() {
    let lines = logged(&settings("info", Format::Json), |_| {
        let run = tracing::info_span!("run", run_id = "r1", trace_id = tracing::field::Empty);
        let _run = run.clone().entered();
        run.record("trace_id", "4bf9");
        let _step = tracing::info_span!("step", step_id = "s1", adapter_id = "echo").entered();
        tracing::info!(count = 3, ok = true, level = "mine", part = 0.5, "called {}", "it");
        tracing::debug!("not this");
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = parse(lines[0].as_bytes(), Limits::REQUEST).unwrap();
    let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
    assert_eq!(text("message"), "called it");
    assert_eq!([text("run_id"), text("trace_id")], ["r1", "4bf9"]);
    assert_eq!([text("step_id"), text("adapter_id")], ["s1", "echo"]);
    assert_eq!([text("level"), text("level_")], ["INFO", "mine"]);
    assert_eq!(text("target"), "nexus_router::telemetry::tests");
    assert_eq!(line.get("count").and_then(Value::as_i64), Some(3));
    assert_eq!(line.get("ok").and_then(Value::as_bool), Some(true));
    assert!(crate::clock::Timestamp::parse(text("ts")).is_some());
}

#[test]
fn foreign_text_makes_no_lines_and_no_fields() {
    let forged = "x\n2026-01-01T00:00:00.000Z ERROR forged: yes\u{1b}[31m\r ok=true";
    for format in [Format::Text, Format::Json] {
        let lines = logged(&settings("info", format), |_| {
            let _run = tracing::info_span!("run", run_id = forged).entered();
            tracing::info!(adapter_id = forged, "it said: {forged}");
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].chars().all(|c| !c.is_control()), "{lines:?}");
        if format == Format::Json {
            let line = parse(lines[0].as_bytes(), Limits::REQUEST).unwrap();
            assert_eq!(line.get("run_id").and_then(Value::as_str), Some(forged));
        } else {
            assert!(lines[0].contains(r#" run_id="x\n2026"#), "{lines:?}");
        }
    }
}

#[test]
fn text_lines_are_for_people() {
    let error = std::io::Error::other("no room");
    let lines = logged(&settings("info", Format::Text), |_| {
        let cause: &(dyn std::error::Error + 'static) = &error;
        tracing::warn!(run_id = "r1", error = cause, empty = "", "not stored");
    });
    let (ts, rest) = lines[0].split_once(' ').unwrap();
    assert!(crate::clock::Timestamp::parse(ts).is_some());
    assert_eq!(
        rest,
        r#" WARN nexus_router::telemetry::tests: not stored run_id=r1 error="no room" empty="""#
    );
}

#[test]
fn a_field_is_cut_where_it_becomes_too_long() {
    let lines = logged(&settings("info", Format::Text), |_| {
        tracing::info!(text = "é".repeat(100_000), "much");
    });
    let length = lines[0].chars().count();
    assert!(lines[0].ends_with('…') && length < 9000, "{length}");
}

#[test]
fn the_level_can_be_changed() {
    let lines = logged(&settings("warn", Format::Text), |telemetry| {
        tracing::info!("one");
        telemetry.set_level("info").unwrap();
        tracing::info!("two");
        assert_eq!(telemetry.set_level("loud").unwrap_err().code(), "LOG_LEVEL_INVALID");
        assert_eq!(telemetry.level(), "info");
        tracing::info!("three");
        telemetry.set_level("off").unwrap();
        tracing::error!("four");
    });
    let said: Vec<&str> = lines.iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(said, ["two", "three"]);
}

#[test]
fn a_sink_that_takes_nothing_stops_nobody_and_what_is_lost_is_counted() {
    let sink = Sink::default();
    let (telemetry, subscriber) =
        build(&settings("info", Format::Json), Box::new(sink.clone()), Duration::from_secs(60))
            .unwrap();
    sink.hold(true);
    let sent = pipe::MAX_LINES as u64 + 1000;
    tracing::subscriber::with_default(subscriber, || {
        (0..sent).for_each(|number| tracing::info!(number, "line"));
    });
    assert_eq!(sink.text(), "");
    sink.hold(false);
    drop(telemetry);
    let text = sink.text();
    let lines: Vec<Value> =
        text.lines().map(|line| parse(line.as_bytes(), Limits::REQUEST).unwrap()).collect();
    let lost: u64 = lines
        .iter()
        .filter_map(|line| line.get("dropped").and_then(Value::as_i64))
        .map(i64::cast_unsigned)
        .sum();
    let kept = lines.iter().filter(|line| line.get("number").is_some()).count() as u64;
    assert!(lost > 0);
    assert_eq!(kept + lost, sent);
}

#[test]
fn a_sink_that_never_takes_anything_does_not_keep_the_end() {
    let sink = Sink::default();
    let (telemetry, subscriber) =
        build(&settings("info", Format::Text), Box::new(sink.clone()), Duration::from_millis(20))
            .unwrap();
    sink.hold(true);
    tracing::subscriber::with_default(subscriber, || tracing::info!("lost"));
    drop(telemetry);
    assert_eq!(sink.text(), "");
    sink.hold(false);
}

/// What a collector got.
struct Post {
    path: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// A collector that answers with a status, or never.
fn collector(status: Option<u16>) -> (String, Receiver<Post>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (posts, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let posts = posts.clone();
            std::thread::spawn(move || serve(stream, status, &posts));
        }
    });
    (address, received)
}

fn serve(stream: TcpStream, status: Option<u16>, posts: &Sender<Post>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = HashMap::new();
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        drop(posts.send(Post { path, headers, body }));
        let Some(status) = status else { return std::thread::park() };
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
    }
}

/// Returns the texts of a field of a protobuf message.
fn members(message: &[u8], wanted: u64) -> Vec<&[u8]> {
    let (mut rest, mut found) = (message, Vec::new());
    let number = |rest: &mut &[u8]| {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, tail) = rest.split_first().unwrap();
            *rest = tail;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    };
    while !rest.is_empty() {
        let tag = number(&mut rest);
        let length = match tag & 7 {
            0 => {
                number(&mut rest);
                0
            }
            1 => 8,
            2 => usize::try_from(number(&mut rest)).unwrap(),
            5 => 4,
            kind => panic!("there is no wire type {kind}"),
        };
        let (text, tail) = rest.split_at(length);
        rest = tail;
        if tag >> 3 == wanted && tag & 7 == 2 {
            found.push(text);
        }
    }
    found
}

/// A span as it was sent: name, trace, own id, id of the parent.
type Sent = (String, Vec<u8>, Vec<u8>, Vec<u8>);

/// Returns the spans of an export, by the numbers of the fields in `trace.proto`.
fn spans(body: &[u8]) -> Vec<Sent> {
    let mut found = Vec::new();
    for scope in members(body, 1).into_iter().flat_map(|resource| members(resource, 2)) {
        for span in members(scope, 2) {
            let one =
                |field| members(span, field).first().map(|text| text.to_vec()).unwrap_or_default();
            found.push((String::from_utf8(one(5)).unwrap(), one(1), one(2), one(4)));
        }
    }
    found
}

fn exporting(endpoint: String) -> Settings {
    let otlp = Otlp {
        endpoint,
        service_name: "router-under-test".to_owned(),
        sample_ratio: 1.0,
        headers: vec![("authorization".to_owned(), Hidden::new("Bearer hunter2"))],
    };
    Settings { otlp: Some(otlp), ..settings("warn", Format::Text) }
}

#[test]
fn spans_reach_the_collector_in_the_trace_of_the_caller() {
    let (address, received) = collector(Some(200));
    let caller =
        TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let mut inside = None;
    let lines = logged(&exporting(address), |_| {
        let run = tracing::info_span!("carry out", run_id = "r1");
        adopt(&run, &caller);
        inside = current(&run);
        let _run = run.entered();
        let _step = tracing::info_span!("step").entered();
        let _unwanted = tracing::debug_span!("detail").entered();
    });
    assert_eq!(lines, Vec::<String>::new());
    let post = received.recv().unwrap();
    assert_eq!(post.path, "/v1/traces");
    assert_eq!(post.headers["authorization"], "Bearer hunter2");
    assert_eq!(post.headers["content-type"], "application/x-protobuf");
    let resource = members(members(&post.body, 1)[0], 1)[0].to_vec();
    assert!(String::from_utf8_lossy(&resource).contains("router-under-test"));
    let mut sent = spans(&post.body);
    sent.sort();
    let [(run, run_trace, run_id, run_parent), (step, step_trace, _, step_parent)] = &sent[..]
    else {
        panic!("{sent:?}")
    };
    assert_eq!([run.as_str(), step.as_str()], ["carry out", "step"]);
    assert_eq!([run_trace, step_trace], [&caller.trace_id.to_vec(); 2]);
    assert_eq!(*run_parent, caller.span_id);
    assert_eq!(step_parent, run_id);
    let inside = inside.unwrap();
    assert_eq!((inside.trace_id, inside.flags), (caller.trace_id, caller.flags));
    assert_eq!(inside.span_id.to_vec(), *run_id);
}

#[test]
fn a_trace_that_the_caller_does_not_record_is_not_sent() {
    let (address, received) = collector(Some(200));
    let caller =
        TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00").unwrap();
    logged(&exporting(address), |_| {
        let quiet = tracing::info_span!("quiet");
        adopt(&quiet, &caller);
        assert_eq!(current(&quiet).unwrap().trace_id, caller.trace_id);
        drop(quiet.entered());
        drop(tracing::info_span!("own").entered());
    });
    let names: Vec<String> =
        spans(&received.recv().unwrap().body).into_iter().map(|span| span.0).collect();
    assert_eq!(names, ["own"]);
}

/// An address where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn a_collector_that_is_gone_or_refuses_costs_spans_and_nothing_else() {
    let (refusing, _received) = collector(Some(403));
    for endpoint in [nobody(), refusing] {
        let sink = Sink::default();
        let built = build(&exporting(endpoint), Box::new(sink.clone()), Duration::from_secs(60));
        let (telemetry, subscriber) = built.unwrap();
        tracing::subscriber::with_default(subscriber, || {
            drop(tracing::info_span!("lost").entered());
            // If the end were not in order, it would be told.
            drop(telemetry);
        });
        assert_eq!(sink.text(), "");
    }
}

#[test]
fn failures_are_told_once_in_a_while_and_without_secrets() {
    let client =
        export::Client::new(&[("authorization".to_owned(), Hidden::new("Bearer hunter2"))])
            .unwrap();
    let (taking, _received) = collector(Some(200));
    let post = |address: &str| {
        let request = http::Request::post(address).body(b"spans"[..].into()).unwrap();
        client.attempt(request).is_ok()
    };
    let nobody = nobody();
    let lines = logged(&settings("info", Format::Text), |_| {
        assert!(!post(&nobody) && !post(&nobody) && !post(&nobody));
        assert!(post(&taking));
        assert!(!post(&nobody));
    });
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(
        lines[0].contains("spans cannot be sent to the collector failures=1 problem="),
        "{lines:?}"
    );
    assert!(lines[1].ends_with("the collector takes spans again"), "{lines:?}");
    assert!(lines[2].contains("failures=1 "), "{lines:?}");
    assert!(!lines.concat().contains("hunter2"), "{lines:?}");
}

#[test]
fn a_collector_that_never_answers_does_not_keep_the_end() {
    let (address, received) = collector(None);
    let sink = Sink::default();
    let built = build(&exporting(address), Box::new(sink.clone()), Duration::from_millis(50));
    let (telemetry, subscriber) = built.unwrap();
    tracing::subscriber::with_default(subscriber, || {
        drop(tracing::info_span!("waits").entered());
        drop(telemetry);
    });
    // It was asked, and has not answered to this day.
    assert_eq!(received.recv().unwrap().path, "/v1/traces");
    assert!(sink.text().contains("the last spans were not sent"), "{}", sink.text());
}

#[test]
fn without_a_collector_there_is_no_context() {
    let context = TraceContext::new_root();
    logged(&settings("info", Format::Text), |_| {
        let span = tracing::info_span!("run");
        adopt(&span, &context);
        assert_eq!(current(&span), None);
    });
}
