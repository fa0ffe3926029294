//! `nexus-router tool …`: tool specs, the gates that they pass, and the register of those that did.

mod judge;
mod list;
mod records;

use std::path::PathBuf;

use clap::Subcommand;

use super::options::StoreOptions;
use super::output::tell;
use super::{Answer, Error};
use crate::app::App;
use crate::config::Environment;

const CHECK_HELP: &str = "\
Examples:
  nexus-router tool check tools/vector-search.json
  nexus-router tool check --interfaces interfaces tools/vector-search.json --format json
  nexus-router tool check --mapping fragment.json

Exits 0 if all pass, 1 if one does not, and 2 if a file cannot be read. What does not pass leaves a record in the store
(nexus-router tool records).";

const REGISTER_HELP: &str = "\
Examples:
  nexus-router tool register tools/vector-search.json
  nexus-router tool register tools/vector-search.json tools/room.json --config router.toml

All of them, or none. A running daemon takes up what is registered by itself.";

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Hold tool specs to the gates, without registering them.
    #[command(after_help = CHECK_HELP)]
    Check(judge::CheckArguments),
    /// Register tools that pass the gates; callers find them from then on.
    #[command(after_help = REGISTER_HELP)]
    Register(judge::RegisterArguments),
    /// List the registered tools, and how each stands.
    List(list::ListArguments),
    /// Show a registered tool.
    Show(list::ShowArguments),
    /// Disable a registered tool, until it is registered again.
    Disable(DisableArguments),
    /// Remove a tool from the register; callers do not find it any more.
    Unregister(UnregisterArguments),
    /// Print the records of what the gates refused, a line each.
    Records(records::Arguments),
}

#[derive(clap::Args)]
pub(super) struct DisableArguments {
    /// The tool.
    name: String,
    /// Why, for whoever looks.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub(super) struct UnregisterArguments {
    /// The tool.
    name: String,
    #[command(flatten)]
    place: Place,
}

/// Where tools, contracts and the store are.
#[derive(clap::Args)]
struct Place {
    /// The directory of interface contracts [default: that of router.toml, or interfaces in the data directory].
    #[arg(long, value_name = "DIR")]
    interfaces: Option<PathBuf>,
    /// The directory of registered tools [default: that of router.toml, or tools in the data directory].
    #[arg(long, value_name = "DIR")]
    tools: Option<PathBuf>,
    #[command(flatten)]
    store: StoreOptions,
}

impl Place {
    fn app(&self, environment: &Environment) -> Result<App, Error> {
        self.store.app_with(environment, |config| {
            let contracts = &mut config.contracts;
            for (named, place) in
                [(&self.interfaces, &mut contracts.interfaces), (&self.tools, &mut contracts.tools)]
            {
                if named.is_some() {
                    place.clone_from(named);
                }
            }
        })
    }
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Check(arguments) => judge::check(&arguments, environment),
        Verb::Register(arguments) => judge::register(&arguments, environment),
        Verb::List(arguments) => list::list(&arguments, environment),
        Verb::Show(arguments) => list::show(&arguments, environment),
        Verb::Disable(arguments) => disable(&arguments, environment),
        Verb::Unregister(arguments) => unregister(&arguments, environment),
        Verb::Records(arguments) => records::run(&arguments, environment),
    }
}

fn disable(arguments: &DisableArguments, environment: &Environment) -> Result<Answer, Error> {
    let name = &arguments.name;
    let app = arguments.place.app(environment)?;
    if app.disable_tool(name, &arguments.reason)? {
        tell(&format!("{name} is disabled; nexus-router tool register enables it again"));
        return Ok(Answer::Yes);
    }
    tell(&format!("there is no registered tool {name}; nexus-router tool list lists them"));
    Ok(Answer::No)
}

fn unregister(arguments: &UnregisterArguments, environment: &Environment) -> Result<Answer, Error> {
    let name = &arguments.name;
    if arguments.place.app(environment)?.unregister_tool(name)? {
        tell(&format!("{name} is not registered any more"));
        return Ok(Answer::Yes);
    }
    tell(&format!("there is no registered tool {name}; nexus-router tool list lists them"));
    Ok(Answer::No)
}
