//! `nexus-router cache`: private copies of libraries are listed, bounded and removed, and never while they are used.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::daemon::support::{Daemon, Stage, plan};
use crate::support::{World, built_library};

const ECHO: &str = "nexus_router_adapter_echo:create_adapter";

fn inspect(world: &World) {
    let inspected = world.run(&["adapter", "inspect", ECHO, "--adapter-path", "."]);
    assert_eq!(inspected.code(), 0, "{}", inspected.stderr());
}

fn list(world: &World) -> Value {
    let listed = world.run(&["cache", "list", "--format", "json"]);
    assert_eq!(listed.code(), 0, "{}", listed.stderr());
    listed.json()
}

/// Puts a build of the echo adapter into the world that no other has, and returns the library.
fn build(world: &World, number: u8) -> PathBuf {
    let library = world.path("libnexus_router_adapter_echo.so");
    let mut bytes = std::fs::read(built_library("nexus_router_adapter_echo")).unwrap();
    bytes.push(number);
    drop(std::fs::remove_file(&library));
    std::fs::write(&library, bytes).unwrap();
    library
}

#[test]
fn copies_are_listed_and_removed() {
    let world = World::new();
    assert_eq!(list(&world)["libraries"], json!([]));
    inspect(&world);
    let listed = list(&world);
    let [copy] = &listed["libraries"].as_array().unwrap()[..] else { panic!("{listed}") };
    let path = copy["path"].as_str().unwrap();
    assert_eq!(copy["bytes"], std::fs::metadata(path).unwrap().len());
    assert!(path.contains(copy["digest"].as_str().unwrap()), "{copy}");
    assert_eq!(copy["library"], built_library("nexus_router_adapter_echo").to_str().unwrap());
    assert_eq!((&copy["in_use"], &listed["max_bytes"]), (&json!(false), &json!(1_u64 << 30)));
    let human = world.run(&["cache", "list"]);
    assert!(human.stdout().contains("1 copies, ") && human.stdout().contains("MiB of 1024.0 MiB"));

    let kept = world.run(&["cache", "prune", "--older-than", "1d", "--format", "json"]).json();
    assert_eq!((&kept["removed"], &kept["kept"]), (&json!([]), &json!(1)));
    let removed = world.run(&["cache", "prune", "--max-size", "1K"]);
    assert_eq!(removed.code(), 0);
    assert!(removed.stdout().contains(&format!("removed {path}")), "{}", removed.stdout());
    assert_eq!(list(&world)["bytes"], 0);
    // What was removed is copied again when it is wanted.
    inspect(&world);
    assert_eq!(list(&world)["libraries"].as_array().unwrap().len(), 1);
    assert_eq!(world.run(&["cache", "prune", "--all"]).code(), 0);
    assert_eq!(list(&world)["libraries"], json!([]));
    assert_eq!(world.run(&["cache", "prune", "--max-size", "many"]).code(), 2);
}

#[test]
fn link_in_place_of_cache_is_not_pruned() {
    let world = World::new();
    inspect(&world);
    let libraries = list(&world)["libraries"][0]["path"].as_str().map(PathBuf::from).unwrap();
    let directory = libraries.parent().unwrap();
    let victim = world.path("victim");
    std::fs::rename(directory, &victim).unwrap();
    std::fs::write(victim.join("libvictim.so"), "library").unwrap();
    let before = std::fs::read_dir(&victim).unwrap().count();
    std::os::unix::fs::symlink(&victim, directory).unwrap();
    for arguments in [&["cache", "list"][..], &["cache", "prune", "--all"]] {
        let refused = world.run(arguments);
        assert_eq!(refused.code(), 2, "{}", refused.stdout());
        assert!(refused.stderr().contains("is not a directory"), "{}", refused.stderr());
    }
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), before);
}

#[test]
fn cache_stays_within_its_limit() {
    let world = World::new();
    let size = std::fs::metadata(build(&world, 0)).unwrap().len();
    // Room for two builds, and not for three.
    let max_mb = (2 * size + size / 2).div_ceil(1 << 20);
    std::fs::write(world.path("router.toml"), format!("[cache]\nmax_mb = {max_mb}\n")).unwrap();
    for number in 0..6 {
        build(&world, number);
        inspect(&world);
        let listed = list(&world);
        assert!(listed["bytes"].as_u64().unwrap() <= max_mb << 20, "{listed}");
    }
    let listed = list(&world);
    assert_eq!(listed["libraries"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(listed["max_bytes"], max_mb << 20);
}

#[test]
fn copies_in_use_are_not_removed() {
    let stage =
        Stage::new(&format!("[[adapters]]\nref = \"{ECHO}\"\noffer = {{ tools = [\"*\"] }}\n"));
    std::fs::create_dir(stage.path("cache")).unwrap();
    let mut daemon: Daemon = stage.start(&[]);
    let prune = |daemon: &Daemon| {
        let mut command = daemon.stage.program();
        let output =
            command.args(["cache", "prune", "--all", "--format", "json"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let pruned = prune(&daemon);
    assert_eq!((&pruned["removed"], &pruned["kept"]), (&json!([]), &json!(1)), "{pruned}");
    let run = daemon.post("/v1/runs", &plan("echo", "t", "m")).ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    daemon.stop();
    let pruned = prune(&daemon);
    assert_eq!((pruned["removed"].as_array().unwrap().len(), &pruned["kept"]), (1, &json!(0)));
    daemon.again().assert_alive();
}
