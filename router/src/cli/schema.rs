//! `nexus-router schema [NAME]`.

use super::output::Output;
use super::{Answer, Error};
use crate::config::Environment;
use crate::schema;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The schema, such as run.request.v0.7; without it, all are listed.
    name: Option<String>,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let mut output = Output::new(environment);
    let Some(wanted) = &arguments.name else {
        let rows: Vec<Vec<String>> = schema::SCHEMAS
            .iter()
            .map(|known| vec![known.name.to_owned(), known.about.to_owned()])
            .collect();
        for line in super::output::columns(&rows) {
            output.line(&line)?;
        }
        return Ok(Answer::Yes);
    };
    let Some(known) = schema::find(wanted) else {
        let near = schema::near(wanted);
        let hint = if near.is_empty() {
            "nexus-router schema lists all schemas".to_owned()
        } else {
            format!("did you mean {}?", near.join(" or "))
        };
        return Err(Error::usage(format!("there is no schema '{wanted}'"), hint));
    };
    output.line(known.text.trim_end())?;
    Ok(Answer::Yes)
}
