//! Where a secret comes from: a variable of the environment, or a file.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::error::{Error, Fault};
use crate::files::open_regular;

/// No key or token comes near this.
pub(super) const MAX_LENGTH: usize = 64 * 1024;

/// Where a secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A variable of the environment, written `env:NAME`.
    Env(String),
    /// A file, written `file:PATH`. One line end at its end does not belong to the secret.
    File(PathBuf),
}

impl std::str::FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => Ok(Self::Env(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err(Error::Source),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Env(variable) => write!(f, "env:{variable}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl Source {
    /// Reads the secret of a name.
    ///
    /// # Errors
    /// When it is not there, is no text, or is too short to be told from ordinary text.
    pub fn read(
        &self,
        name: &str,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<String, Error> {
        let fault = |fault| Error::Value { name: name.to_owned(), fault };
        let value = match self {
            Self::Env(variable) => environment(variable)
                .ok_or_else(|| Error::Unset { name: name.to_owned(), variable: variable.clone() })?
                .into_encoded_bytes(),
            Self::File(path) => read_file(path).map_err(|source| Error::Unreadable {
                name: name.to_owned(),
                path: path.clone(),
                source,
            })?,
        };
        if value.len() > MAX_LENGTH {
            return Err(fault(Fault::TooLong));
        }
        let mut value = String::from_utf8(value).map_err(|_| fault(Fault::NotUtf8))?;
        if matches!(self, Self::File(_)) && value.ends_with('\n') {
            value.pop();
            value.truncate(value.strip_suffix('\r').map_or(value.len(), str::len));
        }
        if value.trim().len() < super::MIN_LENGTH {
            return Err(fault(Fault::TooShort));
        }
        Ok(value)
    }
}

/// Reads a file, but no more than shows that it is too long.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_LENGTH).unwrap_or(u64::MAX).saturating_add(3);
    open_regular(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}
