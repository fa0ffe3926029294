//! How a verb reaches a running daemon: which one, whom it trusts, and the token that it shows.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::Error;
use super::daemon::Daemon;
use crate::app::{App, Named};
use crate::config::{self, ConfigFile, Environment, TOKEN_VARIABLE};
use crate::files::open_regular;
use crate::json::Value;
use crate::service::FIRST_TOKEN;

/// The largest file with a token. One has less than a hundred characters.
const MAX_TOKEN: u64 = 4096;

/// Which daemon, and how it is asked.
#[derive(Clone, Default, clap::Args)]
pub(super) struct Reach {
    /// The daemon's address [default: that of the first listener of router.toml, on this machine].
    #[arg(long, value_name = "URL", conflicts_with = "config_file")]
    pub(super) url: Option<String>,
    /// The file with the token to show [default: the token in `NEXUS_ROUTER_TOKEN`, or, without --url, the
    /// first one of the data directory].
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// The certificates to trust, as PEM, instead of those that browsers trust.
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
}

impl Reach {
    /// Finds the daemon, and the token to show it.
    pub(super) fn daemon(
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

/// Writes a text so that it is one part of a path.
pub(super) fn encoded(text: &str) -> String {
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
pub(super) fn refused(daemon: &Daemon, (code, scope): (&str, &str), problem: &Value) -> Error {
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

#[cfg(test)]
mod tests {
    use super::*;

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
