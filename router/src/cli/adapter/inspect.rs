//! `nexus-router adapter inspect REF`.

use super::super::output::{Format, Output};
use super::super::{Answer, Error};
use super::Examination;
use super::list::as_json;
use crate::check::{Listed, built_ins, inspect};
use crate::config::Environment;

pub(super) fn run(arguments: &Examination, environment: &Environment) -> Result<Answer, Error> {
    let mut output = Output::new(environment);
    let mut built_in = built_ins().into_iter();
    if let Some(known) = built_in.find(|known| known.factory_ref == arguments.target.factory_ref) {
        match arguments.format {
            Format::Json => output.json(&as_json(&known))?,
            Format::Human | Format::Github => output.line(&told(&known))?,
        }
        return Ok(Answer::Yes);
    }
    let inspection = arguments.run(environment, inspect)?;
    match arguments.format {
        Format::Json => output.json(&inspection.to_json())?,
        Format::Human | Format::Github => output.text(&inspection.render())?,
    }
    Ok(if inspection.ok() { Answer::Yes } else { Answer::No })
}

/// Says of an adapter that is part of the router what there is to say: nothing of it is in a library.
fn told(known: &Listed) -> String {
    let manifest = known.manifest.as_ref();
    let kind = manifest.map_or("-", |manifest| manifest.kind.as_str());
    let capabilities = manifest.map(|manifest| manifest.capabilities.join(", "));
    format!(
        "{} is part of the router and has no library to inspect; its kind is {kind}, and it can {}",
        known.factory_ref,
        capabilities.unwrap_or_default()
    )
}
