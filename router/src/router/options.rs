//! How a router works, and what it may use.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::budget::MemoryBudget;
use crate::caller::CallerCheck;
use crate::clock::Clock;
use crate::config::RunLimits;
use crate::desk::Desks;
use crate::evidence::Keeper;
use crate::gate::Witness;
use crate::host::CallLimits;
use crate::listener::Listeners;
use crate::loader::IncidentReporter;
use crate::metrics::Metrics;
use crate::policy::Law;
use crate::secret::Secrets;
use crate::share::ShareLimits;

/// How a router works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Runs that may be under way at once; one more is refused.
    pub runs_in_flight: usize,
    /// Bytes of the record of one run. Larger answers are recorded by their digest.
    pub run_record_bytes: usize,
    /// Counts the answers of runs under way.
    pub memory: MemoryBudget,
    /// The shares of each token.
    pub shares: ShareLimits,
    /// What calls may take.
    pub calls: CallLimits,
    /// What calls of single adapters may take, by adapter id.
    pub adapter_calls: BTreeMap<String, CallLimits>,
    /// The secrets that arguments may refer to, and that are kept out of the record.
    pub secrets: Secrets,
    /// What the operator lays down for every run.
    pub law: Law,
    /// Where runs, steps and calls are counted.
    pub metrics: Metrics,
    /// Is told of calls that are denied.
    pub witness: Witness,
    /// Is told of circuits that open and close.
    pub incidents: IncidentReporter,
    /// Who keeps evidence of what is done in a role, if anybody does.
    pub keeper: Option<Arc<Keeper>>,
    /// Who hears what calls tell; whoever loads the adapters puts its sink before theirs.
    pub listeners: Listeners,
    /// Where calls are answered what they ask; whoever loads the adapters gives them its sink.
    pub desks: Desks,
    /// Checks the callers of runs under way again before each step.
    pub caller_check: CallerCheck,
    /// Where the time comes from.
    pub clock: Clock,
    /// Threads that carry runs; none means one per core.
    pub threads: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        let limits = RunLimits::default();
        Self {
            runs_in_flight: limits.runs_in_flight,
            run_record_bytes: limits.run_record_bytes,
            memory: MemoryBudget::default(),
            shares: limits.shares(),
            calls: CallLimits::default(),
            adapter_calls: BTreeMap::new(),
            secrets: Secrets::empty(),
            law: Law::default(),
            metrics: Metrics::default(),
            witness: Witness::default(),
            incidents: IncidentReporter::default(),
            keeper: None,
            listeners: Listeners::default(),
            desks: Desks::default(),
            caller_check: CallerCheck::default(),
            clock: Clock::System,
            threads: None,
        }
    }
}
