//! What the operator says: the environment and `router.toml`. Settings are read nowhere else.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The environment variable that lists directories with adapters.
pub const ADAPTER_PATH_VARIABLE: &str = "NEXUS_ROUTER_ADAPTER_PATH";
/// The environment variable that names the directory for private copies and verdicts.
pub const CACHE_VARIABLE: &str = "NEXUS_ROUTER_CACHE_DIR";
/// The environment variable that names the `nexus-router` binary for an embedding host's dry runs.
pub const HELPER_VARIABLE: &str = "NEXUS_ROUTER_BIN";
/// The environment variable that names the configuration file.
pub const CONFIG_VARIABLE: &str = "NEXUS_ROUTER_CONFIG";

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
    /// The running executable.
    pub executable: Option<PathBuf>,
    /// The directories in which programs are found.
    pub program_path: Vec<PathBuf>,
    /// Where the system's loader looks for libraries that adapters need.
    pub library_path: Option<std::ffi::OsString>,
    /// The terminal asks for no colours.
    pub no_color: bool,
}

impl Environment {
    /// Reads the process' environment.
    #[must_use]
    pub fn read() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let list = |name| {
            variable(name).map(|value| {
                std::env::split_paths(&value).filter(|part| !part.as_os_str().is_empty()).collect()
            })
        };
        let cache_dir = variable(CACHE_VARIABLE)
            .map(PathBuf::from)
            .or_else(|| {
                variable("XDG_CACHE_HOME").map(|base| Path::new(&base).join("nexus-router"))
            })
            .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache/nexus-router")))
            .unwrap_or_else(|| {
                let user = rustix::process::getuid().as_raw();
                std::env::temp_dir().join(format!("nexus-router-{user}"))
            });
        Self {
            adapter_path: list(ADAPTER_PATH_VARIABLE).unwrap_or_default(),
            cache_dir,
            helper: variable(HELPER_VARIABLE).map(PathBuf::from),
            config_file: variable(CONFIG_VARIABLE).map(PathBuf::from),
            executable: std::env::current_exe().ok(),
            program_path: list("PATH").unwrap_or_default(),
            library_path: variable("LD_LIBRARY_PATH"),
            no_color: variable("NO_COLOR").is_some(),
        }
    }
}

/// The contents of `router.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// Directories with adapters; relative ones are relative to the file.
    #[serde(default)]
    pub adapter_path: Vec<PathBuf>,
}

/// `router.toml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{path} is not a valid configuration: {message}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
}

impl Error {
    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "check the path, and that this user may read the file",
            Self::Invalid { .. } => "the only key so far is adapter_path, an array of directories",
        }
    }
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
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
        let mut config: Self = toml::from_str(&text).map_err(|error| Error::Invalid {
            path: path.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        let absolute = std::path::absolute(path)
            .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
        let base = absolute.parent().unwrap_or(Path::new("/"));
        for directory in &mut config.adapter_path {
            *directory = base.join(&*directory);
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_refused_with_their_place() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        std::fs::write(&file, "adapter_paht = []\n").unwrap();
        let error = ConfigFile::find(Some(&file)).unwrap_err().to_string();
        assert!(error.contains("unknown field `adapter_paht`"), "{error}");
        assert!(error.contains("line 1"), "{error}");
    }

    #[test]
    fn directories_are_relative_to_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        std::fs::write(&file, "adapter_path = ['plugins', '/opt/x']\n").unwrap();
        let config = ConfigFile::find(Some(&file)).unwrap();
        assert_eq!(config.adapter_path, [directory.path().join("plugins"), "/opt/x".into()]);
    }
}
