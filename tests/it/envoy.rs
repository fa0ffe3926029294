//! Envoy at work: every class through the gate, in sandboxes, with evidence of it.
//!
//! All of it holds for the superuser and for a user without rights: `confinement::nobody` runs it again as one.

mod approved;
mod classes;
mod elsewhere;
mod escapes;
mod hostile;
mod lacking;
mod limits;
mod metadata;
mod network;
mod placement;
mod refused;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::confinement::program;
use crate::support::{Run, World, built_directory};

/// An envoy with a workspace, a store, and files outside that it must not touch.
struct Stage {
    world: World,
    /// More programs that are granted.
    programs: Option<tempfile::TempDir>,
}

impl Stage {
    /// Makes a stage whose envoy has these settings and grants besides its workspace and a shell.
    fn new(settings: &str, grants: &str) -> Self {
        let stage = Self { world: World::new(), programs: None };
        for directory in ["workspace", "outside"] {
            std::fs::create_dir(stage.world.path(directory)).unwrap();
        }
        std::fs::write(stage.world.path("outside/file"), "untouched").unwrap();
        let workspace = stage.world.path("workspace");
        let config = format!(
            "[[adapters]]\nref = \"builtin:envoy\"\n[adapters.config]\n\
             workspace = {workspace:?}\n{settings}\n[adapters.grants]\n{grants}\n"
        );
        std::fs::write(stage.world.path("router.toml"), config).unwrap();
        stage
    }

    /// With a shell, and nothing else.
    fn usual() -> Self {
        Self::new("shell_exec = true", "run = [\"/bin/sh\"]")
    }

    fn workspace(&self, name: &str) -> PathBuf {
        self.world.path("workspace").join(name)
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.world.path("outside").join(name)
    }

    /// Runs the program with a clean environment.
    fn program(&self, arguments: &[&str]) -> Run {
        Run(self.command(arguments).output().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .current_dir(self.world.directory.path())
            .env_clear()
            .env("GREETING", "hello")
            .env("SECRET", "hush")
            .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory())
            .env("NEXUS_ROUTER_CACHE_DIR", self.world.path("cache"));
        command
    }

    /// Carries out a plan, and returns what came of it.
    fn run(&self, steps: &[Value]) -> Value {
        let run = self.program(&self.plan(steps).each_ref().map(String::as_str));
        serde_json::from_slice(&run.0.stdout).unwrap_or_else(|_| panic!("{}", run.stderr()))
    }

    /// Writes a plan, and returns the arguments that carry it out.
    fn plan(&self, steps: &[Value]) -> [String; 8] {
        let steps: Vec<Value> = steps
            .iter()
            .enumerate()
            .map(|(index, step)| {
                let mut whole = json!({ "step_id": format!("s{}", index + 1), "intent": "",
                    "call": { "tool": step["tool"], "method": "run", "args": step["args"] } });
                for key in ["grants", "timeout_ms", "expect"] {
                    if let Some(value) = step.get(key) {
                        whole[key] = value.clone();
                    }
                }
                whole
            })
            .collect();
        let plan = json!({ "goal": "work", "mode": "apply", "policy": { "allow_apply": true },
            "plan_override": steps });
        std::fs::write(self.world.path("plan.json"), plan.to_string()).unwrap();
        ["run", "plan.json", "--config-file", "router.toml", "--db", "runs.db", "--format", "json"]
            .map(str::to_owned)
    }

    /// Carries out one step, and returns its result.
    fn step(&self, step: Value) -> Value {
        self.run(&[step])["results"][0].clone()
    }

    /// Runs a line of a shell as a test, and returns the output in the form of the role.
    fn shell(&self, line: &str) -> Value {
        self.step(test(&["sh", "-c", line]))["output"].clone()
    }

    /// Returns the directories of evidence of the executions of the last run, or of its rejections.
    fn evidence(&self, of: &Value) -> PathBuf {
        let run_id = of["run"]["run_id"].as_str().unwrap();
        self.world.path("sealed/evidence").join(run_id)
    }

    /// Returns the reason of the only rejection of a run.
    fn rejection(&self, run: &Value) -> String {
        let directory = self.evidence(run).join("rejections");
        let mut found =
            std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{error}: {run}"));
        let one = found.next().unwrap().unwrap().path();
        assert!(found.next().is_none());
        let rejection = read(&one.join("rejection.json"));
        assert_eq!(rejection["outcome"], "REJECTED");
        rejection["reason"].as_str().unwrap().to_owned()
    }

    /// Asserts that all evidence is genuine.
    fn assert_verified(&self) {
        let sealed = self.world.path("sealed");
        let trust = nexus_router::seal::trust_path(&sealed);
        let run = self.program(&[
            "evidence",
            "verify",
            "--trust",
            trust.to_str().unwrap(),
            sealed.to_str().unwrap(),
        ]);
        assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
    }

    /// Asserts that nothing outside has changed.
    fn assert_untouched(&self) {
        let names = std::fs::read_dir(self.world.path("outside")).unwrap().count();
        assert_eq!(names, 1);
        assert_eq!(std::fs::read_to_string(self.outside("file")).unwrap(), "untouched");
    }
}

fn test(argv: &[&str]) -> Value {
    json!({ "tool": "test_exec", "args": { "argv": argv } })
}

fn shell_granted(line: &str) -> Value {
    json!({ "tool": "shell_exec", "args": { "argv": ["sh", "-c", line] },
        "grants": [{ "grant": "shell_exec" }] })
}

fn read(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_slice(&bytes).unwrap()
}

/// Returns the statement that seals a bundle.
fn statement(bundle: &Path) -> Value {
    use base64::Engine as _;
    let text = std::fs::read_to_string(bundle.join("attestation.intoto.jsonl")).unwrap();
    let envelope: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let payload = base64::engine::general_purpose::STANDARD
        .decode(envelope["payload"].as_str().unwrap())
        .unwrap();
    serde_json::from_slice(&payload).unwrap()
}
