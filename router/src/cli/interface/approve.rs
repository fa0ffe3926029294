//! `nexus-router interface approve ID`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use super::super::output::tell;
use super::super::{Answer, Error};
use super::{Place, lock, revision};
use crate::clock::Clock;
use crate::config::Environment;
use crate::interface::{Capacity, SignOff};
use crate::key::SigningKey;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The adapter, for its newest revision, or ID@VERSION.
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
    let key = SigningKey::read(key)?;
    let (shelf, trust, alone) = place.open_alone(environment)?;
    let now = Clock::System.now();
    if let Err(problem) = trust.approvers.check(*capacity, key.public(), Some(now)) {
        let problem = problem.describe(*capacity, key.public(), Some(now));
        tell(&format!(
            "{problem}; nothing was signed: put the key into {}s under [contracts] of router.toml",
            capacity.name()
        ));
        return Ok(Answer::No);
    }
    let mut lock = lock(&shelf)?.clone();
    let Some(revision) = revision(&mut lock, id) else { return Ok(Answer::No) };
    let signed = SignOff::new(revision, *capacity, &key, Some(now));
    let (id, version, by) = (revision.adapter_id.clone(), revision.version.clone(), signed.key);
    // Signing again replaces what was signed before, which may be for what the revision was then.
    revision.approvals.retain(|one| (one.capacity, one.key) != (signed.capacity, signed.key));
    revision.approvals.push(signed);
    shelf.write_lock(&lock)?;
    drop(alone);
    tell(&format!("{id} {version} is signed by the {} {by}", capacity.name()));
    Ok(Answer::Yes)
}
