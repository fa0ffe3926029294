//! `nexus-router interface docs`.

use std::path::PathBuf;

use super::super::output::Output;
use super::super::{Answer, Error, up_to_date};
use super::{Place, verify};
use crate::config::Environment;
use crate::interface::{self, Interface, docs};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Compare with a file instead of writing: exits 1 if it is out of date.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let (shelf, trust) = arguments.place.open(environment)?;
    let verified = interface::verify(&shelf, &trust);
    if !verified.findings.is_empty() {
        // A document of what does not hold would only mislead.
        verify::tell_all(&verified.findings);
        return Ok(Answer::No);
    }
    let interfaces: Vec<&Interface> = verified.interfaces.values().collect();
    let text = docs(&interfaces);
    match &arguments.check {
        Some(file) => up_to_date(file, &text, "nexus-router interface docs"),
        None => {
            Output::new(environment).text(&text)?;
            Ok(Answer::Yes)
        }
    }
}
