//! Proof bundles: what adapters gave, what policies decided, and the log that anchors it, verified offline.
//!
//! [`core()`] makes the steps of the AiGentsy verifier and comes to what it comes to. [`verify`] adds the replay of
//! evaluations, and a step of our own: `binding` for bundles that are bound as those of ours are, `strict` for others in
//! which something is wrong that those steps pass over. Where the tree head of another covers less than all events,
//! `anchoring` reports how much. [`build()`] makes bundles, and [`Log`] keeps their leaves.

mod actor;
mod anchor;
mod binding;
mod build;
mod coverage;
mod earlier;
mod event;
mod log;
mod policy;
mod python;
mod receipt;
mod replay;
mod run;
mod strict;
mod swarm;

use coverage::Coverage;

use crate::digest::Digest;
use crate::json::{Limits, Object, Value, to_spaced, write_canonical};
use crate::key::PublicKey;
use crate::signal::Finding;

pub use anchor::{head_holds, head_text};
pub use binding::{BINDING, LOG_ID, SEALED, SPEC_VERSION};
pub use build::{Draft, Event, build};
pub use event::{leaf, leaf_text};
pub use log::{Error as LogError, Log};
pub use policy::replay as replay_policy;
pub use receipt::{anchor_receipt, attestation_holds};
pub use replay::{bundle as replay, evaluation as replay_evaluation, schema};
pub use run::{RunError, of_run};
pub use strict::values_fit;

/// How large a bundle may be.
pub const LIMITS: Limits = Limits { bytes: 64 << 20, depth: 512, values: 2_000_000 };

/// What is asked of a bundle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The key of the log.
    pub key: Option<&'a PublicKey>,
    /// A bundle whose tree head cannot be verified does not verify.
    pub strict: bool,
    /// The profile of swarms.
    pub swarm: bool,
    /// A bundle with whose log that of this one has to begin.
    pub earlier: Option<&'a Value>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whether the bundle verifies.
    pub verified: bool,
    /// The report in the form of the AiGentsy verifier.
    pub value: Object,
}

/// The steps of a report, in order.
struct Steps(Vec<(&'static str, Object)>);

impl Steps {
    fn flag(&self, step: &str, flag: &str) -> bool {
        let step = self.0.iter().find(|(name, _)| *name == step);
        step.is_some_and(|(_, step)| step.get(flag).and_then(Value::as_bool) == Some(true))
    }

    fn passed(&self, step: &str) -> bool {
        self.flag(step, "passed")
    }

    fn skipped(&self, step: &str) -> bool {
        self.flag(step, "skipped")
    }

    fn has(&self, step: &str) -> bool {
        self.0.iter().any(|(name, _)| *name == step)
    }

    /// Says whether a step was made and failed.
    fn failed(&self, step: &str) -> bool {
        self.has(step) && !self.passed(step) && !self.skipped(step)
    }

    fn any_failed(&self) -> bool {
        self.0.iter().any(|(name, _)| self.failed(name))
    }
}

/// Makes the steps of the AiGentsy verifier: hash, chain, inclusion, head, what refers to what, signatures of actors.
#[must_use]
pub fn core(bundle: &Value, key: Option<&PublicKey>) -> Object {
    report(bundle, core_steps(bundle, key), None).value
}

fn core_steps(bundle: &Value, key: Option<&PublicKey>) -> Steps {
    let mut steps = vec![
        ("bundle_hash", hash_step(bundle)),
        ("event_chain", event::chain(bundle)),
        ("merkle_inclusion", anchor::inclusion(bundle)),
        ("sth_signature", anchor::head(bundle, key)),
        ("cross_reference", anchor::cross_reference(bundle)),
    ];
    if bundle.get("spec_version").and_then(Value::as_str) == Some("3.0.0") {
        steps.push(("actor_signatures", actor::step(bundle)));
    }
    Steps(steps)
}

/// Verifies a bundle.
#[must_use]
pub fn verify(bundle: &Value, options: &Options<'_>) -> Report {
    let mut steps = core_steps(bundle, options.key);
    if options.swarm {
        let anchored = ["merkle_inclusion", "sth_signature", "cross_reference"];
        let proven = swarm::Proven {
            whole: steps.passed("bundle_hash") && steps.passed("event_chain"),
            anchored: anchored.into_iter().all(|step| steps.passed(step)),
        };
        steps.0.push(("swarm_coverage", swarm::coverage(bundle)));
        steps.0.push(("swarm_snapshot", swarm::snapshot(bundle)));
        steps.0.push(("swarm_decision", swarm::decisions(bundle, proven)));
    }
    steps.0.extend(replay::step(bundle).map(|step| ("adapter_replay", step)));
    let anchor = ["merkle_inclusion", "sth_signature", "cross_reference"];
    let mut coverage = None;
    if binding::is_claimed(bundle) {
        let mut findings = binding::check(bundle, options.key);
        findings.extend(strict::findings(bundle, strict::Told::default()));
        steps.0.push(("binding", told(&findings)));
    } else {
        let already = strict::Told {
            chain: steps.failed("event_chain"),
            anchor: anchor.into_iter().any(|step| steps.failed(step)),
            replay: steps.failed("adapter_replay"),
        };
        coverage = (!already.chain && !already.anchor).then(|| Coverage::of(bundle));
        let findings = strict::findings(bundle, already);
        if !findings.is_empty() {
            steps.0.push(("strict", told(&findings)));
        }
    }
    if let Some(earlier) = options.earlier {
        steps.0.push(("earlier", told(&earlier::check(bundle, earlier, options.key))));
    }
    let unsigned = steps.skipped("sth_signature");
    let reason = match (options.key, options.strict, coverage) {
        // A bundle of ours always has a tree head: one without it was changed.
        (Some(_), _, None) if unsigned => {
            Some("the bundle has no signed tree head that the key could hold to".to_owned())
        }
        (None, true, _) if unsigned => {
            Some("--strict requires STH signature (use --public-key)".to_owned())
        }
        (_, true, Some(coverage)) if coverage != Coverage::Full => {
            Some(format!("--strict requires full coverage: {}", coverage.message()))
        }
        _ => None,
    };
    let mut report = report(bundle, steps, reason.as_deref());
    if options.swarm {
        report.value.insert("profile", "swarm-strict");
    }
    // Without a key nobody asked for an anchor, and the level tells as much.
    let wanted = coverage.filter(|it| *it != Coverage::Missing || options.key.is_some());
    if let Some(member) = wanted.and_then(|it| it.to_json(event::all(bundle).len())) {
        report.value.insert("anchoring", member);
    }
    report
}

/// So many findings are told; a file of hostile make has as many as it likes.
const MOST: usize = 200;

/// Returns a step that tells findings.
fn told(findings: &[Finding]) -> Object {
    let one = |finding: &Finding| {
        let mut one = Object::with_capacity(2);
        one.insert("pointer", finding.pointer.as_str());
        one.insert("message", finding.message.as_str());
        Value::from(one)
    };
    let mut step = Object::with_capacity(4);
    step.insert("passed", findings.is_empty());
    step.insert("skipped", false);
    step.insert("findings", findings.iter().take(MOST).map(one).collect::<Vec<Value>>());
    if findings.len() > MOST {
        step.insert("further_findings", findings.len() - MOST);
    }
    step
}

fn report(bundle: &Value, steps: Steps, reason: Option<&str>) -> Report {
    let verified = reason.is_none()
        && !steps.any_failed()
        && steps.passed("bundle_hash")
        && steps.passed("event_chain");
    let skipped = steps.0.iter().filter(|(name, _)| steps.skipped(name)).count();
    let run = steps.0.len() - skipped;
    let core = ["merkle_inclusion", "sth_signature", "cross_reference", "actor_signatures"];
    let full = !core.into_iter().any(|step| steps.skipped(step));
    let count = |key: &str| match bundle.get(key) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(object)) => object.len(),
        Some(Value::String(text)) => text.chars().count(),
        _ => 0,
    };
    let mut value = Object::with_capacity(11);
    value.insert("deal_id", bundle.get("deal_id").cloned().unwrap_or_else(|| "".into()));
    value.insert("spec_version", bundle.get("spec_version").cloned().unwrap_or(Value::Null));
    let mut told = Object::with_capacity(steps.0.len());
    for (name, step) in steps.0 {
        told.insert(name, step);
    }
    value.insert("steps", told);
    value.insert("verified", verified);
    value.insert("proof_count", count("proofs"));
    value.insert("event_count", count("events"));
    value.insert("steps_run", run);
    value.insert("steps_skipped", skipped);
    value.insert("verification_level", if full { "full" } else { "offline" });
    if let Some(reason) = reason {
        value.insert("reason", reason);
    }
    Report { verified, value }
}

/// Returns the hash of a bundle.
#[must_use]
pub fn hash(bundle: &Value) -> String {
    let (nothing, none, null) = (Value::from(""), Value::Array(Vec::new()), Value::Null);
    let member = |key: &str| {
        bundle.get(key).unwrap_or(match key {
            "deal_id" => &nothing,
            "proofs" | "events" => &none,
            _ => &null,
        })
    };
    let mut text = String::from("{");
    if python::truthy(bundle.get("spec_version")) {
        for key in ["deal_id", "events", "merkle_inclusion", "proofs", "spec_version"] {
            text.push('"');
            text.push_str(key);
            text.push_str("\":");
            write_canonical(&mut text, member(key));
            text.push(',');
        }
        text.pop();
    } else {
        for key in ["deal_id", "events", "merkle_inclusion", "proofs"] {
            text.push('"');
            text.push_str(key);
            text.push_str("\": ");
            text.push_str(&to_spaced(member(key)));
            text.push_str(", ");
        }
        text.truncate(text.len() - 2);
    }
    text.push('}');
    Digest::of(text.as_bytes()).to_string()
}

fn hash_step(bundle: &Value) -> Object {
    let computed = hash(bundle);
    let claimed = bundle.get("bundle_hash").cloned().unwrap_or_else(|| "".into());
    let mut step = Object::with_capacity(3);
    step.insert("passed", claimed.as_str() == Some(&computed));
    step.insert("computed", computed);
    step.insert("claimed", claimed);
    step
}
