//! Files of the store that are removed, replaced or moved under a running daemon.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_router::store::Store;
use serde_json::{Value, json};

use super::support::{ADAPTERS, Daemon, Stage, plan, until};
use crate::mcp::support::{Session, able, answer, modern};

/// Clients that send runs at once.
const CLIENTS: usize = 4;
/// Runs that are acknowledged before the accident.
const BEFORE: usize = 30;
/// How often each accident happens.
const REPEATED: usize = 3;

/// Adapters, one of which leaves a trace of each call, and one whose calls wait for a person.
fn stage() -> Stage {
    let stage = Stage::new("");
    let traces = stage.path("traces").display().to_string();
    let config = format!(
        "{ADAPTERS}\n[[adapters]]\nref = \"probe_adapters:fake\"\nid = \"shop\"\nisolation = \"inline\"\n\
         offer = {{ tools = [\"*\"] }}\n\
         config = {{ capabilities = [\"apply\", \"external\"], traces = \"{traces}\" }}\n\
         [[tools]]\nname = \"buy\"\ndescription = \"Buys.\"\nadapter = \"shop\"\ntool = \"t\"\nmethod = \"m\"\n\
         [[policy.rules]]\neffect = \"approve\"\ntool = \"risk\"\n\
         [server]\nrequests_per_second = 0\n"
    );
    stage.configure(&config);
    stage
}

fn calls(daemon: &Daemon) -> usize {
    std::fs::read_to_string(daemon.stage.path("traces")).map_or(0, |text| text.lines().count())
}

/// Sends runs from several clients until the daemon refuses them. Returns the runs that it acknowledged.
fn load_until_refused(daemon: &Daemon, accident: impl FnOnce()) -> Vec<String> {
    let (acknowledged, refused) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (acknowledged, refused) = (&acknowledged, &refused);
            scope.spawn(move || {
                let adapter = if client % 2 == 0 { "shop" } else { "echo" };
                while !refused.load(Ordering::Relaxed) {
                    let response = daemon.post("/v1/runs", &plan(adapter, "t", "m")).send();
                    match response.status {
                        200 => acknowledged.lock().unwrap().push(response.run_id()),
                        // The tokens were moved along.
                        401 if !daemon.stage.path("data").exists() => {
                            refused.store(true, Ordering::Relaxed);
                        }
                        _ => {
                            assert_eq!(response.json()["code"], "STORE_DISPLACED", "{response:?}");
                            refused.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        until("runs before the accident", || {
            (acknowledged.lock().unwrap().len() >= BEFORE).then_some(())
        });
        accident();
        until("the refusal", || refused.load(Ordering::Relaxed).then_some(()));
    });
    acknowledged.into_inner().unwrap()
}

/// Waits until the daemon saved what it acknowledged.
fn wait_until_safe(daemon: &Daemon) -> Value {
    until("what was acknowledged is safe", || {
        let status = daemon.get("/v1/status").ok();
        (status["store"]["rescue"] != "pending").then(|| status["store"].clone())
    })
}

/// Everything that was acknowledged is in the store of the next daemon, which is sound.
fn assert_kept(mut daemon: Daemon, acknowledged: &[String], before_restart: impl FnOnce(&Daemon)) {
    daemon.kill();
    before_restart(&daemon);
    let again = daemon.again();
    for run_id in acknowledged {
        let run = again.get(&format!("/v1/runs/{run_id}")).ok();
        assert_eq!(run["status"], "COMPLETED", "{run}");
    }
    again.assert_alive();
    let store = Store::open_read_only(&again.stage.path("data/runs.db")).unwrap();
    assert_eq!(store.check(|_, _| ()).unwrap().findings, []);
}

fn remove(daemon: &Daemon, name: &str) {
    std::fs::remove_file(daemon.stage.path("data").join(name)).unwrap();
}

#[test]
fn removed_log_costs_nothing_that_was_acknowledged() {
    for _ in 0..REPEATED {
        let daemon = stage().start(&[]);
        let acknowledged = load_until_refused(&daemon, || remove(&daemon, "runs.db-wal"));
        let told = wait_until_safe(&daemon);
        assert_eq!((&told["displaced"], &told["rescue"]), (&json!("removed"), &json!("in_place")));
        assert_kept(daemon, &acknowledged, |_| ());
    }
}

#[test]
fn removed_store_costs_nothing_that_was_acknowledged() {
    for all in [false, true, true] {
        let daemon = stage().start(&[]);
        let acknowledged = load_until_refused(&daemon, || {
            remove(&daemon, "runs.db");
            if all {
                remove(&daemon, "runs.db-wal");
                remove(&daemon, "runs.db-shm");
            }
        });
        let told = wait_until_safe(&daemon);
        assert_eq!(told["rescue"], "copied", "{told}");
        assert!(told["copy"].as_str().unwrap().ends_with("/data/runs.db"), "{told}");
        assert_kept(daemon, &acknowledged, |_| ());
    }
}

#[test]
fn renamed_directory_costs_nothing_that_was_acknowledged() {
    for killed in [true, false, true] {
        let daemon = stage().start(&[]);
        let (data, aside) = (daemon.stage.path("data"), daemon.stage.path("aside"));
        let acknowledged = load_until_refused(&daemon, || std::fs::rename(&data, &aside).unwrap());
        // Without the tokens, only the log says so.
        until("what was acknowledged is safe", || {
            let moved = aside.join("runs.db");
            let safe = format!("everything that was acknowledged is in {}", moved.display());
            daemon.stderr().contains(&safe).then_some(())
        });
        let put_back = || {
            // Nothing was made in the place of what was moved.
            let made = std::process::Command::new("find").arg(&data).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&made.stdout), "");
            std::fs::rename(&aside, &data).unwrap();
        };
        if killed {
            assert_kept(daemon, &acknowledged, |_| put_back());
        } else {
            // The files are back, and the daemon goes on.
            put_back();
            until("it is ready again", || {
                let statuses = ["/readyz", "/v1/status"].map(|path| daemon.get(path).send().status);
                (statuses == [200, 200]).then_some(())
            });
            daemon.assert_alive();
            assert_kept(daemon, &acknowledged, |_| ());
        }
    }
}

#[test]
fn displaced_store_refuses_runs_on_every_path_before_any_call() {
    let daemon = stage().start(&[]);
    let held = daemon.post("/v1/runs", &plan("shop", "risk", "m")).send().json();
    let approval_id = held["waiting"]["approval_id"].as_str().unwrap().to_owned();
    let known = daemon.post("/v1/runs", &plan("shop", "t", "m")).send().run_id();
    let session = Session::open(&daemon, "admin");
    let before = calls(&daemon);
    remove(&daemon, "runs.db-wal");
    let directory = daemon.stage.path("data").display().to_string();
    let refused = |path: &str, body: &Value| {
        let problem = daemon.post(path, body).refused(503, "STORE_DISPLACED");
        assert!(!problem.to_string().contains(&directory), "it shows a directory: {problem}");
        assert!(
            problem["detail"].as_str().unwrap().contains("runs.db-wal was removed"),
            "{problem}"
        );
        assert!(problem["hint"].as_str().unwrap().contains("restart the daemon"), "{problem}");
    };
    for adapter in ["shop", "echo"] {
        refused("/v1/runs", &plan(adapter, "t", "m"));
        refused("/v1/runs?wait=false", &plan(adapter, "t", "m"));
        let mut dry = plan(adapter, "t", "m");
        dry["mode"] = "dry_run".into();
        refused("/v1/runs", &dry);
    }
    refused("/v1/tools/buy", &json!({}));
    refused(&format!("/v1/approvals/{approval_id}/approve"), &json!({}));
    let call = json!({ "name": "buy", "arguments": {} });
    let told = [
        answer(&session.ask("tools/call", &call)),
        answer(&modern(&daemon, "tools/call", call.clone(), &json!({}))),
        answer(&modern(&daemon, "tools/call", call, &able())),
    ];
    for told in told {
        assert_eq!(told["error"]["data"]["code"], "STORE_DISPLACED", "{told}");
        assert!(!told.to_string().contains(&directory), "it shows a directory: {told}");
    }
    assert_eq!(calls(&daemon), before, "nothing was called");

    // It says so everywhere, and what is there can be read.
    let problem = daemon.get("/readyz").refused(503, "NOT_READY");
    assert!(problem["detail"].as_str().unwrap().starts_with("STORE_DISPLACED"), "{problem}");
    assert_eq!(daemon.metric("nexus_router_store_displaced"), 1.0);
    assert_eq!(daemon.metric("nexus_router_ready"), 0.0);
    assert_eq!(daemon.get(&format!("/v1/runs/{known}")).ok()["status"], "COMPLETED");
    assert_eq!(daemon.get("/v1/runs").ok()["summary"]["runs_total"], 2);
    until("the log line", || daemon.stderr().contains("STORE_DISPLACED").then_some(()));
    let told = wait_until_safe(&daemon);
    assert!(told["file"].as_str().unwrap().ends_with("runs.db-wal"), "{told}");
    let others = daemon.get("/v1/status").by("read").ok();
    assert!(others["store"]["file"].is_null(), "paths are for administrators: {others}");

    // The approval is still open for the next daemon.
    drop(session);
    let mut daemon = daemon;
    daemon.kill();
    let again = daemon.again();
    again.post(&format!("/v1/approvals/{approval_id}/approve"), &json!({})).ok();
    until("the approved call", || (calls(&again) == before + 1).then_some(()));
    again.audited(|event| event["kind"] == "store.displaced");
}

#[test]
fn replaced_store_is_refused_and_kept_apart() {
    let daemon = stage().start(&[]);
    let known = daemon.post("/v1/runs", &plan("shop", "t", "m")).send().run_id();
    let replacement = daemon.stage.path("other.db");
    drop(Store::open(&replacement).unwrap());
    std::fs::rename(&replacement, daemon.stage.path("data/runs.db")).unwrap();
    daemon.post("/v1/runs", &plan("shop", "t", "m")).refused(503, "STORE_DISPLACED");
    let told = wait_until_safe(&daemon);
    let copy = told["copy"].as_str().unwrap_or_else(|| panic!("{told}"));
    assert!(copy.contains("runs.db.rescued-"), "{told}");
    let refused = daemon.post("/v1/runs", &plan("shop", "t", "m")).by("apply");
    let hint = refused.refused(503, "STORE_DISPLACED")["hint"].as_str().unwrap().to_owned();
    let name = Path::new(copy).file_name().unwrap().to_str().unwrap();
    assert!(hint.contains(name) && !hint.contains(copy), "{hint}");
    let store = Store::open_read_only(Path::new(copy)).unwrap();
    assert!(store.find(&known).unwrap().is_some());
    drop(store);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(copy).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn link_in_place_of_the_store_costs_nothing() {
    let daemon = stage().start(&[]);
    let (store, aside) = (daemon.stage.path("data/runs.db"), daemon.stage.path("data/real.db"));
    let acknowledged = load_until_refused(&daemon, || {
        std::fs::rename(&store, &aside).unwrap();
        std::os::unix::fs::symlink("real.db", &store).unwrap();
    });
    let told = wait_until_safe(&daemon);
    assert_eq!((&told["displaced"], &told["rescue"]), (&json!("replaced"), &json!("in_place")));
    assert!(told["present_path"].as_str().unwrap().ends_with("/data/real.db"), "{told}");
    assert_kept(daemon, &acknowledged, |_| ());
}

#[test]
fn backup_over_the_store_starts_and_rescued_copies_are_named() {
    let mut daemon = stage().start(&[]);
    daemon.post("/v1/runs", &plan("shop", "t", "m")).ok();
    let (store, backup) = (daemon.stage.path("data/runs.db"), daemon.stage.path("data/backup.db"));
    nexus_router::store::backup(&store, &backup, |_, _| ()).unwrap();
    nexus_router::store::adopt(&backup).unwrap();
    let acknowledged = load_until_refused(&daemon, || std::fs::rename(&backup, &store).unwrap());
    let told = wait_until_safe(&daemon);
    let copy = told["copy"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
    let problem = daemon.post("/v1/runs", &plan("shop", "t", "m")).refused(503, "STORE_DISPLACED");
    assert!(
        problem["hint"].as_str().unwrap().contains("store restore runs.db.rescued-"),
        "{problem}"
    );
    daemon.kill();
    let again = daemon.again();
    again.assert_alive();
    until("the warning", || again.stderr().contains(&copy).then_some(()));
    let current = Store::open_read_only(&store).unwrap();
    assert_eq!(current.check(|_, _| ()).unwrap().findings, []);
    let rescued = Store::open_read_only(Path::new(&copy)).unwrap();
    for run_id in acknowledged {
        assert!(rescued.find(&run_id).unwrap().is_some());
    }
}

#[test]
fn daemon_that_saved_nothing_fails() {
    let mut daemon = stage().start(&[]);
    daemon.post("/v1/runs", &plan("echo", "t", "m")).ok();
    let data = daemon.stage.path("data");
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::write(&data, "").unwrap();
    daemon.post("/v1/runs", &plan("echo", "t", "m")).refused(503, "STORE_DISPLACED");
    assert_ne!(daemon.stop().code(), Some(0));
    assert!(daemon.stderr().contains("is lost with this process"), "{}", daemon.stderr());
}

#[test]
fn daemon_does_not_start_on_a_damaged_store() {
    let mut daemon = stage().start(&[]);
    for _ in 0..20 {
        daemon.post("/v1/runs", &plan("shop", "t", "m")).ok();
    }
    daemon.stop();
    let file = daemon.stage.path("data/runs.db");
    // A write-ahead log that stayed behind would make up for the damage.
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    connection.close().unwrap();
    let sound = std::fs::read(&file).unwrap();
    let half = sound.len() / 2;
    let garbage = [&sound[..half], &vec![0xA5; sound.len() - half]].concat();
    let zeroed = [&[0; 100], &sound[100..]].concat();
    for (case, bytes, code) in [
        ("garbage", garbage, "STORE_DAMAGED"),
        ("truncated", sound[..half].to_vec(), "STORE_DAMAGED"),
        ("zeroed header", zeroed, "STORE_FOREIGN"),
    ] {
        // The same file, so that it is not one that was moved.
        std::fs::write(&file, bytes).unwrap();
        let run = daemon.stage.refused(&["--data-dir", "data", "--listen", "127.0.0.1:0"]);
        assert_eq!(run.code(), 2, "{case}: {}", run.stderr());
        assert!(run.stderr().contains(code), "{case}: {}", run.stderr());
    }
    std::fs::write(&file, sound).unwrap();
    daemon.again().assert_alive();
}

#[test]
fn run_under_way_is_answered_with_its_steps() {
    let stage = stage();
    // Calls wait until somebody reads their traces.
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, stage.path("traces"), kind, mode, 0).unwrap();
    let daemon = stage.start(&[]);
    let mut two = plan("shop", "t", "m");
    let mut second = two["plan_override"][0].clone();
    second["step_id"] = "s2".into();
    two["plan_override"].as_array_mut().unwrap().push(second);
    let problem = std::thread::scope(|scope| {
        let run = scope.spawn(|| daemon.post("/v1/runs", &two).refused(500, "STORE_DISPLACED"));
        until("the record of the first call", || {
            let runs = daemon.get("/v1/runs?status=RUNNING").ok();
            (runs["runs"].as_array().unwrap().len() == 1).then_some(())
        });
        // Its commit is acknowledged before that of a later run.
        daemon.post("/v1/runs", &plan("echo", "t", "m")).ok();
        remove(&daemon, "runs.db-wal");
        // Open for both, so that there is no end to wait for.
        let traces = daemon.stage.path("traces");
        let _reader = std::fs::File::options().read(true).write(true).open(traces).unwrap();
        run.join().unwrap()
    });
    let steps = json!({ "done": ["s1"], "failed": [], "in_doubt": [], "not_begun": ["s2"] });
    assert_eq!(problem["steps"], steps, "{problem}");
    let hint = problem["hint"].as_str().unwrap();
    assert!(!hint.contains("can be sent again"), "{problem}");
    let run_id = problem["run_id"].as_str().unwrap().to_owned();
    assert!(hint.contains(&run_id), "{problem}");
    wait_until_safe(&daemon);
    let mut daemon = daemon;
    daemon.kill();
    std::fs::remove_file(daemon.stage.path("traces")).unwrap();
    // The next process cannot know what the call did.
    let ended = daemon.again().ended(&run_id);
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("FAILED"), &json!("interrupted")));
    let first = &ended["results"][0];
    assert_eq!(first["error"]["details"]["in_doubt"], true, "{ended}");
}
