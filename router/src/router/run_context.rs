//! Services shared by all runs, made of the options of a router.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::Options;
use crate::dispatch::{RulesInForce, Surroundings};
use crate::host::{Host, SlotLimits};
use crate::registry::Registry;

/// Makes the services. Queues and rules of the services before are kept.
pub(super) fn surroundings(
    runtime: &Handle,
    registry: Registry,
    options: Options,
    before: Option<&Surroundings>,
) -> Surroundings {
    let Options { calls, adapter_calls, runs_in_flight, shares, secrets, law, metrics, .. } =
        options;
    let Options { witness, listeners, desks, keeper, caller_check, .. } = options;
    let Options { run_record_bytes, memory, incidents, .. } = options;
    let (all, own, in_flight) = (&calls, &adapter_calls, runs_in_flight);
    let queued_per_token = shares.queued_per_token;
    let limits = SlotLimits {
        all,
        own,
        in_flight,
        queued_per_token,
        metrics: &metrics,
        incidents: &incidents,
    };
    let host = Host::new(runtime.clone(), &registry, limits, before.map(|before| &*before.host));
    let law = Arc::new(law);
    let (rules, rules_version) = match before {
        None => (Arc::new(RulesInForce::new(&law, &secrets)), 0),
        Some(before) => (Arc::clone(&before.rules), before.rules.replace(&law, &secrets)),
    };
    Surroundings {
        registry: Arc::new(registry),
        secrets,
        law,
        rules,
        rules_version,
        caller_check,
        metrics,
        witness,
        listeners,
        desks,
        host: Arc::new(host),
        ledger: shares.ledger(runs_in_flight, before.map(|before| &before.ledger)),
        keeper,
        run_record_bytes,
        memory,
    }
}
