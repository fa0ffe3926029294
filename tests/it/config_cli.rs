//! `nexus-router config`: what is written, checked and shown.

use serde_json::Value;

use crate::support::World;

const ECHO: &str = "nexus_router_adapter_echo:create_adapter";

#[test]
fn written_file_is_checked_shown_and_not_overwritten() {
    let world = World::new();
    let init = world.run(&["config", "init"]);
    assert_eq!((init.code(), init.stdout().as_str()), (0, "created router.toml\n"));
    let check = world.run(&["config", "check"]);
    assert_eq!(check.stdout(), "ok: router.toml, 0 adapters, 0 tools, 1 listeners\n");
    assert_eq!(check.code(), 0);
    let again = world.run(&["config", "init"]);
    assert_eq!(again.code(), 2);
    assert!(again.stderr().contains("router.toml"), "{}", again.stderr());
    assert_eq!(world.run(&["config", "init", "other.toml"]).code(), 0);
    assert_eq!(world.run(&["config", "check", "--config", "other.toml"]).code(), 0);
    assert_eq!(world.run(&["config", "check", "--config-file", "missing.toml"]).code(), 2);
}

#[test]
fn check_tells_every_problem_and_no_value() {
    let world = World::new();
    let text = "zzz = 1\n[server]\nstreams = 'hunter22'\n[secrets]\nT = 'hunter22'\n";
    std::fs::write(world.path("router.toml"), text).unwrap();
    let check = world.run_with(&["config", "check"], |command| {
        command.env("NEXUS_ROUTER__LOG__LEVEL", "hunter22")
    });
    assert_eq!(check.code(), 1);
    let told = check.stdout();
    for part in ["zzz", "line 3, column 1", "secrets.T", "NEXUS_ROUTER__LOG__LEVEL: log.level"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(told.ends_with("not ok: router.toml, 4 problems\n"), "{told}");
    assert!(!told.contains("hunter22"), "{told}");

    std::fs::write(world.path("router.toml"), "[[listeners]]\naddress = '0.0.0.0:1'\n").unwrap();
    let unsafe_one = world.run(&["config", "check", "--format", "json"]);
    assert_eq!(unsafe_one.code(), 1);
    let problem = &unsafe_one.json()["problems"][0];
    assert!(problem["message"].as_str().unwrap().contains("0.0.0.0:1"), "{problem}");
    assert!(problem["hint"].as_str().unwrap().contains("allow_remote_plaintext"), "{problem}");
}

#[test]
fn grants_are_checked_and_shown_where_they_hold() {
    let world = World::new();
    let text = "[workers]\nprocesses = 65\naccept_missing = ['selinux']\n\
                [[adapters]]\nref = 'm:f'\nisolation = 'inline'\n[adapters.grants]\n\
                connect = ['hunter22']\nread = ['a/../hunter22']\nenv = ['LD_PRELOAD', 'HOME']\n";
    std::fs::write(world.path("router.toml"), text).unwrap();
    let check = world.run(&["config", "check"]);
    assert_eq!(check.code(), 1);
    let told = check.stdout();
    for part in [
        "workers.processes is not from 1 to 64 (line 2",
        "workers.accept_missing[0] is not one of the names",
        "adapters[0].grants would bind nobody",
        "adapters[0].grants.connect[0] cannot be granted: there is no port",
        "adapters[0].grants.read[0] cannot be granted: the path goes up",
        "adapters[0].grants.env[0] cannot be granted: it steers the system's loader",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(told.ends_with("not ok: router.toml, 6 problems\n"), "{told}");
    assert!(!told.contains("hunter22"), "{told}");

    let text = "[[adapters]]\nref = 'm:f'\nprocesses = 2\n[adapters.grants]\nread = ['data']\n";
    std::fs::write(world.path("router.toml"), text).unwrap();
    let show = world.run_with(&["config", "show", "--format", "json"], |command| {
        command
            .env("NEXUS_ROUTER__WORKERS__MEMORY_MB", "512")
            .env("NEXUS_ROUTER__ADAPTERS__0__GRANTS__CONNECT", "['Example.com:443']")
    });
    assert_eq!(show.code(), 0, "{}", show.stderr());
    let shown = show.json();
    assert_eq!(shown["workers"]["memory_mb"], 512);
    assert_eq!(shown["workers"]["isolation"], "worker");
    assert_eq!(shown["adapters"][0]["processes"], 2);
    let grants = &shown["adapters"][0]["grants"];
    assert_eq!(grants["connect"], serde_json::json!(["example.com:443"]));
    let read = grants["read"][0].as_str().unwrap();
    assert!(read.starts_with('/') && read.ends_with("/data"), "{read}");
}

#[test]
fn adapters_are_loaded_only_when_asked() {
    let world = World::new();
    let text = format!(
        "[[adapters]]\nref = '{ECHO}'\nid = 'shop'\n\
         [[tools]]\nname = 'greet'\ndescription = 'Greets.'\nadapter = 'shop'\nmethod = 'hello'\n"
    );
    std::fs::write(world.path("router.toml"), &text).unwrap();
    let check = world.run(&["config", "check", "--load"]);
    assert_eq!(check.stdout(), "ok: router.toml, 1 adapters, 1 tools, 1 listeners\n");
    let lost = text.replace("adapter = 'shop'", "adapter = 'nobody'");
    std::fs::write(world.path("router.toml"), lost).unwrap();
    assert_eq!(world.run(&["config", "check"]).code(), 0);
    let check = world.run(&["config", "check", "--load"]);
    assert_eq!(check.code(), 1);
    assert!(check.stdout().contains("there is no adapter nobody"), "{}", check.stdout());
    std::fs::write(world.path("router.toml"), "[[adapters]]\nref = 'gone:f'\n").unwrap();
    assert_eq!(world.run(&["config", "check"]).code(), 0);
    assert_eq!(world.run(&["config", "check", "--load"]).code(), 1);
}

#[test]
fn what_is_shown_is_what_holds() {
    let world = World::new();
    let text = "db = 'of-file.db'\n[secrets]\nT = 'env:TTT'\n[[adapters]]\nref = 'm:f'\n\
                [adapters.config]\npassword = 'hunter22'\n";
    std::fs::write(world.path("router.toml"), text).unwrap();
    let show = |format: &[&str]| {
        world.run_with(&[&["config", "show"], format].concat(), |command| {
            command
                .env("NEXUS_ROUTER__SERVER__BURST", "7")
                .env("NEXUS_ROUTER_DB", "/of-variable.db")
                .env_remove("NEXUS_ROUTER_ADAPTER_PATH")
        })
    };
    let shown = show(&[]);
    assert_eq!(shown.code(), 0, "{}", shown.stderr());
    let shown = shown.stdout();
    for line in [
        "db = \"/of-variable.db\"  # NEXUS_ROUTER_DB\n",
        "burst = 7  # NEXUS_ROUTER__SERVER__BURST\n",
        "T = \"env:TTT\"  # router.toml:3\n",
        "call_timeout_ms = 300000  # default\n",
        "runs_in_flight = 16384  # default\n",
        "# data_dir is not set  # default\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("hunter22"), "{shown}");
    let mut json = show(&["--format", "json"]).json();
    let sources = json.as_object_mut().unwrap().remove("sources").unwrap();
    assert_eq!(sources["server.burst"], "NEXUS_ROUTER__SERVER__BURST");
    assert_eq!(sources["adapters[0].config.password"], "router.toml:7");
    assert_eq!((&sources["data_dir"], &json["data_dir"]), (&"default".into(), &Value::Null));
    assert_eq!(json["server"]["burst"], 7);
    assert_eq!(json["adapters"][0]["config"]["password"], "[REDACTED]");
    // What was shown, shown again, is the same but for where it is from.
    std::fs::write(world.path("router.toml"), &shown).unwrap();
    let again = world.run_with(&["config", "show", "--format", "json"], |command| {
        command.env_remove("NEXUS_ROUTER_ADAPTER_PATH")
    });
    let mut again = again.json();
    again.as_object_mut().unwrap().remove("sources").unwrap();
    assert_eq!(again, json);
}
