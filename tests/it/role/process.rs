//! The contract update process: what is frozen changes with a revision, validation code, tests and golden data, or not at all.
//!
//! `tests/golden/roles/contract.lock` has a line for each revision, which says by digests what was frozen then. [`judge`]
//! holds the tree to the last line, and tells which of the four a change lacks.

use std::collections::{BTreeMap, BTreeSet};

use nexus_router::Digest;
use nexus_router::json::{Limits, Value, parse, to_jcs};
use nexus_router::role::revisions;
use semver::Version;

use super::frozen::Frozen;

/// The golden data that a revision has.
pub const GOLDENS: [&str; 6] = [
    "decisions.txt",
    "frozen.json",
    "policy.cedar",
    "policy.cedarschema",
    "policy.rego",
    "roles.json",
];

/// What there is.
#[derive(Clone)]
pub struct Tree {
    /// The contract.
    pub contract: Value,
    /// What the code has frozen.
    pub frozen: Frozen,
    /// Which version each validating module says it holds to.
    pub validates: BTreeMap<String, String>,
    /// The versions that tests name.
    pub tests: BTreeSet<String>,
    /// The golden data, by version and file.
    pub goldens: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
}

/// A line of the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The version of the contract.
    pub version: Version,
    /// Everything else, by name.
    pub members: BTreeMap<String, String>,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.version)?;
        self.members.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Reads a lock.
pub fn read_lock(text: &str) -> Vec<Line> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let version = words.next().unwrap().parse().unwrap();
            let members = words.map(|word| word.split_once('=').unwrap());
            Line {
                version,
                members: members.map(|(name, value)| (name.into(), value.into())).collect(),
            }
        })
        .collect()
}

impl Tree {
    /// Returns the version that the contract says it has.
    fn version(&self) -> Option<Version> {
        self.contract.get("contract_version")?.as_str()?.parse().ok()
    }

    /// Returns the line that this tree would have in the lock.
    pub fn line(&self) -> Option<Line> {
        let version = self.version()?;
        let mut members: BTreeMap<String, String> = self
            .frozen
            .iter()
            .map(|(name, text)| (name.clone(), digest(text.as_bytes())))
            .collect();
        members.insert("contract".to_owned(), digest(to_jcs(&self.contract).ok()?.as_bytes()));
        members.insert("revision".to_owned(), revisions(&self.contract).pop()?.id);
        members.insert("validates".to_owned(), self.validates.values().next()?.clone());
        members.insert("goldens".to_owned(), digest_all(self.goldens.get(&version.to_string())?));
        Some(Line { version, members })
    }
}

fn digest(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

/// Returns the digest of what `sha256sum *` says.
fn digest_all(files: &BTreeMap<String, Vec<u8>>) -> String {
    let lines = files.iter().map(|(name, bytes)| format!("{}  {name}\n", digest(bytes)));
    digest(lines.collect::<String>().as_bytes())
}

/// Returns why the tree may not be as it is. Each is told as what is missing: `revision note`, `validation code`, `tests`,
/// `golden data`; or `lock` when all four are there and only the line is not.
pub fn judge(lock: &[Line], tree: &Tree) -> Vec<String> {
    let mut problems = unchanged_history(lock, tree);
    let Some(last) = lock.last() else {
        let line = tree.line().map(|line| line.to_string()).unwrap_or_default();
        problems.push(format!("lock: it has no line: {line}"));
        return problems;
    };
    let changed = changes(last, tree);
    let before = problems.len();
    let note = revision_note(lock, last, tree, &changed);
    problems.extend(note.err().map(|why| format!("revision note: {why}")));
    let told = tree.contract.get("contract_version").and_then(Value::as_str).unwrap_or("none");
    // The version that everything must be of: what the contract says, or the next one if it does not say it yet.
    let wanted = match tree.version() {
        Some(version) if version > last.version || changed.is_empty() => version.to_string(),
        _ => format!("after {}", last.version),
    };
    for (module, version) in &tree.validates {
        if *version != wanted {
            problems.push(format!(
                "validation code: {module} holds to {version}, and the contract is to be {wanted}"
            ));
        }
    }
    if !tree.tests.contains(&wanted) {
        problems.push(format!(
            "tests: no test names the revision {wanted}, as fn revision_{}_… does",
            wanted.replace('.', "_")
        ));
    }
    problems.extend(golden_data(&wanted, tree).err().map(|why| format!("golden data: {why}")));
    if problems.len() == before && tree.line().as_ref() != Some(last) {
        if changed.is_empty() {
            problems.push(format!("golden data: those of {told} are not those that are locked"));
        } else {
            let line = tree.line().map(|line| line.to_string()).unwrap_or_default();
            problems.push(format!("lock: the line of this revision is not there: {line}"));
        }
    }
    if problems.is_empty() || changed.is_empty() {
        return problems;
    }
    problems.insert(0, format!("changed since {}: {}", last.version, changed.join(", ")));
    problems
}

/// Returns what is not as the last line says.
fn changes(last: &Line, tree: &Tree) -> Vec<String> {
    let mut now: BTreeMap<&str, String> =
        tree.frozen.iter().map(|(name, text)| (name.as_str(), digest(text.as_bytes()))).collect();
    let contract = to_jcs(&tree.contract).unwrap_or_default();
    now.insert("contract", digest(contract.as_bytes()));
    let others = ["revision", "validates", "goldens"];
    let then = last.members.iter().filter(|(name, _)| !others.contains(&name.as_str()));
    let then: BTreeMap<&str, String> =
        then.map(|(name, value)| (name.as_str(), value.clone())).collect();
    let names: BTreeSet<&str> = now.keys().chain(then.keys()).copied().collect();
    names.into_iter().filter(|name| now.get(name) != then.get(name)).map(str::to_owned).collect()
}

/// What was locked once stays as it was: notes and golden data of earlier revisions.
fn unchanged_history(lock: &[Line], tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    let noted = revisions(&tree.contract);
    for (at, line) in lock.iter().enumerate() {
        let version = line.version.to_string();
        let id = line.members.get("revision").map(String::as_str);
        let same = noted.get(at).is_some_and(|it| it.version == version && Some(&*it.id) == id);
        if !same {
            problems.push(format!("revision note: that of {version} is gone, or not in its place"));
        }
        let goldens = tree.goldens.get(&version).map(digest_all);
        if at + 1 < lock.len() && goldens.as_ref() != line.members.get("goldens") {
            problems.push(format!("golden data: those of {version} are not those that are locked"));
        }
        if at > 0 && lock[at - 1].version >= line.version {
            problems.push(format!("lock: {version} does not come after the one before it"));
        }
    }
    problems
}

fn revision_note(
    lock: &[Line],
    last: &Line,
    tree: &Tree,
    changed: &[String],
) -> Result<(), String> {
    let version = tree.version().ok_or("the contract has no semantic version")?;
    let noted = revisions(&tree.contract);
    if changed.is_empty() {
        return Ok(());
    }
    if version <= last.version {
        return Err(format!("the contract still has the version {version}, which is locked"));
    }
    let needed = needed(last, tree, changed);
    if version < needed {
        return Err(format!(
            "the contract has the version {version}, and must at least have {needed}"
        ));
    }
    let note = noted.last().filter(|note| note.version == version.to_string());
    let note = note.ok_or(format!("no contract revision tells of {version}"))?;
    let known = noted.iter().filter(|other| other.id == note.id).count();
    if noted.len() != lock.len() + 1 || known != 1 || note.note.trim().is_empty() {
        return Err(format!(
            "the contract revision of {version} says nothing, or is not the one new one"
        ));
    }
    Ok(())
}

/// Returns the lowest version for what changed.
fn needed(last: &Line, tree: &Tree, changed: &[String]) -> Version {
    let Version { major, minor, patch, .. } = last.version;
    let narrowing = ["adapter_versions", "conditions", "contract", "role_table"];
    if changed.iter().any(|name| !narrowing.contains(&name.as_str())) || expands(last, tree) {
        Version::new(major + 1, 0, 0)
    } else if changed.iter().any(|name| name != "contract") {
        Version::new(major, minor + 1, 0)
    } else {
        Version::new(major, minor, patch + 1)
    }
}

/// Says whether a role may do now what it might not do then. What cannot be compared counts as such.
fn expands(last: &Line, tree: &Tree) -> bool {
    let files = tree.goldens.get(&last.version.to_string());
    let then = files.and_then(|files| parse(files.get("frozen.json")?, Limits::REQUEST).ok());
    let then = |name: &str| {
        let value = then.as_ref()?.get(name)?;
        (last.members.get(name) == Some(&digest(to_jcs(value).ok()?.as_bytes())))
            .then(|| value.clone())
    };
    let now = |name: &str| parse(tree.frozen.get(name)?.as_bytes(), Limits::REQUEST).ok();
    let compared = || {
        let (old, new) = (then("role_table")?, now("role_table")?);
        let powers = |table: &Value| -> Option<BTreeSet<(String, String)>> {
            let mut powers = BTreeSet::new();
            for (role, classes) in table.as_object()?.iter() {
                for class in classes.as_array()? {
                    powers.insert((role.to_owned(), class.as_str()?.to_owned()));
                }
            }
            Some(powers)
        };
        let (old_conditions, new_conditions) = (then("conditions")?, now("conditions")?);
        let kept = |condition: &Value| new_conditions.as_array()?.contains(condition).then_some(());
        let lost = old_conditions.as_array()?.iter().any(|condition| kept(condition).is_none());
        Some(!powers(&old)?.is_superset(&powers(&new)?) || lost)
    };
    compared().unwrap_or(true)
}

fn golden_data(version: &str, tree: &Tree) -> Result<(), String> {
    let place = format!("tests/golden/roles/{version}");
    let files = tree.goldens.get(version).ok_or(format!("there is no {place}"))?;
    for name in GOLDENS {
        if !files.contains_key(name) {
            return Err(format!("there is no {place}/{name}"));
        }
    }
    if files.get("frozen.json").map(Vec::as_slice) != Some(frozen_text(&tree.frozen).as_bytes()) {
        return Err(format!("{place}/frozen.json is not what is frozen now"));
    }
    Ok(())
}

/// Returns the golden text of what is frozen: an object, a line for each thing.
pub fn frozen_text(frozen: &Frozen) -> String {
    let members: Vec<String> =
        frozen.iter().map(|(name, text)| format!("\"{name}\":{text}")).collect();
    format!("{{\n{}\n}}\n", members.join(",\n"))
}
