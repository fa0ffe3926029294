//! What the operator says of an envoy in its `config`: the workspace, the gate of the shell, and the limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::grant::{Grants, check_path};

/// The settings of an envoy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The directory in which it works, and outside of which it changes nothing.
    pub workspace: PathBuf,
    /// The operator's gate for `shell_exec`.
    pub shell_exec: bool,
    /// Whether programs in the workspace may be started by those that are granted, as builds and tests do.
    pub run_workspace: bool,
    /// How long an execution may take that does not say it itself.
    pub timeout: Duration,
    /// How many processes an execution may have.
    pub processes: usize,
    /// Bytes that an execution may write to each of standard output and standard error.
    pub output: usize,
    /// Bytes that a single file may have.
    pub file: u64,
    /// Bytes that the files of an execution may take.
    pub disk: u64,
    /// Limit of new files.
    pub files: u64,
    /// Bytes of a disk that are left to others.
    pub keep_free: u64,
}

const MIB: u64 = 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    workspace: PathBuf,
    #[serde(default)]
    shell_exec: bool,
    #[serde(default)]
    run_workspace: bool,
    timeout_s: Option<u64>,
    processes: Option<u64>,
    output_kb: Option<u64>,
    file_mb: Option<u64>,
    disk_mb: Option<u64>,
    files: Option<u64>,
    keep_free_mb: Option<u64>,
}

impl Settings {
    /// Reads the `config` of an adapter.
    ///
    /// # Errors
    /// With the first mistake.
    pub fn read(config: &serde_json::Value) -> Result<Self, String> {
        let written = Written::deserialize(config).map_err(|error| error.to_string())?;
        let number = |name: &str, given: Option<u64>, default: u64, most: u64| match given {
            Some(number) if number == 0 || number > most => {
                Err(format!("{name} must be from 1 to {most}, not {number}"))
            }
            number => Ok(number.unwrap_or(default)),
        };
        let timeout = number("timeout_s", written.timeout_s, 300, 3600)?;
        let processes = number("processes", written.processes, 256, 4096)?;
        let output = number("output_kb", written.output_kb, 1024, 4096)? * 1024;
        let most = 1024 * 1024;
        Ok(Self {
            workspace: real(&written.workspace)?,
            shell_exec: written.shell_exec,
            run_workspace: written.run_workspace,
            timeout: Duration::from_secs(timeout),
            processes: usize::try_from(processes).unwrap_or(usize::MAX),
            output: usize::try_from(output).unwrap_or(usize::MAX),
            file: number("file_mb", written.file_mb, 512, most)? * MIB,
            disk: number("disk_mb", written.disk_mb, 1024, most)? * MIB,
            files: number("files", written.files, 100_000, 100_000_000)?,
            keep_free: number("keep_free_mb", written.keep_free_mb, 256, most)? * MIB,
        })
    }

    /// Refuses grants that an envoy cannot have.
    pub(super) fn check(&self, grants: &Grants) -> Result<(), String> {
        if let Some(path) = grants.write.first() {
            return Err(format!(
                "grants.write has {}: an envoy writes to its workspace and nowhere else",
                path.display()
            ));
        }
        for program in &grants.run {
            if program.to_str().is_none() {
                return Err(format!("grants.run: {} is no text", program.display()));
            }
            if program.starts_with(&self.workspace) {
                return Err(format!(
                    "grants.run has {}, which is in the workspace, where executions could replace it; \
                     set config.run_workspace to have programs there started by granted ones",
                    program.display()
                ));
            }
        }
        Ok(())
    }
}

/// Returns where the workspace really is.
fn real(path: &Path) -> Result<PathBuf, String> {
    let refused = |why: &str| format!("workspace {}: {why}", path.display());
    check_path(path).map_err(refused)?;
    let real = std::fs::canonicalize(path).map_err(|error| refused(&error.to_string()))?;
    if !real.is_dir() {
        return Err(refused("it is no directory"));
    }
    if real.to_str().is_none() || real == Path::new("/") {
        return Err(refused("it must be a directory of its own, with a name that is text"));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_read_strictly() {
        let place = tempfile::tempdir().unwrap();
        let workspace = place.path().to_str().unwrap();
        let settings = Settings::read(&json!({ "workspace": workspace })).unwrap();
        assert_eq!((settings.shell_exec, settings.output), (false, 1 << 20));
        assert_eq!(settings.files, 100_000);
        for (bad, why) in [
            (json!({}), "workspace"),
            (json!({ "workspace": "relative" }), "not absolute"),
            (json!({ "workspace": "/" }), "of its own"),
            (json!({ "workspace": "/nowhere/at/all" }), "nowhere"),
            (json!({ "workspace": workspace, "shell": true }), "unknown field"),
            (json!({ "workspace": workspace, "timeout_s": 3601 }), "1 to 3600"),
            (json!({ "workspace": workspace, "output_kb": 0 }), "1 to 4096"),
            (json!({ "workspace": workspace, "files": 0 }), "files must be from 1"),
        ] {
            let error = Settings::read(&bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn sample_shows_the_defaults_of_envoys() {
        let sample = crate::config::sample();
        let (_, envoy) = sample.split_once("#ref = \"builtin:envoy\"\n").unwrap();
        let (_, config) = envoy.split_once("#[adapters.config]\n").unwrap();
        let (config, _) = config.split_once("#[").unwrap();
        let lines = config.lines().filter_map(|line| line.strip_prefix('#'));
        let settings = lines.filter(|line| !line.starts_with(' ')).collect::<Vec<_>>().join("\n");
        let table: toml::Table = settings.parse().unwrap();
        let mut config = serde_json::to_value(table).unwrap();
        let place = tempfile::tempdir().unwrap();
        config["workspace"] = json!(place.path());
        assert_eq!(config.as_object().unwrap().len(), 10, "{config}");
        let default = Settings::read(&json!({ "workspace": place.path() })).unwrap();
        assert_eq!(Settings::read(&config).unwrap(), default);
    }

    #[test]
    fn nothing_but_the_workspace_is_written_and_no_program_in_it_is_granted() {
        let place = tempfile::tempdir().unwrap();
        let settings = Settings::read(&json!({ "workspace": place.path() })).unwrap();
        let write = Grants { write: vec!["/srv".into()], ..Grants::default() };
        assert!(settings.check(&write).unwrap_err().contains("nowhere else"));
        let run = Grants { run: vec![settings.workspace.join("x")], ..Grants::default() };
        assert!(settings.check(&run).unwrap_err().contains("replace it"));
    }
}
