//! `nexus-router adapter list --running` and `release`: asks a daemon how its adapters do, and helps one on.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::super::daemon::Daemon;
use super::super::output::{Format, Output, columns, shortened};
use super::super::{Answer, Error};
use crate::app::{App, Named};
use crate::config::{self, ConfigFile, Environment, TOKEN_VARIABLE};
use crate::files::open_regular;
use crate::json::Value;
use crate::python_text::visible;
use crate::service::FIRST_TOKEN;

/// What is asked for.
const PATH: &str = "/v1/adapters";
/// The largest answer that is read: a thousand adapters take a tenth of it.
const MAX_ANSWER: u64 = 4 * 1024 * 1024;
/// The largest file with a token. One has less than a hundred characters.
const MAX_TOKEN: u64 = 4096;

const HEADINGS: [&str; 8] =
    ["ADAPTER", "KIND", "CAPABILITIES", "ISOLATION", "STATE", "WORKERS", "RESTARTS", "LAST END"];

/// Which daemon, and how it is asked.
#[derive(clap::Args)]
pub(super) struct Running {
    /// List the adapters of a running daemon, and how they do. A token of scope read is needed: that of
    /// --token-file, of `NEXUS_ROUTER_TOKEN`, or, without --url, the first one of the data directory.
    #[arg(long, conflicts_with = "adapter_path")]
    running: bool,
    /// The daemon's address [default: that of the first listener of router.toml, on this machine].
    #[arg(long, value_name = "URL", requires = "running", conflicts_with = "config_file")]
    url: Option<String>,
    /// The file with the token to show.
    #[arg(long, value_name = "FILE", requires = "running")]
    token_file: Option<PathBuf>,
    /// The certificates to trust, as PEM, instead of those that browsers trust.
    #[arg(long, value_name = "FILE", requires = "running")]
    ca: Option<PathBuf>,
}

impl Running {
    /// Says whether a daemon is asked for.
    pub(super) const fn is_wanted(&self) -> bool {
        self.running
    }

    /// Asks the daemon, and writes what it answers.
    pub(super) fn list(
        &self,
        config_file: Option<&Path>,
        format: Format,
        environment: &Environment,
    ) -> Result<Answer, Error> {
        let daemon = self.daemon(config_file, environment)?;
        let (status, body) = daemon.get(PATH, MAX_ANSWER)?;
        let adapters = match (status, body.get("adapters"), body.get("code")) {
            (200, Some(Value::Array(adapters)), _) => adapters,
            (400.., _, Some(Value::String(code))) => {
                return Err(refused(&daemon, (code, "read"), &body));
            }
            _ => return Err(daemon.stranger(PATH, status)),
        };
        let mut output = Output::new(environment);
        if format == Format::Json {
            output.value(&body)?;
            return Ok(Answer::Yes);
        }
        let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
        rows.extend(adapters.iter().map(row));
        for line in columns(&rows) {
            output.line(&line)?;
        }
        Ok(Answer::Yes)
    }

    fn daemon(
        &self,
        config_file: Option<&Path>,
        environment: &Environment,
    ) -> Result<Daemon, Error> {
        Ok(Daemon {
            ca: self.ca.clone(),
            token: self.token(config_file, environment)?,
            ..Daemon::find(self.url.as_deref(), config_file, environment)?
        })
    }

    /// Returns the token to show. That of the data directory is for the daemon of the configuration alone:
    /// an address that is named may be anybody's.
    fn token(
        &self,
        config_file: Option<&Path>,
        environment: &Environment,
    ) -> Result<Option<String>, Error> {
        if let Some(file) = &self.token_file {
            return read(file).and_then(|text| usable(&text, &file.display().to_string()));
        }
        if let Some(text) = config::variable(TOKEN_VARIABLE) {
            return usable(&text.to_string_lossy(), TOKEN_VARIABLE);
        }
        if self.url.is_some() {
            return Ok(None);
        }
        let config = ConfigFile::find(config_file, environment)?;
        if config.listeners.first().is_some_and(|listener| !listener.tokens) {
            return Ok(None);
        }
        match App::new(environment, config, Named::default()).data_dir() {
            Ok(directory) if directory.join(FIRST_TOKEN).exists() => {
                let file = directory.join(FIRST_TOKEN);
                read(&file).and_then(|text| usable(&text, &file.display().to_string()))
            }
            _ => Ok(None),
        }
    }
}

/// Which adapter, and whose.
#[derive(clap::Args)]
pub(in crate::cli) struct Release {
    /// The id of the adapter.
    #[arg(value_name = "ID")]
    adapter_id: String,
    /// The daemon's configuration file.
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// The daemon's address [default: that of the first listener of router.toml, on this machine].
    #[arg(long, value_name = "URL", conflicts_with = "config_file")]
    url: Option<String>,
    /// The file with the token to show, which needs scope admin.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificates to trust, as PEM, instead of those that browsers trust.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Lets an adapter of a daemon out of quarantine. The answer is no if it was not in it.
pub(super) fn release(arguments: &Release, environment: &Environment) -> Result<Answer, Error> {
    let Release { adapter_id, config_file, url, token_file, ca, format } = arguments;
    let (url, token_file, ca) = (url.clone(), token_file.clone(), ca.clone());
    let running = Running { running: true, url, token_file, ca };
    let daemon = running.daemon(config_file.as_deref(), environment)?;
    let path = format!("{PATH}/{}/release", encoded(adapter_id));
    let (status, body) = daemon.post(&path, MAX_ANSWER)?;
    let released = match (status, body.get("released"), body.get("code")) {
        (200, Some(Value::Bool(released)), _) => *released,
        (400.., _, Some(Value::String(code))) => {
            return Err(refused(&daemon, (code, "admin"), &body));
        }
        _ => return Err(daemon.stranger(&path, status)),
    };
    let mut output = Output::new(environment);
    let shown = visible(adapter_id);
    match (format, released) {
        (Format::Json, _) => output.value(&body)?,
        (_, true) => output.line(&format!("released: {shown}"))?,
        (_, false) => output.line(&format!("not in quarantine: {shown}"))?,
    }
    Ok(if released { Answer::Yes } else { Answer::No })
}

/// Writes a text so that it is one part of a path.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let part = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(part).collect()
}

fn read(file: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let opened = open_regular(file).map(|opened| opened.take(MAX_TOKEN));
    opened.and_then(|mut opened| opened.read_to_string(&mut text)).map_err(|error| {
        Error::usage(
            format!("cannot read the token in {}: {error}", file.display()),
            format!("name a file with a token with --token-file, or put one into {TOKEN_VARIABLE}"),
        )
    })?;
    Ok(text)
}

/// Returns a token if it can stand in a request. It is not repeated.
fn usable(text: &str, place: &str) -> Result<Option<String>, Error> {
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::usage(
            format!("{place} holds no token"),
            "`nexus-router token new NAME --scope read` prints one",
        ));
    }
    Ok(Some(token.to_owned()))
}

/// Returns the error about a daemon that does not answer the question.
fn refused(daemon: &Daemon, (code, scope): (&str, &str), problem: &Value) -> Error {
    let text = |key: &str| problem.get(key).and_then(Value::as_str).unwrap_or_default();
    let hint = match (code, text("hint")) {
        ("TOKEN_MISSING" | "TOKEN_INVALID", _) => format!(
            "name a file with a token of scope {scope} with --token-file, or put one into \
             {TOKEN_VARIABLE}; `nexus-router token new NAME --scope {scope}` makes one"
        ),
        (_, "") => format!("`nexus-router explain {code}` tells what it means"),
        (_, hint) => hint.to_owned(),
    };
    Error::usage(format!("{} refuses: {code}: {}", daemon.base, text("detail")), hint)
}

/// Returns the cells of an adapter. What the daemon does not say is a dash.
fn row(adapter: &Value) -> Vec<String> {
    let cell = |key: &str| match adapter.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Int(number)) => number.to_string(),
        _ => "-".to_owned(),
    };
    let capabilities = match adapter.get("capabilities") {
        Some(Value::Array(names)) if !names.is_empty() => {
            let mut names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.sort_unstable();
            names.join(",")
        }
        _ => "-".to_owned(),
    };
    let state = match adapter.get("until").and_then(Value::as_str) {
        Some(until) => format!("{} until {until}", cell("state")),
        None => cell("state"),
    };
    let cells = [
        cell("adapter_id"),
        cell("adapter_kind"),
        capabilities,
        cell("isolation"),
        state,
        cell("workers"),
        cell("restarts"),
        cell("last_end"),
    ];
    cells.iter().map(|cell| shortened(&visible(cell))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    #[test]
    fn a_row_tells_how_an_adapter_does_as_far_as_it_is_known() {
        let shown = |text: &str| row(&parse(text.as_bytes(), Limits::REQUEST).unwrap());
        let whole = r#"{"adapter_id": "shop", "adapter_kind": "http", "capabilities": ["external", "apply"],
            "isolation": "worker", "state": "quarantined", "workers": 0, "restarts": 5,
            "last_end": "crashed with SIGSEGV (signal 11)", "until": "2030-01-01T00:00:00Z"}"#;
        assert_eq!(
            shown(whole),
            [
                "shop",
                "http",
                "apply,external",
                "worker",
                "quarantined until 2030-01-01T00:00:00Z",
                "0",
                "5",
                "crashed with SIGSEGV (signal 11)"
            ]
        );
        let bare =
            r#"{"adapter_id": "a\u001b[2J", "capabilities": [], "until": null, "last_end": null}"#;
        let bare = shown(bare);
        assert!(bare[0].starts_with('a') && !bare[0].contains('\u{1b}'), "{bare:?}");
        assert_eq!(bare[1..], ["-"; 7]);
        assert_eq!(shown("1"), ["-"; 8]);
    }

    #[test]
    fn an_id_is_one_part_of_a_path() {
        assert_eq!(encoded("shop-1.a_b~"), "shop-1.a_b~");
        assert_eq!(encoded("a/../b?c d\u{e4}%"), "a%2F..%2Fb%3Fc%20d%C3%A4%25");
    }

    #[test]
    fn a_token_is_one_word_and_is_not_repeated() {
        assert_eq!(usable(" nxr_x\n", "f").unwrap().as_deref(), Some("nxr_x"));
        for bad in ["", "\n", "hunter22 hunter22", "hunter22\u{e4}"] {
            let error = usable(bad, "the file").unwrap_err().to_string();
            assert_eq!(error, "the file holds no token");
        }
    }
}
