//! The command line, as people and programs see it.

use crate::support::World;

const ECHO: &str = "nexus_router_adapter_echo:create_adapter";

#[test]
fn exit_codes_are_yes_no_and_no_answer() {
    let world = World::new();
    assert_eq!(world.run(&["adapter", "validate", ECHO]).code(), 0);
    assert_eq!(world.run(&["adapter", "validate", "unknown_module:create_adapter"]).code(), 1);
    for no_answer in [
        &["adapter", "validate", ECHO, "--config", "{"][..],
        &["adapter", "validate", ECHO, "--config", "[]"],
        &["adapter", "validate", ECHO, "--config", "@missing.json"],
        &["adapter", "validate", ECHO, "--config-file", "missing.toml"],
        &["adapter", "validate", ECHO, "--pin", "abc"],
        &["adapter", "validate", ECHO, "--time-limit", "-1"],
        &["adapter", "validate"],
        &["adapter", "frobnicate"],
        &["explain", "NO_SUCH_CODE"],
    ] {
        let run = world.run(no_answer);
        assert_eq!(run.code(), 2, "{no_answer:?}: {}", run.stderr());
        assert!(!run.stderr().is_empty() && !run.stderr().contains("panicked"), "{}", run.stderr());
        assert_eq!(run.stdout(), "");
    }
}

#[test]
fn unknown_module_names_near_ones_and_the_searched_directories() {
    let world = World::new();
    let run = world.run(&["adapter", "validate", "nexus_router_adapter_ecko:create_adapter"]);
    assert_eq!(run.code(), 1);
    let shown = run.stdout();
    assert!(shown.contains("did you mean nexus_router_adapter_echo?"), "{shown}");
    let searched = crate::support::built_directory().display().to_string();
    assert!(shown.contains(&searched), "{shown}");
}

#[test]
fn adapter_path_has_its_order() {
    let world = World::new();
    let built = crate::support::built_library("nexus_router_adapter_echo");
    let place = |name: &str| {
        let directory = world.path(name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::copy(&built, directory.join("libordered.so")).unwrap();
        directory
    };
    let (option, variable, file) = (place("option"), place("variable"), place("file"));
    std::fs::write(world.path("router.toml"), "adapter_path = ['file']\n").unwrap();
    let found = |arguments: &[&str], variable: Option<&std::path::Path>| {
        let arguments =
            [&["adapter", "inspect", "ordered:create_adapter", "--format", "json"], arguments];
        let run = world.run_with(&arguments.concat(), |command| match variable {
            Some(directory) => command.env("NEXUS_ROUTER_ADAPTER_PATH", directory),
            None => command.env_remove("NEXUS_ROUTER_ADAPTER_PATH"),
        });
        std::path::PathBuf::from(run.json()["library"]["path"].as_str().unwrap())
    };
    let as_option = ["--adapter-path", option.to_str().unwrap()];
    assert_eq!(found(&as_option, Some(&variable)).parent(), Some(option.as_path()));
    assert_eq!(found(&[], Some(&variable)).parent(), Some(variable.as_path()));
    assert_eq!(found(&[], None).parent(), Some(file.as_path()));
}

#[test]
fn no_colours_unless_on_a_terminal() {
    let run = World::new().run(&["adapter", "validate", ECHO]);
    assert!(!run.stdout().contains('\x1b'));
}

#[test]
fn github_format_annotates() {
    let world = World::new();
    let run = world.run(&["adapter", "validate", "nope:f", "--format", "github"]);
    assert_eq!(run.code(), 1);
    assert!(
        run.stdout().starts_with("::error title=LOAD_OK::Failed to load adapter: "),
        "{}",
        run.stdout()
    );
    let run = world.run(&["adapter", "validate", ECHO, "--format", "github"]);
    assert!(run.stdout().starts_with("PASS: LOAD_OK\n"), "{}", run.stdout());
}

#[test]
fn every_code_is_explained() {
    let world = World::new();
    let listed = world.run(&["explain"]).stdout();
    for known in nexus_router::code::all() {
        assert!(listed.contains(known.code));
    }
    let run = world.run(&["explain", "library_crashed"]);
    assert_eq!(run.code(), 0);
    assert!(run.stdout().contains("hint:"), "{}", run.stdout());
    let run = world.run(&["explain", "LIBRARY_CRASHD"]);
    assert!(run.stderr().contains("did you mean LIBRARY_CRASHED"), "{}", run.stderr());
}

#[test]
fn try_makes_a_call_in_the_child() {
    let world = World::new();
    let run = world.run(&["adapter", "try", ECHO, "tool", "method", "--args", r#"{"x":1}"#]);
    assert_eq!(run.code(), 0, "{}", run.stderr());
    assert_eq!(run.json()["args"]["x"], 1);
    let stdout = "nexus_router_adapter_stdout:create_adapter";
    let run = world.run(&["adapter", "try", stdout, "tool", "method"]);
    assert!(run.stderr().contains("output: [nexus]"), "{}", run.stderr());
    assert_eq!(run.json()["echoed"], true);
}

#[test]
fn built_in_adapter_loads_and_has_nothing_to_validate() {
    let world = World::new();
    let run = world.run(&["adapter", "validate", "builtin:null"]);
    assert_eq!(run.code(), 1);
    assert!(run.stdout().contains("part of the router"), "{}", run.stdout());
    for (factory_ref, can) in
        [("builtin:null", "dry_run"), ("builtin:envoy", "apply, external, timeout")]
    {
        let run = world.run(&["adapter", "inspect", factory_ref]);
        assert_eq!((run.code(), run.stdout().lines().count()), (0, 1), "{}", run.stdout());
        assert!(run.stdout().ends_with(&format!("and it can {can}\n")), "{}", run.stdout());
        let told = world.run(&["adapter", "inspect", factory_ref, "--format", "json"]).json();
        let listed = world.run(&["adapter", "list", "--format", "json"]).json();
        assert!(listed.as_array().unwrap().contains(&told), "{told}");
    }
    let config = serde_json::json!({});
    let request = nexus_router::LoadRequest {
        factory_ref: "builtin:null",
        adapter_id: None,
        config: &config,
        pin: None,
    };
    assert_eq!(world.loader().load(&request).unwrap().adapter_kind(), "null");
}
