//! Where the store is, and what the configuration file says.

use std::os::unix::fs::PermissionsExt as _;

use nexus_router::config::{AdapterEntry, ConfigFile, Environment};
use serde_json::json;

use super::{ECHO, request, write};
use crate::support::{World, workspace};

#[test]
fn store_is_found_in_this_order() {
    let world = World::new();
    let file = write(&world, "request.json", &request());
    let home = world.path("home");
    let state = world.path("state");
    let default = home.join(".local/state/nexus-router/runs.db");
    let run = |arguments: &[&str], variables: &[(&str, &std::path::Path)]| {
        let arguments = [&["run", &file, "--adapter", ECHO], arguments].concat();
        let run = world.run_with(&arguments, |command| command.envs(variables.iter().copied()));
        assert_eq!(run.code(), 0, "{}", run.stderr());
    };
    run(&[], &[("HOME", &home)]);
    assert!(default.is_file());
    let mode = default.parent().unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    run(&[], &[("HOME", &home), ("XDG_STATE_HOME", &state)]);
    assert!(state.join("nexus-router/runs.db").is_file());
    run(&["--data-dir", "named"], &[("HOME", &home), ("NEXUS_ROUTER_DATA_DIR", &state)]);
    assert!(world.path("named/runs.db").is_file());
    let listed = world.run(&["runs", "list", "--data-dir", "named", "--format", "json"]);
    assert_eq!(listed.json()["runs"].as_array().unwrap().len(), 1);
    std::fs::write(world.path("router.toml"), "db = 'of-file.db'\n").unwrap();
    run(&[], &[("HOME", &home)]);
    assert!(world.path("of-file.db").is_file());
    let variable = world.path("of-variable.db");
    run(&[], &[("NEXUS_ROUTER_DB", &variable)]);
    assert!(variable.is_file());
    run(&["--db", "of-option.db"], &[("NEXUS_ROUTER_DB", &variable)]);
    assert!(world.path("of-option.db").is_file());
    std::fs::remove_file(world.path("router.toml")).unwrap();
    let nowhere = world.run(&["run", &file]);
    assert_eq!(nowhere.code(), 2);
    assert!(nowhere.stderr().starts_with("error[STORE_NO_PLACE]: "), "{}", nowhere.stderr());
}

#[test]
fn whoever_reads_does_not_make_the_default_directory() {
    let world = World::new();
    let home = world.path("home");
    let run = world.run_with(&["runs", "list"], |command| command.env("HOME", &home));
    assert_eq!(run.code(), 2);
    assert!(run.stderr().starts_with("error[STORE_NOT_FOUND]: "), "{}", run.stderr());
    assert!(!home.exists());
}

#[test]
fn adapters_and_secrets_come_from_the_configuration_file() {
    let world = World::new();
    std::fs::write(world.path("token.txt"), "file-s3cret\n").unwrap();
    let text = format!(
        "db = 'runs.db'\n\
         [secrets.TOKEN]\nfrom = 'env:SHOP_TOKEN'\nadapters = ['shop']\n\
         [secrets.OTHER]\nfrom = 'file:token.txt'\nadapters = ['sh*']\ntokens = ['local']\n\
         [[adapters]]\nref = '{ECHO}'\nid = 'shop'\n"
    );
    std::fs::write(world.path("router.toml"), text).unwrap();
    let mut secret = request();
    secret["plan_override"][0]["call"]["args"] =
        json!({ "auth": { "$secret": "TOKEN" }, "also": [{ "$secret": "OTHER" }], "name": "Ada" });
    let file = write(&world, "request.json", &secret);
    let run = world.run_with(&["run", &file, "--format", "json", "--log", "trace"], |command| {
        command.env("SHOP_TOKEN", "env-s3cret")
    });
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert_eq!(run.json()["dispatch"]["adapter_id"], "shop");
    // The adapter was given the secrets, and its echo of them was taken out.
    assert_eq!(run.json()["results"][0]["output"]["args"]["auth"], "[REDACTED]");
    let mut seen = run.stdout().into_bytes();
    seen.extend(run.stderr().into_bytes());
    for file in ["runs.db", "runs.db-wal"] {
        seen.extend(std::fs::read(world.path(file)).unwrap_or_default());
    }
    let seen = String::from_utf8_lossy(&seen);
    assert!(seen.contains("greeter"));
    assert!(!seen.contains("env-s3cret") && !seen.contains("file-s3cret"));
    let unset = world.run(&["run", &file]);
    assert_eq!(unset.code(), 2);
    assert!(unset.stderr().starts_with("error[SECRET_UNUSABLE]: "), "{}", unset.stderr());
    assert!(unset.stderr().contains("SHOP_TOKEN"), "{}", unset.stderr());
}

#[test]
fn limits_of_the_configuration_file_hold() {
    let world = World::new();
    let text = format!(
        "db = 'runs.db'\n[limits]\ncall_timeout_ms = 50\n[[adapters]]\nref = '{}'\n\
         [adapters.config]\nresponses = [{{ tool = 'greeter', method = 'hello', behaviour = \
         {{ sleep_ms = 600000 }} }}]\n",
        super::FAKE
    );
    std::fs::write(world.path("router.toml"), text).unwrap();
    let file = write(&world, "request.json", &request());
    let run = world.run(&["run", &file, "--format", "json"]);
    assert_eq!(run.code(), 1, "{}", run.stderr());
    assert_eq!(run.json()["results"][0]["error"]["code"], "TIMEOUT");
}

#[test]
fn configuration_files_of_the_readme_are_some() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let texts = readme.split("```toml\n").skip(1).map(|text| text.split_once("```").unwrap().0);
    let world = World::new();
    let find = |text: &str| {
        std::fs::write(world.path("router.toml"), text).unwrap();
        ConfigFile::find(Some(&world.path("router.toml")), &Environment::default()).unwrap()
    };
    let shops: Vec<(&str, ConfigFile)> = texts
        .map(|text| (text, find(text)))
        .inspect(|(text, config)| {
            let granted =
                |adapter: &AdapterEntry| !adapter.grants.is_empty() || !adapter.sources.is_empty();
            let granted = config.adapters.iter().all(granted);
            let says = !config.adapters.is_empty() || !config.policy.rules.is_empty();
            assert!(granted && says, "{text}");
        })
        .filter(|(_, config)| config.default_adapter.as_deref() == Some("shop"))
        .collect();
    let [(shop, _)] = &shops[..] else { panic!("{shops:?}") };
    std::fs::write(world.path("router.toml"), shop).unwrap();
    let file = write(&world, "request.json", &json!({ "goal": "look" }));
    let run = world.run_with(&["run", &file, "--format", "json"], |command| {
        command.env("SHOP_TOKEN", "Bearer 0123456789")
    });
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert_eq!(run.json()["dispatch"]["adapter_id"], "shop");
}

#[test]
fn grant_that_cannot_be_is_refused_before_anything_is_written() {
    let world = World::new();
    let file = write(&world, "request.json", &request());
    let run = |more: &[&str]| {
        let adapter = ["--adapter", "nexus_router_adapter_echo:create_adapter", "--db", "runs.db"];
        world.run(&[&["run", &file], &adapter[..], more].concat())
    };
    for (more, told) in [
        (&["--grant", "connect=example.com"][..], "hint: write HOST:PORT"),
        (&["--grant", "env=TOKEN=hunter22"], "it is no name of a variable"),
        (&["--grant", "network=yes"], "the kinds are connect, read, write, run, env"),
        (&["--isolation", "inline", "--grant", "read=/srv"], "--grant has no effect"),
    ] {
        let refused = run(more);
        assert_eq!((refused.code(), refused.stdout().as_str()), (2, ""));
        assert!(refused.stderr().contains(told), "{}", refused.stderr());
        assert!(!refused.stderr().contains("hunter22"), "{}", refused.stderr());
        assert!(!world.path("runs.db").exists());
    }
    let trusted = run(&["--isolation", "inline"]);
    assert_eq!(trusted.code(), 0, "{}", trusted.stderr());
}
