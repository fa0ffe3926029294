//! `nexus-router adapter docs`.

use std::path::PathBuf;

use super::super::output::Output;
use super::super::{Answer, Error, up_to_date};
use super::Search;
use crate::check::{ReferenceError, doc_entries, doc_entries_of, docs};
use crate::config::Environment;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// Only the adapters that this names: a factory (module:function), a library (its module, or the path of its
    /// file), or a kind such as http [default: every adapter on the path].
    #[arg(value_name = "REF")]
    reference: Option<String>,
    #[command(flatten)]
    search: Search,
    /// Compare with a file instead of writing: exits 1 if it is out of date.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// The title of the document.
    #[arg(long, default_value = "Adapters")]
    title: String,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let loader = arguments.search.loader(environment)?;
    let title = &arguments.title;
    let (text, command) = match &arguments.reference {
        None => (docs::markdown(&doc_entries(&loader), title), docs::COMMAND.to_owned()),
        Some(reference) => {
            let entries = doc_entries_of(&loader, reference).map_err(|error| match error {
                ReferenceError::Library(error) => Error::from(error),
                error => Error::usage(error.to_string(), error.hint()),
            })?;
            (docs::markdown_of(&entries, title, reference), docs::command_for(reference))
        }
    };
    let Some(file) = &arguments.check else {
        Output::new(environment).text(&text)?;
        return Ok(Answer::Yes);
    };
    up_to_date(file, &text, &command)
}
