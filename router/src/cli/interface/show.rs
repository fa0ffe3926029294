//! `nexus-router interface show ID`.

use super::super::output::{Form, Output};
use super::super::{Answer, Error};
use super::Place;
use super::diff::find;
use crate::config::Environment;
use crate::interface::docs;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The adapter, or ID@VERSION for a revision of the lock, or a file.
    #[arg(value_name = "ID")]
    interface: String,
    #[command(flatten)]
    place: Place,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let (shelf, _) = arguments.place.open(environment)?;
    let Some(interface) = find(&shelf, &arguments.interface)? else { return Ok(Answer::No) };
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => output.value(&interface.document)?,
        Form::Human => output.text(&docs(&[&interface]))?,
    }
    Ok(Answer::Yes)
}
