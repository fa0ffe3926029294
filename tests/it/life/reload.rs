//! Good new configurations: what changes, what stays, and what goes on as it began.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use serde_json::json;

use super::daemon::until;
use super::support::{Home, audited, call_until, quick, reload, request};
use crate::support::built_library;

#[test]
fn adapters_come_and_go_while_a_run_is_under_way() {
    let home = Home::new("");
    let kept = home.fake("kept", "");
    let former = [&kept, &home.fake("held", "note = 1"), &home.fake("gone", "")];
    home.configure(&former.map(String::as_str).concat());
    let daemon = home.start();
    let mut client = daemon.client();
    let held = home.hold(&daemon, "held");
    let later = [&kept, &home.fake("held", "note = 2"), &home.fake("new", "")];
    home.configure(&later.map(String::as_str).concat());
    let expected = json!({ "added": ["new"], "removed": ["gone"], "replaced": ["held"],
        "kept": ["kept"], "needs_restart": [] });
    assert_eq!(reload(&mut client), expected);
    for id in ["kept", "held", "new"] {
        assert_eq!(quick(&mut client, id), "COMPLETED");
    }
    let gone = client.post("/v1/runs", &request("gone", "quick")).unwrap().json();
    assert_eq!(gone["error"]["code"], "UNKNOWN_ADAPTER", "{gone}");
    let made = ["kept", "held", "new"].map(|id| home.lives(&daemon, "made", id));
    assert_eq!(made, [1, 2, 1]);
    // The run keeps to what it began with: also the adapters that it does not use.
    let ended = ["kept", "held", "gone"].map(|id| home.lives(&daemon, "shut down", id));
    assert_eq!(ended, [0, 0, 0]);
    let answer = held.release().json();
    assert_eq!(answer["status"], "COMPLETED", "{answer}");
    for id in ["held", "gone"] {
        until("the old adapters to be shut down", || {
            (home.lives(&daemon, "shut down", id) == 1).then_some(())
        });
    }
    // What did not change is the same instance still, also after another reload.
    assert_eq!(reload(&mut client)["kept"], json!(["kept", "held", "new"]));
    assert_eq!(home.lives(&daemon, "made", "kept"), 1);
    daemon.signal(Signal::TERM);
    let id = daemon.id();
    assert!(daemon.ended().success());
    let told = std::fs::read_to_string(home.path("life")).unwrap();
    let ended = |adapter: &str| told.matches(&format!("shut down {adapter} {id}\n")).count();
    assert_eq!(["kept", "held", "new", "gone"].map(ended), [1, 2, 1, 1]);
}

#[test]
fn library_with_other_bytes_takes_the_place_of_the_former() {
    let home = Home::new("");
    let library = home.path("plugins/libswap.so");
    std::fs::copy(built_library("probe_adapters"), &library).unwrap();
    home.configure(&home.fake_of("swap:fake", "held", ""));
    let daemon = home.start();
    let mut client = daemon.client();
    let held = home.hold(&daemon, "held");
    let digest = |client: &mut super::client::Client| {
        client.get("/v1/adapters/held").unwrap().json()["library"].as_str().unwrap().to_owned()
    };
    let former = digest(&mut client);
    let next = home.path("plugins/next");
    std::fs::copy(&library, &next).unwrap();
    OpenOptions::new().append(true).open(&next).unwrap().write_all(&[0; 64]).unwrap();
    std::fs::rename(next, library).unwrap();
    daemon.signal(Signal::HUP);
    audited(&mut client, "config.reloaded", 1);
    assert!(client.get("/v1/audit").unwrap().text().contains("\"replaced\":[\"held\"]"));
    assert_ne!(digest(&mut client), former);
    assert_eq!(quick(&mut client, "held"), "COMPLETED");
    assert_eq!(home.lives(&daemon, "made", "held"), 2);
    assert_eq!(held.release().json()["status"], "COMPLETED");
}

#[test]
fn tools_policy_limits_and_levels_take_effect() {
    let home = Home::new("");
    let base = home.fake("held", "");
    home.configure(&base);
    let daemon = home.start();
    let mut client = daemon.client();
    let tool = "[[tools]]\nname = \"greet\"\ndescription = \"Greets.\"\nadapter = \"held\"\n\
                tool = \"t\"\nmethod = \"quick\"\n";
    assert_eq!(client.post("/v1/tools/greet", &json!({})).unwrap().status, 404);
    home.configure(&format!("{base}{tool}[log]\nlevel = \"debug\"\n"));
    reload(&mut client);
    assert_eq!(client.post("/v1/tools/greet", &json!({})).unwrap().status, 200);
    assert_eq!(client.get("/v1/log").unwrap().json()["level"], "debug");
    home.configure(&format!(
        "{base}{tool}[[policy.rules]]\neffect = \"deny\"\nmethod = \"qui*\"\n"
    ));
    reload(&mut client);
    let denied = client.post("/v1/tools/greet", &json!({})).unwrap().json();
    assert_eq!(denied["status"], "FAILED", "{denied}");
    assert_eq!(client.get("/v1/log").unwrap().json()["level"], "info");
    // Fewer than there are: those go on, and no other is taken.
    home.configure(&base);
    reload(&mut client);
    let held = [home.hold(&daemon, "held"), home.hold(&daemon, "held")];
    let status = |client: &mut super::client::Client| {
        let status = client.get("/v1/status").unwrap().json();
        [&status["runs_in_flight"], &status["runs_limit"]].map(|value| value.as_u64().unwrap())
    };
    for (limit, taken) in [(1, false), (2, false), (3, true), (1, false)] {
        home.configure(&format!("{base}[limits]\nruns_in_flight = {limit}\n"));
        reload(&mut client);
        assert_eq!(status(&mut client), [2, limit]);
        let answer = client.post("/v1/runs", &request("held", "quick")).unwrap();
        assert_eq!(answer.status == 200, taken, "{limit}: {}", answer.text());
        assert_eq!(answer.header("retry-after").is_some(), !taken);
    }
    for held in held {
        assert_eq!(held.release().json()["status"], "COMPLETED");
    }
    until("the end of both", || (status(&mut client)[0] == 0).then_some(()));
    assert_eq!(quick(&mut client, "held"), "COMPLETED");
}

#[test]
fn rates_of_tokens_take_effect() {
    let listener = "[[listeners]]\naddress = \"127.0.0.1:0\"\n";
    let home = Home::new(listener);
    let daemon = home.start();
    let mut client = daemon.administrator();
    assert_eq!(client.get("/v1/status").unwrap().status, 200);
    home.configure(&format!("{listener}[server]\nrequests_per_second = 1\nburst = 1\n"));
    daemon.signal(Signal::HUP);
    let refused = until("too many requests", || {
        let answer = client.get("/v1/status").unwrap();
        (answer.status == 429).then_some(answer)
    });
    assert!(refused.header("retry-after").is_some());
    home.configure(&format!("{listener}[server]\nrequests_per_second = 0\n"));
    daemon.signal(Signal::HUP);
    until("no limit", || {
        (0..20).all(|_| client.get("/v1/status").unwrap().status == 200).then_some(())
    });
}

#[test]
fn what_needs_a_restart_is_named() {
    let home = Home::new("");
    let daemon = home.start();
    let mut client = daemon.client();
    assert_eq!(reload(&mut client)["needs_restart"], json!([]));
    home.configure(
        "db = \"other.db\"\ndata_dir = \"elsewhere\"\n[[listeners]]\naddress = \"127.0.0.1:1\"\n\
         [server]\nmemory_bytes = 70000000\n[log]\nformat = \"json\"\n\
         [telemetry]\nservice_name = \"other\"\n",
    );
    let named = ["data_dir", "db", "listeners", "server.memory_bytes", "log.format", "telemetry"];
    assert_eq!(reload(&mut client)["needs_restart"], json!(named));
    assert_eq!(client.get("/readyz").unwrap().status, 200);
}

#[test]
fn fifty_reloads_under_load_cost_nothing() {
    const RELOADS: usize = 50;
    let home = Home::new("");
    let base = home.fake("kept", "");
    let configs =
        [1, 2].map(|note| format!("{base}{}", home.fake("turns", &format!("note = {note}"))));
    home.configure(&configs[0]);
    let daemon = home.start();
    let mut client = daemon.client();
    // Each of them once: what was examined is remembered.
    for config in configs.iter().rev() {
        home.configure(config);
        reload(&mut client);
    }
    client.break_off();
    let before = daemon.holding_alone();
    let over = AtomicBool::new(false);
    let runs = std::thread::scope(|scope| {
        let load = |id: &'static str| {
            let (mut client, over) = (daemon.client(), &over);
            scope.spawn(move || call_until(over, &mut client, id))
        };
        let loads = ["kept", "turns", "kept", "turns"].map(load);
        for index in 0..RELOADS {
            home.configure(&configs[(index + 1) % 2]);
            assert_eq!(reload(&mut client)["replaced"], json!(["turns"]));
        }
        over.store(true, Ordering::Relaxed);
        loads.map(|load| load.join().unwrap()).iter().sum::<usize>()
    });
    assert!(runs > 0);
    assert_eq!(home.lives(&daemon, "made", "kept"), 1);
    let made = home.lives(&daemon, "made", "turns");
    assert_eq!(made, RELOADS + 3);
    until("all but one to be shut down", || {
        (home.lives(&daemon, "shut down", "turns") == made - 1).then_some(())
    });
    client.break_off();
    // The daemon closes the descriptor of a connection a moment after the connection ended.
    let after = until("the descriptors to be closed", || {
        let after = daemon.holding_alone();
        (after.descriptors <= before.descriptors).then_some(after)
    });
    let grown = after.resident.saturating_sub(before.resident);
    assert!(grown < 64 * 1024 * 1024, "{before:?} {after:?}");
}
