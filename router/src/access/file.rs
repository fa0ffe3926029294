//! The file with the tokens: readable by its owner alone, written whole, changed under a lock.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::form;
use super::{Error, Token};

/// The most bytes of the file.
const MAX_BYTES: u64 = 8 << 20;
/// The most tokens; so many fit into the bytes, however they are named.
const MAX_TOKENS: usize = 10_000;

/// A file as it was when it was read. It is kept open, so that no later file can have its inode.
#[derive(Debug)]
pub(super) struct Seen {
    _file: File,
    stamp: Stamp,
}

/// What changes with the contents or the mode of a file.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    mode: u32,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        Self {
            place: (metadata.dev(), metadata.ino()),
            mode: metadata.mode(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Says whether a file is still the one that was seen, or still not there.
pub(super) fn is_as_seen(path: &Path, seen: Option<&Seen>) -> Result<bool, Error> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(seen.is_some_and(|seen| seen.stamp == Stamp::from(&metadata))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(seen.is_none()),
        Err(source) => Err(Error::Unreadable { path: path.to_owned(), source }),
    }
}

/// Reads the tokens of a file, if it is there.
pub(super) fn read(path: &Path) -> Result<(Vec<Token>, Option<Seen>), Error> {
    let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
    let not_a_file = |kind| Error::NotAFile { path: path.to_owned(), kind };
    // Without O_NONBLOCK, opening a pipe would wait for a writer.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut options = OpenOptions::new();
    let file = match options.read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), None)),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            return Err(not_a_file("a symbolic link"));
        }
        Err(error) => return Err(unreadable(error)),
    };
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(not_a_file("a directory"));
    }
    if !metadata.is_file() {
        return Err(not_a_file("a device or a pipe"));
    }
    refuse_unsafe(path, &metadata)?;
    let mut text = Vec::new();
    (&file).take(MAX_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
    let invalid = |message| Error::Invalid { path: path.to_owned(), message };
    if text.len() as u64 > MAX_BYTES {
        return Err(invalid(format!("it has more than {MAX_BYTES} bytes")));
    }
    let tokens = form::read(&text).and_then(checked).map_err(invalid)?;
    Ok((tokens, Some(Seen { _file: file, stamp: Stamp::from(&metadata) })))
}

/// Refuses tokens that cannot be told apart, or are too many.
fn checked(tokens: Vec<Token>) -> Result<Vec<Token>, String> {
    if tokens.len() > MAX_TOKENS {
        return Err(format!("it has {} tokens, more than {MAX_TOKENS}", tokens.len()));
    }
    // In one set: whoever revokes by name or by id means one token.
    let mut known = HashSet::new();
    for (index, token) in tokens.iter().enumerate() {
        for (member, text) in [("id", &token.id), ("name", &token.name)] {
            if !known.insert(text) {
                return Err(format!("/tokens/{index}/{member} is '{text}', as in another token"));
            }
        }
    }
    Ok(tokens)
}

fn refuse_unsafe(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(Error::Mode { path: path.to_owned(), mode });
    }
    let user = rustix::process::geteuid().as_raw();
    let keeper = fs::metadata(directory(path)).map_or(user, |directory| directory.uid());
    if may_own(metadata.uid(), user, keeper) {
        Ok(())
    } else {
        Err(Error::Owner { path: path.to_owned(), owner: metadata.uid(), user })
    }
}

/// Says whose file is trusted: our own, root's, or, when root looks after it, that of the directory's owner.
const fn may_own(owner: u32, user: u32, keeper: u32) -> bool {
    owner == user || owner == 0 || owner == keeper
}

/// Changes the tokens of a file while nobody else does; a change that fails changes nothing.
pub(super) fn change<T>(
    path: &Path,
    change: impl FnOnce(&mut Vec<Token>) -> Result<T, Error>,
) -> Result<T, Error> {
    make_directory(path)?;
    // Held until the end. The file stays: whoever removed it would let two others lock two files.
    let _lock = lock(path)?;
    let (mut tokens, _) = read(path)?;
    let answer = change(&mut tokens)?;
    if tokens.len() > MAX_TOKENS {
        return Err(Error::Full { path: path.to_owned(), tokens: MAX_TOKENS });
    }
    write_whole(path, form::write(&tokens).as_bytes())?;
    Ok(answer)
}

fn lock(path: &Path) -> Result<File, Error> {
    let mut name = OsString::from(path);
    name.push(".lock");
    let name = PathBuf::from(name);
    let open = || -> io::Result<File> {
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(0o600).custom_flags(flags.bits().cast_signed());
        let file = options.open(&name)?;
        give_to_keeper(&file, directory(path))?;
        file.lock()?;
        Ok(file)
    };
    open().map_err(|source| Error::Unwritable { path: name.clone(), source })
}

/// Makes the directory of a file, for its owner alone, if it is not there.
pub(super) fn make_directory(path: &Path) -> Result<(), Error> {
    let directory = directory(path);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|source| Error::Unwritable { path: directory.to_owned(), source })
}

/// Writes a file that only its owner can read, so that it is there whole and for good, or as before.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let directory = directory(path);
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(".new-")
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(directory)?;
        file.write_all(bytes)?;
        give_to_keeper(file.as_file(), directory)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|source| Error::Unwritable { path: path.to_owned(), source })
}

/// What root writes belongs to whom the directory belongs: a daemon that runs as that user must be able to
/// read it.
fn give_to_keeper(file: &File, directory: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (keeper, now) = (fs::metadata(directory)?, file.metadata()?);
    if (keeper.uid(), keeper.gid()) != (now.uid(), now.gid()) {
        // A root without the right to give files away keeps them, and can read them.
        drop(fchown(file, Some(keeper.uid()), Some(keeper.gid())));
    }
    Ok(())
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Scope;
    use crate::clock::Timestamp;
    use crate::digest::Digest;

    const EMPTY: &str = r#"{"version":1,"tokens":[]}"#;

    fn write(path: &Path, text: &[u8], mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn desk() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens.json");
        (directory, path)
    }

    fn token(id: u32, name: &str) -> Token {
        Token {
            id: format!("{id:012}"),
            name: name.to_owned(),
            scope: Scope::Apply,
            role: Some(crate::role::Role::Envoy),
            sees: crate::access::Visibility::All,
            created_at: Timestamp::from_millis(0),
            expires_at: Some(Timestamp::from_millis(0)),
            digest: Digest::ZERO,
        }
    }

    #[test]
    fn a_file_that_others_can_read_or_write_is_refused() {
        let (_directory, path) = desk();
        for mode in [0o600, 0o400, 0o700] {
            write(&path, EMPTY.as_bytes(), mode);
            assert!(read(&path).is_ok(), "{mode:o}");
        }
        for mode in [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o610] {
            write(&path, EMPTY.as_bytes(), mode);
            let error = read(&path).unwrap_err();
            assert_eq!(error.code(), "TOKEN_FILE_UNSAFE");
            assert!(error.to_string().contains(&format!("mode {mode:04o}")), "{error}");
            assert_eq!(error.hint(), format!("chmod 600 {}", path.display()));
            assert!(change(&path, |_| Ok(())).is_err(), "nor is it made safe behind one's back");
        }
        assert!(may_own(7, 7, 8) && may_own(0, 7, 8) && may_own(8, 0, 8) && !may_own(9, 7, 8));
    }

    #[test]
    fn only_a_plain_file_is_read() {
        let (directory, path) = desk();
        let refused = |kind: &str| {
            let error = read(&path).unwrap_err();
            assert_eq!(error.code(), "TOKEN_FILE_UNSAFE");
            assert!(error.to_string().contains(kind), "{error}");
        };
        fs::create_dir(&path).unwrap();
        refused("a directory");
        fs::remove_dir(&path).unwrap();
        let target = directory.path().join("target");
        write(&target, EMPTY.as_bytes(), 0o600);
        std::os::unix::fs::symlink(&target, &path).unwrap();
        refused("a symbolic link");
        fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        refused("a device or a pipe");
        let below = target.join("tokens.json");
        assert_eq!(read(&below).unwrap_err().code(), "TOKEN_FILE_UNREADABLE");
        assert_eq!(change(&below, |_| Ok(())).unwrap_err().code(), "TOKEN_FILE_UNWRITABLE");
    }

    #[test]
    fn what_is_huge_or_ambiguous_is_refused() {
        let (_directory, path) = desk();
        let refused = |text: &[u8], said: &str| {
            write(&path, text, 0o600);
            let error = read(&path).unwrap_err();
            assert_eq!(error.code(), "TOKEN_FILE_INVALID");
            assert!(error.to_string().contains(said), "{error}");
            assert!(change(&path, |_| Ok(())).is_err());
            assert_eq!(fs::read(&path).unwrap(), text, "what is not understood is not changed");
        };
        let two = |a: Token, b: Token| form::write(&[a, b]).into_bytes();
        refused(&two(token(1, "a"), token(1, "b")), "/tokens/1/id is '000000000001'");
        refused(&two(token(1, "a"), token(2, "a")), "/tokens/1/name is 'a'");
        refused(&two(token(1, "a"), token(2, "000000000001")), "/tokens/1/name");
        refused(&vec![b' '; 8 << 20 | 1], "more than 8388608 bytes");
        refused(b"", "line 1");
        refused(b"\xff", "line 1");
    }

    #[test]
    fn as_many_tokens_as_allowed_can_be_read_again() {
        let (_directory, path) = desk();
        let name = |id: u32| format!("{id:064}");
        let most = u32::try_from(MAX_TOKENS).unwrap();
        change(&path, |tokens| {
            tokens.extend((0..most).map(|id| token(id, &name(id))));
            Ok(())
        })
        .unwrap();
        assert_eq!(read(&path).unwrap().0.len(), MAX_TOKENS);
        let one_more = change(&path, |tokens| {
            tokens.push(token(most, &name(most)));
            Ok(())
        });
        assert!(matches!(one_more, Err(Error::Full { .. })));
        assert_eq!(read(&path).unwrap().0.len(), MAX_TOKENS);
    }
}
