//! A daemon whose adapters hang, crash and come late: it answers at once, and says of each how it is.

use serde_json::{Value, json};

use super::support::{ADAPTERS, Daemon, Stage, plan, until};
use crate::mcp::support::{Session, able, answer, modern};
use crate::mimic::Mimic;
use crate::support::{Run, built_library};

/// Adapters that hang and adapters that crash when they are made, and how long they may take.
fn bad_adapters(count: usize, load_timeout_ms: u64) -> String {
    let mut config =
        format!("[workers]\nstart_timeout_ms = 3600000\nload_timeout_ms = {load_timeout_ms}\n");
    for index in 0..count {
        for (name, factory) in [("hang", "factory_hangs"), ("crash", "factory_segfaults")] {
            config += &format!(
                "[[adapters]]\nid = '{name}-{index}'\nref = 'bad_adapters:{factory}'\n\
                 offer = {{ tools = ['*'], prefix = '{name}-{index}.' }}\n"
            );
        }
    }
    config
}

const TOOLS: &str = "[[tools]]\nname = 'slow'\ndescription = 'Comes late.'\nadapter = 'hang-0'\n\
                     tool = 't'\nmethod = 'm'\n\
                     [[tools]]\nname = 'broken'\ndescription = 'Never comes.'\n\
                     adapter = 'crash-0'\ntool = 't'\nmethod = 'm'\n";

const HOUR: u64 = 3_600_000;

/// Starts a daemon that has good adapters too, and loads them for as long as the test takes.
fn start_loading(count: usize) -> Daemon {
    let bad = bad_adapters(count, HOUR);
    let stage = Stage::new(&format!("{ADAPTERS}{bad}{TOOLS}"));
    // The verdicts of other tests are not known here.
    std::fs::create_dir(stage.path("cache")).unwrap();
    stage.start_loading()
}

fn counts(daemon: &Daemon) -> Value {
    daemon.get("/readyz").by_nobody().send().json()["adapters"].clone()
}

/// Waits until no more than the hanging adapters are being loaded.
fn until_hanging(daemon: &Daemon, count: usize) {
    until("all but the hanging adapters", || {
        let expected = json!({ "loading": count, "ready": 3, "failed": count });
        (counts(daemon) == expected).then_some(())
    });
}

#[test]
fn good_adapters_serve_while_others_hang_and_crash() {
    let daemon = start_loading(10);
    assert_eq!(daemon.get("/healthz").by_nobody().ok()["status"], "ok");
    let not_ready = daemon.get("/readyz").by_nobody().refused(503, "NOT_READY");
    assert!(not_ready["adapters"]["loading"].as_u64().unwrap() >= 10, "{not_ready}");
    let run = until("a good adapter", || {
        let answer = daemon.post("/v1/runs", &plan("echo", "t", "m")).send();
        if answer.status == 503 {
            assert_eq!(answer.json()["code"], "ADAPTER_UNAVAILABLE", "{answer:?}");
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
            return None;
        }
        Some(answer.json())
    });
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert!(counts(&daemon)["loading"].as_u64().unwrap() >= 10);
    until_hanging(&daemon, 10);
    daemon.get("/readyz").refused(503, "NOT_READY");
    assert!((daemon.metric("nexus_router_adapters_failed") - 10.0).abs() < f64::EPSILON);
    assert!((daemon.metric("nexus_router_adapters_loading") - 10.0).abs() < f64::EPSILON);
    // Every failure is in the log, the audit, the status and the list, with the reason and the remedy.
    let status = daemon.get("/v1/status").ok();
    assert_eq!(status["status"], "adapters are being loaded", "{status}");
    let listed = daemon.get("/v1/adapters").ok();
    let listed = listed["adapters"].as_array().unwrap();
    for index in 0..10 {
        let id = format!("crash-{index}");
        let find = |list: &[Value]| {
            let found = list.iter().find(|one| one["adapter_id"] == id.as_str()).cloned();
            found.unwrap_or_else(|| panic!("{id}: {list:?}"))
        };
        for found in [find(status["failed_adapters"].as_array().unwrap()), find(listed)] {
            assert_eq!(
                (&found["state"], &found["reason"]),
                (&json!("failed"), &json!("LIBRARY_CRASHED"))
            );
            assert!(found["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{found}");
        }
        let event = daemon.audited(|event| {
            event["kind"] == "adapter.failed" && event["payload"]["adapter"] == id.as_str()
        });
        assert_eq!(event["payload"]["reason"], "LIBRARY_CRASHED", "{event}");
        assert!(event["payload"]["hint"].is_string(), "{event}");
        until("the warning", || {
            let log = daemon.stderr();
            let mut lines = log.lines();
            let told = lines.any(|line| {
                line.contains("WARN") && line.contains(&id) && line.contains("LIBRARY_CRASHED")
            });
            told.then_some(())
        });
    }
}

#[test]
fn calls_of_loading_adapters_are_refused_on_every_path() {
    let daemon = start_loading(1);
    until_hanging(&daemon, 1);
    let total = |daemon: &Daemon| daemon.get("/v1/runs").ok()["total"].clone();
    let before = total(&daemon);
    let mut two = plan("echo", "t", "m");
    two["plan_override"].as_array_mut().unwrap().push(json!({ "step_id": "s2", "intent": "",
        "dispatch": { "adapter_id": "hang-0" }, "call": { "tool": "t", "method": "m", "args": {} } }));
    let mut simulated = plan("hang-0", "t", "m");
    simulated["mode"] = "dry_run".into();
    let mut unaddressed = plan("hang-0", "hang-0.tool", "call");
    unaddressed.as_object_mut().unwrap().remove("dispatch");
    for request in [plan("hang-0", "t", "m"), plan("nobody", "t", "m"), two, simulated, unaddressed]
    {
        for path in ["/v1/runs", "/v1/runs?wait=false"] {
            let ask = daemon.post(path, &request).header("Idempotency-Key", "same");
            let answer = ask.send();
            assert_eq!(
                (answer.status, &answer.json()["code"]),
                (503, &json!("ADAPTER_UNAVAILABLE"))
            );
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
        }
    }
    for tool in ["slow", "hang-0.tool", "nothing"] {
        let refused = daemon.post(&format!("/v1/tools/{tool}"), &json!({})).send();
        assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("ADAPTER_UNAVAILABLE")));
    }
    for tool in ["slow", "nothing"] {
        let params = json!({ "name": tool, "arguments": {} });
        for told in [
            answer(&modern(&daemon, "tools/call", params.clone(), &json!({}))),
            answer(&Session::open(&daemon, "apply").ask("tools/call", &params)),
        ] {
            assert_eq!(told["error"]["data"]["code"], "ADAPTER_UNAVAILABLE", "{told}");
        }
    }
    let arguments = plan("hang-0", "t", "m");
    let params = json!({ "name": "nexus-router.run", "arguments": arguments });
    let told = answer(&modern(&daemon, "tools/call", params, &able()));
    assert_eq!(told["error"]["data"]["code"], "ADAPTER_UNAVAILABLE", "{told}");
    // Nothing of it was recorded, so the same requests may succeed later.
    assert_eq!(total(&daemon), before);
    assert_eq!(daemon.get("/v1/adapters/hang-0").by("read").ok()["state"], "loading");
    assert_eq!(daemon.get("/v1/adapters/hang-0/health").by("read").ok()["status"], "loading");
    daemon.ask("POST", "/v1/adapters/hang-0/release").refused(503, "ADAPTER_UNAVAILABLE");
}

#[test]
fn calls_of_failed_adapters_tell_reason_without_paths() {
    let daemon = start_loading(1);
    until_hanging(&daemon, 1);
    let mut simulated = plan("crash-0", "t", "m");
    simulated["mode"] = "dry_run".into();
    for request in [plan("crash-0", "t", "m"), simulated] {
        let run = daemon.post("/v1/runs", &request).by("apply").ok();
        assert_eq!(
            (&run["status"], &run["error"]["code"]),
            (&json!("FAILED"), &json!("ADAPTER_UNAVAILABLE"))
        );
        let message = run["error"]["message"].as_str().unwrap();
        assert!(message.contains("LIBRARY_CRASHED") && !message.contains('/'), "{message}");
    }
    let refused = daemon.post("/v1/tools/broken", &json!({})).send();
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("ADAPTER_UNAVAILABLE")));
    let told = answer(&modern(&daemon, "tools/call", json!({ "name": "broken" }), &json!({})));
    assert_eq!(told["error"]["data"]["code"], "ADAPTER_UNAVAILABLE", "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("LIBRARY_CRASHED"), "{told}");
    for path in ["/v1/adapters", "/v1/adapters/crash-0", "/v1/status"] {
        let shown = daemon.get(path).by("read").send().text();
        assert!(shown.contains("LIBRARY_CRASHED"), "{shown}");
        assert!(!shown.contains("killed by") && !shown.contains("\"hint\""), "{shown}");
    }
    let shown = daemon.get("/v1/adapters/crash-0").ok();
    assert!(shown["message"].is_string() && shown["hint"].is_string(), "{shown}");
}

#[test]
fn daemon_is_ready_when_every_adapter_settled() {
    let bad = bad_adapters(10, 3000);
    let daemon = Stage::new(&format!("{ADAPTERS}{bad}")).start(&[]);
    let ready = daemon.get("/readyz").by_nobody().ok();
    assert_eq!(ready["adapters"], json!({ "loading": 0, "ready": 3, "failed": 20 }));
    // The greeting names each of them.
    let said = until("the greeting", || {
        let said = daemon.stdout();
        said.contains("Try:").then_some(said)
    });
    assert!(said.contains("not hang-9: ") && said.contains("not crash-9: "), "{said}");
    let hanging = daemon.get("/v1/adapters/hang-0").ok();
    assert_eq!(hanging["reason"], "LIBRARY_TIMED_OUT", "{hanging}");
    // What is unknown is unknown now.
    let run = daemon.post("/v1/runs", &plan("nobody", "t", "m")).ok();
    assert_eq!(run["error"]["code"], "UNKNOWN_ADAPTER", "{run}");
    daemon.post("/v1/tools/nothing", &json!({})).refused(404, "UNKNOWN_TOOL");
    let loaded = daemon.audited(|event| event["kind"] == "adapters.loaded");
    assert_eq!(loaded["payload"]["failed"].as_array().map(Vec::len), Some(20), "{loaded}");
    // A reload does not try them again.
    let reloaded = daemon.post("/v1/reload", &json!({})).ok();
    assert_eq!(reloaded["failed"].as_array().map(Vec::len), Some(20), "{reloaded}");
    let event = |event: &Value| event["kind"] == "adapter.failed";
    assert_eq!(daemon.audit().iter().filter(|one| event(one)).count(), 20);
    daemon.assert_alive();
}

#[test]
fn failed_adapter_is_loaded_again_on_request() {
    let config = format!(
        "adapter_path = ['plugins']\n{ADAPTERS}[[adapters]]\nid = 'late'\nref = 'late:create_adapter'\n"
    );
    let stage = Stage::new(&config);
    std::fs::create_dir(stage.path("plugins")).unwrap();
    std::fs::write(stage.path("plugins/liblate.so"), "no library").unwrap();
    let daemon = stage.start(&[]);
    let retry = |id: &str| daemon.ask("POST", &format!("/v1/adapters/{id}/retry"));
    assert_eq!(counts(&daemon), json!({ "loading": 0, "ready": 3, "failed": 1 }));
    retry("late").by("apply").refused(403, "SCOPE_MISSING");
    retry("nobody").refused(404, "UNKNOWN_ADAPTER");
    assert_eq!(
        retry("echo").ok(),
        json!({ "adapter_id": "echo", "retried": false, "state": "ready" })
    );
    let released = daemon.ask("POST", "/v1/adapters/late/release").ok();
    assert_eq!((&released["released"], &released["state"]), (&json!(false), &json!("failed")));
    // In vain at first.
    let answer = retry("late").send();
    assert_eq!((answer.status, &answer.json()["state"]), (202, &json!("loading")), "{answer:?}");
    until("the second failure", || (counts(&daemon)["failed"] == 1).then_some(()));
    std::fs::copy(
        built_library("nexus_router_adapter_echo"),
        daemon.stage.path("plugins/liblate.so"),
    )
    .unwrap();
    let url = format!("http://{}", daemon.address);
    std::fs::write(daemon.stage.path("admin.token"), daemon.token("admin")).unwrap();
    let arguments = ["adapter", "retry", "late", "--url", &url, "--token-file", "admin.token"];
    let run = Run(daemon.stage.program().args(arguments).output().unwrap());
    assert_eq!((run.code(), run.stdout().as_str()), (0, "loading: late\n"), "{}", run.stderr());
    until("the adapter", || {
        (daemon.get("/v1/adapters/late").ok()["state"] != "loading").then_some(())
    });
    let run = daemon.post("/v1/runs", &plan("late", "t", "m")).ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let run = Run(daemon.stage.program().args(arguments).output().unwrap());
    assert_eq!((run.code(), run.stdout().as_str()), (1, "not failed: late is ready\n"));
    let retried = |event: &Value| event["kind"] == "adapter.retried";
    assert_eq!(daemon.audited(retried)["payload"]["adapter"], "late");
    assert_eq!(daemon.get("/readyz").ok()["adapters"]["failed"], 0);
}

#[test]
fn damaged_library_on_adapter_path_is_listed_and_retried() {
    let stage = Stage::new("discover = true\nadapter_path = ['plugins']\n");
    std::fs::create_dir(stage.path("plugins")).unwrap();
    let library = stage.path("plugins/libdamaged.so");
    std::fs::write(&library, "no library").unwrap();
    let daemon = stage.start_beside(&["nexus_router_adapter_echo"]);
    assert_eq!(counts(&daemon), json!({ "loading": 0, "ready": 1, "failed": 1 }));
    let shown = daemon.get("/v1/adapters/damaged").ok();
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("failed"), &json!("NOT_A_LIBRARY")));
    // The only one that loads is the default one.
    let run = daemon.post("/v1/runs", &json!({ "goal": "look around" })).ok();
    assert_eq!(run["dispatch"]["adapter_id"], "echo", "{run}");
    // A library with an id of its own, under the name of the damaged one.
    std::fs::copy(built_library("nexus_router_adapter_stdout"), library).unwrap();
    assert_eq!(daemon.ask("POST", "/v1/adapters/damaged/retry").send().status, 202);
    until("the adapter", || {
        (counts(&daemon) == json!({ "loading": 0, "ready": 2, "failed": 0 })).then_some(())
    });
    let run = daemon.post("/v1/runs", &plan("stdout", "t", "m")).ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
}

#[test]
fn running_list_shows_failed_adapters_with_remedy() {
    let daemon = start_loading(1);
    until_hanging(&daemon, 1);
    let url = format!("http://{}", daemon.address);
    std::fs::write(daemon.stage.path("admin.token"), daemon.token("admin")).unwrap();
    let arguments = ["adapter", "list", "--running", "--url", &url, "--token-file", "admin.token"];
    let run = Run(daemon.stage.program().args(arguments).output().unwrap());
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let listed = run.stdout();
    for told in ["failed: LIBRARY_CRASHED", "loading", "crash-0 failed: ", "  hint: "] {
        assert!(listed.contains(told), "{told}: {listed}");
    }
}

#[test]
fn approval_stays_open_while_its_adapter_is_unavailable() {
    let rule = "[policy.approvals]\nby_caller = true\n\
                [[policy.rules]]\neffect = 'approve'\nmethod = 'risky'\n";
    let config = |library: &str| {
        format!(
            "{ADAPTERS}[[adapters]]\nid = 'held'\nref = '{library}'\n\
             [[tools]]\nname = 'held_tool'\ndescription = 'Waits.'\nadapter = 'held'\n\
             tool = 't'\nmethod = 'risky'\n{rule}\
             [workers]\nstart_timeout_ms = {HOUR}\nload_timeout_ms = {HOUR}\n"
        )
    };
    let mut daemon = Daemon::start(&config("nexus_router_adapter_echo:create_adapter"), &[]);
    let params = json!({ "name": "held_tool", "arguments": {} });
    let task = answer(&modern(&daemon, "tools/call", params, &able()))["result"].clone();
    let run_id = task["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    let open = daemon.get("/v1/approvals").ok();
    let approval_id = open["approvals"][0]["approval_id"].as_str().unwrap().to_owned();
    daemon.stop();
    daemon.stage.configure(&config("bad_adapters:factory_segfaults"));
    let mut daemon = daemon.again();
    assert_unavailable(&daemon, (&approval_id, &run_id), ("LIBRARY_CRASHED", "60"));
    daemon.stop();
    daemon.stage.configure(&config("bad_adapters:factory_hangs"));
    let mut daemon = daemon.stage.clone().start_loading();
    assert_unavailable(&daemon, (&approval_id, &run_id), ("is not available yet", "1"));
    daemon.kill();
    daemon.stage.configure(&config("nexus_router_adapter_echo:create_adapter"));
    let daemon = daemon.again();
    assert_eq!(
        daemon.ask("POST", &format!("/v1/approvals/{approval_id}/approve")).send().status,
        200
    );
    assert_eq!(daemon.ended(&run_id)["status"], "COMPLETED");
}

/// Asserts that nobody can approve the call of an adapter that is not available, and that the approval stays open.
fn assert_unavailable(
    daemon: &Daemon,
    (approval_id, run_id): (&str, &str),
    (wanted, retry_after): (&str, &str),
) {
    let answered = daemon.ask("POST", &format!("/v1/approvals/{approval_id}/approve")).send();
    let problem = answered.json();
    assert_eq!((answered.status, &problem["code"]), (503, &json!("ADAPTER_UNAVAILABLE")));
    assert_eq!(answered.header("retry-after"), Some(retry_after), "{answered:?}");
    assert!(problem["detail"].as_str().unwrap().contains(wanted), "{problem}");
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    let key = format!("approval-{approval_id}");
    let params = json!({ "taskId": run_id, "inputResponses": { key: yes } });
    let told = answer(&modern(daemon, "tasks/update", params, &able()));
    assert_eq!(told["error"]["data"]["code"], "ADAPTER_UNAVAILABLE", "{told}");
    std::fs::write(daemon.stage.path("admin.token"), daemon.token("admin")).unwrap();
    let url = format!("http://{}", daemon.address);
    let arguments = ["approvals", "approve", approval_id, "--url", &url];
    let mut command = daemon.stage.program();
    let output = command.args(arguments).args(["--token-file", "admin.token"]).output().unwrap();
    let said = Run(output).stderr();
    assert!(said.contains("ADAPTER_UNAVAILABLE") && !said.contains("--config"), "{said}");
    let approval = daemon.get(&format!("/v1/approvals/{approval_id}")).ok();
    assert_eq!(approval["state"], "open", "{approval}");
}

/// Waits until an adapter serves.
fn until_ready(daemon: &Daemon, id: &str) {
    until("the adapter", || {
        let shown = daemon.get(&format!("/v1/adapters/{id}")).send();
        (shown.status == 200 && shown.json()["adapter_kind"].is_string()).then_some(())
    });
}

#[test]
fn library_that_is_replaced_while_others_hang_is_loaded() {
    let limits = format!("start_timeout_ms = {HOUR}\nload_timeout_ms = {HOUR}\n");
    let stage =
        Stage::new(&format!("discover = true\nadapter_path = ['plugins']\n[workers]\n{limits}"));
    let plugins = stage.path("plugins");
    std::fs::create_dir(&plugins).unwrap();
    std::fs::copy(built_library("bad_adapters"), plugins.join("libbad.so")).unwrap();
    Mimic::of_kind("first").write(&plugins.join("libgood.so"));
    let daemon = stage.start_loading_beside();
    until_ready(&daemon, "first");
    Mimic::of_kind("second").write(&plugins.join("libgood.so"));
    until_ready(&daemon, "second");
    assert!(counts(&daemon)["loading"].as_u64().unwrap() >= 1);
}

#[test]
fn library_that_is_replaced_while_it_is_tried_is_loaded() {
    let stage = Stage::new(
        "adapter_path = ['plugins']\n[workers]\nload_timeout_ms = 3000\n\
         [[adapters]]\nid = 'late'\nref = 'late:create_adapter'\nisolation = 'inline'\n",
    );
    // A pipe without a writer: to open it hangs.
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, stage.path("pipe"), kind, mode, 0).unwrap();
    std::fs::create_dir(stage.path("plugins")).unwrap();
    let library = stage.path("plugins/liblate.so");
    let pipe = stage.path("pipe").to_str().unwrap().to_owned();
    Mimic::of_kind("late").script("factory_reads", pipe).write(&library);
    let daemon = stage.start_loading();
    until("the trial", || (counts(&daemon)["loading"] == 1).then_some(()));
    Mimic::of_kind("late").write(&library);
    until_ready(&daemon, "late");
}
