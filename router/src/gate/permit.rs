//! The permit: proof that a call may be made, with what the call needs.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use nexus_router_sdk::Capability;

use crate::breaker::CallKind;
use crate::json::{Object, Value};
use crate::loader::Adapter;
use crate::policy::{Act, KeptOperation, Law};
use crate::request::Step;

/// Proof that a call may be made. It is used up by making the call.
#[derive(Debug)]
pub struct Permit<'a> {
    adapter: &'a Adapter,
    tool: &'a str,
    method: &'a str,
    args: Cow<'a, Object>,
    /// Whether the arguments hold secrets that the caller only referred to.
    holds_secrets: bool,
    interaction: Option<&'a Object>,
    /// What the plan grants to an envoy.
    grants: Option<&'a Value>,
    effects: Effects,
    /// The operation of the contract that the adapter keeps.
    operation: Option<Arc<KeptOperation>>,
    /// Whether its contract has operations that only read.
    has_reads: bool,
    /// Simulated call: dry-run flag, confined worker.
    dry_run: bool,
}

/// Effects of a call outside of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effects {
    /// Nothing; it can be made again.
    None,
    /// Something: it must be on record before it is made. It is made again only if its contract allows that.
    External,
}

/// Returns what a call may do: nothing, if its adapter reaches nothing outside, or its contract says that the
/// operation only reads.
fn effects(adapter: &Adapter, operation: Option<&KeptOperation>) -> Effects {
    let reads = operation.is_some_and(|operation| operation.read_only);
    if adapter.capabilities().contains(&Capability::External) && !reads {
        Effects::External
    } else {
        Effects::None
    }
}

impl Permit<'_> {
    /// Returns the adapter to be called.
    #[must_use]
    pub const fn adapter(&self) -> &Adapter {
        self.adapter
    }

    /// Returns what the call may do.
    #[must_use]
    pub const fn effects(&self) -> Effects {
        self.effects
    }

    /// Returns how long its contract lets the call take.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.operation.as_ref().map(|operation| operation.timeout)
    }

    /// Returns the operation of the contract that its adapter keeps.
    pub(crate) const fn operation(&self) -> Option<&Arc<KeptOperation>> {
        self.operation.as_ref()
    }

    /// Returns the permit of a simulated call.
    pub(super) fn simulated(self) -> Self {
        Self { effects: Effects::None, dry_run: true, ..self }
    }

    /// Uses the permit up, and returns the operation.
    pub(crate) fn into_operation(self) -> Option<Arc<KeptOperation>> {
        self.operation
    }

    /// Returns what kind of call it is for the circuit breaker of its adapter.
    #[must_use]
    pub const fn kind(&self) -> CallKind {
        match (self.effects, self.has_reads) {
            (Effects::None, _) => CallKind::ReadOnly,
            (Effects::External, true) => CallKind::EffectsBesideReads,
            (Effects::External, false) => CallKind::Effects,
        }
    }

    /// Returns the tool, the method and the arguments with their secrets. Only for the call itself.
    pub(crate) fn call(&self) -> (&str, &str, &Object) {
        (self.tool, self.method, &self.args)
    }

    /// Returns what the plan grants to the call. Only an envoy is told.
    pub(crate) const fn grants(&self) -> Option<&Value> {
        self.grants
    }

    /// Returns whether the arguments hold secrets that the caller only referred to.
    pub(crate) const fn holds_secrets(&self) -> bool {
        self.holds_secrets
    }

    /// Returns whether the call is simulated: dry-run flag, confined worker.
    pub(crate) const fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Returns what the caller says besides the arguments.
    pub(crate) const fn interaction(&self) -> Option<&Object> {
        self.interaction
    }
}

/// Returns arguments for a permit, and whether they hold secrets. Those of the given step are borrowed.
pub(super) fn held<'a>(args: Cow<'_, Object>, given: &'a Step) -> (Cow<'a, Object>, bool) {
    match args {
        Cow::Borrowed(args) if std::ptr::eq(args, given.args()) => {
            (Cow::Borrowed(given.args()), false)
        }
        Cow::Borrowed(args) => (Cow::Owned(args.clone()), false),
        Cow::Owned(args) => (Cow::Owned(args), true),
    }
}

pub(super) fn permit<'a>(
    law: &Law,
    adapter: &'a Adapter,
    (act, step): (Act<'_>, &'a Step),
    (args, holds_secrets): (Cow<'a, Object>, bool),
) -> Permit<'a> {
    let keeping = law.interfaces.get(act.adapter_id);
    let operation = keeping.and_then(|keeping| keeping.operation(act.tool, act.method)).cloned();
    Permit {
        adapter,
        tool: step.tool(),
        method: step.method(),
        args,
        holds_secrets,
        interaction: step.interaction(),
        grants: step.grants().filter(|_| adapter.envoy().is_some()),
        effects: effects(adapter, operation.as_deref()),
        operation,
        has_reads: keeping.is_some_and(|keeping| keeping.has_reads),
        dry_run: false,
    }
}
