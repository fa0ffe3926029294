//! What is frozen, as the code has it: each thing by name, with its canonical text.

use std::collections::BTreeMap;
use std::path::Path;

use nexus_router::evidence::{
    Cabinet, Execution, ExecutionSpec, Inputs, Kind, Manifest, Outcome, Plan, PlanStep, Redactor,
    Rejection, SpecFields, Verification, manifest, normalize, output, spec,
};
use nexus_router::json::{Object, Value, parse, to_jcs};
use nexus_router::role::{self, ActionClass, Role, export};

/// Things that are frozen, by name.
pub type Frozen = BTreeMap<String, String>;

/// Returns everything that is frozen.
pub fn frozen() -> Frozen {
    let versions = Role::ALL.map(|role| (role.name().to_owned(), role.adapter_version().into()));
    let things = [
        ("adapter_versions", versions.into_iter().collect::<Object>().into()),
        ("conditions", export::json().get("conditions").unwrap().clone()),
        ("execution_spec", list(spec::KEYS)),
        ("layout", layout()),
        ("normalization", normalize::table()),
        ("outputs", outputs()),
        ("role_table", role::table()),
    ];
    things.into_iter().map(|(name, value)| (name.to_owned(), to_jcs(&value).unwrap())).collect()
}

/// Returns which revision each module says it holds to.
pub fn validates() -> BTreeMap<String, String> {
    let modules = [
        ("role", role::VALIDATES),
        ("evidence::manifest", manifest::VALIDATES),
        ("evidence::normalize", normalize::VALIDATES),
        ("evidence::output", output::VALIDATES),
        ("evidence::spec", spec::VALIDATES),
    ];
    modules.into_iter().map(|(module, version)| (module.to_owned(), version.to_owned())).collect()
}

fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> Value {
    texts.into_iter().map(Value::from).collect::<Vec<_>>().into()
}

/// Returns the keys of each role's output with their types, and which actions need no exit code.
fn outputs() -> Value {
    let mut roles = Object::new();
    for role in Role::ALL {
        let keys: Object = output::keys(role)
            .iter()
            .map(|(key, kind)| ((*key).to_owned(), Value::from(kind.name())))
            .collect();
        let free = |in_process| {
            let classes = role.actions().into_iter();
            list(
                classes
                    .filter(|class| !output::needs_exit_code(*class, in_process))
                    .map(ActionClass::name),
            )
        };
        let mut schema = Object::new();
        schema.insert("keys", keys);
        schema.insert("without_exit_code", free(false));
        schema.insert("without_exit_code_in_process", free(true));
        roles.insert(role.name(), schema);
    }
    roles.into()
}

/// Returns the names of all files that a cabinet gets, with what varies in angle brackets.
fn layout() -> Value {
    let root = tempfile::tempdir().unwrap();
    let cabinet = Cabinet::open(root.path()).unwrap();
    let rejection = Rejection::new("task", "a reason");
    let inputs = Inputs::new();
    let spec = ExecutionSpec::new(SpecFields {
        action: ActionClass::WebSearch,
        cmd_argv: vec!["search".to_owned()],
        cwd: ".".to_owned(),
        env_allowlist: Vec::new(),
        exec_id: "execution".to_owned(),
        inputs_manifest_sha256: inputs.digest(),
        kind: Kind::Http,
        note: None,
        paths_allowlist: Vec::new(),
        role: Role::Scout,
        task_id: "task".to_owned(),
        timeout_s: 1,
    })
    .unwrap();
    let verification = Verification {
        spec_sha256: spec.digest(),
        reason: "ok".to_owned(),
        idempotency_key: None,
        decisions: Object::new(),
    };
    let step = PlanStep {
        step_id: "1".to_owned(),
        role: Role::Scout,
        action: ActionClass::WebSearch,
        task_id: "task".to_owned(),
    };
    let plan = Plan::new("plan", &[step], &[]).unwrap();
    let output = br#"{"action_class":"web_search","adapter_role":"scout","adapter_version":"1.0.0","errors":[],"ok":true,"result":{"latency_ms":1},"sources":[]}"#;
    let output = parse(output, spec::LIMITS).unwrap();
    let parsed = normalize::normalize(Role::Scout, None, Redactor::Nothing, output).unwrap();
    let execution = Execution {
        parsed: Some(&parsed),
        ..Execution::new(&spec, &inputs, Outcome::Succeeded, "ok")
    };
    for staged in [
        cabinet.stage_execution(&execution),
        cabinet.stage_rejection(&rejection),
        cabinet.stage_verification(&verification),
        cabinet.stage_plan(&plan),
    ] {
        staged.unwrap().publish(None).unwrap();
    }
    let mut names = Vec::new();
    collect(root.path(), root.path(), &mut names);
    let varying = [
        (rejection.id(), "<rej_id>"),
        (spec.digest().to_string(), "<spec_sha256>"),
        (plan.digest().to_string(), "<plan_sha256>"),
        ("/task/".to_owned(), "/<task_id>/"),
        ("/execution/".to_owned(), "/<exec_id>/"),
    ];
    for name in &mut names {
        for (text, placeholder) in &varying {
            *name = name.replace(text, placeholder);
        }
    }
    names.sort();
    let mut layout = Object::new();
    layout.insert("files", list(names.iter().map(String::as_str)));
    layout.insert("outer", list(manifest::OUTER));
    layout.insert("empty_manifest", Manifest::default().digest().to_string());
    layout.into()
}

fn collect(root: &Path, directory: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, names);
        } else {
            names.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
}
