//! Workers for simulated calls: an adapter that declares `dry_run`, confined without network or writes.
//!
//! These workers never get connections or writable files, even if the operator grants them. None starts where the
//! kernel cannot enforce that. The first simulated call starts the first worker.

use std::path::PathBuf;
use std::sync::Arc;

use nexus_router_sdk::Capability;

use super::opened::Opened;
use super::wire::Task;
use super::working;
use super::{Description, DryRun, Loader};
use crate::grant::{Grants, Isolation};
use crate::sandbox::{Profile, Reading};
use crate::worker::{CHILD_ARGUMENT, Incident, Makeup, Recipe, Team};

/// Makes the workers that simulate calls of an adapter; `None` if it does not declare `dry_run` or there is no program for
/// children.
pub(super) fn workers(
    loader: &Loader,
    opened: &Arc<Opened>,
    admitted: &Description,
    description: &str,
) -> Option<Team> {
    let DryRun::Helper(program) = &loader.dry_run else { return None };
    if !admitted.capabilities.contains(&Capability::DryRun) {
        return None;
    }
    let grants = read_only_grants(&loader.placement.grants);
    let inline = loader.placement.isolation == Isolation::Inline;
    let profile = Profile {
        // An adapter in this process reads everything that the router reads.
        reading: if inline { Reading::Anything } else { Reading::Granted },
        // Without these parts of the kernel nothing would be confined.
        accept: Vec::new(),
        ..working::profile(loader, opened, grants.clone())
    };
    let job = serde_json::to_vec(&opened.job(Task::Serve, profile))
        .inspect_err(|error| {
            let adapter = &admitted.adapter_id;
            tracing::warn!(adapter, %error, "the router simulates calls: no worker can be described");
        })
        .ok()?;
    let recipe = Recipe {
        program: program.clone(),
        argument: CHILD_ARGUMENT,
        lasting: true,
        guarded: !grants.run.is_empty(),
        environment: working::environment(loader, &grants),
        directory: None,
        job,
    };
    let (opened, description) = (Arc::clone(opened), description.to_owned());
    let (limit, label) = (loader.placement.start_timeout, opened.label());
    let begin = move || {
        let started = working::start(&recipe, limit, &grants, &label);
        working::check_started(started, &opened, &description, None)
    };
    let adapter = admitted.adapter_id.clone();
    let makeup = Makeup {
        // A failed simulated call is not an incident.
        incidents: Box::new(move |incident: Incident| {
            tracing::debug!(adapter, ?incident, "a worker for simulated calls has a problem");
        }),
        ..working::makeup(loader, &admitted.adapter_id, begin)
    };
    Some(Team::new(makeup, None))
}

/// Returns grants without connections, and with writable files that can only be read.
pub(super) fn read_only_grants(grants: &Grants) -> Grants {
    let Grants { connect: _, read, write, run, env } = grants;
    let read: Vec<PathBuf> = read.iter().chain(write).cloned().collect();
    Grants { connect: Vec::new(), read, write: Vec::new(), run: run.clone(), env: env.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_neither_connections_nor_writable_files() {
        let grants = Grants {
            connect: vec!["*:443".parse().unwrap()],
            read: vec!["/r".into()],
            write: vec!["/w".into()],
            run: vec!["/bin/true".into()],
            env: vec!["HOME".to_owned()],
        };
        let expected = Grants {
            connect: Vec::new(),
            read: vec!["/r".into(), "/w".into()],
            write: Vec::new(),
            ..grants.clone()
        };
        assert_eq!(read_only_grants(&grants), expected);
    }
}
