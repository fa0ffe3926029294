//! What the operator says: the environment and `router.toml`. Settings are read nowhere else.

mod error;
mod file;
mod toml_value;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use error::Error;
pub use file::{AdapterEntry, ConfigFile, RunLimits};

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

/// What the process' environment says.
#[derive(Clone, Debug, Default)]
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
    /// Where the store is when nobody names one.
    pub state_dir: Option<PathBuf>,
    /// The running executable.
    pub executable: Option<PathBuf>,
    /// The directories in which programs are found.
    pub program_path: Vec<PathBuf>,
    /// Where the system's loader looks for libraries that adapters need.
    pub library_path: Option<OsString>,
    /// The terminal asks for no colours.
    pub no_color: bool,
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
            state_dir: own("XDG_STATE_HOME", ".local/state"),
            executable: std::env::current_exe().ok(),
            program_path: list("PATH").unwrap_or_default(),
            library_path: variable("LD_LIBRARY_PATH"),
            no_color: variable("NO_COLOR").is_some(),
        }
    }
}

/// Reads a variable of the environment, as secrets are given in one; an empty one counts as not set.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
