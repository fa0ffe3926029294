//! The report about a bundle as text for people.

use std::fmt::Write as _;

use crate::json::{Object, Value, to_repr};
use crate::python_text::visible;

/// Returns the report as text. Whatever the bundle says is shown so that no terminal obeys it.
pub(super) fn render(bundle: &Value, report: &Object) -> String {
    let mut out = Text(String::new());
    let steps = report.get("steps").and_then(Value::as_object).cloned().unwrap_or_default();
    out.line("\nnexus-router ProofPack verification\n");
    out.field("deal_id", &shown(report.get("deal_id")));
    let version = shown(report.get("spec_version").filter(|it| !it.is_null()));
    out.field("spec_version", if version.is_empty() { "legacy" } else { &version });
    out.field("proofs", &shown(report.get("proof_count")));
    out.field("events", &shown(report.get("event_count")));
    out.line("");
    core(&mut out, &steps);
    actors(&mut out, &steps);
    recorded(&mut out, bundle);
    provenance(&mut out, bundle);
    model(&mut out, bundle, &steps);
    replay(&mut out, &steps);
    swarm(&mut out, &steps);
    findings(&mut out, &steps);
    anchoring(&mut out, report);
    out.field("verified", &shown(report.get("verified")));
    if let Some(reason) = report.get("reason") {
        out.field("reason", &shown(Some(reason)));
    } else {
        let level = shown(report.get("verification_level"));
        let run = report.get("steps_run").and_then(Value::as_i64).unwrap_or_default();
        let skipped = report.get("steps_skipped").and_then(Value::as_i64).unwrap_or_default();
        out.field("level", &format!("{level} ({run}/{} steps)", run + skipped));
    }
    out.line("");
    out.0
}

struct Text(String);

impl Text {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    /// Writes a name, and a value in a column of its own.
    fn field(&mut self, name: &str, value: &str) {
        // A string takes whatever is written to it.
        let _ = writeln!(self.0, "  {:<17} {value}", format!("{name}:"));
    }

    fn reasons(&mut self, errors: Option<&Value>) {
        for error in errors.and_then(Value::as_array).unwrap_or_default() {
            self.line(&format!("      reason: {}", shown(Some(error))));
        }
    }
}

/// Returns a value as text; what is not there is empty.
fn shown(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => visible(text),
        Some(Value::Bool(truth)) => truth.to_string(),
        Some(other) => visible(&to_repr(other)),
    }
}

fn flag(step: &Object, name: &str) -> bool {
    step.get(name).and_then(Value::as_bool) == Some(true)
}

const fn verdict(passed: bool) -> &'static str {
    if passed { "PASS" } else { "FAIL" }
}

fn step<'a>(steps: &'a Object, name: &str) -> Option<&'a Object> {
    steps.get(name)?.as_object()
}

fn core(out: &mut Text, steps: &Object) {
    for (name, skipped) in [
        ("bundle_hash", ""),
        ("event_chain", ""),
        ("merkle_inclusion", "no inclusion data"),
        ("sth_signature", "no public key — use --public-key"),
        ("cross_reference", "no STH or inclusion"),
        ("actor_signatures", ""),
    ] {
        let Some(step) = step(steps, name) else { continue };
        let passed = verdict(flag(step, "passed"));
        match name {
            "event_chain" => {
                let count = shown(step.get("event_count"));
                out.field(name, &format!("{passed}  ({count} events)"));
                out.reasons(step.get("errors"));
            }
            "actor_signatures" if flag(step, "skipped") => {}
            "actor_signatures" => {
                let counts = [step.get("passed_count"), step.get("signed_count")].map(shown);
                out.field(name, &format!("{passed}  ({}/{} events)", counts[0], counts[1]));
            }
            _ if flag(step, "skipped") => out.field(name, &format!("SKIPPED ({skipped})")),
            _ => out.field(name, passed),
        }
    }
    out.line("");
}

fn actors(out: &mut Text, steps: &Object) {
    let Some(step) = step(steps, "actor_signatures") else { return };
    out.line("  actor_signatures per event:");
    for event in step.get("events").and_then(Value::as_array).unwrap_or_default() {
        let [kind, result] = ["event_type", "result"].map(|key| shown(event.get(key)));
        let key = event.get("key_id").filter(|key| !key.is_null());
        let key = key.map_or_else(|| "(no key_id)".to_owned(), |key| shown(Some(key)));
        out.line(&format!("    {kind:<24} {result:<18} key={key}"));
        if result == "FAIL" {
            out.line(&format!("      reason: {}", shown(event.get("reason"))));
        }
    }
    out.line("");
}

/// Shows what stands in the bundle and is covered by nothing.
fn recorded(out: &mut Text, bundle: &Value) {
    let roles = bundle.get("agent_trace").and_then(Value::as_array).unwrap_or_default();
    if !roles.is_empty() {
        out.field("agent_trace", &format!("{} roles", roles.len()));
        for role in roles {
            let (name, event) = (shown(role.get("role")), shown(role.get("event")));
            out.line(&format!("    {name:<22} {event}"));
        }
        out.line("");
    }
    let summary = bundle.get("governance_summary").and_then(Value::as_object);
    if let Some(summary) = summary.filter(|summary| !summary.is_empty()) {
        out.line("  Governance (recorded; no hash covers it):");
        for (name, value) in summary {
            let value = shown(value.get("value").or(Some(value)));
            out.line(&format!("    {:<19} {value}", format!("{}:", visible(name))));
        }
        out.line("");
    }
}

fn provenance(out: &mut Text, bundle: &Value) {
    let events = bundle.get("events").and_then(Value::as_array).unwrap_or_default();
    if events.is_empty() {
        return;
    }
    out.line("  Provenance (per-event attribution; NOT per-actor signed):");
    for event in events {
        let [kind, actor, role, source, time] =
            ["event_type", "actor_id", "actor_role", "source", "timestamp"]
                .map(|key| shown(event.get(key).filter(|it| !it.is_null())));
        let more: Vec<String> = [("role", role), ("src", source)]
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
        let time = time.split('.').next().unwrap_or_default();
        out.line(&format!("    {kind:<24} actor={actor}{more} @ {time}"));
    }
    out.line("");
}

/// Says what is signed, and what is not.
fn model(out: &mut Text, bundle: &Value, steps: &Object) {
    out.line("  Signing model:");
    let passed = |name: &str| step(steps, name).is_some_and(|step| flag(step, "passed"));
    if passed("sth_signature") && passed("cross_reference") {
        let key = bundle.pointer("/signed_tree_head/key_id");
        out.line(&format!("    The signed tree head (Ed25519, key_id: {})", shown(key)));
        out.line("    covers the events up to the anchored one.");
    } else {
        out.line("    No signed tree head was verified: that the events are whole");
        out.line("    says nothing of who wrote them.");
    }
    if passed("binding") {
        out.line("    The anchored event seals the proofs, so the head covers them.");
    } else {
        out.line("    The proofs are covered by the bundle hash only, which anyone");
        out.line("    can compute anew.");
    }
    if passed("actor_signatures") {
        out.line("    Signatures of actors were verified against the keys in the");
        out.line("    bundle; events without one are attributed by label only.");
    } else {
        out.line("    Actors are attributed by label only.");
    }
    out.line("");
}

fn replay(out: &mut Text, steps: &Object) {
    let Some(step) = step(steps, "adapter_replay") else { return };
    let status = shown(step.get("status"));
    if flag(step, "skipped") {
        out.field("adapter_replay", &format!("skipped  ({status})"));
        out.line("");
        return;
    }
    out.field("adapter_replay", &format!("{}  (status={status})", verdict(flag(step, "passed"))));
    for (name, width) in [("proofs_with_adapter", 28), ("events_with_policy_snapshot", 28)] {
        out.line(&format!("    {:<width$}{}", format!("{name}:"), pad(step.get(name), name)));
    }
    for proof in step.get("per_proof").and_then(Value::as_array).unwrap_or_default() {
        let [index, id] = ["proof_index", "adapter_id"].map(|key| shown(proof.get(key)));
        out.line(&format!("    proof[{index}] adapter_id={id}:"));
        for (label, key) in [
            ("adapter contract schema", "adapter_contract_schema_status"),
            ("contract hash", "contract_hash_status"),
            ("input schema hash", "input_schema_hash_status"),
            ("normalized policy inputs", "normalized_policy_inputs_status"),
            ("adapter validator", "adapter_validator_status"),
        ] {
            out.line(&format!("      {label:<32} {}", shown(proof.get(key))));
        }
        if let Some(errors) = proof.get("schema_errors")
            && errors.as_array().is_some_and(|errors| !errors.is_empty())
        {
            out.line(&format!("      schema_errors: {}", visible(&to_repr(errors))));
        }
    }
    for event in step.get("per_event").and_then(Value::as_array).unwrap_or_default() {
        let [index, kind] = ["event_index", "event_type"].map(|key| shown(event.get(key)));
        if let Some(status) = event.pointer("/policy_replay/status") {
            let status = shown(Some(status));
            out.line(&format!("    event[{index}] {kind:<24} policy_replay={status}"));
        }
    }
    out.line("");
}

/// Returns a count; the longer of the two names leaves no room for the blank that the other has.
fn pad(count: Option<&Value>, name: &str) -> String {
    let count = shown(count);
    if name.len() + 1 >= 28 { format!(" {count}") } else { count }
}

fn swarm(out: &mut Text, steps: &Object) {
    let Some(coverage) = step(steps, "swarm_coverage") else { return };
    out.field("swarm_coverage", verdict(flag(coverage, "passed")));
    for (kind, count) in coverage.get("per_type").and_then(Value::as_object).into_iter().flatten() {
        let [passed, present] = ["passed", "present"].map(|key| shown(count.get(key)));
        out.line(&format!("    {:<24} {passed}/{present} signed", visible(kind)));
    }
    out.reasons(coverage.get("errors"));
    if let Some(snapshot) = step(steps, "swarm_snapshot") {
        if flag(snapshot, "skipped") {
            out.field("swarm_snapshot", "SKIPPED (no snapshot section)");
        } else {
            out.field("swarm_snapshot", verdict(flag(snapshot, "passed")));
            out.reasons(snapshot.get("errors"));
        }
    }
    if let Some(decision) = step(steps, "swarm_decision").filter(|it| !flag(it, "skipped")) {
        let strength = shown(decision.get("strength"));
        let passed = verdict(flag(decision, "passed"));
        out.field("swarm_decision", &format!("{passed}  (strength={strength})"));
        out.reasons(decision.get("errors"));
    }
    out.line("");
}

/// Shows which events no tree head covers.
fn anchoring(out: &mut Text, report: &Object) {
    let Some(anchoring) = report.get("anchoring") else { return };
    let part = |key: &str| shown(anchoring.get(key));
    let status = match part("status").as_str() {
        "not_anchored" => "NOT ANCHORED".to_owned(),
        _ => {
            let events = shown(report.get("event_count"));
            format!("IN PART ({} of {events} events)", part("covered_events"))
        }
    };
    out.field("anchoring", &status);
    out.line(&format!("      {}", part("message")));
    out.line("");
}

fn findings(out: &mut Text, steps: &Object) {
    let mut any = false;
    for name in ["binding", "strict", "earlier"] {
        let Some(step) = step(steps, name) else { continue };
        any = true;
        out.field(name, verdict(flag(step, "passed")));
        for finding in step.get("findings").and_then(Value::as_array).unwrap_or_default() {
            let [pointer, message] = ["pointer", "message"].map(|key| shown(finding.get(key)));
            out.line(&format!("      {pointer}: {message}"));
        }
    }
    if any {
        out.line("");
    }
}
