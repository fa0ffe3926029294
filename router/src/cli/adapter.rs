//! `nexus-router adapter …`: the verbs, and the options that they share.

mod docs;
mod inspect;
mod list;
mod new;
mod running;
mod trial;
mod validate;

use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use nexus_router_sdk::Object;
use serde_json::Value;

use super::options::grants;
use super::output::Format;
use super::{Answer, Error};
use crate::check::Strictness;
use crate::config::{AdapterEntry, ConfigFile, Environment};
use crate::digest::Digest;
use crate::grant::Isolation;
use crate::loader::{AdapterLoadError, LoadRequest, Loader, Placement};

const LIST_HELP: &str = "\
Examples:
  nexus-router adapter list
  nexus-router adapter list --running
  nexus-router adapter list --running --url http://127.0.0.1:7433 --token-file read.token";

const VALIDATE_HELP: &str = "\
Examples:
  nexus-router adapter validate nexus_router_adapter_echo:create_adapter
  nexus-router adapter validate target/release/libweather.so:create_adapter --config @weather.json
  nexus-router adapter validate nexus_router_adapter_http:create_adapter --format github \
--config '{\"base_url\": \"https://example.com\"}'

`nexus-router explain CHECK_ID` tells what a check means and what to do.";

const DOCS_HELP: &str = "\
Examples:
  nexus-router adapter docs > ADAPTERS.md
  nexus-router adapter docs http
  nexus-router adapter docs target/release/libweather.so --check README.md";

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List every adapter on the adapter path, without running any of them, or those of a running daemon.
    #[command(after_help = LIST_HELP)]
    List(list::Arguments),
    /// Validate an adapter: the gate for continuous integration. Exits 0 if it is ok, 1 if not.
    #[command(after_help = VALIDATE_HELP)]
    Validate(Examination),
    /// Validate an adapter and report everything that is known of it.
    Inspect(Examination),
    /// Write Markdown documentation of every adapter on the path, or of those named, from their manifests alone.
    #[command(after_help = DOCS_HELP)]
    Docs(docs::Arguments),
    /// Let an adapter of a running daemon out of quarantine, and close its circuit. Exits 1 if there was neither to do.
    Release(running::RunningAdapter),
    /// Have a running daemon load an adapter again that failed to load. Exits 1 if it had not failed.
    Retry(running::RunningAdapter),
    /// Create a crate for a new adapter.
    New(new::Arguments),
    /// Make one call in a confined child, which has neither network nor files to write.
    Try(trial::Arguments),
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::List(arguments) => list::run(&arguments, environment),
        Verb::Validate(arguments) => validate::run(&arguments, environment),
        Verb::Inspect(arguments) => inspect::run(&arguments, environment),
        Verb::Docs(arguments) => docs::run(&arguments, environment),
        Verb::Release(arguments) => running::release(&arguments, environment),
        Verb::Retry(arguments) => running::retry(&arguments, environment),
        Verb::New(arguments) => new::run(&arguments, environment),
        Verb::Try(arguments) => trial::run(&arguments, environment),
    }
}

/// Where adapters are.
#[derive(clap::Args)]
pub(super) struct Search {
    /// A directory with adapters; may be given more than once, and comes before all others: those of
    /// `NEXUS_ROUTER_ADAPTER_PATH`, of router.toml, and the directory of this program.
    #[arg(long, value_name = "DIR")]
    adapter_path: Vec<PathBuf>,
    /// The router's configuration file [default: router.toml, if there is one].
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,
}

impl Search {
    fn config(&self, environment: &Environment) -> Result<ConfigFile, Error> {
        Ok(ConfigFile::find(self.config_file.as_deref(), environment)?)
    }

    pub(super) fn loader(&self, environment: &Environment) -> Result<Loader, Error> {
        let config = self.config(environment)?;
        let loader = Loader::with_path(environment, &self.adapter_path, &config.adapter_path);
        Ok(Loader { cache_bytes: config.cache.max_bytes, ..loader })
    }
}

/// Which adapter, and how it is configured.
#[derive(clap::Args)]
struct Target {
    /// The factory: module:function, or the path of a library and a function.
    factory_ref: String,
    /// The configuration as a JSON object, or @FILE to read it from a file.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    config: String,
    /// The id of the instance, instead of the adapter's own default.
    #[arg(long, value_name = "ID")]
    adapter_id: Option<String>,
    /// The SHA-256 that the library file must have.
    #[arg(long, value_name = "SHA256")]
    pin: Option<Digest>,
    /// How many seconds the library may take.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<Duration>,
    /// How many mebibytes of address space the library may use.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..=1_048_576))]
    memory_limit: Option<u64>,
    #[command(flatten)]
    search: Search,
}

impl Target {
    fn loader(&self, environment: &Environment) -> Result<Loader, Error> {
        let mut loader = self.search.loader(environment)?;
        if let Some(time) = self.time_limit {
            loader.limits.time = time;
        }
        if let Some(mebibytes) = self.memory_limit {
            loader.limits.memory = mebibytes * 1024 * 1024;
        }
        Ok(loader)
    }

    fn request<'a>(&'a self, config: &'a Value) -> LoadRequest<'a> {
        LoadRequest {
            factory_ref: &self.factory_ref,
            adapter_id: self.adapter_id.as_deref(),
            config,
            pin: self.pin,
        }
    }

    fn config(&self) -> Result<Value, Error> {
        read_object("--config", &self.config).map(Value::Object)
    }
}

/// A larger object is refused: as values it takes many times its length.
const MAX_OBJECT: u64 = 16 * 1024 * 1024;

/// Reads a JSON object that was given as an option, or in a file. The text may hold secrets, so it is
/// not repeated.
pub(super) fn read_object(option: &str, text: &str) -> Result<Object, Error> {
    let hint = "write a JSON object such as '{\"key\": \"value\"}', or @FILE";
    let (text, place) = match text.strip_prefix('@') {
        None => (text.to_owned(), option.to_owned()),
        Some(file) => {
            let mut read = String::new();
            let opened = std::fs::File::open(file);
            let limited = opened.map(|opened| opened.take(MAX_OBJECT + 1));
            limited.and_then(|mut limited| limited.read_to_string(&mut read)).map_err(|error| {
                Error::usage(format!("cannot read {file}: {error}"), "check the path after the @")
            })?;
            (read, file.to_owned())
        }
    };
    if text.len() as u64 > MAX_OBJECT {
        let message = format!("{place} has more than {MAX_OBJECT} bytes");
        return Err(Error::usage(message, "give large data to the adapter in another way"));
    }
    match serde_json::from_str(&text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Error::usage(format!("{place} is not a JSON object"), hint)),
        Err(error) => Err(Error::usage(format!("{place} is not JSON: {error}"), hint)),
    }
}

/// What `validate` and `inspect` take.
#[derive(clap::Args)]
pub(in crate::cli) struct Examination {
    #[command(flatten)]
    target: Target,
    /// Something that the adapter may reach, if it declares `external`: connect=HOST:PORT, read=PATH, write=PATH,
    /// run=PATH or env=NAME; may be given more than once.
    #[arg(long, value_name = "KIND=VALUE")]
    grant: Vec<String>,
    /// Where the adapter is to run [default: what `router.toml` says, or worker].
    #[arg(long, value_name = "WHERE", value_parser = Isolation::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>())]
    isolation: Option<String>,
    /// Report unknown capabilities as warnings.
    #[arg(long)]
    lenient: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Examination {
    /// Examines the adapter as `judge` does it.
    fn run<T>(
        &self,
        environment: &Environment,
        judge: impl FnOnce(&Loader, &LoadRequest<'_>, Strictness) -> Result<T, AdapterLoadError>,
    ) -> Result<T, Error> {
        let config = self.target.config()?;
        let loader = self.loader(environment)?;
        let strictness = if self.lenient { Strictness::Lenient } else { Strictness::Strict };
        Ok(judge(&loader, &self.target.request(&config), strictness)?)
    }
}

impl Examination {
    /// Makes the loader that tries the adapter as a daemon with this configuration does.
    fn loader(&self, environment: &Environment) -> Result<Loader, Error> {
        let config = self.target.search.config(environment)?;
        let isolation =
            Isolation::ALL.iter().find(|(name, _)| Some(*name) == self.isolation.as_deref());
        let isolation = isolation.map(|(_, isolation)| *isolation);
        let grants = grants(&self.grant)?;
        if isolation.unwrap_or(config.workers.isolation) == Isolation::Inline && !grants.is_empty()
        {
            return Err(Error::usage(
                "--grant has no effect: the adapter runs inline",
                "write --isolation worker, or leave the grants out",
            ));
        }
        let entry = AdapterEntry { isolation, grants, ..AdapterEntry::default() };
        let mut placement = Placement::of(&entry, &config.workers);
        let loader = self.target.loader(environment)?;
        if self.target.time_limit.is_some() {
            placement.start_timeout = loader.limits.time;
        }
        if self.target.memory_limit.is_some() {
            placement.memory = loader.limits.memory;
        }
        Ok(Loader { placement, ..loader })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if duration.is_zero() || duration > Duration::from_secs(3600) {
        return Err("must be more than 0 and at most 3600".to_owned());
    }
    Ok(duration)
}
