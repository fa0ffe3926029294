//! A workspace that contains the router's own files, or lies in its own directories, is refused wherever it is named.
//! `daemon::workspaces` has reloads.

use std::path::Path;

use nexus_router::loader::{DryRun, LoadRequest};
use nexus_router::registry::Registry;
use nexus_router::router::{Options, Router};
use nexus_router::store::Store;
use nexus_router::{Adapter, Loader};
use serde_json::json;

use super::{Stage, test};
use crate::confinement::program;

fn envoy(workspace: &Path) -> String {
    let workspace = workspace.to_str().unwrap();
    format!(
        "[[adapters]]\nref = \"builtin:envoy\"\n[adapters.config]\nworkspace = {workspace:?}\n\
         [adapters.grants]\nrun = [\"/bin/sh\"]\n"
    )
}

/// Makes every own directory of a router, and a link to one.
fn own_stage() -> Stage {
    let stage = Stage::usual();
    let names = [
        "sealed/keys",
        "cache/staging",
        "data/interfaces",
        "data/tools/x",
        "data/other",
        "data/runs.db-owners",
        "contracts",
    ];
    for name in names {
        std::fs::create_dir_all(stage.world.path(name)).unwrap();
    }
    std::fs::write(stage.world.path("secret"), "hush").unwrap();
    std::fs::create_dir(stage.workspace("inner")).unwrap();
    std::os::unix::fs::symlink(stage.world.path("sealed"), stage.world.path("link")).unwrap();
    stage
}

#[test]
fn workspaces_among_own_files_are_refused_with_their_line() {
    let stage = own_stage();
    let general = "data_dir = \"data\"\n[secrets]\nTOK = \"file:secret\"\n\
                   [contracts]\ninterfaces = \"contracts\"\n";
    for (workspace, expected) in [
        (".", "contains the configuration file"),
        ("..", "contains the configuration file"),
        ("data", "equals the data directory"),
        ("data/tools", "equals the registered tools"),
        ("data/tools/x", "lies inside the registered tools"),
        ("data/other", "lies inside the data directory"),
        ("data/runs.db-owners", "equals the store owners"),
        ("contracts", "equals the interface contracts"),
        ("cache", "equals the cache"),
        ("cache/staging", "lies inside the cache"),
        ("link/../cache/staging", "lies inside the cache"),
    ] {
        let config = format!("{general}{}", envoy(&stage.world.path(workspace)));
        std::fs::write(stage.world.path("router.toml"), config).unwrap();
        let check = stage.program(&["config", "check"]);
        let told = check.stdout();
        assert_eq!(check.code(), 1, "{workspace}: {told}");
        let place = "(line 9, column 1)";
        assert!(told.contains("adapters[0].config.workspace") && told.contains(place), "{told}");
        assert!(told.contains(expected) && told.contains("hint: name a directory"), "{told}");
        // Executions are refused too, before anything runs.
        let arguments = stage.plan(&[test(&["sh", "-c", "echo x >made"])]);
        let run = stage.program(&arguments.each_ref().map(String::as_str));
        assert_eq!(run.code(), 2, "{workspace}");
        assert!(run.stderr().contains(expected), "{}", run.stderr());
        assert!(run.stderr().contains("router.toml"), "{}", run.stderr());
    }
    for workspace in ["workspace", "workspace/inner", "outside"] {
        std::fs::create_dir_all(stage.world.path(workspace)).unwrap();
        let config = format!("{general}{}", envoy(&stage.world.path(workspace)));
        std::fs::write(stage.world.path("router.toml"), config).unwrap();
        let check = stage.program(&["config", "check"]);
        assert_eq!(check.code(), 0, "{workspace}: {}", check.stdout());
    }
}

#[test]
fn own_files_that_the_command_line_names_count() {
    let stage = own_stage();
    for (option, value) in [
        ("--db", stage.workspace("runs.db")),
        ("--db", stage.workspace("inner/runs.db")),
        ("--data-dir", stage.workspace("inner")),
    ] {
        drop(stage.plan(&[test(&["sh", "-c", "echo x >made"])]));
        let value = value.to_str().unwrap();
        let config = ["run", "plan.json", "--config-file", "router.toml", "--format", "json"];
        let run = stage.program(&[&config[..], &[option, value]].concat());
        assert!(run.stderr().contains("WORKSPACE_MISPLACED"), "{}", run.stderr());
        assert!(
            run.stderr().contains("router.toml: adapter 'envoy': workspace"),
            "{}",
            run.stderr()
        );
        assert!(!stage.workspace("made").exists() && !Path::new(value).join("runs.db").exists());
    }
    // Evidence is beside the store.
    let stage = own_stage();
    let config = envoy(&stage.world.path("sealed/keys"));
    std::fs::write(stage.world.path("router.toml"), config).unwrap();
    let run = stage.program(
        &stage.plan(&[test(&["sh", "-c", "echo x >made"])]).each_ref().map(String::as_str),
    );
    assert!(run.stderr().contains("lies inside the evidence"), "{}", run.stderr());
}

#[test]
fn check_warns_of_write_grants_over_own_files() {
    let stage = own_stage();
    let config = "[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\n\
                  [adapters.offer]\ntools = [\"*\"]\n\
                  [adapters.grants]\nwrite = [\"outside\", \".\"]\n";
    std::fs::write(stage.world.path("router.toml"), config).unwrap();
    let check = stage.program(&["config", "check"]);
    assert_eq!(check.code(), 0, "{}", check.stdout());
    let told = check.stdout();
    assert!(told.contains("adapters[0].grants.write[1] contains the configuration file"), "{told}");
    assert!(told.contains("line 6") && !told.contains("write[0]"), "{told}");
    assert_eq!(stage.program(&["config", "check", "--strict"]).code(), 1);
}

#[test]
fn embedding_hosts_are_refused_a_workspace_over_their_store() {
    let stage = Stage::usual();
    let workspace = stage.world.path("workspace");
    let loader = Loader { dry_run: DryRun::Helper(program()), ..stage.world.loader() };
    let config = json!({ "workspace": workspace });
    let request =
        LoadRequest { factory_ref: "builtin:envoy", adapter_id: None, config: &config, pin: None };
    let envoy: Adapter = loader.load(&request).unwrap_or_else(|error| panic!("{error}"));
    let mut registry = Registry::new("envoy");
    registry.register(envoy).unwrap();
    let store = Store::open(&stage.workspace("runs.db")).unwrap();
    let refused = Router::new(store, registry.clone(), Options::default()).unwrap_err();
    assert_eq!(refused.code(), "WORKSPACE_MISPLACED");
    let message = refused.to_string();
    assert!(message.contains("contains the store"), "{message}");
    let store = Store::open(&stage.world.path("runs.db")).unwrap();
    let router = Router::new(store, registry.clone(), Options::default()).unwrap();
    router.replace(registry, Options::default()).unwrap();
}
