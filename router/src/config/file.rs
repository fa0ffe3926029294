//! `router.toml`: the store, the adapters, the secrets and the limits of a router.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::error::Error;
use super::toml_value;
use crate::digest::Digest;
use crate::json::Object;
use crate::secret::Source;

/// The contents of `router.toml`.
#[derive(Clone, Debug, Default)]
pub struct ConfigFile {
    /// Directories with adapters.
    pub adapter_path: Vec<PathBuf>,
    /// The store.
    pub db: Option<PathBuf>,
    /// The adapter of steps that name none.
    pub default_adapter: Option<String>,
    /// Where the secrets are that adapters and arguments refer to.
    pub secrets: BTreeMap<String, Source>,
    /// The adapters.
    pub adapters: Vec<AdapterEntry>,
    /// What may be under way at once.
    pub limits: RunLimits,
}

/// An adapter that is to be loaded.
#[derive(Clone, Debug, Default)]
pub struct AdapterEntry {
    /// The factory: `module:function`.
    pub factory_ref: String,
    /// The id of the instance, instead of the adapter's own default.
    pub id: Option<String>,
    /// The configuration, in which `{"$secret": "NAME"}` stands for a secret.
    pub config: Object,
    /// The digest that the library file must have.
    pub pin: Option<Digest>,
    /// Calls that it carries out at once, instead of what holds for all adapters.
    pub calls: Option<usize>,
    /// How long a call of it may take, instead of what holds for all adapters.
    pub timeout: Option<Duration>,
}

/// What may be under way at once, and for how long; what is absent has the router's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// Runs that may be under way at once.
    pub runs_in_flight: Option<usize>,
    /// Calls that one adapter carries out at once.
    pub calls_per_adapter: Option<usize>,
    /// How long a call may take, if neither its step nor its run says.
    pub call_timeout: Option<Duration>,
}

/// The file as it is written. Values that may be secret are taken as they are, so that no message of the
/// parser repeats them.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    adapter_path: Vec<PathBuf>,
    db: Option<PathBuf>,
    default_adapter: Option<String>,
    secrets: toml::Table,
    adapters: Vec<WrittenAdapter>,
    limits: WrittenLimits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAdapter {
    #[serde(rename = "ref")]
    factory_ref: String,
    id: Option<String>,
    #[serde(default)]
    config: toml::Table,
    pin: Option<String>,
    calls: Option<u64>,
    timeout_ms: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenLimits {
    runs_in_flight: Option<u64>,
    calls_per_adapter: Option<u64>,
    call_timeout_ms: Option<u64>,
}

impl ConfigFile {
    /// The name of the file that is read from the working directory when none is named.
    pub const DEFAULT_NAME: &str = "router.toml";

    /// Reads the named file, or `router.toml` in the working directory if there is one.
    ///
    /// # Errors
    /// When a named file is missing, or a file is unreadable or invalid.
    pub fn find(named: Option<&Path>) -> Result<Self, Error> {
        match named {
            Some(path) => Self::read(path),
            None if Path::new(Self::DEFAULT_NAME).is_file() => {
                Self::read(Path::new(Self::DEFAULT_NAME))
            }
            None => Ok(Self::default()),
        }
    }

    fn read(path: &Path) -> Result<Self, Error> {
        let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let written: Written =
            toml::from_str(&text).map_err(|error| refused(path, &text, &error))?;
        let absolute = std::path::absolute(path).map_err(unreadable)?;
        let base = absolute.parent().unwrap_or(Path::new("/"));
        written.settle(base).map_err(|(message, hint)| Error::Invalid {
            path: path.to_owned(),
            message,
            hint: hint.to_owned(),
        })
    }
}

/// What is wrong, and the remedy.
type Wrong = (String, &'static str);

impl Written {
    /// Makes paths absolute, and reads the values that have a form of their own.
    fn settle(self, base: &Path) -> Result<ConfigFile, Wrong> {
        let secrets = self.secrets.iter();
        let secrets = secrets.map(|(name, value)| Ok((name.clone(), source(name, value, base)?)));
        let adapters = self.adapters.into_iter().enumerate();
        Ok(ConfigFile {
            adapter_path: self.adapter_path.iter().map(|path| base.join(path)).collect(),
            db: self.db.map(|path| base.join(path)),
            default_adapter: self.default_adapter,
            secrets: secrets.collect::<Result<_, Wrong>>()?,
            adapters: adapters
                .map(|(index, adapter)| adapter.settle(index))
                .collect::<Result<_, _>>()?,
            limits: self.limits.settle()?,
        })
    }
}

fn source(name: &str, value: &toml::Value, base: &Path) -> Result<Source, Wrong> {
    let hint = "write NAME = \"env:VARIABLE\" or NAME = \"file:PATH\"";
    let text = value.as_str().ok_or_else(|| (format!("secrets.{name} is not a text"), hint))?;
    let source: Source =
        text.parse().map_err(|error| (format!("secrets.{name}: {error}"), hint))?;
    Ok(match source {
        Source::File(path) => Source::File(base.join(path)),
        variable @ Source::Env(_) => variable,
    })
}

impl WrittenAdapter {
    fn settle(self, index: usize) -> Result<AdapterEntry, Wrong> {
        let config = toml_value::object(&self.config).map_err(|message| {
            let message = format!("adapters[{index}].config: {message}");
            (message, "JSON, in which adapters are configured, has no such number")
        })?;
        let pin = self.pin.map(|pin| pin.parse()).transpose().map_err(|_| {
            let message = format!("adapters[{index}].pin is not a SHA-256");
            (message, "`sha256sum FILE` prints it: 64 hexadecimal digits")
        })?;
        let calls = count(&format!("adapters[{index}].calls"), self.calls)?;
        let timeout = positive(&format!("adapters[{index}].timeout_ms"), self.timeout_ms)?;
        Ok(AdapterEntry {
            factory_ref: self.factory_ref,
            id: self.id,
            config,
            pin,
            calls,
            timeout: timeout.map(Duration::from_millis),
        })
    }
}

fn positive(name: &str, number: Option<u64>) -> Result<Option<u64>, Wrong> {
    match number {
        Some(0) => Err((format!("{name} is 0"), "nothing would ever be carried out")),
        other => Ok(other),
    }
}

fn count(name: &str, number: Option<u64>) -> Result<Option<usize>, Wrong> {
    let whole = |number| usize::try_from(number).unwrap_or(usize::MAX);
    positive(name, number).map(|number| number.map(whole))
}

impl WrittenLimits {
    fn settle(self) -> Result<RunLimits, Wrong> {
        let timeout = positive("limits.call_timeout_ms", self.call_timeout_ms)?;
        Ok(RunLimits {
            runs_in_flight: count("limits.runs_in_flight", self.runs_in_flight)?,
            calls_per_adapter: count("limits.calls_per_adapter", self.calls_per_adapter)?,
            call_timeout: timeout.map(Duration::from_millis),
        })
    }
}

/// Tells what the parser says with its place, but without the line itself, which may hold a secret.
fn refused(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let said = error.message().replace('\n', " ");
    // The parser names the unknown key first, and then those that it knows, each in backquotes.
    let mut named = said.split('`').skip(1).step_by(2);
    let meant = match said.starts_with("unknown field") {
        true => named.next().and_then(|unknown| nearest(unknown, named)),
        false => None,
    };
    let hint = meant.map_or_else(
        || "README.md shows a router.toml".to_owned(),
        |meant| format!("did you mean {meant}?"),
    );
    let message = format!("{said} (line {line}, column {column})");
    Error::Invalid { path: path.to_owned(), message, hint }
}

fn nearest<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|word| (strsim::jaro_winkler(text, word), word));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ConfigFile, Error> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        std::fs::write(&file, text).unwrap();
        ConfigFile::find(Some(&file))
    }

    #[test]
    fn unknown_keys_are_refused_with_their_place_and_what_was_meant() {
        for (text, place, hint) in [
            ("adapter_paht = []\n", "line 1, column 1", "did you mean adapter_path?"),
            ("\n[limits]\nruns_in_fligt = 1\n", "line 3, column 1", "did you mean runs_in_flight?"),
            ("[[adapters]]\nref = 'a:b'\nconfg = {}\n", "line 3, column 1", "did you mean config?"),
            ("zzz = 1\n", "line 1, column 1", "README.md shows a router.toml"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(place), "{error}");
            assert!(error.to_string().contains("unknown field"), "{error}");
            assert_eq!((error.hint(), error.code()), (hint, "CONFIG_FILE_INVALID"));
        }
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        let text = "adapter_path = ['plugins', '/opt/x']\ndb = 'data/runs.db'\n\
                    [secrets]\nA = 'file:a.txt'\nB = 'env:B_TOKEN'\n";
        std::fs::write(&file, text).unwrap();
        let config = ConfigFile::find(Some(&file)).unwrap();
        assert_eq!(config.adapter_path, [directory.path().join("plugins"), "/opt/x".into()]);
        assert_eq!(config.db, Some(directory.path().join("data/runs.db")));
        assert_eq!(config.secrets["A"], Source::File(directory.path().join("a.txt")));
        assert_eq!(config.secrets["B"], Source::Env("B_TOKEN".to_owned()));
    }

    #[test]
    fn adapters_and_limits_are_read() {
        let pin = "ab".repeat(32);
        let text = format!(
            "default_adapter = 'web'\n[limits]\nruns_in_flight = 2\ncall_timeout_ms = 1500\n\
             [[adapters]]\nref = 'm:f'\nid = 'web'\npin = '{pin}'\n\
             [adapters.config]\ntoken = {{ '$secret' = 'T' }}\n[[adapters]]\nref = 'n:g'\n"
        );
        let config = read(&text).unwrap();
        assert_eq!(config.default_adapter.as_deref(), Some("web"));
        assert_eq!(config.limits.runs_in_flight, Some(2));
        assert_eq!(config.limits.call_timeout, Some(Duration::from_millis(1500)));
        let [web, other] = &config.adapters[..] else { panic!("{:?}", config.adapters) };
        assert_eq!((web.factory_ref.as_str(), web.id.as_deref()), ("m:f", Some("web")));
        assert_eq!(web.pin.unwrap().to_string(), pin);
        assert_eq!(web.config.get("token").unwrap().get("$secret").unwrap().as_str(), Some("T"));
        assert!(other.id.is_none() && other.pin.is_none() && other.config.is_empty());
    }

    #[test]
    fn no_message_repeats_what_may_be_a_secret() {
        for text in [
            "[secrets]\nT = 'hunter22'\n",
            "[secrets]\nT = ['hunter22']\n",
            "[secrets]\nT = 'hunter22\n",
            "[[adapters]]\nref = 'm:f'\nconfig = { token = 'hunter22', x = nan }\n",
            "[[adapters]]\nref = 'm:f'\npin = 'hunter22'\n",
            "[[adapters]]\nref = 'm:f'\nconfig = { token = 'hunter22' x = 1 }\n",
        ] {
            let error = read(text).unwrap_err();
            let shown = format!("{error} {}", error.hint());
            assert!(!shown.contains("hunter22") && !error.hint().is_empty(), "{shown}");
        }
        assert!(read("[limits]\nruns_in_flight = 0\n").is_err());
        let missing = ConfigFile::find(Some(Path::new("/nonexistent/router.toml"))).unwrap_err();
        assert_eq!(missing.code(), "CONFIG_FILE_UNREADABLE");
    }
}
