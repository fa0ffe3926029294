//! Options of the router, as the configuration gives them.

use std::sync::Arc;

use super::{App, Fleet, lock};
use crate::breaker::BreakerSettings;
use crate::config::ConfigFile;
use crate::loader::IncidentReporter;
use crate::router::{CallLimits, Options};

impl App {
    pub(super) fn options(&self, config: &ConfigFile, fleet: &Fleet) -> Options {
        let (limits, default) = (config.limits, Options::default());
        let calls = CallLimits {
            calls: limits.calls_per_adapter,
            timeout: limits.call_timeout,
            breaker: config.breaker,
        };
        let adapter_calls = fleet.limits.iter().map(|(adapter_id, (own, timeout, breaker))| {
            let own = CallLimits {
                calls: own.or(calls.calls),
                timeout: timeout.unwrap_or(calls.timeout),
                breaker: BreakerSettings {
                    enabled: breaker.unwrap_or(calls.breaker.enabled),
                    ..calls.breaker
                },
            };
            (adapter_id.clone(), own)
        });
        Options {
            adapter_calls: adapter_calls.collect(),
            runs_in_flight: limits.runs_in_flight,
            shares: limits.shares(),
            run_record_bytes: limits.run_record_bytes,
            memory: self.memory().clone(),
            calls,
            secrets: fleet.secrets.clone(),
            law: fleet.law.clone(),
            metrics: self.metrics.clone(),
            witness: self.witness.clone(),
            incidents: IncidentReporter::new(self.watchman.sink(&self.metrics, &self.hidden)),
            caller_check: self.caller_check.clone(),
            listeners: self.listeners.clone(),
            desks: self.desks.clone(),
            keeper: lock(&self.sealing).as_ref().map(|sealing| Arc::clone(&sealing.keeper)),
            ..default
        }
    }
}
