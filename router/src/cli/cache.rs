//! `nexus-router cache …`: the private copies of adapter libraries.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Subcommand;

use super::output::{Form, Output, columns, shortened};
use super::{Answer, Error};
use crate::clock::Timestamp;
use crate::config::{ConfigFile, Environment};
use crate::json::{Object, Value};
use crate::loader::{CachedLibrary, LibraryCache, PruneReport, PruneRule};
use crate::python_text::visible;

const PRUNE_HELP: &str = "\
Without an option, the rule of the configuration holds: cache.max_mb, and 30 days.

Examples:
  nexus-router cache prune
  nexus-router cache prune --older-than 7d
  nexus-router cache prune --max-size 200M --format json
  nexus-router cache prune --all";

#[derive(Subcommand)]
pub(super) enum CacheCommand {
    /// List the private copies of adapter libraries: size, last use, and the library that was copied.
    List(ListArguments),
    /// Remove private copies that no process uses, the one first that was not used for longest.
    #[command(after_help = PRUNE_HELP)]
    Prune(PruneArguments),
}

#[derive(clap::Args)]
pub(super) struct ListArguments {
    /// The router's configuration file [default: router.toml, if there is one].
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

#[derive(clap::Args)]
pub(super) struct PruneArguments {
    /// Remove all that no process uses.
    #[arg(long, conflicts_with_all = ["older_than", "max_size"])]
    all: bool,
    /// Remove what was not used for such a time: 30d, 12h, 90m or 45s.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    older_than: Option<Duration>,
    /// Keep at most so much: a number of bytes, or one with K, M or G.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// The router's configuration file [default: router.toml, if there is one].
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

/// Reads a number with a unit.
fn with_unit(text: &str, units: &[(char, u64)], what: &str) -> Result<u64, String> {
    let bad = || {
        let names: Vec<String> = units.iter().map(|(name, _)| name.to_string()).collect();
        format!("write {what} as a whole number and one of {}", names.join(", "))
    };
    let unit =
        text.chars().next_back().and_then(|last| units.iter().find(|(name, _)| *name == last));
    let (number, factor) = match unit {
        Some((name, factor)) => (&text[..text.len() - name.len_utf8()], *factor),
        None => return Err(bad()),
    };
    let number: u64 = number.parse().map_err(|_| bad())?;
    number.checked_mul(factor).ok_or_else(bad)
}

fn duration(text: &str) -> Result<Duration, String> {
    let units = [('d', 24 * 3600), ('h', 3600), ('m', 60), ('s', 1)];
    with_unit(text, &units, "the time").map(Duration::from_secs)
}

fn size(text: &str) -> Result<u64, String> {
    if let Ok(bytes) = text.parse() {
        return Ok(bytes);
    }
    with_unit(text, &[('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)], "the size")
}

pub(super) fn run(command: CacheCommand, environment: &Environment) -> Result<Answer, Error> {
    match command {
        CacheCommand::List(arguments) => list(&arguments, environment),
        CacheCommand::Prune(arguments) => prune(&arguments, environment),
    }
}

fn library_cache(file: Option<&Path>, environment: &Environment) -> Result<LibraryCache, Error> {
    let config = ConfigFile::find(file, environment)?;
    Ok(LibraryCache::new(&environment.cache_dir, config.cache.max_bytes))
}

fn unreadable(environment: &Environment, error: &std::io::Error) -> Error {
    let shown = environment.cache_dir.display();
    Error::usage(
        format!("cannot read the cache in {shown}: {error}"),
        "check NEXUS_ROUTER_CACHE_DIR, and that this user may read and write there",
    )
}

fn list(arguments: &ListArguments, environment: &Environment) -> Result<Answer, Error> {
    let cache = library_cache(arguments.config_file.as_deref(), environment)?;
    let copies = cache.list().map_err(|error| unreadable(environment, &error))?;
    let bytes: u64 = copies.iter().map(|copy| copy.bytes).sum();
    let limit = cache.rule().max_bytes;
    let mut output = Output::new(environment);
    if arguments.format == Form::Json {
        let mut answer = Object::new();
        answer.insert("directory", environment.cache_dir.display().to_string());
        answer.insert("bytes", bytes);
        answer.insert("max_bytes", limit);
        answer.insert("libraries", copies.iter().map(as_json).collect::<Vec<_>>());
        output.value(&answer.into())?;
        return Ok(Answer::Yes);
    }
    let mut rows =
        vec![["DIGEST", "SIZE", "LAST USE", "IN USE", "LIBRARY"].map(str::to_owned).to_vec()];
    rows.extend(copies.iter().map(row));
    for line in columns(&rows) {
        output.line(&line)?;
    }
    let directory = visible(&environment.cache_dir.display().to_string());
    output.line(&format!(
        "{} copies, {} of {} in {directory}",
        copies.len(),
        shown_size(bytes),
        shown_size(limit)
    ))?;
    Ok(Answer::Yes)
}

fn prune(arguments: &PruneArguments, environment: &Environment) -> Result<Answer, Error> {
    let cache = library_cache(arguments.config_file.as_deref(), environment)?;
    let rule = match (arguments.all, arguments.older_than, arguments.max_size) {
        (true, ..) => PruneRule { max_bytes: 0, max_age: Duration::ZERO },
        (false, None, None) => cache.rule(),
        (false, age, size) => {
            PruneRule { max_bytes: size.unwrap_or(u64::MAX), max_age: age.unwrap_or(Duration::MAX) }
        }
    };
    let report = cache.prune(&rule).map_err(|error| unreadable(environment, &error))?;
    let PruneReport { removed, kept, kept_bytes } = &report;
    let bytes: u64 = removed.iter().map(|copy| copy.bytes).sum();
    let mut output = Output::new(environment);
    if arguments.format == Form::Json {
        let mut answer = Object::new();
        answer.insert("removed", removed.iter().map(as_json).collect::<Vec<_>>());
        answer.insert("removed_bytes", bytes);
        answer.insert("kept", *kept);
        answer.insert("kept_bytes", *kept_bytes);
        output.value(&answer.into())?;
        return Ok(Answer::Yes);
    }
    for copy in removed {
        output.line(&format!("removed {}", visible(&copy.path.display().to_string())))?;
    }
    output.line(&format!(
        "{} copies removed ({}), {kept} kept ({})",
        removed.len(),
        shown_size(bytes),
        shown_size(*kept_bytes)
    ))?;
    Ok(Answer::Yes)
}

fn moment(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)).to_string()
}

fn row(copy: &CachedLibrary) -> Vec<String> {
    let library =
        copy.source.as_ref().map_or_else(|| "-".to_owned(), |it| it.display().to_string());
    let cells = [
        copy.digest.get(..12).unwrap_or(&copy.digest).to_owned(),
        shown_size(copy.bytes),
        moment(copy.last_use),
        if copy.is_in_use { "yes" } else { "no" }.to_owned(),
        library,
    ];
    cells.iter().map(|cell| shortened(&visible(cell))).collect()
}

/// Returns a size in mebibytes with one digit.
fn shown_size(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) / (1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

fn as_json(copy: &CachedLibrary) -> Value {
    let mut object = Object::new();
    object.insert("path", copy.path.display().to_string());
    object.insert("digest", copy.digest.as_str());
    object.insert("bytes", copy.bytes);
    object.insert("last_use", moment(copy.last_use));
    object.insert("in_use", copy.is_in_use);
    object.insert("library", copy.source.as_ref().map(|source| source.display().to_string()));
    object.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(
            (size("7"), size("2K"), size("3M"), size("1G")),
            (Ok(7), Ok(2048), Ok(3 << 20), Ok(1 << 30))
        );
        assert_eq!(duration("2d"), Ok(Duration::from_secs(172_800)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for bad in ["", "K", "1T", "-1K", "1.5G", "99999999999G", "1 K", "é"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        for bad in ["", "1", "d", "1w", "-1d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown_in_mebibytes() {
        assert_eq!(shown_size(0), "0.0 MiB");
        assert_eq!(shown_size(1024 * 1024 * 3 / 2), "1.5 MiB");
    }
}
