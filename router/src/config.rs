//! What the operator says: the environment and `router.toml`. Settings are read nowhere else.

mod check;
mod document;
mod error;
mod file;
mod listener;
mod own_paths;
mod pattern;
mod reader;
mod renamed;
mod sample;
mod sections;
mod settings;
mod show;
mod toml_text;
mod toml_value;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::clock::{Clock, Timestamp};

pub(crate) use document::Origins;
pub use error::{Error, Origin, Problem};
pub use file::ConfigFile;
pub use listener::{Listener, TlsFiles};
pub(crate) use own_paths::{
    DEFAULT_STORE, EVIDENCE_DIRECTORY, MISPLACED_HINT, NamedPlaces, OwnKind, OwnPaths, TOKEN_FILE,
};
pub use pattern::Pattern;
pub use sample::{sample, write_sample};
pub use settings::{
    AdapterEntry, Annotation, ApprovalSettings, CacheSettings, ContractSettings, Effect,
    EvidenceSettings, KeyReference, Log, LogFormat, Mcp, Offer, Outputs, PolicyDefault,
    PolicySettings, Property, Recover, Rule, RunLimits, SecretBinding, SecretEntry, Server,
    SignalSettings, SourceEntry, StoreSettings, Telemetry, TokenEntry, ToolEntry, Workers,
};

/// The environment variable that lists directories with adapters.
pub const ADAPTER_PATH_VARIABLE: &str = "NEXUS_ROUTER_ADAPTER_PATH";
/// The environment variable that names the directory for private copies and verdicts.
pub const CACHE_VARIABLE: &str = "NEXUS_ROUTER_CACHE_DIR";
/// The environment variable that names the `nexus-router` binary for an embedding host's dry runs.
pub const HELPER_VARIABLE: &str = "NEXUS_ROUTER_BIN";
/// The environment variable that names the configuration file.
pub const CONFIG_VARIABLE: &str = "NEXUS_ROUTER_CONFIG";
/// The environment variable that names the store.
pub const DB_VARIABLE: &str = "NEXUS_ROUTER_DB";
/// The environment variable that names the directory of store, tokens and caches.
pub const DATA_DIR_VARIABLE: &str = "NEXUS_ROUTER_DATA_DIR";
/// The environment variable that holds the token which is shown to a daemon.
pub const TOKEN_VARIABLE: &str = "NEXUS_ROUTER_TOKEN";
/// The environment variable that names the directory of signal contracts. The AiGentsy runtime has it, too.
pub const SIGNALS_VARIABLE: &str = "AIGENTSY_ADAPTER_CONTRACTS_DIR";
/// The environment variable that holds the time to write into what is made, as other programs have it too.
pub const EPOCH_VARIABLE: &str = "SOURCE_DATE_EPOCH";
/// The last second that has a text of four digits for the year.
const LAST_SECOND: i64 = 253_402_300_799;
/// The prefix of environment variables that stand for a key of `router.toml`:
/// `NEXUS_ROUTER__SERVER__CONNECTIONS`, `NEXUS_ROUTER__LISTENERS__0__ADDRESS`.
pub const OVERRIDE_PREFIX: &str = document::PREFIX;

/// What the process' environment says.
#[derive(Clone, Default)]
pub struct Environment {
    /// The directories of `NEXUS_ROUTER_ADAPTER_PATH`.
    pub adapter_path: Vec<PathBuf>,
    /// Where private copies and verdicts are kept.
    pub cache_dir: PathBuf,
    /// The `nexus-router` binary, if named.
    pub helper: Option<PathBuf>,
    /// The configuration file, if named.
    pub config_file: Option<PathBuf>,
    /// The store, if named.
    pub db: Option<PathBuf>,
    /// The directory of store, tokens and caches, if named.
    pub data_dir: Option<PathBuf>,
    /// The directory of signal contracts, if named.
    pub signals_dir: Option<PathBuf>,
    /// Variables that stand for a key of `router.toml`, with their values. One that was no UTF-8 has a NUL
    /// in its value, which no variable can have, and is refused when it is used.
    pub overrides: Vec<(String, String)>,
    /// Where the store is when nobody names one.
    pub state_dir: Option<PathBuf>,
    /// The running executable.
    pub executable: Option<PathBuf>,
    /// The directories in which programs are found.
    pub program_path: Vec<PathBuf>,
    /// Where the system's loader looks for libraries that adapters need.
    pub library_path: Option<OsString>,
    /// What the system's loader loads into this process before anything else.
    pub library_preload: Option<OsString>,
    /// The terminal asks for no colours.
    pub no_color: bool,
    /// The time that stands in what is made, in seconds since 1970, if it is not to be that of the clock; see
    /// [`time`](Self::time).
    pub source_date_epoch: Option<String>,
}

impl Environment {
    /// Reads the process' environment.
    #[must_use]
    pub fn read() -> Self {
        let list = |name| {
            variable(name).map(|value| {
                std::env::split_paths(&value).filter(|part| !part.as_os_str().is_empty()).collect()
            })
        };
        let own = |base: &str, below_home: &str| {
            let home = || variable("HOME").map(|home| Path::new(&home).join(below_home));
            let base = variable(base).map(PathBuf::from).or_else(home);
            base.map(|base| base.join("nexus-router"))
        };
        let cache_dir = variable(CACHE_VARIABLE)
            .map(PathBuf::from)
            .or_else(|| own("XDG_CACHE_HOME", ".cache"))
            .unwrap_or_else(|| {
                let user = rustix::process::getuid().as_raw();
                std::env::temp_dir().join(format!("nexus-router-{user}"))
            });
        Self {
            adapter_path: list(ADAPTER_PATH_VARIABLE).unwrap_or_default(),
            cache_dir,
            helper: variable(HELPER_VARIABLE).map(PathBuf::from),
            config_file: variable(CONFIG_VARIABLE).map(PathBuf::from),
            db: variable(DB_VARIABLE).map(PathBuf::from),
            data_dir: variable(DATA_DIR_VARIABLE).map(PathBuf::from),
            signals_dir: variable(SIGNALS_VARIABLE).map(PathBuf::from),
            overrides: overrides(std::env::vars_os()),
            state_dir: own("XDG_STATE_HOME", ".local/state"),
            executable: std::env::current_exe().ok(),
            program_path: list("PATH").unwrap_or_default(),
            library_path: variable("LD_LIBRARY_PATH"),
            library_preload: variable("LD_PRELOAD"),
            no_color: variable("NO_COLOR").is_some(),
            source_date_epoch: variable(EPOCH_VARIABLE)
                .map(|seconds| seconds.to_string_lossy().into_owned()),
        }
    }

    /// Returns the time to write into what is made: that of `SOURCE_DATE_EPOCH`, so that it can be made again, or now. What
    /// is checked is held to the clock alone.
    ///
    /// # Errors
    /// When the variable is set and is no time.
    pub fn time(&self) -> Result<Timestamp, String> {
        let Some(seconds) = &self.source_date_epoch else { return Ok(Clock::System.now()) };
        let digits = seconds.bytes().all(|byte| byte.is_ascii_digit());
        let parsed = seconds.parse::<i64>().ok().filter(|it| digits && *it <= LAST_SECOND);
        parsed.map(|seconds| Timestamp::from_millis(seconds * 1000)).ok_or_else(|| {
            format!("{EPOCH_VARIABLE} is {seconds:?}, and must be the seconds since 1970")
        })
    }
}

// By hand: the values of variables may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.overrides.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Environment")
            .field("adapter_path", &self.adapter_path)
            .field("cache_dir", &self.cache_dir)
            .field("helper", &self.helper)
            .field("config_file", &self.config_file)
            .field("db", &self.db)
            .field("data_dir", &self.data_dir)
            .field("signals_dir", &self.signals_dir)
            .field("overrides", &names)
            .field("state_dir", &self.state_dir)
            .field("executable", &self.executable)
            .field("program_path", &self.program_path)
            .field("library_path", &self.library_path)
            .field("library_preload", &self.library_preload)
            .field("no_color", &self.no_color)
            .field("source_date_epoch", &self.source_date_epoch)
            .finish()
    }
}

/// Picks the variables that stand for a key of `router.toml`; an empty one counts as not set.
fn overrides(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let is_ours = |name: &str| {
        let start = name.get(..OVERRIDE_PREFIX.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(OVERRIDE_PREFIX))
    };
    let named = variables.filter(|(_, value)| !value.is_empty()).filter_map(|(name, value)| {
        let name = name.to_string_lossy().into_owned();
        is_ours(&name).then(|| (name, value.into_string().unwrap_or_else(|_| "\0".to_owned())))
    });
    named.collect()
}

/// Reads a variable of the environment, as secrets are given in one; an empty one counts as not set.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt as _;

    #[test]
    fn variables_that_stand_for_keys_are_picked() {
        let variables: [(OsString, OsString); 6] = [
            ("NEXUS_ROUTER__DB".into(), "a".into()),
            ("nexus_router__log__level".into(), "b".into()),
            ("NEXUS_ROUTER_DB".into(), "c".into()),
            ("NEXUS_ROUTER__EMPTY".into(), "".into()),
            ("OTHER".into(), "d".into()),
            ("NEXUS_ROUTER__BAD".into(), OsString::from_vec(vec![0xff])),
        ];
        let picked = overrides(variables.into_iter());
        let expected = [
            ("NEXUS_ROUTER__DB", "a"),
            ("nexus_router__log__level", "b"),
            ("NEXUS_ROUTER__BAD", "\0"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(picked, expected);
        let environment = Environment { overrides: expected.to_vec(), ..Environment::default() };
        let error = ConfigFile::find(None, &environment).unwrap_err();
        assert_eq!(error.code(), "CONFIG_VARIABLE_INVALID");
    }
}
