//! The command line: a clap enum, and one place that turns errors into exit codes.
//!
//! Exit codes: 0 yes, 1 no, 2 could not answer, 3 a run waits for an approval, or a contract is revoked. Data goes to
//! standard output, everything else to standard error.

mod adapter;
mod approvals;
mod audit;
mod authorities;
mod cache;
mod completions;
mod config;
mod contract;
mod daemon;
mod evidence;
mod explain;
mod health;
mod interface;
mod man;
mod mcp;
mod options;
mod output;
mod policy;
mod progress;
mod reach;
mod role;
mod run;
mod runs;
mod schema;
mod serve;
mod store;
mod timeline;
mod token;
mod tool;
mod translate;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tracing::level_filters::LevelFilter;

use output::tell;

use crate::access;
use crate::app::{self, full_text};
use crate::config::Environment;
use crate::http;
use crate::loader::AdapterLoadError;
use crate::python_text::visible;
use crate::service;
use crate::template;
use crate::worker;

/// How long workers have to let go of what they hold, when the work is done.
const LAST_GRACE: Duration = Duration::from_secs(2);

/// Dispatches calls to adapters, and proves that adapters keep their contract.
#[derive(Parser)]
#[command(name = "nexus-router", version)]
struct Arguments {
    /// What is logged to standard error: off, error, warn, info, debug or trace.
    /// [default: warn; for serve, that of router.toml or info]
    #[arg(long, global = true, value_name = "LEVEL")]
    log: Option<LevelFilter>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the daemon: HTTP API, reloads, drain, metrics.
    Serve(Box<serve::Arguments>),
    /// Speak MCP over standard input and output, for a client that starts this program.
    Mcp(Box<mcp::Arguments>),
    /// Ask a daemon whether it is ready. Exits 0 if it is, 1 if not.
    Health(health::Arguments),
    /// Run a plan and record it. Exits 0 if it was completed, 1 if it failed, 3 if it waits for an approval.
    Run(Box<run::Arguments>),
    /// List, show, replay, move and recover recorded runs.
    #[command(subcommand)]
    Runs(Box<runs::Verb>),
    /// List what runs wait for, and decide about it.
    #[command(subcommand)]
    Approvals(Box<approvals::Verb>),
    /// Check, copy and restore the store, or take over that of the Python router.
    #[command(subcommand)]
    Store(Box<store::Verb>),
    /// Print what happened to the daemon itself.
    #[command(subcommand)]
    Audit(Box<audit::Verb>),
    /// List, validate, inspect, document, try and create adapters.
    #[command(subcommand)]
    Adapter(Box<adapter::Verb>),
    /// Render a canonical document as the payload of a provider. Exits 0 with the payload, 1 if it is refused.
    Translate(Box<translate::Arguments>),
    /// Contracts of adapters' operations: list, show, freeze, verify, compare, document, test and approve them.
    #[command(subcommand)]
    Interface(Box<interface::Verb>),
    /// Tool specs: check, register, list, show and disable them.
    #[command(subcommand)]
    Tool(Box<tool::Verb>),
    /// Signal contracts: the fields that adapters give, bound by hashes, signed, evaluated and proved.
    #[command(subcommand)]
    Contract(Box<contract::Verb>),
    /// Sealed executions: list, show, verify and export them, offline and without a daemon.
    #[command(subcommand)]
    Evidence(Box<evidence::Verb>),
    /// The frozen roles: show them, export them for policy engines.
    #[command(subcommand)]
    Role(Box<role::Verb>),
    /// Check a call against the policy, and compare two policies over recorded calls.
    #[command(subcommand)]
    Policy(Box<policy::PolicyCommand>),
    /// Make, list and revoke the tokens that callers of the daemon show.
    #[command(subcommand)]
    Token(token::Verb),
    /// List and remove the private copies of adapter libraries.
    #[command(subcommand)]
    Cache(cache::CacheCommand),
    /// Write, check and show the configuration.
    #[command(subcommand)]
    Config(Box<config::Verb>),
    /// Explain a code: a check id, an error code, or the reason of a failed load.
    Explain(explain::Arguments),
    /// Print a published JSON Schema: of a request, a response, a bundle, an event, an interface contract, a tool spec.
    Schema(schema::Arguments),
    /// Print a script that completes the verbs and options of this program in a shell.
    Completions(completions::Arguments),
    /// Print the manual page, or write those of all verbs.
    Man(man::Arguments),
}

/// What the user asked for is true, or false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    /// It is not known yet: a run waits for an approval.
    Waits,
    /// It is not so, because of the scout alone.
    Scoutless,
    /// What was asked for is revoked.
    Revoked,
    /// It could not be told, and why is in the output.
    Unclear,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    App(#[from] app::Error),
    #[error("there is no run {run_id}")]
    NotFound { run_id: String },
    #[error(transparent)]
    Load(#[from] AdapterLoadError),
    #[error(transparent)]
    Config(#[from] crate::config::Error),
    #[error(transparent)]
    Access(#[from] access::Error),
    #[error(transparent)]
    Service(#[from] service::Error),
    #[error(transparent)]
    Listen(#[from] http::Error),
    #[error(transparent)]
    Template(#[from] template::Error),
    #[error(transparent)]
    Key(#[from] crate::key::Error),
    #[error("{message}")]
    Usage { message: String, hint: String },
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl From<crate::store::Error> for Error {
    fn from(error: crate::store::Error) -> Self {
        Self::App(error.into())
    }
}

impl From<crate::bundle::Error> for Error {
    fn from(error: crate::bundle::Error) -> Self {
        Self::App(error.into())
    }
}

impl From<crate::interface::Error> for Error {
    fn from(error: crate::interface::Error) -> Self {
        Self::App(error.into())
    }
}

impl Error {
    fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::App(error) => Some(error.hint()),
            Self::NotFound { .. } => Some("nexus-router runs list lists the runs".to_owned()),
            Self::Load(error) => Some(error.hint().to_owned()),
            Self::Template(error) => Some(error.hint().to_owned()),
            Self::Key(error) => Some(error.hint().to_owned()),
            Self::Usage { hint, .. } => Some(hint.clone()),
            Self::Config(error) => Some(error.hint().to_owned()),
            Self::Access(error) => Some(error.hint()),
            Self::Service(error) => Some(error.hint()),
            Self::Listen(error) => Some(error.hint().to_owned()),
            Self::Output(_) => None,
        }
    }

    fn code(&self) -> Option<&str> {
        match self {
            Self::App(error) => Some(error.code()),
            Self::NotFound { .. } => Some("RUN_NOT_FOUND"),
            Self::Load(error) => Some(error.reason().code()),
            Self::Config(error) => Some(error.code()),
            Self::Access(error) => Some(error.code()),
            Self::Service(error) => Some(error.code()),
            Self::Listen(error) => Some(error.code()),
            Self::Template(_) | Self::Key(_) | Self::Usage { .. } | Self::Output(_) => None,
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
    // The daemon has its own.
    if !matches!(arguments.verb, Verb::Serve(_) | Verb::Mcp(_)) {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_max_level(arguments.log.unwrap_or(LevelFilter::WARN))
            .with_ansi(false)
            .init();
    }
    let environment = Environment::read();
    let answer = match arguments.verb {
        Verb::Serve(verb) => serve::run(&verb, arguments.log, &environment),
        Verb::Mcp(verb) => mcp::run(&verb, arguments.log, &environment),
        Verb::Health(arguments) => health::run(&arguments, &environment),
        Verb::Run(arguments) => run::run(&arguments, &environment),
        Verb::Runs(verb) => runs::run(*verb, &environment),
        Verb::Approvals(verb) => approvals::run(*verb, &environment),
        Verb::Store(verb) => store::run(*verb, &environment),
        Verb::Audit(verb) => audit::run(&verb, &environment),
        Verb::Adapter(verb) => adapter::run(*verb, &environment),
        Verb::Translate(arguments) => translate::run(&arguments, &environment),
        Verb::Interface(verb) => interface::run(*verb, &environment),
        Verb::Tool(verb) => tool::run(*verb, &environment),
        Verb::Contract(verb) => contract::run(*verb, &environment),
        Verb::Evidence(verb) => evidence::run(&verb, &environment),
        Verb::Role(verb) => role::run(&verb, &environment),
        Verb::Policy(verb) => policy::run(&verb, &environment),
        Verb::Token(verb) => token::run(verb, &environment),
        Verb::Cache(command) => cache::run(command, &environment),
        Verb::Config(verb) => config::run(*verb, &environment),
        Verb::Explain(arguments) => explain::run(&arguments, &environment),
        Verb::Schema(arguments) => schema::run(&arguments, &environment),
        Verb::Completions(arguments) => completions::run(&arguments, &environment),
        Verb::Man(arguments) => man::run(&arguments, &environment),
    };
    let code = match answer {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Ok(Answer::Waits | Answer::Revoked | Answer::Scoutless) => ExitCode::from(3),
        Ok(Answer::Unclear) => ExitCode::from(2),
        Err(error) => {
            report(&error);
            ExitCode::from(2)
        }
    };
    // Adapters let go of what they hold; those that take longer are killed with this process.
    worker::settle(LAST_GRACE);
    code
}

/// Says whether a generated file is what would be written now.
fn up_to_date(file: &Path, text: &str, command: &str) -> Result<Answer, Error> {
    let shown = file.display();
    let stored = std::fs::read_to_string(file).map_err(|error| {
        Error::usage(
            format!("cannot read {shown}: {error}"),
            format!("write it with {command} > {shown}"),
        )
    })?;
    if stored == text {
        tell(&format!("{shown} is up to date"));
        return Ok(Answer::Yes);
    }
    let differs = stored.lines().zip(text.lines()).position(|(old, new)| old != new);
    let line = differs.unwrap_or_else(|| stored.lines().count().min(text.lines().count())) + 1;
    tell(&format!("{shown} is out of date: it differs from line {line} on"));
    tell(&format!("hint: write it again with {command} > {shown}"));
    Ok(Answer::No)
}

fn report(error: &Error) {
    // A text may come from a library or a run, which must not write lines as if they were ours.
    let text = visible(&full_text(error));
    match error.code() {
        Some(code) => tell(&format!("error[{}]: {text}", visible(code))),
        None => tell(&format!("error: {text}")),
    }
    if let Some(hint) = error.hint() {
        tell(&format!("hint: {}", visible(&hint)));
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Returns the words of an example, up to where the shell goes on with something else.
    fn words(example: &str) -> Vec<String> {
        let example = example.replace("$(nexus-router run plan.json --id-only)", "ID");
        let ends = ["  ", " | ", " > ", " >> ", " && "].map(|end| example.find(end));
        let example = &example[..ends.into_iter().flatten().min().unwrap_or(example.len())];
        let part = |(place, part): (usize, &str)| match place % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        };
        example.split('\'').enumerate().flat_map(part).collect()
    }

    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let own = help.lines().filter_map(|line| {
            let place = line.starts_with("  ").then(|| line.find("nexus-router "))??;
            Some(line[place..].to_owned())
        });
        own.chain(command.get_subcommands().flat_map(examples)).collect()
    }

    #[test]
    fn help_is_a_verb() {
        for line in ["help", "help serve", "help token new", "token help new"] {
            let words = ["nexus-router"].into_iter().chain(line.split(' '));
            let shown = Arguments::try_parse_from(words).err().unwrap();
            assert_eq!(shown.kind(), clap::error::ErrorKind::DisplayHelp, "{line}: {shown}");
        }
    }

    #[test]
    fn examples_of_the_help_are_understood() {
        let examples = examples(&Arguments::command());
        assert!(examples.len() > 20, "{examples:?}");
        for example in examples {
            let parsed = Arguments::try_parse_from(words(&example));
            assert!(parsed.is_ok(), "{example}: {}", parsed.err().unwrap());
        }
    }
}
