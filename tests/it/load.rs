//! Loading good adapters through the library's front door.

use nexus_router::loader::{DryRun, LoadRequest, Reason};
use nexus_router::{AdapterLoadError, Call, Registry};
use nexus_router_sdk::Object;
use serde_json::{Value, json};

use crate::mimic::Mimic;
use crate::support::World;

const ECHO: &str = "nexus_router_adapter_echo:create_adapter";

fn request<'a>(factory_ref: &'a str, config: &'a Value) -> LoadRequest<'a> {
    LoadRequest { factory_ref, adapter_id: None, config, pin: None }
}

fn object(value: Value) -> Object {
    let Value::Object(members) = value else { panic!("not an object") };
    members
}

#[test]
fn host_loads_registers_and_calls() {
    let world = World::new();
    let loader = world.loader();
    let config = json!({});
    let load = LoadRequest { adapter_id: Some("my-echo"), ..request(ECHO, &config) };
    let mut registry = Registry::new("my-echo");
    registry.register(loader.load(&load).unwrap()).unwrap();
    let adapter = registry.get_default().unwrap();
    assert_eq!(adapter.adapter_kind(), "echo");
    let args = object(json!({"b": 1, "a": [null, "é"]}));
    let output = adapter.call(&Call::new("tool", "method", &args)).unwrap();
    assert_eq!(output["args"], Value::Object(args));
}

#[test]
fn adapter_id_in_config_is_the_id() {
    let world = World::new();
    let loader = world.loader();
    let adapter = loader.load(&request(ECHO, &json!({"adapter_id": "named"}))).unwrap();
    assert_eq!(adapter.adapter_id(), "named");
    let error = loader.load(&request(ECHO, &json!({"adapter_id": 7}))).unwrap_err();
    assert_eq!(error.reason(), Reason::ConfigInvalid);
}

#[test]
fn same_library_twice_gives_two_instances() {
    let world = World::new();
    let loader = world.loader();
    let config = json!({});
    let one =
        loader.load(&LoadRequest { adapter_id: Some("1"), ..request(ECHO, &config) }).unwrap();
    let two =
        loader.load(&LoadRequest { adapter_id: Some("2"), ..request(ECHO, &config) }).unwrap();
    drop(one);
    assert_eq!(two.adapter_id(), "2");
    assert!(two.call(&Call::new("t", "m", &Object::new())).is_ok());
}

#[test]
fn config_is_checked_before_any_code_runs() {
    let world = World::new();
    let loader = world.loader();
    for (config, problem) in [
        (json!({"delay_ms": "soon"}), "'delay_ms' must be number, got string"),
        (json!({"delay_m": 1}), "did you mean 'delay_ms'?"),
        (json!([]), "config must be a JSON object"),
    ] {
        let error = loader.load(&request(ECHO, &config)).unwrap_err();
        assert_eq!(error.reason(), Reason::ConfigInvalid);
        assert!(error.to_string().contains(problem), "{error}");
    }
}

#[test]
fn cause_of_a_failed_factory_names_the_whole_chain() {
    let world = World::new();
    let causes = json!(["cannot log in", "password=abcdef123456 refused"]);
    let config = json!({ "refuses": { "error_code": "CONFIG_REJECTED", "causes": causes } });
    let error = world.loader().load(&request("probe_adapters:fake", &config)).unwrap_err();
    assert_eq!(error.reason(), Reason::FactoryFailed, "{error}");
    let cause = error.cause().unwrap();
    let chain = "it did not work: cannot log in: password=[REDACTED] refused";
    assert_eq!((cause.cause_type.as_str(), cause.text.as_str()), ("CONFIG_REJECTED", chain));
}

#[test]
fn wrong_default_is_an_invalid_configuration() {
    let world = World::new();
    let schema = json!({
        "n": {"type": "number", "required": false, "default": "7"},
        "url": {"type": "string", "required": true},
    });
    // A factory that would refuse what the router leaves out is not even asked.
    let mimic = Mimic::of_kind("a").manifest("config_schema", schema);
    mimic.script("factory_error", "missing field `n`").write(&world.path("libmimic.so"));
    for config in [json!({}), json!({"url": "u"}), json!({"n": 1, "url": "u"})] {
        let error = world.loader().load(&request("mimic:create_adapter", &config)).unwrap_err();
        assert_eq!(error.reason(), Reason::ConfigInvalid, "{error}");
        let problem = "config_schema['n'].default must be number, got string";
        assert!(error.to_string().contains(problem), "{error}");
        assert!(
            error.hint().starts_with("correct the default in the manifest"),
            "{}",
            error.hint()
        );
    }
}

#[test]
fn invalid_configuration_lists_the_parameters() {
    let world = World::new();
    let http = "nexus_router_adapter_http:create_adapter";
    for config in [json!({}), json!({"base_ulr": "u"}), json!([]), json!({"adapter_id": 7})] {
        let error = world.loader().load(&request(http, &config)).unwrap_err();
        assert_eq!(error.reason(), Reason::ConfigInvalid);
        assert!(error.hint().contains("base_url (string, required): "), "{}", error.hint());
        let details = error.details();
        let parameters = details["parameters"].as_array().unwrap();
        let named = |name: &str| parameters.iter().find(|one| one["name"] == name).unwrap();
        assert_eq!(
            (&named("base_url")["type"], &named("base_url")["required"]),
            (&json!("string"), &json!(true))
        );
        assert!(named("base_url")["description"].as_str().is_some_and(|text| !text.is_empty()));
        assert!(parameters.iter().any(|one| one.get("default").is_some()), "{details:?}");
    }
    // A library that is not there states nothing.
    let error = world.loader().load(&request("nobody:create_adapter", &json!([]))).unwrap_err();
    assert_eq!((error.reason(), error.parameters()), (Reason::ConfigInvalid, None));
}

#[test]
fn secrets_of_the_config_are_in_no_error() {
    let world = World::new();
    let loader = world.loader();
    let config = json!({"responses": [{"tool": "t", "api_key": "sk-very-secret"}]});
    let error: AdapterLoadError = loader.load(&request(ECHO, &config)).unwrap_err();
    let shown = format!("{error} {error:?} {:?} {}", error.details(), error.hint());
    assert!(!shown.contains("sk-very-secret"), "{shown}");
}

#[test]
fn pin_is_compared_with_the_loaded_bytes() {
    let world = World::new();
    let loader = world.loader();
    let config = json!({});
    let digest = loader.load(&request(ECHO, &config)).unwrap().digest().unwrap();
    let pinned = LoadRequest { pin: Some(digest), ..request(ECHO, &config) };
    assert!(loader.load(&pinned).is_ok());
    let wrong = Some("0".repeat(64).parse().unwrap());
    let error = loader.load(&LoadRequest { pin: wrong, ..pinned }).unwrap_err();
    assert_eq!(error.reason(), Reason::DigestMismatch);
    assert!(error.to_string().contains(&digest.to_string()), "{error}");
}

#[test]
fn good_verdict_is_remembered_for_these_bytes_and_this_config() {
    let world = World::new();
    let mut loader = world.loader();
    let verdicts = || std::fs::read_dir(world.path("cache/verdicts")).unwrap().count();
    loader.load(&request(ECHO, &json!({}))).unwrap();
    assert_eq!(verdicts(), 1);
    loader.load(&request(ECHO, &json!({}))).unwrap();
    assert_eq!(verdicts(), 1);
    loader.load(&request(ECHO, &json!({"delay_ms": 1}))).unwrap();
    assert_eq!(verdicts(), 2);
    // A helper that cannot run is not missed while the verdict is known, and is when it is not.
    let broken = world.path("no-helper");
    std::fs::copy(crate::support::PROGRAM, &broken).unwrap();
    loader.dry_run = DryRun::Helper(broken.clone());
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let error = loader.load(&request(ECHO, &json!({}))).unwrap_err();
    assert_eq!(error.reason(), Reason::DryRunUnavailable);
}

#[test]
fn dry_run_can_be_turned_off_by_name() {
    let world = World::new();
    let mut loader = world.loader();
    loader.dry_run = DryRun::Off;
    loader.load(&request(ECHO, &json!({}))).unwrap();
    assert!(!world.path("cache/verdicts").exists());
}

#[test]
fn replacing_the_file_leaves_the_loaded_adapter_alone() {
    let world = World::new();
    let copy = world.path("libcopied.so");
    let built = crate::support::built_library("nexus_router_adapter_echo");
    std::fs::copy(&built, &copy).unwrap();
    let adapter = world.loader().load(&request("copied:create_adapter", &json!({}))).unwrap();
    std::fs::write(&copy, b"overwritten in place").unwrap();
    assert!(adapter.call(&Call::new("t", "m", &Object::new())).is_ok());
    let error = world.loader().load(&request("copied:create_adapter", &json!({}))).unwrap_err();
    assert_eq!(error.reason(), Reason::NotALibrary);
}

#[test]
fn wrong_helper_is_told_apart_from_a_bad_library() {
    let world = World::new();
    let mut loader = world.loader();
    loader.limits.time = std::time::Duration::from_secs(1);
    // More than a socket takes at once: `sleep` does not read it, `cat` sends it back.
    let config = json!({"responses": [{"tool": "t", "method": "m", "return": {"x": "y".repeat(2_000_000)}}]});
    for helper in ["/bin/true", "/bin/false", "/bin/cat", "/bin/sleep"] {
        loader.dry_run = DryRun::Helper(helper.into());
        let error = loader.load(&request(ECHO, &config)).unwrap_err();
        assert_eq!(error.reason(), Reason::DryRunUnavailable, "{helper}: {error}");
        assert!(error.hint().contains("NEXUS_ROUTER_BIN"), "{}", error.hint());
    }
}

#[test]
fn unusable_cache_is_no_verdict_on_the_library() {
    let world = World::new();
    let mut loader = world.loader();
    let file = world.path("a-file");
    std::fs::write(&file, "").unwrap();
    let open_to_all = world.path("open-to-all");
    std::fs::create_dir(&open_to_all).unwrap();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&open_to_all, everybody).unwrap();
    for cache in [file, open_to_all] {
        loader.cache_dir.clone_from(&cache);
        let error = loader.load(&request(ECHO, &json!({}))).unwrap_err();
        assert_eq!(error.reason(), Reason::CacheUnusable, "{error}");
        assert!(error.hint().contains("NEXUS_ROUTER_CACHE_DIR"), "{}", error.hint());
        // No answer is not the answer no.
        let run = world.run_with(&["adapter", "validate", ECHO], |command| {
            command.env("NEXUS_ROUTER_CACHE_DIR", &cache)
        });
        assert_eq!(run.code(), 2, "{}", run.stdout());
        assert!(run.stderr().starts_with("error[CACHE_UNUSABLE]: "), "{}", run.stderr());
    }
}
