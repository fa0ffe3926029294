//! `nexus-router man`.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;

use super::output::{Output, tell};
use super::{Answer, Error};
use crate::config::Environment;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Write the pages of all verbs into this directory, and make it if there is none [default: print the
    /// main page].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    // Pages are about verbs; the help is the same text once more.
    let mut command = super::Arguments::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = &arguments.out else {
        Output::new(environment).text(&String::from_utf8_lossy(&page(&command)?))?;
        return Ok(Answer::Yes);
    };
    let pages = std::fs::create_dir_all(directory).and_then(|()| write(&command, directory));
    let pages = pages.map_err(|error| {
        let message = format!("cannot write to {}: {error}", directory.display());
        Error::usage(message, "name a directory that may be written and has room")
    })?;
    tell(&format!("wrote {pages} pages to {}", directory.display()));
    Ok(Answer::Yes)
}

/// Writes the page of a verb and of those below it, and returns how many there are.
fn write(command: &clap::Command, directory: &Path) -> std::io::Result<usize> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    std::fs::write(directory.join(format!("{name}.1")), page(command)?)?;
    let mut pages = 1;
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        pages += write(verb, directory)?;
    }
    Ok(pages)
}

fn page(command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
