//! Requests that no client should send. The daemon refuses each, and answers the next one.

use std::io::{Read as _, Write as _};

use nexus_router::http::ROUTES;
use serde_json::json;

use super::support::{ADAPTERS, Daemon, Stage, plan, until};

/// Returns the status of the first answer among bytes; none if there is no answer.
fn status(answer: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(answer);
    text.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()
}

#[test]
fn bodies_that_are_no_request_are_refused_with_their_code() {
    let daemon = Daemon::usual();
    let post = |body: &[u8]| daemon.ask("POST", "/v1/runs").body(body);
    let deep = "[".repeat(100_000);
    for body in [
        &b"{"[..],
        b"{\"goal\": }",
        b"{\"goal\": \"a\", \"goal\": \"b\"}",
        b"{\"goal\": \"\xff\xfe\"}",
        b"{\"goal\": \"a\0b\"}",
        b"\0",
        b"\xef\xbb\xbf{\"goal\": \"a\"}",
        b"{\"goal\": \"a\"} {\"goal\": \"b\"}",
        b"{\"goal\": \"a\", \"policy\": {\"max_steps\": NaN}}",
        b"{\"goal\": \"\\ud800\"}",
        b"",
        deep.as_bytes(),
        &[b"{\"a\":".repeat(5000), b"1".to_vec(), b"}".repeat(5000)].concat(),
    ] {
        let answer = post(body).send();
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        assert_eq!(answer.status, 400, "{shown}: {answer:?}");
        assert!(
            answer.json()["code"].as_str().unwrap().starts_with("JSON_"),
            "{shown}: {answer:?}"
        );
    }
    for (body, pointer) in [
        (json!({}), ""),
        (json!([]), ""),
        (json!("run"), ""),
        (json!(null), ""),
        (json!({ "goal": "a", "mode": "maybe" }), "/mode"),
        (json!({ "goal": "a", "plan_override": [{ "step_id": "s" }] }), "/plan_override/0"),
        (json!({ "goal": 1 }), "/goal"),
    ] {
        let problem = post(body.to_string().as_bytes()).refused(422, "REQUEST_INVALID");
        let told = problem["pointer"].as_str().unwrap_or_else(|| panic!("{problem}"));
        assert!(told.starts_with(pointer), "{problem}");
    }
    assert_eq!(daemon.get("/v1/runs").ok()["summary"]["runs_total"], 0);
    daemon.assert_alive();
}

#[test]
fn paths_methods_and_queries_that_are_not_there_are_told() {
    let daemon = Daemon::usual();
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/runs/",
        "/v2/runs",
        "/v1/runs/a/b",
        "//v1/runs",
        "/v1//runs",
        "/../etc/passwd",
        "/v1/runs/a/../../x",
    ] {
        daemon.get(path).refused(404, "NO_SUCH_ROUTE");
    }
    for route in ROUTES {
        let path = route.path.replace(['{', '}'], "x");
        let answer = daemon.ask("PATCH", &path).send();
        assert_eq!((answer.status, &answer.json()["code"]), (405, &json!("METHOD_NOT_ALLOWED")));
        let allowed = answer.header("allow").unwrap_or_else(|| panic!("{route:?}: {answer:?}"));
        assert!(
            allowed.split(',').any(|method| method.trim() == route.method),
            "{route:?}: {allowed}"
        );
        let odd = daemon.ask(route.method, &format!("{path}?surprise=1")).send();
        assert_eq!(
            (odd.status, &odd.json()["code"]),
            (400, &json!("HTTP_QUERY_INVALID")),
            "{route:?}"
        );
        assert!(odd.json()["hint"].as_str().unwrap().starts_with("this route takes "), "{route:?}");
    }
    let problem = daemon.get("/v1/runs?limits=1").refused(400, "HTTP_QUERY_INVALID");
    assert_eq!(problem["hint"], "this route takes status, since, limit, offset");
    for path in ["/v1/runs/%ff", "/v1/runs/%C3%28/events"] {
        daemon.get(path).refused(400, "HTTP_QUERY_INVALID");
    }
    for path in ["/v1/runs/%00", "/v1/runs/%2e%2e", "/v1/runs/a%2Fb", "/v1/runs/%zz"] {
        daemon.get(path).refused(404, "RUN_NOT_FOUND");
    }
    let problem = daemon.get("/v1/codes/RUN_NOT_FOUMD").refused(404, "UNKNOWN_CODE");
    assert_eq!(problem["hint"], "did you mean RUN_NOT_FOUND?");
    let known = daemon.get("/v1/codes/run_not_found").ok();
    assert_eq!(known["meanings"][0]["code"], "RUN_NOT_FOUND");
    let head = daemon.ask("HEAD", "/v1/runs").bytes();
    let answer = daemon.raw(&[&head[..head.len() - 2], b"Connection: close\r\n\r\n"].concat());
    assert_eq!(status(&answer), Some(200));
    assert!(answer.ends_with(b"\r\n\r\n"), "an answer to HEAD has no body");
    daemon.assert_alive();
}

#[test]
fn what_is_no_http_is_refused() {
    let daemon = Daemon::usual();
    let huge =
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    let many =
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(5000));
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(100_000));
    for (bytes, expected) in [
        (&b"\0\0\0\0\0\0\0\0\r\n\r\n"[..], &[400][..]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", &[400]),
        (b"hello\r\n\r\n", &[400]),
        (b"GET\r\n\r\n", &[400]),
        (b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n", &[400]),
        (b"GET /he\0althz HTTP/1.1\r\nHost: localhost\r\n\r\n", &[400]),
        (b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", &[400, 404]),
        (b"GET /healthz HTTP/1.1\r\nHost: loc\0alhost\r\n\r\n", &[400]),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nBad Header: x\r\n\r\n", &[400]),
        (b"GET /healthz HTTP/1.1\r\n folded: x\r\n\r\n", &[400]),
        (b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", &[400]),
        (b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", &[400]),
        (b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", &[400]),
        (b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", &[400]),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", &[400, 404, 405]),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", &[400, 404, 405]),
        (b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", &[403]),
        (b"GET /healthz HTTP/1.0\r\n\r\n", &[403]),
        (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", &[200]),
        (b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551615\r\n\r\n", &[400, 413, 431]),
        (huge.as_bytes(), &[431]),
        (many.as_bytes(), &[431]),
        (long.as_bytes(), &[414, 431]),
    ] {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        let status = status(&daemon.raw(bytes));
        assert!(status.is_some_and(|status| expected.contains(&status)), "{shown:?}: {status:?}");
    }
    // Whoever speaks HTTP/2 is not answered in HTTP/1.
    assert_eq!(status(&daemon.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")), None);
    daemon.assert_alive();
}

#[test]
fn chunks_that_break_off_are_told() {
    let daemon = Daemon::usual();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        daemon.token("admin")
    );
    let body = plan("echo", "t", "m").to_string();
    let (first, second) = body.split_at(10);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let good = format!("{head}{}{}0\r\n\r\n", chunk(first), chunk(second));
    assert_eq!(status(&daemon.raw(good.as_bytes())), Some(200));
    for bad in ["zz\r\n", "5\r\nabcdefgh\r\n0\r\n\r\n", "ffffffffffffffffff\r\nx"] {
        let answer = daemon.raw(format!("{head}{bad}").as_bytes());
        assert_eq!(status(&answer), Some(400), "{bad:?}: {}", String::from_utf8_lossy(&answer));
        assert!(String::from_utf8_lossy(&answer).contains("\"BODY_BROKEN\""));
    }
    daemon.assert_alive();
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let daemon = Daemon::usual();
    let mut wire = daemon.connect();
    let paths = ["/healthz", "/v1/runs", "/nothing", "/v1/adapters/echo", "/v1/runs?x=1"];
    let asks: Vec<u8> =
        paths.iter().cycle().take(200).flat_map(|path| daemon.get(path).bytes()).collect();
    let mut sending = wire.stream().try_clone().unwrap();
    let sender = std::thread::spawn(move || sending.write_all(&asks).unwrap());
    for (number, expected) in [200, 200, 404, 200, 400].into_iter().cycle().take(200).enumerate() {
        assert_eq!(wire.response().status, expected, "{number}");
    }
    sender.join().unwrap();
}

#[test]
fn slow_clients_are_not_waited_for() {
    let server = "[server]\nheader_timeout_ms = 300\nbody_timeout_ms = 300\n";
    let daemon = Daemon::start(&format!("{ADAPTERS}{server}"), &[]);
    let heads = [
        &b""[..],
        b"G",
        b"GET /healthz HTTP/1.1\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n",
    ];
    let mut wires: Vec<_> = heads.iter().map(|_| daemon.connect()).collect();
    for (wire, head) in wires.iter_mut().zip(heads) {
        wire.stream().write_all(head).unwrap();
    }
    let ask = daemon.post("/v1/runs", &plan("echo", "t", "m"));
    let whole = ask.bytes();
    let mut late: Vec<_> = [whole.len() - 1, whole.len() - 40]
        .map(|there| {
            let mut wire = daemon.connect();
            wire.stream().write_all(&whole[..there]).unwrap();
            wire
        })
        .into();
    // Others are served meanwhile.
    daemon.assert_alive();
    for wire in &mut late {
        let answer = wire.response();
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (408, &json!("BODY_TIMEOUT")),
            "{answer:?}"
        );
        assert!(wire.is_closed());
    }
    for (mut wire, head) in wires.into_iter().zip(heads) {
        let mut answer = Vec::new();
        drop(wire.stream().read_to_end(&mut answer));
        assert!(answer.is_empty() || status(&answer) == Some(408), "{head:?}: {answer:?}");
    }
    // A connection that rests between two requests is closed too.
    let mut idle = daemon.get("/healthz").begin();
    assert_eq!(idle.response().status, 200);
    assert!(idle.is_closed());
    daemon.assert_alive();
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let daemon = Daemon::start("[server]\nbody_timeout_ms = 300\n", &[]);
    let mut deaf = daemon.connect();
    deaf.stream().set_nonblocking(true).unwrap();
    let ask = daemon.get("/openapi.json").bytes().repeat(1000);
    // The daemon stops reading when it cannot write.
    until("that nothing more is taken", || deaf.stream().write_all(&ask).err());
    until("the end of the connection", || {
        (daemon.get("/v1/status").ok()["connections"] == 1).then_some(())
    });
}

#[test]
fn a_secret_that_was_sent_by_mistake_is_not_told_again() {
    let secrets = "[secrets]\nSHOP = \"file:secret\"\n";
    let stage = Stage::new(&format!("{ADAPTERS}{secrets}"));
    std::fs::write(stage.path("secret"), "correct-horse-battery").unwrap();
    let daemon = stage.start(&[]);
    for ask in [
        daemon.get("/v1/runs/correct-horse-battery"),
        daemon.get("/v1/codes/correct-horse-battery"),
        daemon.get("/v1/runs?correct-horse-battery=1"),
        daemon.post("/v1/tools/correct-horse-battery", &json!({})),
    ] {
        let answer = ask.send();
        assert!(answer.status >= 400, "{answer:?}");
        assert!(!answer.text().contains("correct-horse"), "{answer:?}");
    }
}
