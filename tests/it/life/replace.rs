//! Libraries that are replaced while the daemon runs: by others, by nothing, by garbage, and under load.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_router::app::{App, Named};
use nexus_router::config::{ConfigFile, Environment};
use rustix::process::Signal;
use serde_json::json;

use super::client::Client;
use super::daemon::{Daemon, until};
use super::support::{Home, audited, call_until, quick, reload};
use crate::support::{PROGRAM, built_library};

/// A home with an adapter of a library that can be replaced, and one of another library; both in workers.
fn home() -> Home {
    let entry = |id: &str, file: &str| {
        format!("[[adapters]]\nid = '{id}'\nref = '{file}:create_adapter'\n")
    };
    let home = Home::new(&(entry("turns", "swap") + &entry("kept", "other")));
    for file in ["libswap.so", "libother.so"] {
        std::fs::copy(built_library("nexus_router_adapter_echo"), plugin(&home, file)).unwrap();
    }
    home
}

fn plugin(home: &Home, file: &str) -> PathBuf {
    home.path("plugins").join(file)
}

/// Puts the library there, as a whole, with so many bytes at its end: another digest, and it still loads.
fn replace(home: &Home, more: usize) {
    let next = plugin(home, "next");
    std::fs::copy(built_library("nexus_router_adapter_echo"), &next).unwrap();
    OpenOptions::new().append(true).open(&next).unwrap().write_all(&vec![0; more]).unwrap();
    std::fs::rename(next, plugin(home, "libswap.so")).unwrap();
}

fn shown(client: &mut Client, id: &str, key: &str) -> serde_json::Value {
    client.get(&format!("/v1/adapters/{id}")).unwrap().json()[key].clone()
}

/// Returns the processes of a daemon, each with its state.
fn children(daemon: &Daemon) -> Vec<(u32, char)> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stat = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name stands in parentheses, and may hold anything.
        let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, parent) = (rest.next()?.chars().next()?, rest.next()?.parse::<u32>().ok()?);
        (parent == daemon.id()).then_some((id, state))
    };
    ids.filter_map(stat).collect()
}

#[test]
fn a_library_that_changes_is_taken_up_by_itself() {
    let home = home();
    let daemon = home.start();
    let mut client = daemon.client();
    for id in ["turns", "kept"] {
        assert_eq!(quick(&mut client, id), "COMPLETED");
    }
    let [former, other] = ["turns", "kept"].map(|id| shown(&mut client, id, "library"));
    let kept: Vec<_> = children(&daemon);
    // The daemon itself never opened it; its worker did, from the copy that is named by the digest.
    let maps = |id: u32| std::fs::read_to_string(format!("/proc/{id}/maps")).unwrap_or_default();
    let opened = |id: u32| maps(id).contains(former.as_str().unwrap());
    assert!(
        !opened(daemon.id()) && kept.iter().any(|(id, _)| opened(*id)),
        "{}",
        maps(daemon.id())
    );
    replace(&home, 64);
    until("the new library", || (shown(&mut client, "turns", "library") != former).then_some(()));
    audited(&mut client, "config.reloaded", 1);
    let audit = client.get("/v1/audit").unwrap().text();
    assert!(
        audit.contains("\"a library changed\"") && audit.contains("\"replaced\":[\"turns\"]"),
        "{audit}"
    );
    assert_eq!(shown(&mut client, "kept", "library"), other);
    assert_eq!(quick(&mut client, "turns"), "COMPLETED");
    // The worker of the other one is the same still; the former one of this is gone.
    until("two workers, one of them the same", || {
        let now = children(&daemon);
        (now.len() == 2
            && now.iter().filter(|one| kept.iter().any(|kept| kept.0 == one.0)).count() == 1)
            .then_some(())
    });
}

#[test]
fn a_library_that_is_gone_or_broken_changes_nothing_and_is_told_once() {
    let home = home();
    let daemon = home.start();
    let mut client = daemon.client();
    let former = shown(&mut client, "turns", "library");
    let told = |what: &str| daemon.log().matches(what).count();
    let (gone, refused) = ("the library is gone", "the new library is refused");
    // The same bytes in another file are no change.
    replace(&home, 0);
    std::fs::remove_file(plugin(&home, "libswap.so")).unwrap();
    until("the loss to be told", || (told(gone) == 1).then_some(()));
    assert_eq!(quick(&mut client, "turns"), "COMPLETED");
    std::fs::write(plugin(&home, "libswap.so"), "no library").unwrap();
    until("the refusal to be told", || (told(refused) == 1).then_some(()));
    assert_eq!(quick(&mut client, "turns"), "COMPLETED");
    assert_eq!(shown(&mut client, "turns", "library"), former);
    assert!(!client.get("/v1/audit").unwrap().text().contains("a library changed"));
    replace(&home, 32);
    until("the new library", || (shown(&mut client, "turns", "library") != former).then_some(()));
    assert_eq!(quick(&mut client, "turns"), "COMPLETED");
    assert_eq!((told(gone), told(refused)), (1, 1), "{}", daemon.log());
}

/// How often the library is replaced: a few times here, and as often as the heavy run says.
fn replacements() -> usize {
    let said = std::env::var("NEXUS_ROUTER_REPLACEMENTS").ok();
    said.map_or(10, |said| said.parse().unwrap())
}

#[test]
fn replacements_under_load_cost_no_call_and_leave_nothing_behind() {
    let home = home();
    let daemon = home.start();
    let mut client = daemon.client();
    // Each of the variants once: what was examined is remembered.
    const VARIANTS: usize = 4;
    for more in 1..=VARIANTS {
        replace(&home, more);
        assert_eq!(reload(&mut client)["replaced"], json!(["turns"]));
        assert_eq!(quick(&mut client, "turns"), "COMPLETED");
    }
    assert_eq!(quick(&mut client, "kept"), "COMPLETED");
    let settled = || until("one worker each", || (children(&daemon).len() == 2).then_some(()));
    settled();
    let worker = shown(&mut client, "kept", "restarts");
    client.break_off();
    let before = daemon.holding_alone();
    let over = AtomicBool::new(false);
    let runs = std::thread::scope(|scope| {
        let load = |id: &'static str| {
            let (mut client, over) = (daemon.client(), &over);
            scope.spawn(move || call_until(over, &mut client, id))
        };
        let loads = ["kept", "turns", "turns"].map(load);
        for index in 0..replacements() {
            replace(&home, 1 + index % VARIANTS);
            // The watch may have been faster.
            let told = reload(&mut client);
            assert!(told["removed"] == json!([]) && told["added"] == json!([]), "{told}");
        }
        over.store(true, Ordering::Relaxed);
        loads.map(|load| load.join().unwrap())
    });
    assert!(runs.iter().all(|runs| *runs > 0), "{runs:?}");
    settled();
    assert!(children(&daemon).iter().all(|(_, state)| *state != 'Z'), "{:?}", children(&daemon));
    assert_eq!(shown(&mut client, "kept", "restarts"), worker);
    client.break_off();
    // Those of a worker are closed a moment after its end.
    let after = until("the descriptors to be closed", || {
        let after = daemon.holding_alone();
        (after.descriptors <= before.descriptors).then_some(after)
    });
    let grown = after.resident.saturating_sub(before.resident);
    assert!(grown < 64 * 1024 * 1024, "{before:?} {after:?}");
    let processes = children(&daemon);
    daemon.signal(Signal::TERM);
    assert!(daemon.ended().success());
    for (id, _) in processes {
        until("the end of the workers", || {
            (!PathBuf::from(format!("/proc/{id}")).exists()).then_some(())
        });
    }
}

#[test]
fn a_discovered_adapter_stays_when_its_library_breaks_and_goes_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let (plugins, cache) = (directory.path().join("plugins"), directory.path().join("cache"));
    std::fs::create_dir(&plugins).unwrap();
    let library = plugins.join("libswap.so");
    std::fs::copy(built_library("nexus_router_adapter_echo"), &library).unwrap();
    let environment = Environment {
        adapter_path: vec![plugins],
        cache_dir: cache,
        helper: Some(PROGRAM.into()),
        ..Environment::default()
    };
    let config = || ConfigFile { discover: true, ..ConfigFile::default() };
    let app = App::new(&environment, config(), Named::default());
    let loaded = app.registry().unwrap().get("echo").unwrap().clone();
    let again = || app.put_in_force(app.prepare(config()).unwrap()).unwrap();
    std::fs::write(&library, "no library").unwrap();
    assert_eq!(again().kept, ["echo"]);
    assert_eq!(app.passed_over().unwrap().len(), 1);
    assert!(app.registry().unwrap().get("echo").unwrap().is_same_instance(&loaded));
    std::fs::remove_file(&library).unwrap();
    assert_eq!(again().removed, ["echo"]);
}
