//! A plan: which steps were laid down, and what they were granted beyond their role.

use super::canonical::{self, Domain};
use super::finding::{Finding, Findings, below};
use super::name;
use super::reader::Reader;
use super::spec::ExecutionSpec;
use crate::digest::Digest;
use crate::json::{Limits, Object, Value};
use crate::role::{ActionClass, Role};

/// A larger plan is none.
pub const LIMITS: Limits = Limits { bytes: 4 << 20, depth: 5, values: 100_000 };

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// The id, unique in the plan.
    pub step_id: String,
    /// The role.
    pub role: Role,
    /// The class of the action.
    pub action: ActionClass,
    /// The id of the task.
    pub task_id: String,
}

/// What a plan may grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// To run commands of a shell.
    ShellExec,
    /// To reach hosts over the network.
    Network,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 2] = [Self::ShellExec, Self::Network];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShellExec => "shell_exec",
            Self::Network => "network",
        }
    }

    /// Finds a permission by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.name() == name)
    }
}

/// What a plan grants to one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The id of the execution.
    pub exec_id: String,
    /// What it may do.
    pub grant: Permission,
    /// Whom it may reach: printable ASCII, sorted.
    pub targets: Vec<String>,
}

/// A plan, checked, with its canonical text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    plan_id: String,
    steps: Vec<PlanStep>,
    grants: Vec<Grant>,
    text: String,
    digest: Digest,
}

/// What was granted to an execution, to be recorded with the decisions about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorization {
    /// It may run commands of a shell.
    pub shell: bool,
    /// Whom it may reach over the network, if anybody.
    pub network: Option<Vec<String>>,
}

impl Authorization {
    /// Returns the decisions of the verification bundle: a network that was granted is logged as such.
    #[must_use]
    pub fn decisions(&self) -> Object {
        let targets = self.network.iter().flatten().map(|target| target.as_str().into());
        let targets: Vec<Value> = targets.collect();
        let mut object = Object::with_capacity(3);
        object.insert("network_granted", self.network.is_some());
        object.insert("network_targets", targets);
        object.insert("shell_granted", self.shell);
        object
    }
}

impl Plan {
    /// Takes the parts of a plan. Targets are sorted here.
    ///
    /// # Errors
    /// With everything that is wrong with them.
    pub fn new(plan_id: &str, steps: &[PlanStep], grants: &[Grant]) -> Result<Self, Findings> {
        let mut object = Object::with_capacity(3);
        object.insert("plan_id", plan_id);
        object.insert("steps", steps.iter().map(PlanStep::to_json).collect::<Vec<_>>());
        object.insert("grants", grants.iter().map(Grant::to_json).collect::<Vec<_>>());
        Self::read(&object.into())
    }

    /// Reads the canonical text.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn parse_canonical(bytes: &[u8]) -> Result<Self, Findings> {
        Self::read(&canonical::read(bytes, LIMITS, Domain::Control)?)
    }

    /// Reads a plan from JSON in any form.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Findings> {
        Self::read(&canonical::parse(bytes, LIMITS)?)
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn read(value: &Value) -> Result<Self, Findings> {
        let mut findings = Findings::default();
        let text = canonical::text(value, Domain::Control)?;
        let parts = Reader::closed(value, "", &["grants", "plan_id", "steps"], &mut findings);
        let parts = parts.and_then(|mut reader| {
            let plan_id = reader.text("plan_id", ID, name::is_id);
            let (steps, grants) = (reader.items("steps"), reader.items("grants"));
            let steps = steps.map(|items| read_steps(items, reader.findings));
            let grants = grants.map(|items| read_grants(items, reader.findings));
            Some((plan_id?.to_owned(), steps?, grants?))
        });
        let (plan_id, steps, grants) = findings.or(parts)?;
        let digest = Digest::of(text.as_bytes());
        Ok(Self { plan_id, steps, grants, text, digest })
    }

    /// Returns the id.
    #[must_use]
    pub fn plan_id(&self) -> &str {
        &self.plan_id
    }

    /// Returns the steps in order.
    #[must_use]
    pub fn steps(&self) -> &[PlanStep] {
        &self.steps
    }

    /// Returns what was granted.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Returns the canonical text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the digest of the canonical text: `plan_sha256`.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Says what an execution was granted, or why it must not begin: it is no step of this plan, or it needs a
    /// shell or the network without a grant of the plan and an open gate of the local policy.
    ///
    /// # Errors
    /// `not_in_plan:<action>`, `grant_missing:<permission>`, `gate_closed:<permission>`.
    pub fn authorize(
        &self,
        spec: &ExecutionSpec,
        wants_network: bool,
        gate_open: bool,
    ) -> Result<Authorization, Findings> {
        let (fields, mut findings) = (spec.fields(), Findings::default());
        let planned = self.steps.iter().any(|step| {
            (step.role, step.action, step.task_id.as_str())
                == (fields.role, fields.action, fields.task_id.as_str())
        });
        if !planned {
            let message = format!("the plan {} has no such step for this task", self.plan_id);
            findings.push(Finding::new("not_in_plan", fields.action.name(), "/steps", message));
        }
        let mut granted = |permission: Permission, wanted: bool| -> Option<&Grant> {
            let grant = self
                .grants
                .iter()
                .find(|grant| grant.grant == permission && grant.exec_id == fields.exec_id);
            if wanted && grant.is_none() {
                let message = format!("the plan grants this to no execution {}", fields.exec_id);
                findings.push(Finding::new("grant_missing", permission.name(), "/grants", message));
            }
            if wanted && !gate_open {
                let message = "the local policy does not let it through";
                findings.push(Finding::new("gate_closed", permission.name(), "", message));
            }
            grant.filter(|_| wanted)
        };
        let shell =
            granted(Permission::ShellExec, fields.action == ActionClass::ShellExec).is_some();
        // A scout's retrieval is its role, and needs no grant.
        let wants_network = wants_network && fields.role == Role::Envoy;
        let network =
            granted(Permission::Network, wants_network).map(|grant| grant.targets.clone());
        findings.or(Some(Authorization { shell, network }))
    }
}

const ID: &str = "1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit";

impl PlanStep {
    fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(4);
        object.insert("step_id", self.step_id.as_str());
        object.insert("role", self.role.name());
        object.insert("action", self.action.name());
        object.insert("task_id", self.task_id.as_str());
        object.into()
    }
}

impl Grant {
    fn to_json(&self) -> Value {
        let mut targets: Vec<&str> = self.targets.iter().map(String::as_str).collect();
        targets.sort_unstable();
        targets.dedup();
        let mut object = Object::with_capacity(3);
        object.insert("exec_id", self.exec_id.as_str());
        object.insert("grant", self.grant.name());
        object.insert("targets", targets.into_iter().map(Value::from).collect::<Vec<_>>());
        object.into()
    }
}

fn read_steps(items: &[Value], findings: &mut Findings) -> Vec<PlanStep> {
    let mut seen = std::collections::BTreeSet::new();
    let mut steps = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let place = below("/steps", index);
        let keys = ["action", "role", "step_id", "task_id"];
        let Some(mut reader) = Reader::closed(item, &place, &keys, findings) else { continue };
        let step_id = reader.text("step_id", ID, name::is_id);
        if step_id.is_some_and(|step_id| !seen.insert(step_id)) {
            reader.wrong("step_id", "of no other step");
        }
        let role = reader.text("role", "scout or envoy", |text| Role::from_name(text).is_some());
        let role = role.and_then(Role::from_name);
        let action = reader.text("action", "an action class that the role has", |text| {
            let class = ActionClass::from_name(text);
            class.is_some_and(|class| role.is_none_or(|role| role.allows(class)))
        });
        let action = action.and_then(ActionClass::from_name);
        let task_id = reader.text("task_id", "the id of a task", name::is_task_id);
        if let (Some(step_id), Some(role), Some(action), Some(task_id)) =
            (step_id, role, action, task_id)
        {
            let (step_id, task_id) = (step_id.to_owned(), task_id.to_owned());
            steps.push(PlanStep { step_id, role, action, task_id });
        }
    }
    steps
}

fn read_grants(items: &[Value], findings: &mut Findings) -> Vec<Grant> {
    let mut seen = std::collections::BTreeSet::new();
    let mut grants = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let place = below("/grants", index);
        let keys = ["exec_id", "grant", "targets"];
        let Some(mut reader) = Reader::closed(item, &place, &keys, findings) else { continue };
        let exec_id = reader.text("exec_id", "the id of an execution", name::is_exec_id);
        let grant = reader
            .text("grant", "shell_exec or network", |text| Permission::from_name(text).is_some());
        if exec_id.is_some() && grant.is_some() && !seen.insert((exec_id, grant)) {
            reader.wrong("grant", "granted to this execution once");
        }
        let targets = reader.sorted("targets", "printable ASCII without blanks", |text| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
        });
        if let (Some(exec_id), Some(grant), Some(targets)) =
            (exec_id, grant.and_then(Permission::from_name), targets)
        {
            grants.push(Grant { exec_id: exec_id.to_owned(), grant, targets });
        }
    }
    grants
}

#[cfg(test)]
mod tests;
