//! `nexus-router interface anchors`.

use super::super::output::{Output, tell};
use super::super::{Answer, Error};
use super::{Place, verify};
use crate::config::Environment;
use crate::interface;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let (shelf, trust) = arguments.place.open(environment)?;
    let verified = interface::verify(&shelf, &trust);
    if !verified.findings.is_empty() {
        // What does not hold must not become what is trusted.
        verify::tell_all(&verified.findings);
        tell("nothing is anchored: correct the findings first");
        return Ok(Answer::No);
    }
    let mut output = Output::new(environment);
    output.line("[contracts.anchors]")?;
    for (id, anchoring) in &verified.anchoring {
        output.line(&format!(
            "{id} = \"{}\"  # {}",
            anchoring.newest.digest, anchoring.newest.version
        ))?;
    }
    Ok(Answer::Yes)
}
