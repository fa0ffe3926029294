//! Secret key of a store: encrypts held answers and held arguments, and keys digests.
//!
//! The key is 32 random bytes in `FILE.key` beside the store `FILE`, readable by its owner only. The configuration may
//! name a variable or another file instead. A store in memory has a key of its own that is gone with it. Two keys are
//! derived from it, so that no key serves two purposes.

use std::ffi::OsString;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::{hkdf, hmac};

use super::{Error, Store};
use crate::approval::ArgumentKey;
use crate::digest::Digest;
use crate::files;
use crate::secret::Source;

/// The length of the key in its file.
const LENGTH: usize = 32;
/// Largest text of a key, in bytes.
const MAX_TEXT: usize = 256;
/// The length of the value that identifies a key.
const ID_LENGTH: usize = 16;

/// Encrypts and digests values of one store.
pub struct StoreKey {
    encryption: LessSafeKey,
    digests: hmac::Key,
}

impl StoreKey {
    /// Returns the path of the key of a store.
    #[must_use]
    pub fn path(store: &Path) -> PathBuf {
        let mut name = store.as_os_str().to_owned();
        name.push(".key");
        name.into()
    }

    /// Reads the key file of a store, if there is one.
    ///
    /// # Errors
    /// When others can read the file, or it does not hold a key.
    pub(super) fn find(store: &Path) -> Result<Option<Self>, Error> {
        let path = Self::path(store);
        let bytes = match read_private(&path, LENGTH) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(&path, &error)),
        };
        let length = bytes.len();
        let bytes = bytes.try_into().map_err(|_| unusable(&path, &wrong_length(length)))?;
        Ok(Some(Self::derive(&bytes)))
    }

    /// Reads the key file of a store, and creates it if there is none.
    fn open(store: &Path) -> Result<Self, Error> {
        if let Some(key) = Self::find(store)? {
            return Ok(key);
        }
        let path = Self::path(store);
        match files::write_secret(&path, &random()?) {
            Ok(()) => {}
            // Another process created it first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unusable(&path, &error)),
        }
        let dangling = || std::io::Error::other("it is a link to a file that does not exist");
        Self::find(store)?.ok_or_else(|| unusable(&path, &dangling()))
    }

    /// Reads a key that the configuration refers to: 32 bytes as base64 or as hexadecimal digits.
    ///
    /// # Errors
    /// The problem as text, without the value.
    pub fn read(
        source: &Source,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, String> {
        let text = match source {
            Source::Env(name) => {
                let value = environment(name).ok_or(format!("the variable {name} is not set"))?;
                value.into_encoded_bytes()
            }
            Source::File(path) => read_private(path, MAX_TEXT)
                .map_err(|error| format!("{}: {error}", path.display()))?,
        };
        let fault = |fault: &str| match source {
            Source::Env(name) => format!("the variable {name} {fault}"),
            Source::File(path) => format!("{} {fault}", path.display()),
        };
        let text = text.trim_ascii();
        let bytes =
            if text.len() == 2 * LENGTH { from_hex(text) } else { STANDARD.decode(text).ok() };
        let bytes = bytes.ok_or_else(|| fault("holds neither base64 nor 64 hexadecimal digits"))?;
        let length = bytes.len();
        let bytes: [u8; LENGTH] =
            bytes.try_into().map_err(|_| fault(&format!("holds {length} bytes, not {LENGTH}")))?;
        Ok(Self::derive(&bytes))
    }

    /// Returns a value that identifies the key without revealing it.
    pub(super) fn id(&self) -> Vec<u8> {
        self.digest("key id", &[]).as_bytes()[..ID_LENGTH].to_vec()
    }

    fn derive(secret: &[u8; LENGTH]) -> Self {
        let secret =
            hkdf::Salt::new(hkdf::HKDF_SHA256, b"nexus-router store key 1").extract(secret);
        let derived = |purpose: &[u8]| {
            let mut bytes = [0; LENGTH];
            let filled =
                secret.expand(&[purpose], DerivedLength).and_then(|okm| okm.fill(&mut bytes));
            filled.expect("HKDF derives 32 bytes");
            bytes
        };
        let encryption = UnboundKey::new(&AES_256_GCM, &derived(b"encryption"));
        Self {
            encryption: LessSafeKey::new(encryption.expect("a key of 32 bytes")),
            digests: hmac::Key::new(hmac::HMAC_SHA256, &derived(b"digests")),
        }
    }

    /// Encrypts a value. Only the same context decrypts it again.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn encrypt(&self, context: &str, value: &[u8]) -> Result<Vec<u8>, Error> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(no_random)?;
        let mut encrypted = nonce.to_vec();
        let mut body = value.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .encryption
            .seal_in_place_separate_tag(nonce, Aad::from(context), &mut body)
            .map_err(|_| Error::Refused("the value is too long to be encrypted".to_owned()))?;
        encrypted.append(&mut body);
        encrypted.extend_from_slice(tag.as_ref());
        Ok(encrypted)
    }

    /// Decrypts a value; none if it was encrypted with another key or in another context, or was changed.
    #[must_use]
    pub fn decrypt(&self, context: &str, encrypted: &[u8]) -> Option<Vec<u8>> {
        let (nonce, body) = encrypted.split_first_chunk::<NONCE_LEN>()?;
        let mut body = body.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length =
            self.encryption.open_in_place(nonce, Aad::from(context), &mut body).ok()?.len();
        body.truncate(length);
        Some(body)
    }

    /// Returns a digest that only this store can make. Each part is preceded by its length.
    #[must_use]
    pub fn digest(&self, purpose: &str, parts: &[&[u8]]) -> Digest {
        let mut context = hmac::Context::with_key(&self.digests);
        for part in std::iter::once(&purpose.as_bytes()).chain(parts) {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let tag = context.sign();
        let mut bytes = [0; 32];
        bytes.copy_from_slice(tag.as_ref());
        Digest::from_bytes(bytes)
    }
}

/// Length of a derived key.
struct DerivedLength;

impl hkdf::KeyType for DerivedLength {
    fn len(&self) -> usize {
        LENGTH
    }
}

impl std::fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreKey(…)")
    }
}

impl Store {
    /// Returns the secret key of the store. A key file is created when it is first needed.
    ///
    /// # Errors
    /// When the key file cannot be read or created, or is missing and the store is open only for reading.
    pub fn key(&self) -> Result<&StoreKey, Error> {
        if let Some(key) = self.shared.key.get() {
            return Ok(key);
        }
        let key = match self.path() {
            Some(path) if self.shared.writer.is_some() => StoreKey::open(path)?,
            Some(path) => StoreKey::find(path)?.ok_or_else(|| {
                Error::KeyUnusable(format!("{} does not exist", StoreKey::path(path).display()))
            })?,
            None => StoreKey::derive(&random()?),
        };
        Ok(self.shared.key.get_or_init(|| Arc::new(key)))
    }
}

impl ArgumentKey for Store {
    fn keyed_digest(&self, parts: &[&[u8]]) -> Result<Digest, String> {
        let key = self.key().map_err(|error| error.to_string())?;
        Ok(key.digest("approval arguments", parts))
    }
}

/// Reads a file that only its owner can read.
fn read_private(path: &Path, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    files::open_private(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    Error::KeyUnusable(format!("{}: {error}", path.display()))
}

fn wrong_length(length: usize) -> std::io::Error {
    let held =
        if length > LENGTH { "more than 32 bytes".to_owned() } else { format!("{length} bytes") };
    std::io::Error::other(format!("it holds {held}, not {LENGTH}"))
}

/// Decodes hexadecimal digits.
fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

fn random() -> Result<[u8; LENGTH], Error> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(no_random)?;
    Ok(bytes)
}

fn no_random(error: getrandom::Error) -> Error {
    Error::Disk(format!("cannot read random bytes: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::approval::{args_digest, original_digest};
    use crate::json::{Object, Value};

    #[test]
    fn decrypts_only_in_its_context_and_unchanged() {
        let key = StoreKey::derive(&[7; LENGTH]);
        let encrypted = key.encrypt("run 1", b"the answer").unwrap();
        assert_eq!(key.decrypt("run 1", &encrypted).unwrap(), b"the answer");
        assert_eq!(key.decrypt("run 2", &encrypted), None);
        assert_eq!(StoreKey::derive(&[8; LENGTH]).decrypt("run 1", &encrypted), None);
        for at in 0..encrypted.len() {
            let mut changed = encrypted.clone();
            changed[at] ^= 1;
            assert_eq!(key.decrypt("run 1", &changed), None, "byte {at}");
            assert_eq!(key.decrypt("run 1", &encrypted[..at]), None, "cut at {at}");
        }
        assert!(!encrypted.windows(10).any(|window| window == b"the answer"));
    }

    #[test]
    fn digests_depend_on_key_purpose_and_parts() {
        let key = StoreKey::derive(&[7; LENGTH]);
        let digest = key.digest("a", &[b"bc", b"d"]);
        assert_eq!(digest, key.digest("a", &[b"bc", b"d"]));
        let others = [
            key.digest("b", &[b"bc", b"d"]),
            key.digest("a", &[b"b", b"cd"]),
            key.digest("a", &[b"bcd"]),
            StoreKey::derive(&[8; LENGTH]).digest("a", &[b"bc", b"d"]),
        ];
        assert!(!others.contains(&digest));
    }

    #[test]
    fn key_file_is_private_and_kept() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("runs.db");
        let store = Store::open(&path).unwrap();
        let digest = store.key().unwrap().digest("a", &[]);
        let file = StoreKey::path(&path);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        drop(store);
        let store = Store::open(&path).unwrap();
        assert_eq!(store.key().unwrap().digest("a", &[]), digest);
        drop(store);
        let refused = || {
            let error = Store::open(&path).unwrap_err();
            assert_eq!(error.code(), "STORE_KEY_UNUSABLE");
            assert!(error.to_string().contains("runs.db.key"), "{error}");
            error.to_string()
        };
        let key = std::fs::read(&file).unwrap();
        for (bytes, fault) in [(&b"short"[..], "holds 5 bytes"), (&[7; 33], "more than 32 bytes")] {
            std::fs::write(&file, bytes).unwrap();
            assert!(refused().contains(fault));
        }
        std::fs::write(&file, &key).unwrap();
        for mode in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert!(refused().contains(&format!("mode is {mode:04o}")));
        }
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let reader = Store::open_read_only(&path).unwrap();
        assert_eq!(reader.key().unwrap().digest("a", &[]), digest);
        drop(reader);
        std::fs::remove_file(&file).unwrap();
        let error = Store::open_read_only(&path).unwrap().key().unwrap_err();
        assert_eq!(error.code(), "STORE_KEY_UNUSABLE");
        assert!(!file.exists(), "a reader creates no key");
    }

    #[test]
    fn key_file_that_links_nowhere_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("runs.db");
        let store = Store::open(&path).unwrap();
        std::os::unix::fs::symlink("missing", StoreKey::path(&path)).unwrap();
        let error = store.key().unwrap_err();
        assert_eq!(error.code(), "STORE_KEY_UNUSABLE");
        assert!(error.to_string().contains("does not exist"), "{error}");
    }

    #[test]
    fn referenced_key_is_read_as_base64_or_hex() {
        let (base64, hex) = (STANDARD.encode([7; LENGTH]), "07".repeat(LENGTH));
        let id = StoreKey::derive(&[7; LENGTH]).id();
        let read = |value: &str| {
            let value = value.to_owned();
            let source = Source::Env("KEY".to_owned());
            StoreKey::read(&source, move |_| Some(value.clone().into())).map(|key| key.id())
        };
        for value in [&base64, &hex, &format!("{hex}\n")] {
            assert_eq!(read(value), Ok(id.clone()));
        }
        let short = STANDARD.encode([7; 16]);
        for (value, fault) in [
            ("hunter2!", "neither base64 nor"),
            (&*"zz".repeat(LENGTH), "neither base64 nor"),
            (&*short, "holds 16 bytes, not 32"),
            ("", "holds 0 bytes"),
        ] {
            let error = read(value).unwrap_err();
            assert!(error.contains(fault) && error.contains("KEY"), "{error}");
            assert!(value.is_empty() || !error.contains(value), "{error}");
        }
        let unset = StoreKey::read(&Source::Env("NONE".to_owned()), |_| None).unwrap_err();
        assert_eq!(unset, "the variable NONE is not set");
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("key");
        std::fs::write(&file, &hex).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let source = Source::File(file.clone());
        let error = StoreKey::read(&source, |_| None).unwrap_err();
        assert!(error.contains("mode is 0644") && error.contains("key"), "{error}");
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(StoreKey::read(&source, |_| None).unwrap().id(), id);
    }

    #[test]
    fn equal_recorded_forms_of_different_originals_differ() {
        let [store, other] = [(); 2].map(|()| Store::in_memory().unwrap());
        let object = |password: &str| {
            [("password".to_owned(), Value::from(password))].into_iter().collect::<Object>()
        };
        let digest = |key: &dyn ArgumentKey, original: &str| {
            let original = original_digest(key, &object(original), None).unwrap();
            args_digest(&object("[REDACTED]"), None, &[], original)
        };
        let one = digest(&store, "1234");
        assert_eq!(one, digest(&store, "1234"));
        assert_ne!(one, digest(&store, "1235"));
        // Without the key of the store nobody can try all short passwords.
        assert_ne!(one, digest(&other, "1234"));
    }
}
