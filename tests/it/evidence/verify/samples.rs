//! A cabinet with bundles of every kind, made by the real writer and sealed by a real sealer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nexus_router::attest::Statement;
use nexus_router::digest::Digest;
use nexus_router::evidence::{
    Cabinet, Execution, ExecutionSpec, Inputs, Kind, Outcome, Plan, PlanStep, Redactor, Rejection,
    SealFiles, SpecFields, Staged, Verification, normalize, statement,
};
use nexus_router::json::{Limits, Object, Value, parse};
use nexus_router::role::{ActionClass, Role};
use nexus_router::seal::{self, Leaf, Sealer, Trust};

pub struct Samples {
    pub directory: tempfile::TempDir,
    pub sealer: Sealer,
    pub cabinet: Cabinet,
    pub plan: Plan,
}

pub fn read(text: &str) -> Value {
    parse(text.as_bytes(), Limits::REQUEST).unwrap()
}

/// An output of a scout, with members that normalization takes out.
const SCOUT: &str = r#"{"action_class":"web_search","adapter_role":"scout","adapter_version":"1.0.0","errors":[],
    "ok":true,"result":{"answer":"x","latency_ms":12,"score":0.25},"sources":[{"url":"https://b.example/"},
    {"url":"https://a.example/","fetched_at":"now"}]}"#;

/// One of an envoy.
const ENVOY: &str = r#"{"action_class":"test_exec","adapter_role":"envoy","adapter_version":"1.2.3","artifacts":["a.bin"],
    "errors":[],"exit_code":0,"ok":true,"stderr":"","stdout":"ran in 3.2s\n"}"#;

impl Samples {
    /// Makes a cabinet with some bundles of every kind.
    pub fn new() -> Self {
        let samples = Self::empty();
        samples.scout("e1", "t1");
        samples.envoy("e2", "t1");
        samples.scout("e1", "t2");
        samples.rejection("t1", "action_not_allowed:shell_exec", 1);
        samples.rejection("t1", "action_not_allowed:shell_exec", 2);
        samples.verification(Digest::of(b"a spec"));
        samples.cabinet.stage_plan(&samples.plan).unwrap().publish(None).unwrap();
        samples
    }

    pub fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("sealed");
        std::fs::create_dir(&root).unwrap();
        let step = PlanStep {
            step_id: "s1".to_owned(),
            role: Role::Scout,
            action: ActionClass::WebSearch,
            task_id: "t1".to_owned(),
        };
        let plan = Plan::new("p1", &[step], &[]).unwrap();
        let (sealer, cabinet) = (Sealer::open(&root).unwrap(), Cabinet::open(&root).unwrap());
        Self { directory, sealer, cabinet, plan }
    }

    pub fn root(&self) -> PathBuf {
        self.directory.path().join("sealed")
    }

    pub fn trust(&self) -> Trust {
        Trust::read(&self.root().join("keys/trust.json")).unwrap()
    }

    /// Returns the bundles by what they are.
    pub fn bundles(&self) -> Vec<(&'static str, PathBuf)> {
        let evidence = self.root().join("evidence");
        let id = nexus_router::evidence::rejection::rejection_id("action_not_allowed:shell_exec");
        let spec = Digest::of(b"a spec").to_string();
        vec![
            ("scout", evidence.join("t1/e1")),
            ("envoy", evidence.join("t1/e2")),
            ("rejection", evidence.join("t1/rejections").join(id)),
            ("verification", evidence.join("verify").join(spec)),
        ]
    }

    fn environment() -> Object {
        let mut sandbox = Object::new();
        sandbox.insert("landlock_abi", 7);
        let mut environment = Object::new();
        environment.insert("router_version", "0.0.0");
        environment.insert("sandbox", sandbox);
        environment
    }

    /// Seals what is staged, and lets it appear.
    pub fn publish(&self, staged: Staged, kind: seal::Kind, statement: &Statement) -> PathBuf {
        let (manifest_sha256, spec_sha256) = (staged.manifest_sha256(), staged.spec_sha256());
        let leaf = Leaf { kind, manifest_sha256, spec_sha256 };
        let seal = self.sealer.seal(leaf, statement).unwrap();
        let files = SealFiles { attestation: &seal.attestation, proof: &seal.proof };
        staged.publish(Some(files)).unwrap().path
    }

    pub fn scout(&self, exec_id: &str, task_id: &str) -> PathBuf {
        let mut inputs = Inputs::new();
        inputs.add(Inputs::PLAN, self.plan.digest()).unwrap();
        inputs.add("input/question.txt", Digest::of(b"what is x?")).unwrap();
        let spec = spec(Role::Scout, ActionClass::WebSearch, exec_id, task_id, &inputs);
        let output = normalize(Role::Scout, None, Redactor::Nothing, read(SCOUT)).unwrap();
        let key = spec.digest().to_string();
        let mut execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
        execution.idempotency_key = Some(&key);
        execution.parsed = Some(&output);
        execution.stdout = output.text().as_bytes();
        self.execution(&execution, None)
    }

    pub fn envoy(&self, exec_id: &str, task_id: &str) -> PathBuf {
        let redactor = Redactor::AnsiAndDurations;
        let mut inputs = Inputs::new();
        inputs.add(Inputs::REDACTOR, redactor.digest()).unwrap();
        inputs.add(Inputs::ADAPTER_VERSION, Digest::of(b"1.2.3")).unwrap();
        let spec = spec(Role::Envoy, ActionClass::TestExec, exec_id, task_id, &inputs);
        let output = normalize(Role::Envoy, None, redactor, read(ENVOY)).unwrap();
        let key = spec.digest().to_string();
        let mut execution = Execution::new(&spec, &inputs, Outcome::Succeeded, "ok");
        execution.idempotency_key = Some(&key);
        execution.parsed = Some(&output);
        execution.redactor = redactor;
        execution.stdout = b"\x1b[1mran\x1b[0m in 3.2s\n";
        execution.outputs =
            BTreeMap::from([("a.bin", &b"\x00\x01\x02"[..]), ("deep/er/b.txt", b"")]);
        execution.volatile = BTreeMap::from([("timing.txt", &b"3.2s"[..])]);
        self.execution(&execution, Some(0))
    }

    pub fn execution(&self, execution: &Execution<'_>, exit_code: Option<i64>) -> PathBuf {
        let staged = self.cabinet.stage_execution(execution).unwrap();
        let facts = statement::ExecutionFacts {
            spec: execution.spec,
            inputs: execution.inputs,
            files: staged.files(),
            volatile: staged.volatile(),
            exit_code,
        };
        let statement =
            statement::about(&staged, statement::execution(&facts, Self::environment()));
        self.publish(staged, seal::Kind::Execution, &statement)
    }

    pub fn rejection(&self, task_id: &str, reason: &str, number: i64) -> PathBuf {
        let mut rejection = Rejection::new(task_id, reason);
        rejection.context.insert("number", number);
        let staged = self.cabinet.stage_rejection(&rejection).unwrap();
        let link = statement::rejection(&rejection, Self::environment());
        let statement = statement::about(&staged, link);
        self.publish(staged, seal::Kind::Rejection, &statement)
    }

    pub fn verification(&self, spec_sha256: Digest) -> PathBuf {
        let mut decisions = Object::new();
        decisions.insert("network_granted", false);
        let verification = Verification {
            spec_sha256,
            reason: "verified".to_owned(),
            idempotency_key: Some(spec_sha256.to_string()),
            decisions,
        };
        let staged = self.cabinet.stage_verification(&verification).unwrap();
        let link = statement::verification(&verification, Self::environment());
        let statement = statement::about(&staged, link);
        self.publish(staged, seal::Kind::Verification, &statement)
    }
}

pub fn spec(
    role: Role,
    action: ActionClass,
    exec_id: &str,
    task_id: &str,
    inputs: &Inputs,
) -> ExecutionSpec {
    ExecutionSpec::new(SpecFields {
        action,
        cmd_argv: vec!["search".to_owned(), "--for".to_owned(), "x".to_owned()],
        cwd: ".".to_owned(),
        env_allowlist: vec!["LANG".to_owned()],
        exec_id: exec_id.to_owned(),
        inputs_manifest_sha256: inputs.digest(),
        kind: Kind::Shell,
        note: None,
        paths_allowlist: vec![".".to_owned()],
        role,
        task_id: task_id.to_owned(),
        timeout_s: 60,
    })
    .unwrap()
}

/// Copies a directory.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}
