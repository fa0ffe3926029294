//! The gate tries a library as the daemon loads it: both say the same, grant by grant.

use nexus_router::grant::Grants;
use nexus_router::loader::{Placement, Reason};
use serde_json::json;

use super::{TrialWorld, check};
use crate::mimic::Mimic;
use crate::support::World;

/// An adapter that needs a file when it is made, and declares that it reaches outside.
fn needy(trial: &TrialWorld) -> Mimic {
    let capabilities = json!(["apply", "external"]);
    Mimic::new(
        &json!({"adapter_id": "mimic", "adapter_kind": "mimic", "capabilities": capabilities}),
        &json!({"schema_version": 1, "kind": "mimic", "capabilities": capabilities}),
    )
    .script("factory_reads", trial.victim())
}

fn granted(trial: &TrialWorld) -> Placement {
    let read = vec![trial.world.directory.path().to_owned()];
    Placement { grants: Grants { read, ..Grants::default() }, ..Placement::worker() }
}

#[test]
fn gate_and_worker_need_the_same_grant() {
    let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
    trial.write(&needy(&trial));
    let refused = trial.validate(&[]);
    assert_eq!(refused.code(), 1, "{}", refused.stdout());
    let (status, message) = check(&refused.json(), "LOAD_OK").to_owned_pair();
    assert_eq!(status, "fail");
    let read = format!("read: {}", trial.victim());
    assert!(message.contains("cannot read") && message.contains(&read), "{message}");
    let error = trial.load(Placement::worker()).unwrap_err();
    assert_eq!(error.reason(), Reason::FactoryFailed);
    assert!(error.to_string().contains(&read), "{error}");

    let directory = trial.world.directory.path().to_str().unwrap();
    let accepted = trial.validate(&["--grant", &format!("read={directory}")]);
    assert_eq!(accepted.code(), 0, "{}", accepted.stdout());
    trial.load(granted(&trial)).unwrap();
    assert_eq!(trial.validate(&["--isolation", "inline"]).code(), 0);
    trial.load(Placement::inline()).unwrap();
}

#[test]
fn gate_refuses_grants_without_effect() {
    let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
    let undeclared = trial.validate(&["--grant", "read=/usr"]);
    assert_eq!(undeclared.code(), 1);
    assert_eq!(undeclared.json()["load_error"]["reason"], "GRANT_NOT_DECLARED");
    let absent = TrialWorld::new(&Mimic::of_kind("mimic"));
    absent.write(&needy(&absent));
    for grant in ["read=/no/such/place", "write=/no/such/place", "run=/no/such/program"] {
        let run = absent.validate(&["--grant", grant]);
        assert_eq!(run.json()["load_error"]["reason"], "GRANT_UNUSABLE", "{grant}");
    }
    let bound = trial.validate(&["--isolation", "inline", "--grant", "read=/usr"]);
    assert_eq!(bound.code(), 2, "{}", bound.stderr());
    assert!(bound.stderr().contains("has no effect"), "{}", bound.stderr());
}

#[test]
fn gate_needs_what_workers_need_of_a_dependency() {
    use crate::corpus::compile::{c_adapter, compile_c};
    let world = World::new();
    let elsewhere = world.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let dependency = elsewhere.join("libdependency.so");
    compile_c(
        "int dependency(void) { return 1; }",
        &dependency,
        &["-shared", "-Wl,-soname,libdependency.so"],
    );
    let place = elsewhere.to_str().unwrap();
    let source = c_adapter("extern int dependency(void); int f(void) { return dependency(); }");
    let library = world.path("libdependent.so");
    let rpath = format!("-Wl,-rpath,{place}");
    compile_c(&source, &library, &["-shared", "-L", place, "-ldependency", &rpath]);
    let factory_ref = format!("{}:create_adapter", library.display());
    let reason = |options: &[&str]| {
        let arguments = ["adapter", "validate", &factory_ref, "--format", "json"];
        let run = world.run(&[&arguments[..], options].concat());
        let report = run.json();
        let error = &report["load_error"]["reason"];
        (error.as_str().unwrap().to_owned(), report["error"].as_str().unwrap().to_owned())
    };
    let (of_worker, told) = reason(&[]);
    assert_eq!(of_worker, "MISSING_DEPENDENCY", "{told}");
    assert!(told.contains(&format!("read: {}", dependency.display())), "{told}");
    // It is found then, and the library is refused for what it is.
    assert_eq!(reason(&["--isolation", "inline"]).0, "ABI_MISMATCH");
}

/// Owned texts of a check.
trait OwnedPair {
    fn to_owned_pair(&self) -> (String, String);
}

impl OwnedPair for (&str, &str) {
    fn to_owned_pair(&self) -> (String, String) {
        (self.0.to_owned(), self.1.to_owned())
    }
}

#[test]
fn daemon_configuration_bounds_the_gate() {
    let trial = TrialWorld::new(&Mimic::of_kind("mimic"));
    trial.write(&needy(&trial));
    let config = trial.world.path("inline.toml");
    std::fs::write(&config, "[workers]\nisolation = \"inline\"\n").unwrap();
    let config = config.to_str().unwrap();
    assert_eq!(trial.validate(&["--config-file", config]).code(), 0);
    assert_eq!(trial.validate(&["--config-file", config, "--isolation", "worker"]).code(), 1);
}
