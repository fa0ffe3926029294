//! The tokens that are good now: looked up for every request, read again when their file has changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use subtle::ConstantTimeEq as _;

use super::file::{self, Seen};
use super::token::id_in;
use super::{Error, Refusal, Token};
use crate::clock::Timestamp;
use crate::digest::Digest;

/// The tokens of a file, in memory.
#[derive(Debug)]
pub struct TokenBook {
    path: PathBuf,
    pages: RwLock<Arc<Pages>>,
    /// Held by whoever reads the file, so that an older state never replaces a newer one.
    reading: Mutex<()>,
}

#[derive(Debug)]
struct Pages {
    tokens: HashMap<String, Arc<Token>>,
    /// The file that they are from; none while there is no file.
    seen: Option<Seen>,
}

impl Pages {
    fn read(path: &Path) -> Result<Self, Error> {
        let (tokens, seen) = file::read(path)?;
        let tokens = tokens.into_iter().map(|token| (token.id.clone(), Arc::new(token))).collect();
        Ok(Self { tokens, seen })
    }
}

impl TokenBook {
    /// Reads the tokens of a file. Without a file there are none.
    ///
    /// # Errors
    /// When the file cannot be read, could be read or changed by others, or is not what it should be.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let pages = RwLock::new(Arc::new(Pages::read(path)?));
        Ok(Self { path: path.to_owned(), pages, reading: Mutex::new(()) })
    }

    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of tokens, whether good or expired.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages().tokens.len()
    }

    /// Says whether there is no token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds the token of which `presented` is the text.
    ///
    /// How long it takes tells nothing about the secret part of any token, nor whether an id is known.
    ///
    /// # Errors
    /// When it is the text of no token that is good at the moment `now`.
    pub fn check(&self, presented: &str, now: Timestamp) -> Result<Arc<Token>, Refusal> {
        let id = id_in(presented).ok_or(Refusal::Malformed)?;
        let pages = self.pages();
        let found = pages.tokens.get(id);
        // Without a token to compare with, the same work is done all the same.
        let expected = found.map_or(&Digest::ZERO, |token| &token.digest);
        let same = Digest::of(presented.as_bytes()).as_bytes().ct_eq(expected.as_bytes());
        match found {
            None => Err(Refusal::Unknown),
            Some(_) if !bool::from(same) => Err(Refusal::Wrong),
            Some(token) if token.is_expired(now) => Err(Refusal::Expired),
            Some(token) => Ok(Arc::clone(token)),
        }
    }

    /// Reads the file again if it has changed, and says whether there are other tokens now. Without the
    /// file there are none any more.
    ///
    /// # Errors
    /// When the file cannot be used; then the tokens stay what they were, and every call says why until
    /// the file is good again.
    pub fn refresh(&self) -> Result<bool, Error> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.pages();
        if file::is_as_seen(&self.path, before.seen.as_ref())? {
            return Ok(false);
        }
        let now = Pages::read(&self.path)?;
        let changed = now.tokens != before.tokens;
        *self.pages.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(now);
        Ok(changed)
    }

    fn pages(&self) -> Arc<Pages> {
        Arc::clone(&self.pages.read().unwrap_or_else(PoisonError::into_inner))
    }
}
