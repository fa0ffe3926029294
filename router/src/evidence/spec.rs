//! What may be executed: the twelve keys of an ExecutionSpec, their one spelling, and their digest.

use super::canonical::{self, Domain};
use super::finding::{Finding, Findings};
use super::name;
use super::reader::Reader;
use crate::digest::Digest;
use crate::json::{Limits, Object, Value};
use crate::role::{ActionClass, Role};

/// The revision of the role contract whose specs are checked here.
pub const VALIDATES: &str = "1.1.0";

/// The keys, in canonical order. They are frozen.
pub const KEYS: [&str; 12] = [
    "action",
    "cmd_argv",
    "cwd",
    "env_allowlist",
    "exec_id",
    "inputs_manifest_sha256",
    "kind",
    "note",
    "paths_allowlist",
    "role",
    "task_id",
    "timeout_s",
];

/// The name that the contract of roles has for `action`: read, never written.
const ALIAS: &str = "action_class";

/// A larger spec is none.
pub const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 3, values: 20_000 };

/// The longest time that an execution may take, in seconds.
pub const LONGEST_TIMEOUT: i64 = 3600;

/// How it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// As a process, by its arguments.
    Shell,
    /// By code inside a process of the router.
    Python,
    /// By a request to a service.
    Http,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Shell, Self::Python, Self::Http];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Python => "python",
            Self::Http => "http",
        }
    }

    /// Finds a kind by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The parts of a spec, for whoever makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecFields {
    /// The class of the action.
    pub action: ActionClass,
    /// What is executed, then its arguments; never a line for a shell.
    pub cmd_argv: Vec<String>,
    /// Where, inside the workspace; `.` is the workspace.
    pub cwd: String,
    /// The names of the environment variables that it gets; their values are never recorded.
    pub env_allowlist: Vec<String>,
    /// The id of the execution.
    pub exec_id: String,
    /// The digest of the manifest of its inputs.
    pub inputs_manifest_sha256: Digest,
    /// How it is executed.
    pub kind: Kind,
    /// A remark, which says nothing but is sealed.
    pub note: Option<String>,
    /// Files and directories inside the workspace that it may touch.
    pub paths_allowlist: Vec<String>,
    /// The role.
    pub role: Role,
    /// The id of the task.
    pub task_id: String,
    /// After how many seconds it is ended.
    pub timeout_s: u32,
}

/// What may be executed, checked, with its canonical text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionSpec {
    fields: SpecFields,
    text: String,
    digest: Digest,
}

impl ExecutionSpec {
    /// Takes the parts of a spec; lists that have to be sorted are sorted here.
    ///
    /// # Errors
    /// With everything that is wrong with them.
    pub fn new(mut fields: SpecFields) -> Result<Self, Findings> {
        for list in [&mut fields.env_allowlist, &mut fields.paths_allowlist] {
            list.sort_unstable();
            list.dedup();
        }
        Self::read(&fields.to_json())
    }

    /// Reads a spec from JSON in any form, with `action_class` for `action` if that is what it says.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Findings> {
        Self::read(&canonical::parse(bytes, LIMITS)?)
    }

    /// Reads the spec of a bundle, whose bytes are its canonical text.
    ///
    /// # Errors
    /// With everything that is wrong with it; `not_canonical` for any other text of a spec.
    pub fn parse_canonical(bytes: &[u8]) -> Result<Self, Findings> {
        let value = canonical::read(bytes, LIMITS, Domain::Control)?;
        if value.get(ALIAS).is_some() {
            let message = "sealed specs say \"action\"";
            return Err(Finding::new("forbidden_key", ALIAS, "/action_class", message).into());
        }
        Self::read(&value)
    }

    /// Reads a spec.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn read(value: &Value) -> Result<Self, Findings> {
        let mut findings = Findings::default();
        let named = named(value, &mut findings);
        let fields = SpecFields::read(named.as_ref().unwrap_or(value), &mut findings);
        let fields = findings.or(fields)?;
        let text = canonical::text(&fields.to_json(), Domain::Control)?;
        let digest = Digest::of(text.as_bytes());
        Ok(Self { fields, text, digest })
    }

    /// Returns the parts.
    #[must_use]
    pub const fn fields(&self) -> &SpecFields {
        &self.fields
    }

    /// Returns the canonical text: the bytes of `exec_spec.json`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the digest of the canonical text: `spec_sha256`.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Says whether the action is done without a process of its own, so that there may be no exit code.
    #[must_use]
    pub fn in_process(&self) -> bool {
        self.fields.kind != Kind::Shell
    }

    /// Returns what may be written: the allowed paths for an envoy, nothing for a scout.
    #[must_use]
    pub fn write_scope(&self) -> &[String] {
        match self.fields.role {
            Role::Envoy => &self.fields.paths_allowlist,
            Role::Scout => &[],
        }
    }

    /// Says whether a path lies inside what is allowed.
    #[must_use]
    pub fn covers(&self, path: &str) -> bool {
        name::is_path(path)
            && self.fields.paths_allowlist.iter().any(|allowed| {
                let below = path.strip_prefix(allowed.as_str());
                allowed == "." || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
    }
}

/// Gives `action` its name, if it came under the other one.
fn named(value: &Value, findings: &mut Findings) -> Option<Value> {
    let object = value.as_object()?;
    let action = object.get(ALIAS)?;
    if object.contains_key("action") {
        let message = "it says the same as \"action\"; give one of the two";
        findings.push(Finding::new("forbidden_key", ALIAS, "/action_class", message));
    }
    let mut object = object.clone();
    let action = action.clone();
    object.remove(ALIAS);
    if !object.contains_key("action") {
        object.insert("action", action);
    }
    Some(object.into())
}

impl SpecFields {
    fn read(value: &Value, findings: &mut Findings) -> Option<Self> {
        let mut reader = Reader::closed(value, "", &KEYS, findings)?;
        let id = "1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit, and no \
                  name of the layout (verify, rejections)";
        let path = "a path relative to the workspace: no leading '/', no '..', no empty or '.' \
                    parts, no prefix 'ro:' or 'rw:'; '.' is the workspace";
        let whole = |text: &str| !text.is_empty() && !text.contains('\0');
        let action = reader.text("action", "an action class", |_| true);
        let role = reader.text("role", "scout or envoy", |text| Role::from_name(text).is_some());
        let role = role.and_then(Role::from_name);
        let action = action.and_then(|text| allowed(text, role, reader.findings));
        let argv = reader.texts("cmd_argv", "a string that is not empty, without NUL", whole);
        if argv.as_ref().is_some_and(Vec::is_empty) {
            reader.wrong("cmd_argv", "at least what is executed");
        }
        let cwd = reader.text("cwd", path, name::is_path);
        let variable =
            "the name of an environment variable: A-Z, 0-9 and '_', not beginning with a digit";
        let variables = reader.sorted("env_allowlist", variable, name::is_variable);
        let exec_id = reader.text("exec_id", id, name::is_exec_id);
        let inputs = reader.digest("inputs_manifest_sha256");
        let kind =
            reader.text("kind", "shell, python or http", |text| Kind::from_name(text).is_some());
        let note = reader.text_or_null("note", "a text", |_| true);
        let paths = reader.sorted("paths_allowlist", path, name::is_path);
        let task_id = reader.text("task_id", id, name::is_task_id);
        let timeout = reader.integer("timeout_s", 1..=LONGEST_TIMEOUT);
        Some(Self {
            action: action?,
            cmd_argv: argv?,
            cwd: cwd?.to_owned(),
            env_allowlist: variables?,
            exec_id: exec_id?.to_owned(),
            inputs_manifest_sha256: inputs?,
            kind: Kind::from_name(kind?)?,
            note: note?.map(str::to_owned),
            paths_allowlist: paths?,
            role: role?,
            task_id: task_id?.to_owned(),
            timeout_s: u32::try_from(timeout?).ok()?,
        })
    }

    fn to_json(&self) -> Value {
        let list = |texts: &[String]| -> Vec<Value> {
            texts.iter().map(|text| Value::from(text.as_str())).collect()
        };
        let mut object = Object::with_capacity(KEYS.len());
        object.insert("action", self.action.name());
        object.insert("cmd_argv", list(&self.cmd_argv));
        object.insert("cwd", self.cwd.as_str());
        object.insert("env_allowlist", list(&self.env_allowlist));
        object.insert("exec_id", self.exec_id.as_str());
        object.insert("inputs_manifest_sha256", self.inputs_manifest_sha256.to_string());
        object.insert("kind", self.kind.name());
        object.insert("note", self.note.as_deref());
        object.insert("paths_allowlist", list(&self.paths_allowlist));
        object.insert("role", self.role.name());
        object.insert("task_id", self.task_id.as_str());
        object.insert("timeout_s", self.timeout_s);
        object.into()
    }
}

/// Returns the class of a name, if the role may carry out such actions.
fn allowed(text: &str, role: Option<Role>, findings: &mut Findings) -> Option<ActionClass> {
    let class = ActionClass::from_name(text);
    match (class, role) {
        (Some(class), Some(role)) if role.allows(class) => Some(class),
        // Whatever the role should have been was told.
        (Some(class), None) => Some(class),
        (_, role) => {
            let theirs = |class: &ActionClass| role.is_none_or(|role| role.allows(*class));
            let classes = ActionClass::ALL.into_iter().filter(theirs);
            let classes: Vec<&str> = classes.map(ActionClass::name).collect();
            let message = format!("the role may carry out {} and nothing else", classes.join(", "));
            findings.push(Finding::new("action_not_allowed", text, "/action", message));
            None
        }
    }
}

#[cfg(test)]
mod tests;
