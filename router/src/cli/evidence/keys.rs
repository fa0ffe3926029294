//! `nexus-router evidence keys`: the keys that seal, shown and rotated.

use clap::{Subcommand, ValueEnum};

use super::super::output::{Output, columns};
use super::super::{Answer, Error};
use super::{Format, Place};
use crate::config::Environment;
use crate::json::{Limits, parse};
use crate::python_text::visible;
use crate::seal::{self, Trust};

#[derive(Subcommand)]
pub(in crate::cli) enum Verb {
    /// Show the keys with the range of the log for which each is good.
    Show(ShowArguments),
    /// Replace a key; what it signed stays genuine, and the log tells of the change.
    Rotate(RotateArguments),
}

#[derive(clap::Args)]
#[command(after_help = "\
The text is what others need to verify: with --format json it is trust.json itself.

Examples:
  nexus-router evidence keys show
  nexus-router evidence keys show --format json > trust.json")]
pub(in crate::cli) struct ShowArguments {
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
#[command(after_help = "\
A daemon that is running takes the new key up with the next seal. Private keys that were replaced stay in keys/ until \
--remove-former removes them.

Examples:
  nexus-router evidence keys rotate attestation
  nexus-router evidence keys rotate log --remove-former")]
pub(in crate::cli) struct RotateArguments {
    /// Which key.
    #[arg(value_enum)]
    key: Which,
    /// Remove the private keys that were replaced.
    #[arg(long)]
    remove_former: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// The key that signs attestations.
    Attestation,
    /// The key that signs checkpoints of the log.
    Log,
}

pub(super) fn run(verb: &Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Show(arguments) => show(arguments, environment),
        Verb::Rotate(arguments) => rotate(arguments, environment),
    }
}

fn show(arguments: &ShowArguments, environment: &Environment) -> Result<Answer, Error> {
    let trust = super::trust(&arguments.place.root(environment)?)?;
    let mut output = Output::new(environment);
    if arguments.format == Format::Json {
        let text = trust.to_json();
        // It was written here, so it can be read.
        let value = parse(text.as_bytes(), Limits::REQUEST).unwrap_or(crate::json::Value::Null);
        output.value(&value)?;
        return Ok(Answer::Yes);
    }
    for line in table(&trust) {
        output.line(&line)?;
    }
    Ok(Answer::Yes)
}

fn table(trust: &Trust) -> Vec<String> {
    let range = |first: u64, last: Option<u64>| match last {
        Some(last) => format!("{first} to {last}"),
        None => format!("{first} on"),
    };
    let mut rows = vec![["USE", "GOOD FOR", "KEY"].map(str::to_owned).to_vec()];
    rows.extend(trust.attestation_keys().iter().map(|key| {
        let entries = format!("entries {}", range(key.first_leaf, key.last_leaf));
        vec!["attestation".to_owned(), entries, key.key.to_string()]
    }));
    rows.extend(trust.log_keys().iter().map(|key| {
        let sizes = format!("sizes {}", range(key.first_size, key.last_size));
        vec!["log".to_owned(), sizes, visible(&key.verifier.to_string())]
    }));
    columns(&rows)
}

fn rotate(arguments: &RotateArguments, environment: &Environment) -> Result<Answer, Error> {
    let root = arguments.place.root(environment)?;
    if arguments.place.root.is_none() {
        // A key that is replaced in an older copy of the log would sign a second history.
        arguments.place.app(environment)?.hold_log()?;
    }
    let rotation = match arguments.key {
        Which::Attestation => seal::rotate_attestation(&root),
        Which::Log => seal::rotate_log(&root),
    };
    let rotation = rotation.map_err(|error| super::failed(&error))?;
    let mut output = Output::new(environment);
    output
        .line(&format!("new key {}; entry {} of the log tells it", rotation.key, rotation.index))?;
    if arguments.remove_former {
        for file in seal::remove_former_keys(&root).map_err(|error| super::failed(&error))? {
            output.line(&format!("removed {}", visible(&file.display().to_string())))?;
        }
    }
    Ok(Answer::Yes)
}
