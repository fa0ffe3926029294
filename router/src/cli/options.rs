//! The options that the verbs about runs share: where the store is, and which adapters there are.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches};

use super::{Error, adapter};
use crate::app::{App, Named, StoreOption, add_option};
use crate::config::{AdapterEntry, ConfigFile, Environment, Origins};
use crate::grant::{Grants, Isolation, Kind};
use crate::json::{self, Limits, Object, Value};
use crate::secret::Secrets;

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
        self.app_with(environment, |_| ())
    }

    /// The same, with a configuration that is changed for this very use.
    pub(super) fn app_with(
        &self,
        environment: &Environment,
        change: impl FnOnce(&mut ConfigFile),
    ) -> Result<App, Error> {
        let mut config = ConfigFile::find(self.config_file.as_deref(), environment)?;
        change(&mut config);
        Ok(App::new(environment, config, self.named()))
    }

    /// Makes the same app, and returns where each setting was read.
    pub(super) fn traced_app(&self, environment: &Environment) -> Result<(App, Origins), Error> {
        let (config, origins) = ConfigFile::trace(self.config_file.as_deref(), environment)?;
        Ok((App::new(environment, config, self.named()), origins))
    }

    /// Returns the data directory, if one is named.
    pub(super) const fn data_dir(&self) -> Option<&PathBuf> {
        self.data_dir.as_ref()
    }

    fn named(&self) -> Named {
        let (db, data_dir) = (self.db.clone(), self.data_dir.clone());
        Named { db, data_dir, ..Named::default() }
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

    /// Reads the configuration of a daemon, whose keys have to be usable.
    pub(super) fn daemon_config(&self, environment: &Environment) -> Result<ConfigFile, Error> {
        Ok(ConfigFile::find_for_daemon(self.store.config_file.as_deref(), environment)?)
    }

    /// Returns the configuration file, if one is named.
    pub(super) fn config_file(&self) -> Option<&Path> {
        self.store.config_file.as_deref()
    }

    /// Returns the data directory, if one is named.
    pub(super) fn data_dir(&self) -> Option<&PathBuf> {
        self.store.data_dir.as_ref()
    }

    /// Says whether a store, or adapters for one, are named for this very use.
    pub(super) fn names_store(&self) -> bool {
        let store = &self.store;
        store.db.is_some() || store.data_dir.is_some() || !self.adapters.0.is_empty()
    }

    /// Returns the options with which another command reaches the same store and the same adapters, as a shell reads
    /// them. A configuration that looks like a secret is left out.
    pub(super) fn command_options(&self, app: &App) -> String {
        let mut options = app.command_options(StoreOption::Always);
        for adapter in &self.adapters.0 {
            adapter.add_to(&mut options);
        }
        options
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
    isolation: Option<Isolation>,
    grants: Vec<String>,
}

impl AdapterOption {
    /// Adds the options that give this adapter.
    fn add_to(&self, options: &mut String) {
        add_option(options, "--adapter", &self.factory_ref);
        if let Some(config) = &self.config {
            let shown = if looks_secret(config) { "@FILE" } else { config };
            add_option(options, "--adapter-config", shown);
        }
        if let Some(id) = &self.id {
            add_option(options, "--adapter-id", id);
        }
        let isolation = Isolation::ALL.iter().find(|(_, one)| Some(*one) == self.isolation);
        if let Some((name, _)) = isolation {
            add_option(options, "--isolation", name);
        }
        for grant in &self.grants {
            add_option(options, "--grant", grant);
        }
    }
}

/// Returns whether redaction would change a configuration that is written on the command line.
fn looks_secret(config: &str) -> bool {
    let secrets = Secrets::empty();
    let object = json::parse(config.as_bytes(), Limits::REQUEST).ok().and_then(Value::into_object);
    object.is_some_and(|object| secrets.redact_object(&object).is_some())
}

impl AdapterOptions {
    fn entries(&self) -> Result<Vec<AdapterEntry>, Error> {
        let entry = |option: &AdapterOption| {
            let config = match &option.config {
                Some(text) => Object::from(&adapter::read_object("--adapter-config", text)?),
                None => Object::new(),
            };
            let (factory_ref, id) = (option.factory_ref.clone(), option.id.clone());
            let grants = grants(&option.grants)?;
            let isolation = match (option.isolation, grants.is_empty()) {
                (Some(Isolation::Inline), false) => {
                    return Err(Error::usage(
                        format!("--grant has no effect: {factory_ref} runs inline"),
                        "leave out --isolation inline, or the grants: inline it may do whatever the \
                         router may",
                    ));
                }
                // Whoever grants something means a worker, whatever router.toml says now or later.
                (None, false) => Some(Isolation::Worker),
                (given, _) => given,
            };
            Ok(AdapterEntry { factory_ref, id, config, isolation, grants, ..Default::default() })
        };
        self.0.iter().map(entry).collect()
    }
}

/// Reads grants as they are given; paths are relative to the working directory.
pub(super) fn grants(texts: &[String]) -> Result<Grants, Error> {
    let mut grants = Grants::default();
    let base = if texts.is_empty() { PathBuf::new() } else { std::env::current_dir()? };
    for text in texts {
        let kinds: Vec<&str> = Kind::ALL.iter().map(|(name, _)| *name).collect();
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let Some((name, kind)) = Kind::ALL.iter().find(|(known, _)| *known == name) else {
            return Err(Error::usage(
                format!("--grant {name:?} is no kind of grant"),
                format!("write --grant KIND=VALUE; the kinds are {}", kinds.join(", ")),
            ));
        };
        grants.add(*kind, value, &base).map_err(|refused| {
            // Behind the name of a variable may stand its value.
            let value = match value.split_once('=') {
                Some((variable, _)) => format!("{variable}=…"),
                None => value.to_owned(),
            };
            let message = format!("--grant {name}={value:?} cannot be granted: {}", refused.why);
            Error::usage(message, refused.remedy)
        })?;
    }
    Ok(grants)
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
            .arg(
                Arg::new("isolation")
                    .long("isolation")
                    .value_name("WHERE")
                    .value_parser(Isolation::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>())
                    .action(ArgAction::Append)
                    .requires("adapter")
                    .help(
                        "Where the --adapter before it runs: in confined workers, or inline in this \
                         process, trusted like the router; before the first --adapter, where all do",
                    ),
            )
            .arg(
                Arg::new("grant")
                    .long("grant")
                    .value_name("KIND=VALUE")
                    .action(ArgAction::Append)
                    .requires("adapter")
                    .help(
                        "What the --adapter before it may reach, if it declares `external`: \
                         connect=HOST:PORT, read=PATH, write=PATH, run=PATH or env=NAME; before the \
                         first --adapter, what all may; may be given more than once",
                    ),
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
        for (place, text) in given("isolation") {
            let found = Isolation::ALL.iter().find(|(name, _)| *name == text);
            for option in meant(&adapters, place, &mut options) {
                option.isolation = found.map(|(_, isolation)| *isolation);
            }
        }
        for (place, text) in given("grant") {
            for option in meant(&adapters, place, &mut options) {
                option.grants.push(text.clone());
            }
        }
        Ok(Self(options))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the adapters that an option at a place is for: the one before it, or all if there is none.
fn meant<'a>(
    adapters: &[(usize, String)],
    place: usize,
    options: &'a mut [AdapterOption],
) -> &'a mut [AdapterOption] {
    match adapters.iter().filter(|(other, _)| *other < place).count() {
        0 => options,
        before => &mut options[before - 1..before],
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

    fn entries(line: &str) -> Result<Vec<AdapterEntry>, String> {
        let told = |error: Error| format!("{error}\n{}", error.hint().unwrap_or_default());
        AdapterOptions(parse(line)?).entries().map_err(told)
    }

    #[test]
    fn isolation_and_grants_are_for_the_adapter_before_them_or_for_all() {
        let line = "--adapter a:f --isolation inline --adapter b:f --grant connect=127.0.0.1:8080 \
                    --grant env=HOME --grant read=data --adapter c:f --isolation worker";
        let [a, b, c] = &entries(line).unwrap()[..] else { panic!("{line}") };
        assert_eq!((a.isolation, a.grants.is_empty()), (Some(Isolation::Inline), true));
        assert_eq!(b.isolation, Some(Isolation::Worker));
        assert_eq!(b.grants.connect, ["127.0.0.1:8080".parse().unwrap()]);
        assert_eq!(b.grants.env, ["HOME"]);
        assert_eq!(b.grants.read, [std::env::current_dir().unwrap().join("data")]);
        assert_eq!((c.isolation, c.grants.is_empty()), (Some(Isolation::Worker), true));
        let all = "--isolation inline --adapter a:f --adapter b:f --isolation worker";
        let all: Vec<_> = entries(all).unwrap().iter().map(|entry| entry.isolation).collect();
        assert_eq!(all, [Some(Isolation::Inline), Some(Isolation::Worker)]);
        let all = entries("--grant run=/bin/ls --adapter a:f --adapter b:f").unwrap();
        assert!(all.iter().all(|entry| entry.grants.run == [PathBuf::from("/bin/ls")]));
    }

    #[test]
    fn grants_that_cannot_be_are_refused_with_a_remedy() {
        for (line, told) in [
            ("--adapter a:f --grant open=x", "the kinds are connect, read, write, run, env"),
            ("--adapter a:f --grant connect", "there is no port"),
            ("--adapter a:f --grant connect=example.com", "write HOST:PORT"),
            ("--adapter a:f --grant read=../x", "goes up with .."),
            ("--adapter a:f --grant env=A=hunter22", "no name of a variable"),
            ("--adapter a:f --grant env=LD_PRELOAD", "loader"),
            ("--adapter a:f --isolation inline --grant env=A", "a:f runs inline"),
            ("--adapter a:f --isolation inlin", "possible values: worker, inline"),
            ("--grant env=A", "--adapter"),
            ("--isolation inline", "--adapter"),
        ] {
            let error = entries(line).unwrap_err();
            assert!(error.contains(told) && !error.contains("hunter22"), "{line}: {error}");
        }
    }
}
