//! `nexus-router interface approve ID`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use super::super::output::tell;
use super::super::{Answer, Error};
use super::{Place, lock};
use crate::config::Environment;
use crate::interface::{Capacity, SignOff};
use crate::key::SigningKey;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The adapter.
    id: String,
    /// In what capacity.
    #[arg(long = "as", value_parser = capacity_parser())]
    capacity: Capacity,
    /// The file of the key.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    place: Place,
}

fn capacity_parser() -> impl clap::builder::TypedValueParser<Value = Capacity> {
    PossibleValuesParser::new(Capacity::ALL.map(Capacity::name))
        .try_map(|name| Capacity::from_name(&name).ok_or("there is no such capacity"))
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let Arguments { id, capacity, key, place } = arguments;
    let (shelf, _) = place.open(environment)?;
    let mut lock = lock(&shelf)?.clone();
    let latest = lock.revisions.iter_mut().rfind(|revision| revision.adapter_id == *id);
    let Some(revision) = latest else {
        tell(&format!("{id} has no revision in the lock; nexus-router interface freeze makes one"));
        return Ok(Answer::No);
    };
    let signed = SignOff::new(revision, *capacity, &SigningKey::read(key)?);
    let (version, by) = (revision.version.clone(), signed.key);
    // Signing again replaces what was signed before, which may be for what the revision was then.
    revision.approvals.retain(|one| (one.capacity, one.key) != (signed.capacity, signed.key));
    revision.approvals.push(signed);
    shelf.write_lock(&lock)?;
    tell(&format!("{id} {version} is signed by the {} {by}", capacity.name()));
    Ok(Answer::Yes)
}
