//! Kernels that cannot confine a scout: what it is asked for is rejected, and that is sealed.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::confinement::lacking::{without_landlock, without_seccomp};
use crate::support::{PROGRAM, Run, World, built_directory};

const ENOSYS: u32 = 38;

/// A scout with a source, neither of which the kernel may be able to confine.
const CONFIG: &str = r#"
default_adapter = "scout"
[[adapters]]
id = "scout"
ref = "nexus_router_adapter_scout:create_adapter"
role = "scout"
[[adapters.sources]]
name = "docs"
adapter = "library"
tool = "documents"
method = "get"
action_class = "doc_retrieval"
[[adapters]]
id = "library"
ref = "nexus_router_adapter_echo:create_adapter"
"#;

struct Stage {
    world: World,
}

impl Stage {
    fn new(more: &str) -> Self {
        let world = World::new();
        std::fs::write(world.path("router.toml"), format!("{CONFIG}{more}")).unwrap();
        Self { world }
    }

    fn command(&self, arguments: &[&str]) -> Run {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .current_dir(self.world.directory.path())
            .env_clear()
            .env("NEXUS_ROUTER_CACHE_DIR", self.world.path("cache"))
            .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory());
        Run(command.output().unwrap())
    }

    /// Has the scout work on a text.
    fn run(&self) -> Value {
        let args = json!({ "text": "a", "operations": [] });
        let call = json!({ "tool": "transform_text", "method": "call", "args": args });
        let request = json!({ "goal": "x", "mode": "apply", "policy": { "allow_apply": true },
            "plan_override": [{ "step_id": "s", "intent": "i", "call": call }] });
        std::fs::write(self.world.path("request.json"), request.to_string()).unwrap();
        let config = ["--config-file", "router.toml"];
        let arguments = ["run", "request.json", "--db", "runs.db", "--format", "json"];
        let run = self.command(&[&arguments[..], &config].concat());
        serde_json::from_slice(&run.0.stdout).unwrap_or_else(|_| panic!("{}", run.stderr()))
    }

    fn evidence(&self, run: &Value) -> PathBuf {
        self.world.path("sealed/evidence").join(run["run"]["run_id"].as_str().unwrap())
    }

    /// Asserts that the only step was rejected because of a feature, and that this is sealed.
    fn assert_rejected(&self, run: &Value, feature: &str) {
        assert_eq!(run["status"], "FAILED", "{run}");
        let error = &run["results"][0]["error"];
        assert_eq!(error["code"], "SANDBOX_UNAVAILABLE", "{run}");
        assert!(error["message"].as_str().unwrap().contains(feature), "{run}");
        let evidence = self.evidence(run);
        assert!(!evidence.join("step-1").exists(), "nothing was executed");
        let kept: Vec<_> = std::fs::read_dir(evidence.join("rejections")).unwrap().collect();
        assert_eq!(kept.len(), 1);
        let rejection = kept[0].as_ref().unwrap().path().join("rejection.json");
        let rejection: Value = serde_json::from_slice(&std::fs::read(rejection).unwrap()).unwrap();
        assert_eq!(rejection["outcome"], "REJECTED");
        assert_eq!(rejection["reason"], format!("sandbox_unavailable:{feature}"));
    }

    fn assert_genuine(&self) {
        let sealed = self.world.path("sealed");
        let trust = nexus_router::seal::trust_path(&sealed);
        let verify = ["evidence", "verify", "--trust", trust.to_str().unwrap()];
        let run = self.command(&[&verify[..], &[sealed.to_str().unwrap()]].concat());
        assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    }
}

#[test]
fn a_scout_that_cannot_be_confined_is_rejected_with_the_feature() {
    let stage = Stage::new("");
    stage.assert_rejected(&without_landlock(ENOSYS, || stage.run()), "landlock");
    stage.assert_rejected(&without_seccomp(|| stage.run()), "seccomp");
    let run = stage.run();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert!(stage.evidence(&run).join("step-1").exists());
    // It is known to load by now, and that counts for nothing on another kernel.
    stage.assert_rejected(&without_landlock(ENOSYS, || stage.run()), "landlock");
    stage.assert_genuine();
}

#[test]
fn what_may_be_missing_for_other_adapters_may_not_be_missing_for_a_role() {
    let stage = Stage::new("[workers]\naccept_missing = [\"landlock\", \"seccomp\"]\n");
    stage.assert_rejected(&without_landlock(ENOSYS, || stage.run()), "landlock");
    stage.assert_genuine();
}
