//! The artifact of a proof: what the files of a run say, in one canonical document.
//!
//! All of it is read from the disk, by whoever makes it and by whoever verifies it. `content_sha256` covers what is the same on
//! every machine and in every week; beside it stand the five members that the log adds: `checkpoint_root`, `prev_tree_size`,
//! `run_id`, `store_root` and `tree_size`.

use std::collections::BTreeMap;
use std::path::Path;

use super::deeds::{self, Deed, Expected, Probe, deeds, probes};
use super::{INTENT, Place, file};
use crate::digest::Digest;
use crate::evidence::{manifest, rejection};
use crate::files;
use crate::interface;
use crate::json::{self, Limits, Object, Value};
use crate::role::{self, ActionClass, Role};

/// The schema of the artifact.
pub const SCHEMA: &str = "agentos-weekly-proof/v1";
/// The digest of all the rest.
pub(super) const CONTENT: &str = "content_sha256";

/// No document of a proof is larger.
const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 64, values: 100_000 };

/// Which model, or whatever else, stands behind a role this week. It is recorded, and gives no role anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignments(BTreeMap<&'static str, String>);

impl Assignments {
    /// Reads assignments that are written `ROLE=NAME`.
    ///
    /// # Errors
    /// When one of them is none, or a role has two.
    pub fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut assigned = BTreeMap::new();
        for text in texts {
            let (name, model) = text.split_once('=').unwrap_or((text, ""));
            let role = Role::from_name(name)
                .ok_or_else(|| format!("{name:?} is no role; the roles are scout and envoy"))?;
            let plain = |c: char| c.is_ascii_graphic();
            if model.is_empty() || model.len() > 200 || !model.chars().all(plain) {
                return Err(format!(
                    "{text:?} assigns nothing; write {name}=PROVIDER/MODEL, without spaces"
                ));
            }
            if assigned.insert(role.name(), model.to_owned()).is_some() {
                return Err(format!("{name} is assigned twice"));
            }
        }
        Ok(Self(assigned))
    }

    fn to_json(&self) -> Object {
        let of =
            |role: Role| (role.name().to_owned(), Value::from(self.0.get(role.name()).cloned()));
        sorted(Role::ALL.into_iter().map(of))
    }

    /// Reads what an artifact says.
    pub(super) fn of(artifact: &Value) -> Option<Self> {
        let told = artifact.get("role_assignments")?.as_object()?;
        let mut assigned = BTreeMap::new();
        for (name, model) in told.iter() {
            let role = Role::from_name(name)?;
            match model {
                Value::Null => {}
                Value::String(model) => drop(assigned.insert(role.name(), model.clone())),
                _ => return None,
            }
        }
        Some(Self(assigned))
    }
}

/// What the log says of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Logged {
    pub(super) run_id: String,
    pub(super) prev_tree_size: u64,
    pub(super) tree_size: u64,
    pub(super) checkpoint_root: String,
}

/// Writes down what the files of a run say.
pub(super) fn derive(run: &Path, assignments: &Assignments, logged: &Logged) -> Object {
    let universe: Vec<Value> = {
        let mut names = ActionClass::ALL.map(ActionClass::name);
        names.sort_unstable();
        names.into_iter().map(Value::from).collect()
    };
    let assigned = assignments.to_json();
    let results = deeds()
        .iter()
        .map(|deed| (deed.role.name().to_owned(), of_deed(run, deed).into()))
        .collect::<Vec<_>>();
    let tried: Vec<Value> = probes().iter().map(|probe| of_probe(run, probe).into()).collect();
    let mut artifact = sorted([
        ("actions_universe_sha256".to_owned(), digest_of(&universe.into()).into()),
        ("intent".to_owned(), INTENT.into()),
        ("operation_table_sha256".to_owned(), digest_of(&interface::operation_table()).into()),
        ("probes".to_owned(), tried.into()),
        ("results".to_owned(), sorted(results).into()),
        ("role_assignments_sha256".to_owned(), digest_of(&assigned.clone().into()).into()),
        ("role_assignments".to_owned(), assigned.into()),
        ("role_contract_sha256".to_owned(), role::contract_sha256().to_string().into()),
        ("role_table_sha256".to_owned(), role::table_sha256().to_string().into()),
        (
            "roles".to_owned(),
            Role::ALL
                .map(|role| Value::from(role.name()))
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .into(),
        ),
        ("schema_version".to_owned(), SCHEMA.into()),
    ]);
    artifact.insert(CONTENT, digest_of(&artifact.clone().into()));
    artifact.insert("run_id", logged.run_id.as_str());
    artifact.insert("store_root", Place::store_root(&logged.run_id));
    artifact.insert("prev_tree_size", logged.prev_tree_size);
    artifact.insert("tree_size", logged.tree_size);
    artifact.insert("checkpoint_root", logged.checkpoint_root.as_str());
    artifact
}

/// Returns the tests that an artifact tells of, and whether each passed.
pub(super) fn tests(artifact: &Value) -> Vec<(String, bool)> {
    let ok = |row: &Value| row.get("ok").and_then(Value::as_bool) == Some(true);
    let text = |row: &Value, name: &str| {
        row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut tests = Vec::new();
    for (role, result) in
        artifact.get("results").and_then(Value::as_object).into_iter().flat_map(Object::iter)
    {
        tests.push((role.to_owned(), ok(result)));
        let rows = result.get("executions").and_then(Value::as_array).unwrap_or_default();
        tests.extend(rows.iter().map(|row| {
            (format!("{role}/{}/{}", text(row, "exec_id"), text(row, "action_class")), ok(row))
        }));
    }
    let probes = artifact.get("probes").and_then(Value::as_array).unwrap_or_default();
    tests.extend(probes.iter().map(|row| (format!("probe/{}", text(row, "name")), ok(row))));
    tests
}

fn of_deed(run: &Path, deed: &Deed) -> Object {
    let mut result = Object::new();
    if ![run.to_owned(), run.join(file::AGAIN)]
        .iter()
        .any(|cabinet| cabinet.join("evidence").join(deed.task_id).exists())
    {
        // Nothing was tried, and so nothing is good.
        result.insert("ok", false);
        result.insert("skipped", true);
        return result;
    }
    let rows: Vec<Object> = deed
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| of_step(run, deed, &format!("step-{}", index + 1), step.class))
        .collect();
    let all = rows.iter().all(|row| row.get("ok").and_then(Value::as_bool) == Some(true));
    let mut versions: Vec<&Value> =
        rows.iter().filter_map(|row| row.get("adapter_version")).collect();
    versions.dedup();
    let worst = rows.iter().filter_map(|row| row.get("exit_code")?.as_i64()).max();
    result.insert("adapter_role", deed.role.name());
    result.insert(
        "adapter_version",
        match versions[..] {
            [one] => one.clone(),
            _ => Value::Null,
        },
    );
    result.insert("evaluation_decision", if all { "accept" } else { "refine" });
    result.insert("executions", rows.into_iter().map(Value::from).collect::<Vec<_>>());
    result.insert("exit_code", worst.unwrap_or(0));
    result.insert("ok", all);
    result.insert("skipped", false);
    result
}

/// Tells of one step: what it was, and that it was the same again.
fn of_step(run: &Path, deed: &Deed, exec_id: &str, class: ActionClass) -> Object {
    let place = format!("evidence/{}/{exec_id}", deed.task_id);
    let [first, again] =
        [run.to_owned(), run.join(file::AGAIN)].map(|cabinet| Seen::of(&cabinet, &place));
    let parsed = read(&run.join(&place).join("outputs/parsed.json"));
    let summary = read(&run.join(&place).join(manifest::SUMMARY));
    let part = |value: &Option<Value>, name: &str| {
        value.as_ref().and_then(|value| value.get(name)).cloned().unwrap_or(Value::Null)
    };
    let outcome = part(&summary, "outcome");
    let same = first == again && first.is_whole();
    let mut row = Object::new();
    row.insert("action_class", class.name());
    row.insert("adapter_role", part(&parsed, "adapter_role"));
    row.insert("adapter_version", part(&parsed, "adapter_version"));
    row.insert("bundle_dir", place.as_str());
    row.insert("bundle_schema_sha256", schema(&run.join(&place)));
    row.insert("evaluation_decision", if same { "accept" } else { "refine" });
    row.insert("evaluation_manifest_sha256", text(again.manifest));
    row.insert("evaluation_spec_sha256", text(again.spec));
    row.insert("exec_id", exec_id);
    row.insert("exit_code", part(&parsed, "exit_code"));
    row.insert("manifest_sha256", text(first.manifest));
    row.insert("ok", same && outcome.as_str() == Some("SUCCEEDED"));
    row.insert("outcome", outcome);
    row.insert("refinement_task_id", Value::Null);
    row.insert("spec_sha256", text(first.spec));
    row.insert("verification_sha256", text(first.verification));
    row
}

fn of_probe(run: &Path, probe: &Probe) -> Object {
    let (place, document, expected) = match probe.expected {
        Expected::Failed(reason) => {
            (format!("evidence/{}/step-1", probe.task_id), manifest::SUMMARY, ("FAILED", reason))
        }
        Expected::Rejected(reason) => {
            let id = rejection::rejection_id(reason);
            (
                format!("evidence/{}/rejections/{id}", probe.task_id),
                manifest::REJECTION,
                ("REJECTED", reason),
            )
        }
    };
    let mut row = Object::new();
    row.insert("name", probe.name);
    if probe.needs_scout() && !run.join("evidence").join(probe.task_id).exists() {
        row.insert("ok", false);
        row.insert("skipped", true);
        return row;
    }
    let told = read(&run.join(&place).join(document)).unwrap_or(Value::Null);
    let part = |name: &str| told.get(name).and_then(Value::as_str);
    let [first, again] = [run.to_owned(), run.join(file::AGAIN)]
        .map(|cabinet| digest(&cabinet.join(&place).join(manifest::MANIFEST)));
    let mut held = (part("outcome"), part("reason")) == (Some(expected.0), Some(expected.1));
    if probe.attempts > 0 {
        let stdout = run.join(&place).join(manifest::STDOUT);
        let stdout = files::read_bounded(&stdout, LIMITS.bytes).unwrap_or_default();
        let attempts = deeds::attempts(probe, &String::from_utf8_lossy(&stdout));
        held &= attempts == probe.attempts;
        row.insert("attempts", attempts);
    }
    row.insert("bundle_dir", place);
    row.insert("manifest_sha256", text(first));
    row.insert("ok", held && first.is_some() && first == again);
    row.insert("outcome", part("outcome"));
    row.insert("reason", part("reason"));
    row.insert("role", probe.role.name());
    row.insert("skipped", false);
    row
}

/// What two executions have to have in common.
#[derive(PartialEq, Eq)]
struct Seen {
    spec: Option<Digest>,
    manifest: Option<Digest>,
    verification: Option<Digest>,
}

impl Seen {
    fn of(cabinet: &Path, place: &str) -> Self {
        let spec = digest(&cabinet.join(place).join(manifest::SPEC));
        let verification = spec.and_then(|spec| {
            digest(&cabinet.join(format!("evidence/verify/{spec}")).join(manifest::MANIFEST))
        });
        Self { spec, manifest: digest(&cabinet.join(place).join(manifest::MANIFEST)), verification }
    }

    const fn is_whole(&self) -> bool {
        self.spec.is_some() && self.manifest.is_some() && self.verification.is_some()
    }
}

/// Returns the digest of what files a bundle has, and which members each document has at its top.
fn schema(bundle: &Path) -> Option<String> {
    let listed = read(&bundle.join(manifest::MANIFEST))?;
    let files = listed.get("files")?.as_object()?;
    let mut shape = BTreeMap::new();
    for name in files.keys().chain([manifest::MANIFEST, manifest::SUMMARY]) {
        let document = name.ends_with(".json").then(|| read(&bundle.join(name))).flatten();
        let mut keys: Vec<String> = document
            .as_ref()
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(Object::keys)
            .map(str::to_owned)
            .collect();
        keys.sort_unstable();
        shape.insert(
            name.to_owned(),
            Value::from(keys.into_iter().map(Value::from).collect::<Vec<_>>()),
        );
    }
    Some(digest_of(&sorted(shape).into()))
}

/// Reads a document, if it is one.
pub(super) fn read(path: &Path) -> Option<Value> {
    json::parse(&files::read_bounded(path, LIMITS.bytes).ok()?, LIMITS).ok()
}

/// Reads an artifact: exactly the canonical text, and a line end.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let value = json::parse(bytes, LIMITS).map_err(|error| error.to_string())?;
    if to_bytes(&value) != bytes {
        return Err("it is not written in its canonical form".to_owned());
    }
    Ok(value)
}

/// Returns the bytes of an artifact.
pub(super) fn to_bytes(artifact: &Value) -> Vec<u8> {
    let mut text = json::to_jcs(artifact).unwrap_or_default();
    text.push('\n');
    text.into_bytes()
}

fn digest(path: &Path) -> Option<Digest> {
    files::read_bounded(path, LIMITS.bytes).ok().map(|bytes| Digest::of(&bytes))
}

fn digest_of(value: &Value) -> String {
    // There are no numbers that have no exact text.
    Digest::of(json::to_jcs(value).unwrap_or_default().as_bytes()).to_string()
}

fn text(digest: Option<Digest>) -> Option<String> {
    digest.map(|digest| digest.to_string())
}

fn sorted(members: impl IntoIterator<Item = (String, Value)>) -> Object {
    members.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the bundle of a probe into both cabinets, and says whether it was held back and how often it tried.
    fn probed(stdout: &str) -> (Option<bool>, Option<i64>) {
        let probes = probes();
        let probe = probes.iter().find(|probe| probe.name == "write_outside_scope").unwrap();
        let run = tempfile::tempdir().unwrap();
        for cabinet in [run.path().to_owned(), run.path().join(file::AGAIN)] {
            let bundle = cabinet.join("evidence").join(probe.task_id).join("step-1");
            std::fs::create_dir_all(&bundle).unwrap();
            let summary = r#"{"outcome":"FAILED","reason":"exit_code:77"}"#;
            std::fs::write(bundle.join(manifest::SUMMARY), summary).unwrap();
            std::fs::write(bundle.join(manifest::MANIFEST), "{}").unwrap();
            std::fs::write(bundle.join(manifest::STDOUT), stdout).unwrap();
        }
        let row = of_probe(run.path(), probe);
        let (ok, attempts) = (row.get("ok").unwrap(), row.get("attempts").unwrap());
        (ok.as_bool(), attempts.as_i64())
    }

    #[test]
    fn a_probe_is_held_back_only_from_what_it_tried() {
        let all: String = (1..=6).map(|number| format!("{number} held\n")).collect();
        assert_eq!(probed(&all), (Some(true), Some(6)));
        assert_eq!(probed(""), (Some(false), Some(0)));
        assert_eq!(probed("1 held\n2 held\n"), (Some(false), Some(2)));
    }
}
