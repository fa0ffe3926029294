//! `nexus-router adapter inspect REF`.

use super::super::output::{Format, Output};
use super::super::{Answer, Error};
use super::{StrictnessOption, Target};
use crate::check::inspect;
use crate::config::Environment;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    strictness: StrictnessOption,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let config = arguments.target.config()?;
    let loader = arguments.target.loader(environment)?;
    let request = arguments.target.request(&config);
    let inspection = inspect(&loader, &request, arguments.strictness.strictness())?;
    let mut output = Output::new(environment);
    match arguments.format {
        Format::Json => output.json(&inspection.to_json())?,
        Format::Human | Format::Github => output.text(&inspection.render())?,
    }
    Ok(if inspection.ok() { Answer::Yes } else { Answer::No })
}
