//! A step that is about to be carried out in a role: what it rests on, and what was decided about it.

use std::sync::Arc;
use std::time::Duration;

use super::finding::Findings;
use super::inputs::Inputs;
use super::normalize;
use super::ordered::Ordered;
use super::plan::Plan;
use super::planned::Planned;
use super::spec::{ExecutionSpec, Kind};
use super::verification::DECIDED_PLAN;
use crate::digest::Digest;
use crate::json::{self, Object, Value};
use crate::role::{self, ActionClass};

/// A step that is carried out in a role, and with what. Secrets in it are replaced already.
#[derive(Clone, Debug)]
pub struct Acting {
    /// The run.
    pub run_id: String,
    /// Which step of it, counted from 1.
    pub step: usize,
    /// Which attempt at it.
    pub attempt: u64,
    /// What kind of action it is.
    pub class: ActionClass,
    /// The adapter, the tool and the method.
    pub command: [String; 3],
    /// The call, as it is recorded.
    pub call: Object,
    /// Whether the adapter gives the output of the role itself.
    pub native: bool,
    /// The digest of the adapter's library.
    pub library: Option<Digest>,
    /// The digest of the interface contract that the adapter keeps.
    pub interface: Option<Digest>,
    /// How long it may take.
    pub timeout: Duration,
    /// The steps of the run that are carried out in a role, and what they are granted.
    pub plan: Arc<Planned>,
    /// What the router itself executes, if it does.
    pub ordered: Option<Ordered>,
    /// Where the adapter runs.
    pub isolation: &'static str,
    /// What it is granted there.
    pub grants: Object,
    /// Who asked for it.
    pub caller: Option<String>,
}

impl Acting {
    /// Returns what is executed: a call of an adapter, unless the router executes something itself.
    pub(super) fn ordered(&self) -> Ordered {
        self.ordered.clone().unwrap_or_else(|| Ordered {
            argv: self.command.to_vec(),
            cwd: ".".to_owned(),
            env: Vec::new(),
            kind: Kind::Python,
            paths: Vec::new(),
            timeout: self.timeout,
        })
    }

    /// Names what the execution depends on.
    pub(super) fn inputs(&self, plan: &Plan) -> Result<Inputs, Findings> {
        let version = env!("CARGO_PKG_VERSION");
        let call = json::to_canonical(&self.call.clone().into());
        let named = [
            (Inputs::PLAN, Some(plan.digest())),
            (Inputs::ROLES, Some(pinned(role::TABLE_SHA256))),
            (Inputs::ROLE_CONTRACT, Some(pinned(role::CONTRACT_SHA256))),
            (Inputs::ADAPTER_CONTRACT, self.interface),
            (Inputs::ADAPTER_VERSION, Some(Digest::of(version.as_bytes()))),
            (Inputs::NORMALIZATION, Some(pinned(normalize::TABLE_SHA256))),
            ("adapter/library", self.library),
            ("input/call", Some(Digest::of(call.as_bytes()))),
        ];
        let mut inputs = Inputs::new();
        for (name, digest) in named {
            let Some(digest) = digest else { continue };
            inputs.add(name, digest)?;
        }
        Ok(inputs)
    }

    /// Says what was decided: a network that is granted is told as such. The gate has decided; that the plan says the
    /// same of what the router executes itself, and of a shell, is part of what is sealed.
    pub(super) fn decisions(&self, plan: &Plan, spec: &ExecutionSpec) -> Result<Object, Findings> {
        let connect = self.grants.get("connect").and_then(Value::as_array).unwrap_or_default();
        let mut decisions = Object::with_capacity(9);
        decisions.insert("action", self.class.name());
        decisions.insert("allowed", true);
        decisions.insert("caller", self.caller.as_deref());
        decisions.insert("network_granted", !connect.is_empty());
        decisions.insert("network_targets", Value::Array(connect.to_vec()));
        decisions.insert(DECIDED_PLAN, plan.digest().to_string());
        decisions.insert("policy_gate", true);
        decisions.insert("role", self.class.role().name());
        if self.ordered.is_some() {
            let authorized = plan.authorize(spec, !connect.is_empty(), true)?;
            for (key, value) in authorized.decisions().iter() {
                decisions.insert(key, value.clone());
            }
        } else if self.class == ActionClass::ShellExec {
            // What another adapter may reach is not the plan's to grant; a shell is, wherever it runs.
            decisions.insert("shell_granted", plan.authorize(spec, false, true)?.shell);
        }
        Ok(decisions)
    }
}

/// Reads a digest that is pinned in this program; tests hold each to what it is of.
pub(crate) fn pinned(hex: &str) -> Digest {
    hex.parse().unwrap_or(Digest::ZERO)
}
