//! Who may do what: every route by every token, hosts and origins, and what is recorded of refusals.

use std::collections::BTreeSet;

use nexus_router::access::{self, NewToken, Scope, Visibility};
use nexus_router::clock::{Clock, Timestamp};
use nexus_router::http::{Access, ROUTES, Route};
use nexus_router::role::Role;
use serde_json::json;

use super::support::{ADAPTERS, Daemon, Stage, until};

/// A path of a route, with something in the place of its parameters.
fn path(route: &Route) -> String {
    let part =
        |part: &str| if part.starts_with('{') { "nothing".to_owned() } else { part.to_owned() };
    route.path.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn expired(name: &str) -> NewToken {
    let expires_at = Some(Timestamp::from_millis(Clock::System.now().as_millis() - 1));
    NewToken {
        name: name.to_owned(),
        scope: Scope::Admin,
        role: None,
        sees: Visibility::Own,
        expires_at,
    }
}

#[test]
fn every_route_lets_in_whom_it_must_and_nobody_else() {
    let mut stage = Stage::new(ADAPTERS);
    stage.token_as(expired("expired"));
    stage.token("revoked", Scope::Admin);
    access::revoke(&stage.path("data/tokens.json"), "revoked").unwrap();
    let daemon = stage.start(&[]);
    let good = daemon.token("admin").to_owned();
    let wrong =
        format!("{}{}", &good[..good.len() - 1], if good.ends_with('A') { "Q" } else { "A" });
    let texts = [
        String::new(),
        "x".to_owned(),
        good[4..].to_owned(),
        wrong,
        format!("{good}{good}"),
        format!("{good}, Bearer {good}"),
    ];
    let mut refusals = 0;
    for (route, last) in ROUTES.iter().zip(2..) {
        // No address sends so much without a good token that it is refused for that.
        let ask = daemon.ask(route.method, &path(route)).by_nobody().from([127, 0, 0, last]);
        let Access::Scope(needed) = route.access else {
            // Nothing is published, and there is no contract of that name.
            let status = ask.send().status;
            assert!([200, 404].contains(&status), "{route:?} {status}");
            continue;
        };
        ask.refused(401, "TOKEN_MISSING");
        for text in &texts {
            let bearer = ask.clone().header("Authorization", &format!("Bearer {text}"));
            let code = if text.is_empty() { "TOKEN_MISSING" } else { "TOKEN_INVALID" };
            let answer = bearer.send();
            assert_eq!(answer.status, 401, "{route:?} {answer:?}");
            assert!([code, "TOKEN_INVALID"].contains(&answer.json()["code"].as_str().unwrap()));
        }
        ask.clone().header("Authorization", &good).refused(401, "TOKEN_MISSING");
        // Of two that are shown, nobody knows which is meant.
        let bearer = format!("Bearer {good}");
        let twice = ask.clone().header("Authorization", &bearer);
        twice.header("Authorization", "Bearer other").refused(401, "TOKEN_MISSING");
        let basic = ask.clone().header("Authorization", &format!("Basic {good}"));
        basic.refused(401, "TOKEN_MISSING");
        for name in ["expired", "revoked"] {
            ask.clone().by(name).refused(401, "TOKEN_INVALID");
        }
        refusals += 1 + texts.len() + 3 + 2;
        for scope in Scope::ALL {
            let answer = ask.clone().by(scope.name()).send();
            if scope.includes(needed) {
                assert!(![401, 403].contains(&answer.status), "{route:?} {scope}: {answer:?}");
            } else {
                assert_eq!(
                    (answer.status, &answer.json()["code"]),
                    (403, &json!("SCOPE_MISSING")),
                    "{route:?} {scope}"
                );
                refusals += 1;
            }
        }
        let scheme = ask.header("authorization", &format!("bEaReR   {good}")).send();
        assert!(![401, 403].contains(&scheme.status), "{route:?}: {scheme:?}");
    }
    let public: BTreeSet<&str> = ROUTES
        .iter()
        .filter(|route| route.access == Access::Public)
        .map(|route| route.path)
        .collect();
    assert_eq!(
        public,
        BTreeSet::from([
            "/.well-known/aigentsy-publisher.json",
            "/healthz",
            "/openapi.json",
            "/protocol/adapter-contracts",
            "/protocol/adapter-contracts/{adapter_id}",
            "/protocol/merkle/public-key",
            "/readyz",
            "/specs/adapter-contract.schema.json",
            "/specs/adapter-contracts.manifest.json",
        ])
    );

    let counted: f64 = ["TOKEN_MISSING", "TOKEN_INVALID", "SCOPE_MISSING"]
        .map(|code| daemon.metric(&format!("nexus_router_refused_total{{reason=\"{code}\"}}")))
        .iter()
        .sum();
    assert_eq!(counted, f64::from(u32::try_from(refusals).unwrap()));
    // A flood of the same becomes one event that says how many there were.
    let recorded = || -> u64 {
        let audit = daemon.audit();
        let refused = audit.iter().filter(|event| event["kind"] == "access.refused");
        refused.map(|event| event["payload"]["count"].as_u64().unwrap_or(1)).sum()
    };
    until("every refusal in the audit log", || (recorded() == refusals as u64).then_some(()));
    let audit = daemon.audit();
    let whys: BTreeSet<&str> =
        audit.iter().filter_map(|event| event["payload"]["why"].as_str()).collect();
    assert!(whys.len() >= 3, "{whys:?}");
    let names: BTreeSet<&str> = audit
        .iter()
        .filter(|event| event["payload"]["reason"] == "SCOPE_MISSING")
        .filter_map(|event| event["payload"]["name"].as_str())
        .collect();
    assert_eq!(names, BTreeSet::from(["apply", "read", "run"]));
    let told = format!("{audit:?}{}{}", daemon.stdout(), daemon.stderr());
    for name in ["admin", "apply", "run", "read", "expired", "revoked"] {
        let secret = &daemon.token(name)[17..];
        assert!(!told.contains(secret), "the text of token {name} was told");
    }
}

#[test]
fn a_role_takes_the_administration_away() {
    let mut stage =
        Stage::new(&format!("{ADAPTERS}[[tokens]]\nname = \"configured\"\nrole = \"envoy\"\n"));
    stage.token("configured", Scope::Admin);
    let role = Some(Role::Scout);
    let name = "made".to_owned();
    stage.token_as(NewToken {
        name,
        scope: Scope::Admin,
        role,
        sees: Visibility::Own,
        expires_at: None,
    });
    let daemon = stage.start(&[]);
    for name in ["configured", "made"] {
        daemon.ask("POST", "/v1/reload").by(name).refused(403, "SCOPE_MISSING");
        let you = daemon.get("/v1/status").by(name).ok();
        assert_eq!(you["you"]["scope"], json!("apply"));
    }
    assert_eq!(daemon.ask("POST", "/v1/reload").by("admin").send().status, 200);
}

#[test]
fn tokens_come_and_go_while_the_daemon_runs() {
    let mut daemon = Daemon::usual();
    let status = |daemon: &Daemon, name: &str| daemon.get("/v1/runs").by(name).send().status;
    assert_eq!(status(&daemon, "read"), 200);
    access::revoke(&daemon.stage.path("data/tokens.json"), "read").unwrap();
    until("the end of the token", || (status(&daemon, "read") == 401).then_some(()));
    daemon.stage.token("late", Scope::Read);
    until("the new token", || (status(&daemon, "late") == 200).then_some(()));
    assert_eq!(status(&daemon, "admin"), 200);
    let audit = until("the audit log", || {
        let audit = daemon.audit();
        let changes = audit.iter().filter(|event| event["kind"] == "tokens.changed").count();
        (changes == 2).then_some(audit)
    });
    let counts: Vec<_> =
        audit.iter().filter_map(|event| event["payload"]["tokens"].as_u64()).collect();
    assert_eq!(counts, [3, 4]);
    let lists: Vec<_> = audit
        .iter()
        .filter(|event| event["kind"] == "tokens.changed")
        .map(|event| (&event["payload"]["added"], &event["payload"]["removed"]))
        .collect();
    assert_eq!(lists, [(&json!([]), &json!(["read"])), (&json!(["late"]), &json!([]))]);
}

#[test]
fn a_bad_file_of_tokens_is_told_once() {
    let mut daemon = Daemon::usual();
    let file = daemon.stage.path("data/tokens.json");
    let good = std::fs::read(&file).unwrap();
    for round in 1..=2 {
        std::fs::write(&file, "{").unwrap();
        daemon.audited(|event| event["kind"] == "tokens.refused");
        // The configuration is looked at after the tokens, and rests for one look before it is read.
        daemon.stage.configure(&format!("{ADAPTERS}# {round}\n"));
        until("the reload", || {
            let audit = daemon.audit();
            let reloads = audit.iter().filter(|event| event["kind"] == "config.reloaded").count();
            (reloads == round).then_some(())
        });
        assert_eq!(daemon.get("/v1/runs").by("read").send().status, 200);
        std::fs::write(&file, &good).unwrap();
        until("the good file", || {
            (daemon.stderr().matches("can be read again").count() == round).then_some(())
        });
        let told = daemon.stderr().matches("the tokens cannot be read").count();
        assert_eq!(told, round, "{}", daemon.stderr());
    }
    let refused = daemon.audit().iter().filter(|event| event["kind"] == "tokens.refused").count();
    assert_eq!(refused, 2);
    daemon.stage.token("late", Scope::Read);
    daemon.audited(|event| event["payload"]["added"] == json!(["late"]));
}

#[test]
fn the_first_start_makes_a_token_and_shows_it_to_nobody() {
    let stage = Stage::bare(ADAPTERS);
    let daemon = stage.start(&[]);
    let text = std::fs::read_to_string(daemon.stage.path("data/admin.token")).unwrap();
    let bearer = format!("Bearer {}", text.trim());
    let you = daemon.get("/v1/status").by_nobody().header("Authorization", &bearer).ok();
    assert_eq!((&you["you"]["name"], &you["you"]["scope"]), (&json!("admin"), &json!("admin")));
    // The last line of the greeting is an example of a run.
    let greeting = until("the greeting", || {
        Some(daemon.stdout()).filter(|text| text.contains("-d '{\"goal\""))
    });
    assert!(greeting.contains("data/admin.token"), "{greeting}");
    let told = format!("{greeting}{}", daemon.stderr());
    assert!(!told.contains(&text.trim()[17..]), "{told}");
}

#[test]
fn a_dead_token_is_not_offered() {
    let mut stage = Stage::new(ADAPTERS);
    let file = stage.path("data/admin.token");
    // What is left from a token that the book does not know.
    std::fs::write(&file, "nxr_0123456789ab_left\n").unwrap();
    let mut revoke = stage.program();
    let run = revoke.args(["token", "revoke", "read", "--data-dir", "data"]).output().unwrap();
    assert!(run.status.success() && file.exists(), "{run:?}");
    // What is left from a token that is revoked goes with it.
    stage.token("gone", Scope::Admin);
    let daemon = stage.start(&[]);
    let greeting = until("the greeting", || {
        Some(daemon.stdout()).filter(|text| text.contains("-d '{\"goal\""))
    });
    assert!(!greeting.contains("admin.token"), "{greeting}");
    assert!(greeting.contains("TOKEN=$(nexus-router token new me --scope apply)"), "{greeting}");
    std::fs::write(&file, format!("{}\n", daemon.token("gone"))).unwrap();
    let mut revoke = daemon.stage.program();
    let run = revoke.args(["token", "revoke", "gone", "--data-dir", "data"]).output().unwrap();
    assert!(run.status.success() && !file.exists(), "{run:?}");
}

#[test]
fn only_known_hosts_and_origins_are_let_in() {
    let server = "[server]\nallowed_hosts = [\"router.example.com\"]\n\
                  allowed_origins = [\"https://console.example.com\"]\n";
    for arguments in [&[][..], &["--no-tokens"]] {
        let daemon = Daemon::start(server, arguments);
        let port = daemon.address.port();
        let own = format!("127.0.0.1:{port}");
        for path in ["/healthz", "/readyz", "/openapi.json", "/v1/runs", "/metrics"] {
            let ask = || daemon.get(path);
            for host in [
                &*format!("localhost:{port}"),
                "localhost",
                "127.0.0.1",
                "[::1]",
                "192.0.2.1",
                "router.example.com",
                "ROUTER.example.com:80",
            ] {
                assert_eq!(ask().header("Host", host).send().status, 200, "{path} {host}");
            }
            for host in [
                "evil.com",
                "localhost.evil.com",
                "example.com",
                "sub.router.example.com",
                "127.0.0.1.nip.io",
                "",
            ] {
                ask().header("Host", host).refused(403, "HOST_REFUSED");
            }
            for origin in [&*format!("http://{own}"), "https://console.example.com"] {
                assert_eq!(ask().header("Origin", origin).send().status, 200, "{path} {origin}");
            }
            for origin in [
                "http://evil.com",
                "null",
                "http://console.example.com",
                "http://localhost",
                "https://console.example.com.evil.com",
            ] {
                ask().header("Origin", origin).refused(403, "ORIGIN_REFUSED");
            }
            let twice = ask().header("Host", &own).header("Host", "evil.com").send();
            assert!([400, 403].contains(&twice.status), "{twice:?}");
        }
        // What there is not is no secret, but strangers are not told.
        for ask in [daemon.get("/nothing"), daemon.ask("DELETE", "/healthz")] {
            ask.header("Host", "evil.com").refused(403, "HOST_REFUSED");
        }
        assert!(daemon.metric("nexus_router_refused_total{reason=\"HOST_REFUSED\"}") >= 30.0);
        daemon.audited(|event| event["payload"]["reason"] == "ORIGIN_REFUSED");
    }
}

#[test]
fn without_tokens_everybody_is_the_administrator() {
    let daemon = Stage::bare(ADAPTERS).start(&["--no-tokens"]);
    let you = daemon.get("/v1/status").by_nobody().ok();
    assert_eq!(you["you"], json!({ "name": "local", "scope": "admin", "sees": "all" }));
    for route in ROUTES {
        let status = daemon.ask(route.method, &path(route)).by_nobody().send().status;
        assert!(![401, 403].contains(&status), "{route:?}: {status}");
    }
    assert!(!daemon.stage.path("data/tokens.json").exists());
    assert!(daemon.stdout().contains("(no token is asked for)"));
}
