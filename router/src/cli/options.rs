//! The options that the verbs about runs share: where the store is, and which adapters there are.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches};

use super::{Error, adapter};
use crate::app::{App, Named};
use crate::config::{AdapterEntry, ConfigFile, Environment};
use crate::json::Object;

/// Where the store is.
#[derive(clap::Args)]
pub(super) struct StoreOptions {
    /// The store [default: that of `NEXUS_ROUTER_DB`, of router.toml, or runs.db in
    /// ~/.local/state/nexus-router].
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// The directory of the store and the tokens [default: that of `NEXUS_ROUTER_DATA_DIR`, of
    /// router.toml, or ~/.local/state/nexus-router].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The router's configuration file [default: router.toml, if there is one].
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,
}

impl StoreOptions {
    /// Makes the app of a verb that calls no adapter.
    pub(super) fn app(&self, environment: &Environment) -> Result<App, Error> {
        let config = ConfigFile::find(self.config_file.as_deref(), environment)?;
        let (db, data_dir) = (self.db.clone(), self.data_dir.clone());
        let named = Named { db, data_dir, ..Named::default() };
        Ok(App::new(environment, config, named))
    }
}

/// Where the store is, and which adapters there are besides those of router.toml.
#[derive(clap::Args)]
pub(super) struct RouterOptions {
    #[command(flatten)]
    store: StoreOptions,
    #[command(flatten)]
    adapters: AdapterOptions,
    /// A directory with adapters; may be given more than once, and comes before all others.
    #[arg(long, value_name = "DIR")]
    adapter_path: Vec<PathBuf>,
}

impl RouterOptions {
    /// Makes the app of a verb that calls adapters.
    pub(super) fn app(&self, environment: &Environment) -> Result<App, Error> {
        Ok(App::new(environment, self.config(environment)?, self.named()?))
    }

    /// Reads the configuration.
    pub(super) fn config(&self, environment: &Environment) -> Result<ConfigFile, Error> {
        Ok(ConfigFile::find(self.store.config_file.as_deref(), environment)?)
    }

    /// Returns what is said for this very use.
    pub(super) fn named(&self) -> Result<Named, Error> {
        Ok(Named {
            db: self.store.db.clone(),
            data_dir: self.store.data_dir.clone(),
            adapters: self.adapters.entries()?,
            adapter_path: self.adapter_path.clone(),
            ..Named::default()
        })
    }
}

/// Adapters as they are given: each with what follows it.
#[derive(Clone, Debug, Default)]
struct AdapterOptions(Vec<AdapterOption>);

#[derive(Clone, Debug, Default)]
struct AdapterOption {
    factory_ref: String,
    config: Option<String>,
    id: Option<String>,
}

impl AdapterOptions {
    fn entries(&self) -> Result<Vec<AdapterEntry>, Error> {
        let entry = |option: &AdapterOption| {
            let config = match &option.config {
                Some(text) => Object::from(&adapter::read_object("--adapter-config", text)?),
                None => Object::new(),
            };
            let (factory_ref, id) = (option.factory_ref.clone(), option.id.clone());
            Ok(AdapterEntry { factory_ref, id, config, ..AdapterEntry::default() })
        };
        self.0.iter().map(entry).collect()
    }
}

// By hand: what belongs to an adapter is told by the order of the options, which a derived struct loses.
impl clap::Args for AdapterOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
            .arg(
                Arg::new("adapter")
                    .long("adapter")
                    .value_name("REF")
                    .action(ArgAction::Append)
                    .help("An adapter, module:function; the first is that of steps that name none"),
            )
            .arg(
                Arg::new("adapter_config")
                    .long("adapter-config")
                    .value_name("JSON")
                    .action(ArgAction::Append)
                    .requires("adapter")
                    .help("The configuration of the --adapter before it, or @FILE"),
            )
            .arg(
                Arg::new("adapter_id")
                    .long("adapter-id")
                    .value_name("ID")
                    .action(ArgAction::Append)
                    .requires("adapter")
                    .help("The id of the --adapter before it, instead of its own default"),
            )
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for AdapterOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |name: &str| -> Vec<(usize, String)> {
            let texts = matches.get_many::<String>(name).into_iter().flatten().cloned();
            matches.indices_of(name).into_iter().flatten().zip(texts).collect()
        };
        let adapters = given("adapter");
        let mut options: Vec<AdapterOption> = adapters
            .iter()
            .map(|(_, text)| AdapterOption { factory_ref: text.clone(), ..Default::default() })
            .collect();
        for name in ["adapter_config", "adapter_id"] {
            for (place, text) in given(name) {
                let before = adapters.iter().filter(|(other, _)| *other < place).count();
                let shown = name.replace('_', "-");
                let option = before.checked_sub(1).and_then(|index| options.get_mut(index));
                let Some(option) = option else {
                    return Err(misplaced(&format!("--{shown} stands before any --adapter")));
                };
                let slot = if name == "adapter_id" { &mut option.id } else { &mut option.config };
                if slot.replace(text).is_some() {
                    return Err(misplaced(&format!("--{shown} is given twice for one --adapter")));
                }
            }
        }
        Ok(Self(options))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn misplaced(message: &str) -> clap::Error {
    clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, format!("{message}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        adapters: AdapterOptions,
    }

    fn parse(line: &str) -> Result<Vec<AdapterOption>, String> {
        let words = ["x"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.adapters.0).map_err(|error| error.to_string())
    }

    #[test]
    fn options_belong_to_the_adapter_before_them() {
        let options = parse(
            "--adapter a:f --adapter-id one --adapter b:f --adapter c:f --adapter-config {} \
             --adapter-id three",
        )
        .unwrap();
        let shown: Vec<_> = options
            .iter()
            .map(|one| (one.factory_ref.as_str(), one.id.as_deref(), one.config.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [("a:f", Some("one"), None), ("b:f", None, None), ("c:f", Some("three"), Some("{}"))]
        );
        assert!(parse("").unwrap().is_empty());
        assert!(parse("--adapter-id one --adapter a:f").unwrap_err().contains("before any"));
        assert!(
            parse("--adapter a:f --adapter-id x --adapter-id y").unwrap_err().contains("twice")
        );
        assert!(parse("--adapter-config {}").is_err());
    }
}
