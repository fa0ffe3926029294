//! The command line: a clap enum, and one place that turns errors into exit codes.
//!
//! Exit codes: 0 yes, 1 no, 2 could not answer. Data goes to standard output, everything else to
//! standard error.

mod adapter;
mod explain;
mod output;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing::level_filters::LevelFilter;

use output::tell;

use crate::config;
use crate::loader::AdapterLoadError;
use crate::python_text::visible;
use crate::template;

/// Dispatches calls to adapters, and proves that adapters keep their contract.
#[derive(Parser)]
#[command(name = "nexus-router", version, disable_help_subcommand = true)]
struct Arguments {
    /// What is logged to standard error: off, error, warn, info, debug or trace.
    #[arg(long, global = true, value_name = "LEVEL", default_value = "warn")]
    log: LevelFilter,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List, validate, inspect, document, try and create adapters.
    #[command(subcommand)]
    Adapter(Box<adapter::Verb>),
    /// Explain a code: a check id, an error code, or the reason of a failed load.
    Explain(explain::Arguments),
}

/// What the user asked for is true, or false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Load(#[from] AdapterLoadError),
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error(transparent)]
    Template(#[from] template::Error),
    #[error("{message}")]
    Usage { message: String, hint: String },
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl Error {
    fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Load(error) => Some(error.hint().to_owned()),
            Self::Template(error) => Some(error.hint().to_owned()),
            Self::Usage { hint, .. } => Some(hint.clone()),
            Self::Config(error) => Some(error.hint().to_owned()),
            Self::Output(_) => None,
        }
    }

    fn code(&self) -> Option<&'static str> {
        match self {
            Self::Load(error) => Some(error.reason().code()),
            _ => None,
        }
    }
}

/// Runs the command line.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are answers; clap prints them to standard output.
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(arguments.log)
        .with_ansi(false)
        .init();
    let environment = config::Environment::read();
    let answer = match arguments.verb {
        Verb::Adapter(verb) => adapter::run(*verb, &environment),
        Verb::Explain(arguments) => explain::run(&arguments, &environment),
    };
    match answer {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(error) => {
            report(&error);
            ExitCode::from(2)
        }
    }
}

fn report(error: &Error) {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    // An error in a configuration file shows the place on lines of its own. Any other text may come from
    // a library, which must not write lines as if they were ours.
    let text = match error {
        Error::Config(_) => text.lines().map(visible).collect::<Vec<_>>().join("\n"),
        _ => visible(&text),
    };
    match error.code() {
        Some(code) => tell(&format!("error[{code}]: {text}")),
        None => tell(&format!("error: {text}")),
    }
    if let Some(hint) = error.hint() {
        tell(&format!("hint: {}", visible(&hint)));
    }
}
