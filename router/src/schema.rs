//! The published JSON Schemas: what others may send, and what they get.

/// A published schema.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// The name, with its version.
    pub name: &'static str,
    /// What it describes, in one sentence.
    pub about: &'static str,
    /// The schema, draft-07.
    pub text: &'static str,
}

macro_rules! schema {
    ($name:literal, $about:literal) => {
        Schema {
            name: concat!("nexus-router.", $name),
            about: $about,
            text: include_str!(concat!("../schemas/nexus-router.", $name, ".json")),
        }
    };
}

/// What every name begins with; it may be left out when asking for a schema.
const PREFIX: &str = "nexus-router.";

/// Every published schema.
pub const SCHEMAS: &[Schema] = &[
    schema!("run.request.v0.7", "A request to run a plan."),
    schema!("run.response.v0.7", "What came of a run."),
    schema!("inspect.request.v0.2", "Which runs to list."),
    schema!("inspect.response.v0.2", "A list of runs."),
    schema!("replay.request.v0.2", "Which run to replay."),
    schema!("replay.response.v0.2", "What the record of a run says, and whether it can be true."),
    schema!("export.request.v0.3", "Which run to export."),
    schema!("export.response.v0.3", "An exported run."),
    schema!("import.request.v0.3", "A bundle to import."),
    schema!("import.response.v0.3", "What came of an import."),
    schema!("bundle.v0.3", "A run, to be taken elsewhere."),
    schema!("event.v1", "A stored event."),
    schema!("run_record.v1", "The record of a tool that was carried out, or refused by a gate."),
    schema!("interface.v1", "An interface contract: the operations of an adapter at one version."),
    schema!(
        "interface_lock.v1",
        "The lock of interface contracts: every revision, the oldest first."
    ),
    schema!(
        "tool_spec.v1",
        "A tool spec: what a tool takes and gives, and the operation that executes it."
    ),
    ADAPTER_CONTRACT,
];

/// The schema of signal contracts, which is told to anybody.
pub const ADAPTER_CONTRACT: Schema = schema!(
    "adapter_contract.v1",
    "A signal contract: the fields that an adapter gives, and which of them may enter a policy."
);

/// Finds a schema by its name, with or without `nexus-router.` before it.
#[must_use]
pub fn find(name: &str) -> Option<&'static Schema> {
    let short = name.strip_prefix(PREFIX).unwrap_or(name);
    SCHEMAS.iter().find(|schema| schema.name.strip_prefix(PREFIX) == Some(short))
}

/// Returns the names most like a text, the best first.
#[must_use]
pub fn near(name: &str) -> Vec<&'static str> {
    let short = name.strip_prefix(PREFIX).unwrap_or(name);
    let similarity = |schema: &Schema| {
        let known = schema.name.strip_prefix(PREFIX).unwrap_or(schema.name);
        crate::near::likeness(short, known)
    };
    let mut scored: Vec<(f64, &str)> =
        SCHEMAS.iter().map(|schema| (similarity(schema), schema.name)).collect();
    scored.retain(|(score, _)| *score > 0.8);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests;
