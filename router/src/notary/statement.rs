//! What is attested of a run: follows from its bundle alone, but for the program that sealed it.

use crate::attest::{Link, RunLink, Statement, Subject};
use crate::bundle::Content;
use crate::evidence::pinned;
use crate::role;
use crate::seal::{Kind, Leaf};

/// Returns the leaf and the statement of a run.
pub(super) fn of(run: &Content) -> (Leaf, Statement) {
    let leaf = Leaf { kind: Kind::Run, manifest_sha256: run.digest, spec_sha256: None };
    let link = RunLink {
        plan_sha256: run.plan,
        chain_head: run.head,
        status: run.status.name(),
        events: run.events,
        router_version: env!("CARGO_PKG_VERSION"),
        role_table_sha256: pinned(role::TABLE_SHA256),
    };
    let subject = Subject { name: subject_name(&run.run_id), sha256: run.digest };
    (leaf, Link::of_run(&link).about(vec![subject]))
}

/// Returns what a run is called in its statement.
pub(super) fn subject_name(run_id: &str) -> String {
    format!("runs/{run_id}")
}
