//! `nexus-router contract manifest`: its verbs, and what verbs that read manifests share.

mod build;
mod verify;

pub(super) use verify::Held;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::super::output::tell;
use super::super::{Answer, Error};
use super::fetch::{FetchError, is_url, shown_url};
use crate::config::Environment;
use crate::files;
use crate::json::Object;
use crate::python_text::visible;
use crate::signal::manifest::{LIMITS, Malformed, read_object};
use crate::signal::{Publishers, Trust};

const BUILD_HELP: &str = "\
Examples:
  nexus-router contract manifest build contracts --key acme.pem --publisher-id acme.publisher --out manifest.json
  nexus-router contract manifest build contracts other.entry.json --key acme.pem --publisher-id acme.publisher \
--previous old.json --valid-for 90 --out manifest.json

Of a directory, files that are named adapter_contract.json, *.adapter_contract.json and *.entry.json are taken. Entries that
others signed are kept as they are.";

const VERIFY_HELP: &str = "\
Examples:
  nexus-router contract manifest verify manifest.json --public-key-base64 KEY --require-signature
  nexus-router contract manifest verify manifest.json --publishers publishers --require-freshness --previous old.json
  nexus-router contract manifest verify https://example.com/manifest.json --fetch --publishers publishers \
--require-signature

Without a key no signature is checked, and no_public_key says so; --require-signature makes that an error. Exits 0 if the
manifest holds, and 1 if not.";

#[derive(Subcommand)]
pub(in crate::cli) enum Verb {
    /// Build a manifest of contracts, and sign it.
    #[command(after_help = BUILD_HELP)]
    Build(build::Arguments),
    /// Verify a manifest: hashes, signatures, collisions, freshness.
    #[command(after_help = VERIFY_HELP)]
    Verify(verify::Arguments),
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Build(arguments) => build::run(&arguments, environment),
        Verb::Verify(arguments) => verify::run(&arguments, environment),
    }
}

/// Whose signatures are believed.
#[derive(clap::Args)]
pub(super) struct Keys {
    /// The public key of the publisher: the base64 of its 32 bytes.
    #[arg(long, value_name = "KEY", conflicts_with = "publishers")]
    pub(super) public_key_base64: Option<String>,
    /// Publisher documents: a file, or a directory of them. The key is chosen by publisher id and key id.
    #[arg(long, value_name = "PATH")]
    pub(super) publishers: Option<PathBuf>,
}

impl Keys {
    /// Reads the keys. What is wrong with them is told, and then there are none.
    pub(super) fn trust(&self) -> Result<Option<Trust>, Error> {
        let Some(path) = &self.publishers else {
            return Ok(Some(Trust::in_key(self.public_key_base64.as_deref().unwrap_or_default())));
        };
        let failed = |error: &dyn fmt::Display| {
            let message = format!("cannot read {}: {error}", path.display());
            Error::usage(message, "name a publisher document, or a directory of them")
        };
        let files = match std::fs::metadata(path).map_err(|error| failed(&error))?.is_dir() {
            true => documents(path).map_err(|error| failed(&error))?,
            false => vec![path.clone()],
        };
        let mut publishers = Publishers::default();
        let mut is_good = true;
        for file in files {
            let shown = file.display().to_string();
            let bytes = files::read_bounded(&file, LIMITS.bytes).map_err(|it| failed(&it))?;
            let added = crate::json::parse(&bytes, LIMITS)
                .map_err(|error| vec![error.to_string()])
                .and_then(|document| publishers.add(&document));
            if let Err(wrong) = added {
                tell_all(&shown, &wrong);
                is_good = false;
            }
        }
        if is_good && publishers.is_empty() {
            return Err(failed(&"there is no publisher document"));
        }
        Ok(is_good.then_some(Trust::Publishers(publishers)))
    }
}

/// Returns the JSON files of a directory, in order.
fn documents(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for child in std::fs::read_dir(directory)? {
        let path = child?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if name.is_some_and(|name| name.ends_with(".json") && !name.starts_with('.')) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Why a document was not read.
pub(super) enum Unread {
    /// It is a URL, where only files are read.
    Remote(String),
    /// It is a URL, and `--fetch` is missing.
    FetchNotAllowed(String),
    /// It cannot be fetched.
    Fetch(String, FetchError),
    /// There is no such file.
    Missing(String),
    /// It cannot be read.
    Failed(String, io::Error),
    /// It is not what it should be.
    Malformed(String, Malformed),
}

impl Unread {
    /// Tells it as the AiGentsy tools do: with the name of an exception in front.
    pub(super) fn exception(&self) -> String {
        match self {
            Self::Remote(_) | Self::FetchNotAllowed(_) => {
                format!("NetworkRefused: {self}; {}", self.hint())
            }
            Self::Fetch(url, error) => {
                format!("{}: {url}: {error}; {}", error.exception(), self.hint())
            }
            Self::Missing(path) => format!("FileNotFoundError: manifest not found: {path}"),
            Self::Failed(path, error) => format!("OSError: {path}: {error}"),
            Self::Malformed(_, Malformed::Json(error)) => format!("JSONDecodeError: {error}"),
            Self::Malformed(_, Malformed::NoObject(_)) => format!("TypeError: {self}"),
        }
    }

    /// Answers for a verb that has nothing else to say: no for what is wrong, and an error for what cannot be read.
    pub(super) fn answer(self) -> Result<Answer, Error> {
        if let Self::Malformed(path, error) = &self {
            tell_all(path, &[error.to_string()]);
            return Ok(Answer::No);
        }
        Err(self.into())
    }
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        let hint = unread.hint();
        Self::usage(unread.to_string(), hint)
    }
}

impl Unread {
    /// Returns what to do about it.
    const fn hint(&self) -> &'static str {
        match self {
            Self::Remote(_) => "download the document, review it, and name the file",
            Self::FetchNotAllowed(_) => {
                "add --fetch to read it from the network, or download it and name the file"
            }
            Self::Fetch(_, error) => error.hint(),
            Self::Missing(_) | Self::Failed(..) => "check the path",
            Self::Malformed(..) => "check that it is the right document, and that it is whole",
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(url) => write!(f, "{url} is a URL, and only files are read here"),
            Self::FetchNotAllowed(url) => {
                write!(f, "{url} is a URL, and nothing is fetched without --fetch")
            }
            Self::Fetch(url, error) => write!(f, "cannot fetch {url}: {error}"),
            Self::Missing(path) => write!(f, "file not found: {path}"),
            Self::Failed(path, error) => write!(f, "cannot read {path}: {error}"),
            Self::Malformed(path, Malformed::Json(error)) => {
                write!(f, "{path} is not JSON: {error}")
            }
            Self::Malformed(path, error) => write!(f, "{path}: {error}"),
        }
    }
}

/// Reads a JSON object from a file.
pub(super) fn read(path: &str) -> Result<Object, Unread> {
    if is_url(path) {
        return Err(Unread::Remote(shown_url(path)));
    }
    let bytes =
        files::read_named(Path::new(path), LIMITS.bytes).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unread::Missing(path.to_owned()),
            _ => Unread::Failed(path.to_owned(), error),
        })?;
    read_object(&bytes).map_err(|error| Unread::Malformed(path.to_owned(), error))
}

/// Tells people what is wrong with a file.
pub(super) fn tell_all(file: &str, wrong: &[String]) {
    for wrong in wrong {
        tell(&visible(&format!("✗ {file}: {wrong}")));
    }
}

/// Writes a finding as a command of GitHub workflows.
pub(super) fn annotation(is_error: bool, file: &str, title: &str, message: &str) -> String {
    let escaped = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| visible(&escaped(text).replace(':', "%3A").replace(',', "%2C"));
    format!(
        "::{} file={},title={}::{}",
        if is_error { "error" } else { "warning" },
        property(file),
        property(title),
        visible(&escaped(message))
    )
}
