//! `nexus-router adapter inspect REF`.

use super::super::output::{Format, Output};
use super::super::{Answer, Error};
use super::Examination;
use crate::check::inspect;
use crate::config::Environment;

pub(super) fn run(arguments: &Examination, environment: &Environment) -> Result<Answer, Error> {
    let inspection = arguments.run(environment, inspect)?;
    let mut output = Output::new(environment);
    match arguments.format {
        Format::Json => output.json(&inspection.to_json())?,
        Format::Human | Format::Github => output.text(&inspection.render())?,
    }
    Ok(if inspection.ok() { Answer::Yes } else { Answer::No })
}
