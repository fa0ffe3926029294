//! Whether an envoy may do what a call asks for: the frozen conditions, the plan's grants, the operator's gates.

use std::path::PathBuf;

use nexus_router_sdk::AdapterError;

use super::order::{Order, REPOSITORY_SETTINGS, Task};
use super::staging::{Place, Staged};
use super::{Envoy, METHOD};
use crate::confine::{Errand, Job, Limits};
use crate::evidence::Permission;
use crate::grant::{Endpoint, Grants};
use crate::json::{Object, Value};
use crate::role::{self, ActionClass, Role};
use crate::sandbox::{Metadata, Profile, Reading, Workspace};

/// Descriptors that a program may have.
const DESCRIPTORS: u64 = 1024;

/// A call that is judged.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The tool: the name of the class.
    pub tool: &'a str,
    /// The method.
    pub method: &'a str,
    /// The arguments, as recorded or as resolved.
    pub args: &'a Object,
    /// What the plan grants to the step.
    pub grants: &'a [PlanGrant],
}

/// What the plan grants to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanGrant {
    /// What it may do.
    pub grant: Permission,
    /// Whom it may reach.
    pub targets: Vec<String>,
}

impl PlanGrant {
    /// Reads the grants of a step, which its reader has checked.
    #[must_use]
    pub fn read_all(value: &Value) -> Vec<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let read = |item: &Value| {
            let grant = Permission::from_name(item.get("grant")?.as_str()?)?;
            let targets = item.get("targets").and_then(Value::as_array).unwrap_or_default();
            Some(Self { grant, targets: targets.iter().filter_map(text).collect() })
        };
        value.as_array().unwrap_or_default().iter().filter_map(read).collect()
    }
}

/// Why a call is not carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The stable code.
    pub code: &'static str,
    /// What is told.
    pub message: String,
    /// What else is known; `reason` is what its evidence says.
    pub details: Object,
}

impl Refusal {
    fn new(code: &'static str, message: String) -> Self {
        let mut details = Object::new();
        details.insert("role", Role::Envoy.name());
        Self { code, message, details }
    }

    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key, value);
        self
    }

    /// Makes it the error of a call.
    pub fn into_error(self) -> AdapterError {
        let details = self.details.to_serde().into();
        AdapterError::operational(self.code, self.message).details(details)
    }
}

impl Envoy {
    /// Judges a call.
    ///
    /// # Errors
    /// When it must not be carried out.
    pub fn judge(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        self.judged(asked).map(drop)
    }

    pub(super) fn judged(&self, asked: &Asked<'_>) -> Result<(ActionClass, Order), Refusal> {
        let Some(class) = Self::class_of(asked.tool).filter(|_| asked.method == METHOD) else {
            let message = format!(
                "adapter '{}' has no {}.{}; its tools are called like the classes of role 'envoy', each with \
                 the method '{METHOD}'",
                self.adapter_id, asked.tool, asked.method
            );
            return Err(Refusal::new("UNKNOWN_OPERATION", message).with("denied_by", "envoy"));
        };
        self.judge_by_conditions(class, asked.grants)?;
        let order = Order::read(class, asked.args, &self.settings).map_err(|mistake| {
            let at = if mistake.pointer.is_empty() { "" } else { &mistake.pointer };
            let message =
                format!("the arguments of {} do not fit: {at}: {}", asked.tool, mistake.message);
            Refusal::new("ARGUMENTS_INVALID", message)
                .with("denied_by", "schema")
                .with("pointer", mistake.pointer)
        })?;
        self.judge_program(&order)?;
        Ok((class, order))
    }

    /// Asks the frozen table about the class, and about the network if the plan grants any.
    fn judge_by_conditions(&self, class: ActionClass, grants: &[PlanGrant]) -> Result<(), Refusal> {
        let granted = |permission| grants.iter().find(|one| one.grant == permission);
        let network = granted(Permission::Network);
        let request = role::Request {
            role: Role::Envoy.name(),
            action: class.name(),
            plan_authorized: granted(Permission::ShellExec).is_some(),
            policy_gate: self.settings.shell_exec,
            network_requested: false,
        };
        let mut decisions = vec![(role::decide(request), String::new())];
        if let Some(network) = network {
            let outside = self.outside(&network.targets)?;
            let request = role::Request {
                plan_authorized: true,
                policy_gate: outside.is_none(),
                network_requested: true,
                ..request
            };
            let told = outside.map_or(String::new(), |target| {
                format!("; {target} is not among grants.connect of adapter '{}'", self.adapter_id)
            });
            decisions.push((role::decide(request), told));
        }
        let Some((decision, told)) = decisions.into_iter().find(|(one, _)| !one.allow) else {
            return Ok(());
        };
        let message =
            format!("Role 'envoy' may not carry out {}: {}{told}", class.name(), decision.reason);
        Err(Refusal::new("ROLE_REFUSED", message)
            .with("denied_by", "role")
            .with("action_class", class.name())
            .with("reason", decision.reason.code()))
    }

    /// Returns the first target that the operator's gate does not have.
    fn outside(&self, targets: &[String]) -> Result<Option<String>, Refusal> {
        for target in targets {
            let endpoint: Endpoint = target.parse().map_err(|why| {
                let message =
                    format!("the plan grants the network target {target:?}, which is none: {why}");
                Refusal::new("ARGUMENTS_INVALID", message).with("denied_by", "schema")
            })?;
            if !self.grants.connect.iter().any(|gate| gate.covers(&endpoint)) {
                return Ok(Some(target.clone()));
            }
        }
        Ok(None)
    }

    /// Only granted programs are started, and only with granted variables.
    fn judge_program(&self, order: &Order) -> Result<(), Refusal> {
        let Task::Run { argv, env, .. } = &order.task else { return Ok(()) };
        if self.program(&argv[0]).is_none() {
            let granted: Vec<String> =
                self.grants.run.iter().map(|program| program.display().to_string()).collect();
            let granted = if granted.is_empty() { "none".to_owned() } else { granted.join(", ") };
            let message = format!(
                "adapter '{}' may not start {:?}; programs are granted with grants.run, and these are: {granted}",
                self.adapter_id, argv[0]
            );
            return Err(Refusal::new("PROGRAM_NOT_GRANTED", message)
                .with("denied_by", "grants")
                .with("reason", "program_not_granted"));
        }
        let own = |name: &str| Place::of_variable(name).is_some();
        match env.iter().find(|name| !own(name) && !self.grants.env.contains(name)) {
            None => Ok(()),
            Some(name) => {
                let message = format!(
                    "adapter '{}' may not have the variable {name}; variables are granted with grants.env",
                    self.adapter_id
                );
                Err(Refusal::new("VARIABLE_NOT_GRANTED", message)
                    .with("denied_by", "grants")
                    .with("reason", "variable_not_granted"))
            }
        }
    }

    /// Returns the granted program that a name or a path means.
    pub(super) fn program(&self, name: &str) -> Option<&PathBuf> {
        let means = |program: &&PathBuf| match name.contains('/') {
            true => program.to_str() == Some(name),
            false => program.file_name().and_then(|file| file.to_str()) == Some(name),
        };
        self.grants.run.iter().find(means)
    }

    /// Returns what an execution is granted: what is the operator's to grant, as far as it is needed.
    pub(super) fn granted(&self, order: &Order, plan: &[PlanGrant]) -> Grants {
        let Task::Run { env, .. } = &order.task else { return Grants::default() };
        let targets = plan.iter().filter(|one| one.grant == Permission::Network);
        let targets = targets.flat_map(|one| &one.targets);
        Grants {
            connect: targets.filter_map(|target| target.parse().ok()).collect(),
            read: self.grants.read.clone(),
            write: Vec::new(),
            run: self.grants.run.clone(),
            env: env.clone(),
        }
    }

    /// Returns what an execution may use and reach.
    pub(super) fn profile(&self, order: &Order, plan: &[PlanGrant], staged: &Staged) -> Profile {
        let mut grants = self.granted(order, plan);
        grants.write = staged.writable();
        let builds = matches!(
            order.class,
            ActionClass::RepoOps | ActionClass::TestExec | ActionClass::BuildExec
        );
        let workspace = Workspace {
            root: self.settings.workspace.clone(),
            write: order.paths.clone(),
            run: self.settings.run_workspace && matches!(order.task, Task::Run { .. }),
        };
        let settings = REPOSITORY_SETTINGS.iter().filter(|_| order.class == ActionClass::RepoOps);
        Profile {
            memory: self.memory,
            processor: Some(order.timeout.saturating_add(std::time::Duration::from_secs(2))),
            descriptors: DESCRIPTORS,
            reading: Reading::Granted,
            library_path: settings.map(PathBuf::from).collect(),
            grants,
            workspace: Some(workspace),
            metadata: if builds { Metadata::Mediated } else { Metadata::Denied },
            processes: matches!(order.task, Task::Run { .. }).then_some(self.settings.processes),
            file_size: Some(self.settings.file),
            // Nothing: an execution that cannot be confined is rejected.
            accept: Vec::new(),
        }
    }

    pub(super) fn errand(
        &self,
        job: Job,
        order: &Order,
        staged: &Staged,
        time: std::time::Duration,
    ) -> Errand {
        let limits = Limits {
            time: order.timeout.min(time),
            output: self.settings.output,
            disk: self.settings.disk,
            file: self.settings.file,
            files: self.settings.files,
            places: [self.settings.workspace.clone()]
                .into_iter()
                .chain(staged.writable())
                .collect(),
            keep_free: self.settings.keep_free,
        };
        Errand { helper: self.helper.clone(), job, limits, label: self.adapter_id.clone() }
    }
}

#[cfg(test)]
mod tests;
