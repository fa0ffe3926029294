//! `nexus-router completions SHELL`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::output::Output;
use super::{Answer, Error};
use crate::config::Environment;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let mut command = super::Arguments::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    Output::new(environment).text(&String::from_utf8_lossy(&script))?;
    Ok(Answer::Yes)
}
