//! The events of a run as a stream: whole, taken up again, followed, bounded.

use serde_json::Value;

use super::client::{Response, Wire};
use super::support::{ADAPTERS, Daemon, plan, until};

/// A stream of events that is read.
pub struct Stream {
    wire: Wire,
    text: String,
}

/// An event of a stream.
#[derive(Debug, PartialEq)]
pub struct Event {
    id: Option<u64>,
    pub kind: String,
    data: Value,
}

impl Stream {
    fn open(daemon: &Daemon, run_id: &str, last: Option<&str>) -> Result<Self, Response> {
        let mut ask = daemon.get(&format!("/v1/runs/{run_id}/events")).by("read");
        if let Some(last) = last {
            ask = ask.header("Last-Event-ID", last);
        }
        let mut wire = ask.begin();
        let head = wire.head();
        if head.status != 200 {
            return Err(head);
        }
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        assert_eq!(head.header("cache-control"), Some("no-store"));
        Ok(Self { wire, text: String::new() })
    }

    /// Reads the next event; none at the end of the stream.
    pub fn next(&mut self) -> Option<Event> {
        while !self.text.contains("\n\n") {
            self.text.push_str(std::str::from_utf8(&self.wire.chunk()?).unwrap());
        }
        let (event, rest) = self.text.split_once("\n\n").unwrap();
        let field = |name: &str| {
            let line = event.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        let event = Event {
            id: field("id:").map(|id| id.parse().unwrap()),
            kind: field("event:").unwrap(),
            data: serde_json::from_str(&field("data:").unwrap()).unwrap(),
        };
        self.text = rest.to_owned();
        Some(event)
    }

    fn rest(mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

pub fn stream(daemon: &Daemon, run_id: &str, last: Option<&str>) -> Stream {
    Stream::open(daemon, run_id, last).unwrap_or_else(|answer| panic!("{answer:?}"))
}

#[test]
fn a_stream_has_every_event_and_says_when_it_ends() {
    let daemon = Daemon::usual();
    for (request, status) in
        [(plan("echo", "t", "m"), "COMPLETED"), (plan("fake", "t", "refuse"), "FAILED")]
    {
        let run_id = daemon.post("/v1/runs", &request).send().run_id();
        let mut events = stream(&daemon, &run_id, None).rest();
        let end = events.pop().unwrap();
        assert_eq!((end.id, end.kind.as_str()), (None, "end"));
        assert_eq!(
            (&end.data["run_id"], &end.data["status"]),
            (&run_id.as_str().into(), &status.into())
        );
        let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).ok();
        let recorded = bundle["events"].as_array().unwrap();
        assert_eq!(events.len(), recorded.len());
        for (number, (event, recorded)) in events.iter().zip(recorded).enumerate() {
            assert_eq!((event.id, &event.data), (Some(number as u64), recorded));
            assert_eq!(event.kind, recorded["type"].as_str().unwrap());
        }
    }
}

#[test]
fn a_stream_is_taken_up_where_it_broke_off() {
    let daemon = Daemon::usual();
    let run_id = daemon.post("/v1/runs", &plan("echo", "t", "m")).send().run_id();
    let all = stream(&daemon, &run_id, None).rest();
    let last = all.len() - 2;
    for after in 0..last {
        let rest = stream(&daemon, &run_id, Some(&after.to_string())).rest();
        assert_eq!(rest, all[after + 1..], "after {after}");
    }
    assert_eq!(stream(&daemon, &run_id, Some("-1")).rest(), all);
    let by_query = daemon.get(&format!("/v1/runs/{run_id}/events?after={}", last - 1)).send();
    assert!(by_query.text().starts_with(&format!("id: {last}\n")), "{}", by_query.text());
    // The header comes from a client that takes up a stream that the query began.
    let both = daemon.get(&format!("/v1/runs/{run_id}/events?after=0"));
    let both = both.header("Last-Event-ID", &(last - 1).to_string()).send();
    assert_eq!(both.body, by_query.body);
    for over in [last.to_string(), (last + 7).to_string()] {
        let answer = Stream::open(&daemon, &run_id, Some(&over)).err().unwrap();
        assert_eq!(answer.status, 204, "{answer:?}");
    }
    for bad in ["x", "-2", "1.5", "9223372036854775807", "99999999999999999999", ""] {
        let ask = daemon.get(&format!("/v1/runs/{run_id}/events")).header("Last-Event-ID", bad);
        ask.refused(400, "HTTP_QUERY_INVALID");
    }
    daemon.get("/v1/runs/nobody/events").refused(404, "RUN_NOT_FOUND");
}

#[test]
fn a_run_under_way_is_followed_to_its_end() {
    let daemon = Daemon::usual();
    let run_id = daemon.hold();
    let mut followers: Vec<Stream> = (0..3).map(|_| stream(&daemon, &run_id, None)).collect();
    let mut begun = Vec::new();
    for follower in &mut followers {
        begun.clear();
        while begun.last().is_none_or(|event: &Event| event.kind != "TOOL_CALL_REQUESTED") {
            begun.push(follower.next().unwrap());
        }
    }
    // Who asks for what is to come waits for it.
    let seen = begun.last().unwrap().id.unwrap();
    followers.push(stream(&daemon, &run_id, Some(&seen.to_string())));
    daemon.release();
    let mut rests: Vec<Vec<Event>> = followers.into_iter().map(Stream::rest).collect();
    let rest = rests.pop().unwrap();
    assert_eq!((rest[0].id, rest[0].kind.as_str()), (Some(seen + 1), "TOOL_CALL_SUCCEEDED"));
    assert_eq!(rest.last().unwrap().kind, "end");
    assert!(rests.iter().all(|other| *other == rest));
}

#[test]
fn there_are_only_so_many_streams() {
    let daemon = Daemon::start(&format!("{ADAPTERS}\n[server]\nstreams = 2\n"), &[]);
    let run_id = daemon.hold();
    let first = stream(&daemon, &run_id, None);
    let second = stream(&daemon, &run_id, None);
    let third = daemon.get(&format!("/v1/runs/{run_id}/events"));
    third.refused(503, "OVERLOADED");
    assert_eq!(daemon.get("/v1/status").ok()["streams"], 2);
    drop(first);
    let third = until("a free place", || Stream::open(&daemon, &run_id, None).ok());
    daemon.release();
    for follower in [second, third] {
        assert_eq!(follower.rest().last().unwrap().kind, "end");
    }
    until("that no stream is left", || {
        (daemon.get("/v1/status").ok()["streams"] == 0).then_some(())
    });
}

#[test]
fn a_stream_ends_with_its_token() {
    let daemon = Daemon::usual();
    let run_id = daemon.hold();
    let mut stream = Stream::open(&daemon, &run_id, None).unwrap();
    assert_eq!(stream.next().unwrap().kind, "RUN_STARTED");
    nexus_router::access::revoke(&daemon.stage.path("data/tokens.json"), "read").unwrap();
    let rest = stream.rest();
    assert!(rest.iter().all(|event| event.kind != "end"), "{rest:?}");
    assert_eq!(daemon.get(&format!("/v1/runs/{run_id}")).ok()["status"], "RUNNING");
    daemon.release();
}
