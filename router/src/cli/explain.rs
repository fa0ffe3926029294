//! `nexus-router explain CODE`.

use super::output::Output;
use super::{Answer, Error};
use crate::code;
use crate::config::Environment;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The code; without it, all codes are listed.
    code: Option<String>,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let mut output = Output::new(environment);
    let Some(wanted) = &arguments.code else {
        let rows: Vec<Vec<String>> = code::all()
            .map(|known| vec![known.code.to_owned(), known.meaning.to_owned()])
            .collect();
        for line in super::output::columns(&rows) {
            output.line(&line)?;
        }
        return Ok(Answer::Yes);
    };
    let known: Vec<code::Code> = code::find(wanted).collect();
    if known.is_empty() {
        let near = code::near(wanted);
        let hint = if near.is_empty() {
            "nexus-router explain lists all codes".to_owned()
        } else {
            format!("did you mean {}?", near.join(" or "))
        };
        return Err(Error::usage(format!("there is no code '{wanted}'"), hint));
    }
    for known in known {
        output.line(&format!("{} ({})", known.code, known.kind.name()))?;
        output.line(&format!("  {}", known.meaning))?;
        output.line(&format!("  hint: {}", known.remedy))?;
    }
    Ok(Answer::Yes)
}
