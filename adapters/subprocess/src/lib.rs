//! An adapter that runs a command for each call and takes its JSON output as the result.
//!
//! The command is `base_cmd` followed by `call TOOL METHOD --json-args-file PATH`, without a shell. The
//! file holds `{"args":…,"method":…,"tool":…}`; only the user may read it, and it is gone after the
//! call. The command is a success when it exits with 0 and writes one JSON object to its stdout.
//!
//! Confined to a worker, it needs the program granted (`run`), and what the program itself needs. Where no
//! file may be made in the directory for temporary ones, the same text comes by standard input, and PATH is
//! `/dev/stdin`. To have a file there, grant that directory: `write = ["/tmp"]`, or what `TMPDIR` says, with
//! `env = ["TMPDIR"]`.
//!
//! The command runs in a process group of its own, with an empty stdin or that text, two pipes, and no other
//! descriptor of the host. Its environment is what `env_allow` names and what `env` adds. When it ends,
//! runs out of time or is cancelled, the whole group is killed; only a process that left the group
//! (`setsid`) can stay behind.
//!
//! To that end every call sets all descriptors of the host from 3 on close-on-exec, and so they stay. A
//! host that passes a descriptor on to a program of its own must clear the flag in the new process.
#![forbid(unsafe_code)]

mod call;
mod failure;
mod json_error;
mod output;
mod process;

use std::time::Duration;

use nexus_router_sdk::{
    Adapter, AdapterError, CallContext, Capability, ConfigKey, Manifest, Object, ValueType, code,
    export_adapter,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use call::Call;

const KIND: &str = "subprocess";
const CAPABILITIES: &[Capability] = &[Capability::Apply, Capability::Timeout, Capability::External];

const MANIFEST: Manifest = Manifest::new(KIND, CAPABILITIES)
    .router_versions(">=1.2,<2")
    .config(&[
        ConfigKey::required("base_cmd", ValueType::Array, "The program and its first arguments"),
        ConfigKey::optional(
            "timeout_s",
            ValueType::Number,
            "Seconds after which a command is killed; the call's own deadline may come earlier",
        )
        .default_json("30.0"),
        ConfigKey::optional("cwd", ValueType::String, "The directory in which the command runs"),
        ConfigKey::optional(
            "env",
            ValueType::Object,
            "Variables that are added to the command's environment",
        )
        .default_json("{}"),
        ConfigKey::optional(
            "env_allow",
            ValueType::Array,
            "Names of variables that the command gets from the host's environment",
        )
        .default_json(r#"["PATH","HOME","LANG","LC_ALL","TZ","TMPDIR"]"#),
        ConfigKey::optional(
            "max_stdout_chars",
            ValueType::Number,
            "Characters of stdout that an error shows",
        )
        .default_json("200000"),
        ConfigKey::optional(
            "max_stderr_chars",
            ValueType::Number,
            "Characters of stderr that an error shows",
        )
        .default_json("50000"),
        ConfigKey::optional(
            "max_output_bytes",
            ValueType::Number,
            "Bytes of stdout after which a command is killed",
        )
        .default_json("10485760"),
        ConfigKey::optional(
            "strict_stderr",
            ValueType::Boolean,
            "Whether a command that writes to stderr has failed",
        )
        .default_json("false"),
    ])
    .error_codes(failure::CODES);

/// The configuration; the defaults are those of the manifest.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    base_cmd: Vec<String>,
    timeout_s: f64,
    cwd: Option<String>,
    env: Object,
    env_allow: Vec<String>,
    max_stdout_chars: usize,
    max_stderr_chars: usize,
    max_output_bytes: usize,
    strict_stderr: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            base_cmd: Vec::new(),
            timeout_s: 30.0,
            cwd: None,
            env: Object::new(),
            env_allow: ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"].map(String::from).into(),
            max_stdout_chars: 200_000,
            max_stderr_chars: 50_000,
            max_output_bytes: 10 * 1024 * 1024,
            strict_stderr: false,
        }
    }
}

/// The adapter: a command line to which each call adds its own words.
#[derive(Debug)]
pub struct Subprocess {
    adapter_id: String,
    config: Config,
    timeout: Duration,
}

impl Adapter for Subprocess {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        KIND
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn call(
        &self,
        context: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        Call::new(&self.config, self.timeout, tool, method, args).run(context)
    }
}

/// Makes an adapter. Without an id it is named after the program and the digest of the command line.
///
/// # Errors
/// Returns `CONFIG_REJECTED` when the command line is empty or cannot be one, or the time is none.
pub fn create_adapter(
    adapter_id: Option<&str>,
    config: Config,
) -> Result<Subprocess, AdapterError> {
    let rejected = |message: String| AdapterError::operational(code::CONFIG_REJECTED, message);
    let Some(program) = config.base_cmd.first() else {
        return Err(rejected("base_cmd must not be empty".to_owned()));
    };
    if config.base_cmd.iter().any(|word| word.contains('\0')) {
        return Err(rejected("base_cmd must not contain NUL".to_owned()));
    }
    let timeout = Duration::try_from_secs_f64(config.timeout_s)
        .ok()
        .filter(|timeout| !timeout.is_zero())
        .ok_or_else(|| {
            rejected(format!("timeout_s must be a positive number, got {}", config.timeout_s))
        })?;
    let adapter_id =
        adapter_id.map_or_else(|| default_id(program, &config.base_cmd), str::to_owned);
    Ok(Subprocess { adapter_id, config, timeout })
}

fn default_id(program: &str, base_cmd: &[String]) -> String {
    let name = program.rsplit('/').next().unwrap_or(program);
    format!("{KIND}:{name}:{}", short_digest(&base_cmd.join(" "), 6))
}

/// Returns the first hexadecimal digits of the SHA-256 of a text.
fn short_digest(text: &str, digits: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let mut hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(digits);
    hex
}

export_adapter!(create_adapter, MANIFEST);

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::testing::manifest;
    use serde_json::{Value, json};

    #[test]
    fn defaults_are_those_of_the_manifest() {
        let manifest = manifest(&MANIFEST);
        let keys = manifest["config_schema"].as_object().unwrap();
        let defaults: Object = keys
            .iter()
            .filter_map(|(name, key)| Some((name.clone(), key.get("default")?.clone())))
            .collect();
        assert_eq!((keys.len(), defaults.len()), (9, 7));
        let from_manifest: Config = serde_json::from_value(Value::Object(defaults)).unwrap();
        assert_eq!(from_manifest, Config::default());
    }

    #[test]
    fn bad_configurations_are_rejected() {
        for (config, message) in [
            (json!({}), "base_cmd must not be empty"),
            (json!({"base_cmd": []}), "base_cmd must not be empty"),
            (json!({"base_cmd": ["a\0b"]}), "base_cmd must not contain NUL"),
            (
                json!({"base_cmd": ["a"], "timeout_s": 0}),
                "timeout_s must be a positive number, got 0",
            ),
            (
                json!({"base_cmd": ["a"], "timeout_s": -1.5}),
                "timeout_s must be a positive number, got -1.5",
            ),
        ] {
            let error = create_adapter(None, serde_json::from_value(config).unwrap()).unwrap_err();
            assert_eq!(
                (error.code.as_str(), error.message.as_str()),
                (code::CONFIG_REJECTED, message)
            );
        }
        for config in [json!({"base_cmd": [1]}), json!({"base_cmd": ["a"], "shell": true})] {
            assert!(serde_json::from_value::<Config>(config).is_err());
        }
    }
}
