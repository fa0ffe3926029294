//! Refusals: counted, and recorded with who, what and why.

use super::Service;
use crate::access::Denial;
use crate::app::App;
use crate::audit::Audit;
use crate::json::Object;

impl Service {
    /// Records that somebody was refused.
    pub fn refused(&self, denial: &Denial, what: &str, from: &str, name: Option<&str>) {
        self.metrics().refused(denial.code());
        let mut payload = Object::new();
        payload.insert("reason", denial.code());
        if let Denial::TokenInvalid(refusal) = denial {
            payload.insert("why", refusal.reason());
        }
        payload.insert("what", what);
        payload.insert("from", from);
        if let Some(name) = name {
            payload.insert("name", name);
        }
        self.inner.audit.record("access.refused", payload);
    }
}

/// Records the calls that are denied inside of runs, also of those that nobody waits for.
pub(super) fn witness(app: &App, audit: &Audit) {
    let (metrics, audit) = (app.metrics().clone(), audit.clone());
    app.witness().tell(move |denied| {
        metrics.refused(denied.code);
        let mut payload = Object::new();
        payload.insert("reason", denied.code);
        payload.insert("run_id", denied.run_id);
        payload.insert("adapter", denied.act.adapter_id);
        payload.insert("tool", denied.act.tool);
        payload.insert("method", denied.act.method);
        if let Some(caller) = denied.caller {
            payload.insert("name", caller.name.as_str());
        }
        audit.record("access.refused", payload);
    });
}
