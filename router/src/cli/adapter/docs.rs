//! `nexus-router adapter docs`.

use std::path::PathBuf;

use super::super::output::Output;
use super::super::{Answer, Error, up_to_date};
use super::Search;
use crate::check::{doc_entries, docs};
use crate::config::Environment;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
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
    let text = docs::markdown(&doc_entries(&loader), &arguments.title);
    let Some(file) = &arguments.check else {
        Output::new(environment).text(&text)?;
        return Ok(Answer::Yes);
    };
    up_to_date(file, &text, "nexus-router adapter docs")
}
