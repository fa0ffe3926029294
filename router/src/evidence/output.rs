//! What an adapter gives, by role: closed keys, types, and the rules that fail closed.

use super::finding::{Finding, Findings, below};
use super::spec::ExecutionSpec;
use crate::json::{Object, Value};
use crate::role::{ActionClass, Role};

/// The revision of the role contract whose outputs are checked here.
pub const VALIDATES: &str = "1.1.0";

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A string.
    Text,
    /// True or false.
    Truth,
    /// An integer.
    Integer,
    /// An object.
    Object,
    /// An array.
    Array,
}

impl Type {
    /// Returns the name of the type in JSON Schema.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Truth => "boolean",
            Self::Integer => "integer",
            Self::Object => "object",
            Self::Array => "array",
        }
    }
}

/// The keys of a scout's output. They are frozen.
pub const SCOUT: [(&str, Type); 7] = [
    ("adapter_role", Type::Text),
    ("adapter_version", Type::Text),
    ("action_class", Type::Text),
    ("ok", Type::Truth),
    ("result", Type::Object),
    ("sources", Type::Array),
    ("errors", Type::Array),
];

/// The keys of an envoy's output. They are frozen.
pub const ENVOY: [(&str, Type); 9] = [
    ("adapter_role", Type::Text),
    ("adapter_version", Type::Text),
    ("action_class", Type::Text),
    ("ok", Type::Truth),
    ("exit_code", Type::Integer),
    ("stdout", Type::Text),
    ("stderr", Type::Text),
    ("artifacts", Type::Array),
    ("errors", Type::Array),
];

/// The exit code for an execution that gave no output of its own.
pub const NO_OUTPUT: i64 = 125;

/// Returns the keys of a role's output.
#[must_use]
pub const fn keys(role: Role) -> &'static [(&'static str, Type)] {
    match role {
        Role::Scout => &SCOUT,
        Role::Envoy => &ENVOY,
    }
}

/// Says whether an output must have an exit code: an envoy's, unless a file was written or packed without a
/// process that could have had one.
#[must_use]
pub const fn needs_exit_code(class: ActionClass, in_process: bool) -> bool {
    match class.role() {
        Role::Scout => false,
        Role::Envoy => {
            !(in_process && matches!(class, ActionClass::FileWrite | ActionClass::ArtifactPack))
        }
    }
}

/// An output that keeps to the schema of its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The role.
    pub role: Role,
    /// The class of the action.
    pub class: ActionClass,
    /// The version of the adapter.
    pub version: semver::Version,
    /// Whether it did what it should.
    pub ok: bool,
    /// The exit code, if there was a process.
    pub exit_code: Option<i64>,
}

impl Output {
    /// Holds an output to the schema of a spec's role.
    ///
    /// # Errors
    /// With everything that is wrong with it; see [`Output::check`].
    pub fn check_for(spec: &ExecutionSpec, value: &Value) -> Result<Self, Findings> {
        let fields = spec.fields();
        Self::check(fields.role, Some(fields.action), spec.in_process(), value)
    }

    /// Holds an output to the schema of a role.
    ///
    /// # Errors
    /// With everything that is wrong with it: `not_an_object:<type>`, `missing_key:<key>`, `forbidden_key:<key>`,
    /// `role_mismatch:<found>`, `action_not_allowed:<found>`, `action_mismatch:<found>` when it is not the action
    /// that was asked for, `wrong_type:<key>:<type>`, `bad_version:<found>`. Numbers that programs disagree about
    /// are found by [`normalize`](super::normalize()), for they may be in what it removes.
    pub fn check(
        role: Role,
        asked: Option<ActionClass>,
        in_process: bool,
        value: &Value,
    ) -> Result<Self, Findings> {
        let mut findings = Findings::default();
        let Some(object) = value.as_object() else {
            let found = value.type_name();
            let message = format!("the output is of type {found}, and must be an object");
            return Err(Finding::new("not_an_object", found, "", message).into());
        };
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let class = text("action_class").and_then(ActionClass::from_name);
        // An action that is told wrongly needs what the one asked for needs.
        let exit_code = class.or(asked).is_none_or(|class| needs_exit_code(class, in_process));
        closed(role, object, exit_code, &mut findings);
        if let Some(found) = text("adapter_role").filter(|found| *found != role.name()) {
            let message = format!("the adapter says {found:?}, and the role is {:?}", role.name());
            findings.push(Finding::new("role_mismatch", found, "/adapter_role", message));
        }
        if let Some(found) = text("action_class") {
            action(role, asked, found, &mut findings);
        }
        types(role, object, &mut findings);
        let version = text("adapter_version").and_then(|found| {
            let version = semver::Version::parse(found);
            if version.is_err() {
                let message = "it must be a semantic version such as 1.0.0";
                findings.push(Finding::new("bad_version", found, "/adapter_version", message));
            }
            version.ok()
        });
        let ok = object.get("ok").and_then(Value::as_bool);
        let exit_code = object.get("exit_code").and_then(Value::as_i64);
        let parts = class.zip(version).zip(ok);
        let ((class, version), ok) = findings.or(parts)?;
        Ok(Self { role, class, version, ok, exit_code })
    }

    /// Returns the output that is sealed in place of one that broke the rules: it has the same role and action,
    /// `ok` is false, and its errors are what was found. What the adapter gave goes to the volatile part.
    #[must_use]
    pub fn refused(
        role: Role,
        class: ActionClass,
        version: &semver::Version,
        exit_code: Option<i64>,
        findings: &Findings,
    ) -> Value {
        let errors: Vec<Value> = findings.reasons().into_iter().map(Value::from).collect();
        let mut object = Object::with_capacity(9);
        for (key, kind) in keys(role) {
            let value: Value = match (*key, kind) {
                ("adapter_role", _) => role.name().into(),
                ("adapter_version", _) => version.to_string().into(),
                ("action_class", _) => class.name().into(),
                ("exit_code", _) => exit_code.unwrap_or(NO_OUTPUT).into(),
                ("errors", _) => errors.clone().into(),
                (_, Type::Truth) => false.into(),
                (_, Type::Text) => "".into(),
                (_, Type::Integer) => 0.into(),
                (_, Type::Object) => Object::new().into(),
                (_, Type::Array) => Vec::new().into(),
            };
            object.insert(*key, value);
        }
        object.into()
    }
}

/// Looks for keys that are missing or none of the role's.
fn closed(role: Role, object: &Object, exit_code: bool, findings: &mut Findings) {
    for (key, kind) in keys(role) {
        if !object.contains_key(key) && (*key != "exit_code" || exit_code) {
            let message =
                format!("the output of a {} has it, of type {}", role.name(), kind.name());
            findings.push(Finding::new("missing_key", key, below("", key), message));
        }
    }
    let known = |name: &str| keys(role).iter().any(|(key, _)| *key == name);
    let mut forbidden: Vec<&str> = object.keys().filter(|name| !known(name)).collect();
    forbidden.sort_unstable();
    for name in forbidden {
        let message = format!("the output of a {} has no such key", role.name());
        findings.push(Finding::new("forbidden_key", name, below("", name), message));
    }
}

fn action(role: Role, asked: Option<ActionClass>, found: &str, findings: &mut Findings) {
    let class = ActionClass::from_name(found);
    if class.is_none_or(|class| !role.allows(class)) {
        let message = format!("a {} may not carry out such actions", role.name());
        findings.push(Finding::new("action_not_allowed", found, "/action_class", message));
    } else if let Some(asked) = asked.filter(|asked| Some(*asked) != class) {
        let message = format!("{:?} was asked for, and nothing else", asked.name());
        findings.push(Finding::new("action_mismatch", found, "/action_class", message));
    }
}

fn types(role: Role, object: &Object, findings: &mut Findings) {
    for (key, kind) in keys(role) {
        let Some(value) = object.get(key) else { continue };
        if value.type_name() != kind.name() {
            let found = value.type_name();
            let message = format!("it is of type {found}, and must be of type {}", kind.name());
            let detail = format!("{key}:{found}");
            findings.push(Finding::new("wrong_type", &detail, below("", key), message));
        }
    }
}

#[cfg(test)]
mod tests;
