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

    /// Returns the tokens, whether good or expired, in the order of their names.
    #[must_use]
    pub fn tokens(&self) -> Vec<Arc<Token>> {
        let mut tokens: Vec<Arc<Token>> = self.pages().tokens.values().cloned().collect();
        tokens.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        tokens
    }

    /// Finds a token by its id, whether it is expired or not.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Arc<Token>> {
        self.pages().tokens.get(id).cloned()
    }

    /// Finds a token by its id, unless it is expired.
    #[must_use]
    pub fn find_valid(&self, id: &str, now: Timestamp) -> Option<Arc<Token>> {
        self.find(id).filter(|token| !token.is_expired(now))
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
        self.refresh_with(|| ())
    }

    /// As [`refresh`](Self::refresh). Calls `changed` before anything can read the new tokens.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    pub fn refresh_with(&self, changed: impl FnOnce()) -> Result<bool, Error> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.pages();
        if file::is_as_seen(&self.path, before.seen.as_ref())? {
            return Ok(false);
        }
        let now = Pages::read(&self.path)?;
        let differs = now.tokens != before.tokens;
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        *pages = Arc::new(now);
        if differs {
            changed();
        }
        drop(pages);
        Ok(differs)
    }

    fn pages(&self) -> Arc<Pages> {
        Arc::clone(&self.pages.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NewToken, Scope, TokenText, Visibility, create, revoke};
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    struct Desk {
        directory: tempfile::TempDir,
    }

    impl Desk {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().unwrap() }
        }

        fn path(&self) -> PathBuf {
            self.directory.path().join("tokens.json")
        }

        fn make(&self, name: &str, expires_at: Option<i64>) -> (Token, TokenText) {
            let expires_at = expires_at.map(Timestamp::from_millis);
            let name = name.to_owned();
            let new =
                NewToken { name, scope: Scope::Run, role: None, sees: Visibility::Own, expires_at };
            create(&self.path(), &new, NOW).unwrap()
        }
    }

    /// Returns the text with another secret letter, which is a token's text all the same.
    fn forged(text: &TokenText) -> String {
        let mut bytes = text.as_str().as_bytes().to_vec();
        bytes[20] = if bytes[20] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_token_is_good_until_it_expires() {
        let desk = Desk::new();
        let (token, text) = desk.make("ci", None);
        let (_, brief) = desk.make("brief", Some(NOW.as_millis() + 10));
        let book = TokenBook::open(&desk.path()).unwrap();
        assert_eq!(*book.check(text.as_str(), NOW).unwrap(), token);
        assert_eq!(token.id, text.id());
        assert!(book.check(brief.as_str(), Timestamp::from_millis(NOW.as_millis() + 9)).is_ok());
        let at_its_end = Timestamp::from_millis(NOW.as_millis() + 10);
        assert_eq!(book.check(brief.as_str(), at_its_end), Err(Refusal::Expired));
        // Only whoever has the token learns, in the audit, that it is expired.
        assert_eq!(book.check(&forged(&brief), at_its_end), Err(Refusal::Wrong));
    }

    #[test]
    fn what_is_no_token_is_told_apart_for_the_audit() {
        let desk = Desk::new();
        let (_, text) = desk.make("ci", None);
        let book = TokenBook::open(&desk.path()).unwrap();
        assert_eq!(book.check(&forged(&text), NOW), Err(Refusal::Wrong));
        let stranger = TokenText::generate().unwrap();
        assert_eq!(book.check(stranger.as_str(), NOW), Err(Refusal::Unknown));
        // Neither the id nor the digest, which stand in the file, are good for anything.
        let digest = Digest::of(text.as_str().as_bytes()).to_string();
        for bad in ["", "ci", text.id(), &digest, &format!("{} ", text.as_str())] {
            assert_eq!(book.check(bad, NOW), Err(Refusal::Malformed));
        }
        let empty = TokenBook::open(&desk.directory.path().join("none.json")).unwrap();
        assert!(empty.is_empty());
        assert_eq!(empty.check(text.as_str(), NOW), Err(Refusal::Unknown));
    }

    #[test]
    fn changes_are_seen() {
        let desk = Desk::new();
        let book = TokenBook::open(&desk.path()).unwrap();
        assert!(!book.refresh().unwrap());
        let (_, text) = desk.make("ci", None);
        assert!(book.check(text.as_str(), NOW).is_err());
        assert!(book.refresh().unwrap());
        assert!(book.check(text.as_str(), NOW).is_ok());
        assert!(!book.refresh().unwrap());
        // Each state of a file is another one, however fast they follow each other.
        for round in 0..50 {
            let name = format!("t{round:02}");
            let (_, text) = desk.make(&name, None);
            assert!(book.refresh().unwrap());
            assert!(book.check(text.as_str(), NOW).is_ok());
            revoke(&desk.path(), &name).unwrap();
            assert!(book.refresh().unwrap());
            assert_eq!(book.check(text.as_str(), NOW), Err(Refusal::Unknown));
        }
        std::fs::remove_file(desk.path()).unwrap();
        assert!(book.refresh().unwrap());
        assert!(book.is_empty());
    }

    #[test]
    fn a_bad_file_keeps_the_tokens_and_says_why() {
        let desk = Desk::new();
        let (_, text) = desk.make("ci", None);
        let book = TokenBook::open(&desk.path()).unwrap();
        let good = std::fs::read(desk.path()).unwrap();
        std::fs::write(desk.path(), "{").unwrap();
        for _ in 0..2 {
            assert_eq!(book.refresh().unwrap_err().code(), "TOKEN_FILE_INVALID");
            assert!(book.check(text.as_str(), NOW).is_ok());
        }
        std::fs::write(desk.path(), good).unwrap();
        assert!(!book.refresh().unwrap(), "the tokens are what they were");
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(desk.path(), mode(0o640)).unwrap();
        assert_eq!(book.refresh().unwrap_err().code(), "TOKEN_FILE_UNSAFE");
        assert!(book.check(text.as_str(), NOW).is_ok());
        std::fs::set_permissions(desk.path(), mode(0o600)).unwrap();
        assert!(!book.refresh().unwrap());
    }

    #[test]
    fn nothing_secret_is_shown() {
        let desk = Desk::new();
        let (token, text) = desk.make("ci", None);
        let book = TokenBook::open(&desk.path()).unwrap();
        let shown = format!("{token:?} {text:?} {book:?}");
        let digest = Digest::of(text.as_str().as_bytes()).to_string();
        assert!(shown.contains("ci") && !shown.contains(&digest), "{shown}");
        assert!(!shown.contains(&text.as_str()[17..]), "{shown}");
        let file = std::fs::read_to_string(desk.path()).unwrap();
        assert!(file.contains(&digest) && !file.contains(&text.as_str()[17..]), "{file}");
    }
}
