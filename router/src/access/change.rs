//! How tokens come and go: made, listed and revoked in their file, by whoever holds its lock.

use std::path::Path;

use super::file;
use super::token::{id_in, is_name};
use super::{Error, Scope, Token, TokenText};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::role::Role;

/// The name of the token that the first start makes.
const FIRST: &str = "admin";

/// What a new token shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Its name: 1 to 64 letters, digits, `_`, `.` and `-`.
    pub name: String,
    /// What its bearer may do.
    pub scope: Scope,
    /// The role that bounds its bearer further, if any.
    pub role: Option<Role>,
    /// When it stops being good, if ever.
    pub expires_at: Option<Timestamp>,
}

impl NewToken {
    fn make(&self, path: &Path, now: Timestamp) -> Result<(Token, TokenText), Error> {
        let text = TokenText::generate()
            .map_err(|source| Error::Unwritable { path: path.to_owned(), source })?;
        let token = Token {
            id: text.id().to_owned(),
            name: self.name.clone(),
            scope: self.scope,
            role: self.role,
            created_at: now,
            expires_at: self.expires_at,
            digest: Digest::of(text.as_str().as_bytes()),
        };
        Ok((token, text))
    }
}

/// Makes a token and adds it to a file, which is made if it is not there. Its text is had only here.
///
/// # Errors
/// When the name is taken or cannot be one, or the file cannot be used.
pub fn create(path: &Path, new: &NewToken, now: Timestamp) -> Result<(Token, TokenText), Error> {
    if !is_name(&new.name) {
        return Err(Error::Name { name: new.name.clone() });
    }
    file::change(path, |tokens| {
        if let Some(taken) = tokens.iter().find(|token| is(token, &new.name)) {
            let (name, created_at) = (new.name.clone(), taken.created_at);
            return Err(Error::Exists { name, created_at });
        }
        let (token, text) = new.make(path, now)?;
        tokens.push(token.clone());
        Ok((token, text))
    })
}

/// Removes a token, given by its name, by its id, or by its whole text.
///
/// # Errors
/// When there is no such token, or the file cannot be used.
pub fn revoke(path: &Path, name_or_id: &str) -> Result<Token, Error> {
    let wanted = id_in(name_or_id).unwrap_or(name_or_id);
    let missing = || Error::NotFound { wanted: wanted.to_owned(), path: path.to_owned() };
    // Looked for before anything is made: a wrong path must not become a directory.
    if !list(path)?.iter().any(|token| is(token, wanted)) {
        return Err(missing());
    }
    file::change(path, |tokens| {
        let at = tokens.iter().position(|token| is(token, wanted)).ok_or_else(missing)?;
        Ok(tokens.remove(at))
    })
}

/// Lists the tokens of a file, the oldest first. Without a file there are none.
///
/// # Errors
/// When the file cannot be used.
pub fn list(path: &Path) -> Result<Vec<Token>, Error> {
    Ok(file::read(path)?.0)
}

/// Makes the first token, named `admin`, if there is none at all, and writes its text into `secret_file`,
/// which only its owner can read. Returns the token if one was made.
///
/// # Errors
/// When one of the files cannot be used.
pub fn first_start(
    path: &Path,
    secret_file: &Path,
    now: Timestamp,
) -> Result<Option<Token>, Error> {
    // Where there are tokens, nothing needs to be writable.
    if !list(path)?.is_empty() {
        return Ok(None);
    }
    let new =
        NewToken { name: FIRST.to_owned(), scope: Scope::Admin, role: None, expires_at: None };
    file::change(path, |tokens| {
        if !tokens.is_empty() {
            return Ok(None);
        }
        let (token, text) = new.make(path, now)?;
        // Written first: if the token cannot be recorded, the next start replaces what is no token.
        let line = format!("{}\n", text.as_str());
        file::make_directory(secret_file)?;
        file::write_whole(secret_file, line.as_bytes())?;
        tokens.push(token.clone());
        Ok(Some(token))
    })
}

/// Says whether a name or an id means a token. No name of one is the id of another.
fn is(token: &Token, name_or_id: &str) -> bool {
    token.name == name_or_id || token.id == name_or_id
}
