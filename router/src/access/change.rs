//! How tokens come and go: made, listed and revoked in their file, by whoever holds its lock.

use std::path::Path;

use super::file;
use super::token::{id_in, is_name};
use super::{Error, Scope, Token, TokenText, Visibility};
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
    /// The runs that its bearer sees.
    pub sees: Visibility,
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
            sees: self.sees,
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
    let new = NewToken {
        name: FIRST.to_owned(),
        scope: Scope::Admin,
        role: None,
        sees: Visibility::Own,
        expires_at: None,
    };
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

/// Removes the file with the text of a token that is revoked, if it is of that token: whoever finds it later
/// would take it for one that is good. Returns whether it was.
///
/// # Errors
/// When the file cannot be removed.
pub fn forget_text(secret_file: &Path, revoked: &Token) -> Result<bool, Error> {
    let Ok(text) = std::fs::read_to_string(secret_file) else { return Ok(false) };
    if Digest::of(text.trim_end().as_bytes()) != revoked.digest {
        return Ok(false);
    }
    std::fs::remove_file(secret_file)
        .map_err(|source| Error::Unwritable { path: secret_file.to_owned(), source })?;
    Ok(true)
}

/// Says whether a name or an id means a token. No name of one is the id of another.
fn is(token: &Token, name_or_id: &str) -> bool {
    token.name == name_or_id || token.id == name_or_id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::TokenBook;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn desk() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data/tokens.json");
        (directory, path)
    }

    fn named(name: &str) -> NewToken {
        NewToken {
            name: name.to_owned(),
            scope: Scope::Apply,
            role: Some(Role::Scout),
            sees: Visibility::All,
            expires_at: Some(Timestamp::from_millis(1_900_000_000_000)),
        }
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn tokens_are_made_listed_and_revoked() {
        let (_directory, path) = desk();
        assert!(list(&path).unwrap().is_empty());
        let missing = revoke(&path, "ci").unwrap_err();
        assert_eq!(missing.code(), "TOKEN_NOT_FOUND");
        assert!(!path.parent().unwrap().exists(), "whoever only looks makes nothing");
        let (ci, _) = create(&path, &named("ci"), NOW).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let (desk, _) = create(&path, &named("desk"), NOW).unwrap();
        let (other, text) = create(&path, &named("other"), NOW).unwrap();
        assert_eq!(list(&path).unwrap(), [ci.clone(), desk.clone(), other.clone()]);
        let taken = create(&path, &named("ci"), NOW).unwrap_err();
        assert_eq!(taken.code(), "TOKEN_EXISTS");
        assert_eq!(create(&path, &named(&desk.id), NOW).unwrap_err().code(), "TOKEN_EXISTS");
        assert_eq!(revoke(&path, "ci").unwrap(), ci);
        assert_eq!(revoke(&path, &desk.id).unwrap(), desk);
        assert_eq!(revoke(&path, text.as_str()).unwrap(), other);
        assert!(list(&path).unwrap().is_empty());
        let files: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().flatten().collect();
        assert_eq!(files.len(), 2, "the tokens and the lock: {files:?}");
    }

    #[test]
    fn a_token_in_place_of_a_name_is_not_shown() {
        let (_directory, path) = desk();
        let text = TokenText::generate().unwrap();
        let error = create(&path, &named(text.as_str()), NOW).unwrap_err();
        assert_eq!(error.code(), "TOKEN_NAME_INVALID");
        assert_eq!(error.to_string(), "'nxr_…' cannot be the name of a token");
        let error = revoke(&path, text.as_str()).unwrap_err().to_string();
        assert!(error.contains(text.id()) && !error.contains(&text.as_str()[17..]), "{error}");
        let error = revoke(&path, &text.as_str()[..59]).unwrap_err().to_string();
        assert!(error.contains("'nxr_…'"), "{error}");
    }

    #[test]
    fn no_change_is_lost() {
        let (_directory, path) = desk();
        std::thread::scope(|scope| {
            for worker in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for round in 0..10 {
                        create(path, &named(&format!("w{worker}-{round}")), NOW).unwrap();
                        // Readers need no lock.
                        assert!(!list(path).unwrap().is_empty());
                    }
                    revoke(path, &format!("w{worker}-3")).unwrap();
                });
            }
        });
        let mut names: Vec<String> =
            list(&path).unwrap().into_iter().map(|token| token.name).collect();
        names.sort();
        let expected = (0..8).flat_map(|worker| {
            (0..10).filter(|round| *round != 3).map(move |round| format!("w{worker}-{round}"))
        });
        assert_eq!(names, expected.collect::<Vec<_>>());
    }

    #[test]
    fn first_start_makes_one_token_once() {
        let (_directory, path) = desk();
        let secret_file = path.with_file_name("run/admin.token");
        std::fs::create_dir_all(secret_file.parent().unwrap()).unwrap();
        // As an earlier start may have left it that could not record its token.
        std::fs::write(&secret_file, "nxr_stale").unwrap();
        let made: Vec<Token> = std::thread::scope(|scope| {
            let start = || first_start(&path, &secret_file, NOW).unwrap();
            let starts: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
            starts.into_iter().filter_map(|start| start.join().unwrap()).collect()
        });
        assert_eq!(made.len(), 1);
        assert_eq!((made[0].name.as_str(), made[0].scope), ("admin", Scope::Admin));
        assert_eq!(mode(&secret_file), 0o600);
        let text = std::fs::read_to_string(&secret_file).unwrap();
        let book = TokenBook::open(&path).unwrap();
        assert_eq!(*book.check(text.trim_end(), NOW).unwrap(), made[0]);
        // Any token will do; and nothing needs to be there but the tokens.
        create(&path, &named("ci"), NOW).unwrap();
        revoke(&path, "admin").unwrap();
        std::fs::remove_file(&secret_file).unwrap();
        assert_eq!(first_start(&path, &secret_file, NOW).unwrap(), None);
        assert!(!secret_file.exists());
    }

    #[test]
    fn first_start_records_nothing_that_it_could_not_hand_over() {
        let (_directory, path) = desk();
        let secret_file = path.with_file_name("admin.token");
        std::fs::create_dir_all(&secret_file).unwrap();
        let error = first_start(&path, &secret_file, NOW).unwrap_err();
        assert_eq!(error.code(), "TOKEN_FILE_UNWRITABLE");
        assert!(list(&path).unwrap().is_empty());
        std::fs::remove_dir(&secret_file).unwrap();
        // A link is replaced, not followed.
        let elsewhere = path.with_file_name("elsewhere");
        std::fs::write(&elsewhere, "untouched").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &secret_file).unwrap();
        assert!(first_start(&path, &secret_file, NOW).unwrap().is_some());
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "untouched");
        assert!(secret_file.symlink_metadata().unwrap().is_file());
    }
}
