//! What a proof executes: every class of actions of both roles, and what must not succeed.
//!
//! Nothing here depends on the machine or on the hour: ids, arguments and texts are part of what is hashed. What does depend
//! on them, such as addresses, is in files of the workspace, which are not.

use serde_json::{Value, json};

use crate::role::{ActionClass, Role};

/// The adapters, by the ids that they have in a proof.
pub(super) const ENVOY: &str = "envoy";
pub(super) const SCOUT: &str = "scout";
/// Answers, in the place of a scout, what no scout may answer.
pub(super) const IMPOSTOR: &str = "impostor";

/// Files of the workspace that tell a probe what to try.
pub(super) const TARGETS: &str = "targets";
pub(super) const CLIENT: &str = "client.sh";

/// The exit code of a probe that was held back.
pub(super) const HELD: u8 = 77;

/// How many files outside its scope a probe tries to write.
pub(super) const OUTSIDE: usize = 6;

/// One step of a run.
#[derive(Clone, Debug)]
pub struct Step {
    /// The class of the action.
    pub class: ActionClass,
    adapter: &'static str,
    method: &'static str,
    args: Value,
    grants: Option<Value>,
}

/// A run of a role, all of whose steps must succeed.
#[derive(Clone, Debug)]
pub struct Deed {
    /// The role.
    pub role: Role,
    /// The task in its evidence.
    pub task_id: &'static str,
    /// What is done, in this order.
    pub steps: Vec<Step>,
}

/// What must come of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It is refused before anything runs, for this reason.
    Rejected(&'static str),
    /// It runs, fails for this reason, and changes nothing.
    Failed(&'static str),
}

/// An attempt at what must not be possible.
#[derive(Clone, Debug)]
pub struct Probe {
    /// What is tried.
    pub name: &'static str,
    /// The task in its evidence.
    pub task_id: &'static str,
    /// In which role it is tried.
    pub role: Role,
    /// The role of whoever asks.
    pub(super) caller: Option<Role>,
    pub(super) step: Step,
    /// What must come of it.
    pub expected: Expected,
    /// How many attempts it has to tell of, if it makes several: one that tried nothing was not held back.
    pub attempts: usize,
}

impl Probe {
    /// Says whether it needs the libraries of a scout.
    #[must_use]
    pub fn needs_scout(&self) -> bool {
        self.step.adapter != ENVOY
    }
}

fn step(adapter: &'static str, class: ActionClass, args: Value) -> Step {
    let method = if adapter == ENVOY { "run" } else { "call" };
    Step { class, adapter, method, args, grants: None }
}

fn sh(class: ActionClass, line: &str) -> Step {
    step(ENVOY, class, json!({ "argv": ["sh", "-c", line] }))
}

impl Step {
    fn granted(self, grants: Value) -> Self {
        Self { grants: Some(grants), ..self }
    }
}

/// Lists what each role does.
#[must_use]
pub fn deeds() -> Vec<Deed> {
    use ActionClass as C;
    let envoy = vec![
        step(ENVOY, C::FileWrite, json!({ "path": "greeting.txt", "text": "hello\n" })),
        sh(C::TestExec, r#"read -r line < greeting.txt && test "$line" = hello && echo tested"#),
        sh(C::BuildExec, r#"read -r line < greeting.txt && echo "built: $line" > built.txt"#),
        step(
            ENVOY,
            C::RepoOps,
            json!({ "argv": ["git", "-c", "init.defaultBranch=main", "init", "-q", "--template=", "repo"] }),
        ),
        step(
            ENVOY,
            C::RepoOps,
            json!({ "argv": ["git", "-C", "repo", "hash-object", "-w", "--stdin"], "stdin": "hello\n" }),
        ),
        sh(C::ShellExec, "echo shell").granted(json!([{ "grant": "shell_exec" }])),
        step(
            ENVOY,
            C::ArtifactPack,
            json!({ "paths": ["built.txt", "greeting.txt"], "name": "built.tar" }),
        ),
    ];
    let text = "On 2026-02-12 the contract was locked. It has two roles. Scout reads; Envoy works in its workspace.";
    let scout = vec![
        step(SCOUT, C::WebSearch, json!({ "query": "contract", "limit": 2 })),
        step(SCOUT, C::DocRetrieval, json!({ "source": "docs", "input": { "id": 7 } })),
        step(SCOUT, C::DataLookup, json!({ "source": "rows" })),
        step(SCOUT, C::SummarizeSources, json!({ "sources": [text], "sentences": 1 })),
        step(SCOUT, C::ExtractEntities, json!({ "text": text })),
        step(
            SCOUT,
            C::TransformText,
            json!({ "text": "b\na", "operations": ["sort_lines", "upper"] }),
        ),
    ];
    vec![
        Deed { role: Role::Envoy, task_id: "weekly-envoy", steps: envoy },
        Deed { role: Role::Scout, task_id: "weekly-scout", steps: scout },
    ]
}

/// Lists what is tried and must not succeed.
#[must_use]
pub fn probes() -> Vec<Probe> {
    use ActionClass as C;
    use Expected::{Failed, Rejected};
    let probe = |name, task_id, step: Step, expected| Probe {
        name,
        task_id,
        role: step.class.role(),
        caller: None,
        step,
        expected,
        attempts: 0,
    };
    let impostor = |method| Step { method, ..step(IMPOSTOR, C::DocRetrieval, json!({})) };
    let connects = step(ENVOY, C::TestExec, json!({ "argv": ["sh", CLIENT] }));
    let network = json!([{ "grant": "network", "targets": ["example.com:443"] }]);
    vec![
        Probe {
            caller: Some(Role::Scout),
            ..probe(
                "forbidden_action",
                "probe-forbidden-action",
                step(ENVOY, C::FileWrite, json!({ "path": "x", "text": "x" })),
                Rejected("role_refused:scout:file_write"),
            )
        },
        probe(
            "forbidden_key",
            "probe-forbidden-key",
            impostor("forbidden_key"),
            Failed("forbidden_key:confidence"),
        ),
        probe(
            "missing_key",
            "probe-missing-key",
            impostor("missing_key"),
            Failed("missing_key:sources"),
        ),
        probe(
            "wrong_role",
            "probe-wrong-role",
            impostor("wrong_role"),
            Failed("role_mismatch:envoy"),
        ),
        Probe {
            attempts: OUTSIDE,
            ..probe(
                "write_outside_scope",
                "probe-write-outside",
                sh(C::TestExec, &writes()),
                Failed("exit_code:77"),
            )
        },
        probe(
            "path_outside_scope",
            "probe-path-outside",
            step(ENVOY, C::FileWrite, json!({ "path": "../outside", "text": "x" })),
            Rejected("arguments_invalid:envoy:file_write"),
        ),
        probe("network_attempt", "probe-network", connects, Failed("exit_code:77")),
        probe(
            "network_without_gate",
            "probe-network-gate",
            sh(C::TestExec, "true").granted(network),
            Rejected("policy_gate_closed:network"),
        ),
        probe(
            "shell_without_grant",
            "probe-shell-grant",
            sh(C::ShellExec, "true"),
            Rejected("plan_grant_missing:shell_exec"),
        ),
    ]
}

/// Returns the line of a shell that tries to write every target. Each attempt is told by its number, and only the kernel's
/// word counts: what fails otherwise, or was never tried, was not held back.
fn writes() -> String {
    format!(
        "n=0; while read -r file; do n=$((n + 1)); \
         said=$({{ echo forged > \"$file\"; }} 2>&1) && exit 0; \
         case $said in *'Permission denied'* | *'Operation not permitted'*) echo \"$n {ATTEMPT}\" ;; \
         *) printf '%s\\n' \"$said\" >&2; exit 1 ;; esac; done < {TARGETS} || exit 1; \
         test $n -gt 0 || exit 1; exit {HELD}"
    )
}

/// What a probe says of an attempt that was held back, behind its number.
const ATTEMPT: &str = "held";

/// Returns how many of its attempts a probe tells to have been held back.
pub(super) fn attempts(probe: &Probe, stdout: &str) -> usize {
    let told = |number: &usize| stdout.lines().any(|line| line == format!("{number} {ATTEMPT}"));
    (1..=probe.attempts).filter(told).count()
}

/// Makes the request for a run of some steps.
pub(super) fn request(goal: &str, steps: &[Step]) -> Value {
    let one = |(index, step): (usize, &Step)| {
        let mut written = json!({
            "step_id": format!("s{}", index + 1),
            "intent": step.class.name(),
            "dispatch": { "adapter_id": step.adapter },
            "call": { "tool": step.class.name(), "method": step.method, "args": step.args },
        });
        if let Some(grants) = &step.grants {
            written["grants"] = grants.clone();
        }
        written
    };
    let plan: Vec<Value> = steps.iter().enumerate().map(one).collect();
    json!({ "goal": goal, "mode": "apply", "policy": { "allow_apply": true }, "plan_override": plan })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the line of the probe where these are the targets, or where there are none.
    fn written(targets: Option<&str>) -> Option<i32> {
        let place = tempfile::tempdir().unwrap();
        if let Some(targets) = targets {
            std::fs::write(place.path().join(TARGETS), targets).unwrap();
        }
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &writes()]).current_dir(place.path());
        shell.output().unwrap().status.code()
    }

    #[test]
    fn a_probe_that_tries_nothing_or_fails_by_itself_was_not_held_back() {
        assert_eq!(written(None), Some(1), "there is no list");
        assert_eq!(written(Some("")), Some(1), "the list is empty");
        assert_eq!(written(Some("no/such/directory\n")), Some(1), "the kernel has no say in it");
        assert_eq!(written(Some("here\n")), Some(0), "it is written");
    }

    #[test]
    fn every_attempt_counts_once_and_only_if_it_was_held_back() {
        let probes = probes();
        let probe = probes.iter().find(|probe| probe.name == "write_outside_scope").unwrap();
        assert_eq!(probe.attempts, OUTSIDE);
        let all: String = (1..=OUTSIDE).map(|number| format!("{number} held\n")).collect();
        assert_eq!(attempts(probe, &all), OUTSIDE);
        assert_eq!(attempts(probe, ""), 0);
        assert_eq!(attempts(probe, &"1 held\n".repeat(OUTSIDE)), 1);
        assert_eq!(attempts(probe, &all.replace("3 held", "3 forged")), OUTSIDE - 1);
    }
}
