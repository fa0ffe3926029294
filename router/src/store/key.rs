//! Secret key of a store: encrypts held answers and keys digests.
//!
//! The key is 32 random bytes in `FILE.key` beside the store `FILE`, readable by its owner only. A store in memory has
//! a key of its own that is gone with it. Two keys are derived from it, so that no key serves two purposes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::{hkdf, hmac};

use super::{Error, Store};
use crate::approval::ArgumentKey;
use crate::digest::Digest;
use crate::files;

/// The length of the key in its file.
const LENGTH: usize = 32;

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

    /// Reads the key of a store, and creates it if there is none.
    fn open(store: &Path) -> Result<Self, Error> {
        let path = Self::path(store);
        let unusable = |message: String| Error::Unopenable { path: path.clone(), message };
        loop {
            match files::read_bounded(&path, LENGTH) {
                Ok(bytes) => {
                    let length = bytes.len();
                    let bytes = bytes.try_into().map_err(|_| {
                        unusable(format!("the key of a store has {LENGTH} bytes, not {length}"))
                    })?;
                    return Ok(Self::derive(&bytes));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(unusable(error.to_string())),
            }
            match files::write_secret(&path, &random()?) {
                Ok(()) => {}
                // Another process created it first.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unusable(error.to_string())),
            }
        }
    }

    fn derive(secret: &[u8; LENGTH]) -> Self {
        let secret =
            hkdf::Salt::new(hkdf::HKDF_SHA256, b"nexus-router store key 1").extract(secret);
        let derived = |purpose: &[u8]| {
            let mut bytes = [0; LENGTH];
            let filled = secret.expand(&[purpose], Bytes).and_then(|okm| okm.fill(&mut bytes));
            debug_assert!(filled.is_ok(), "32 bytes can be derived");
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
struct Bytes;

impl hkdf::KeyType for Bytes {
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
    /// Returns the secret key of the store. It is read, or created, when it is first used.
    ///
    /// # Errors
    /// When the file of the key cannot be read or created.
    pub fn key(&self) -> Result<&StoreKey, Error> {
        if let Some(key) = self.shared.key.get() {
            return Ok(key);
        }
        let key = match self.path() {
            Some(path) => StoreKey::open(path)?,
            None => StoreKey::derive(&random()?),
        };
        Ok(self.shared.key.get_or_init(|| key))
    }
}

impl ArgumentKey for Store {
    fn keyed_digest(&self, parts: &[&[u8]]) -> Result<Digest, String> {
        let key = self.key().map_err(|error| error.to_string())?;
        Ok(key.digest("approval arguments", parts))
    }
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
        std::fs::write(&file, b"short").unwrap();
        let error = Store::open(&path).unwrap().key().unwrap_err();
        assert_eq!(error.code(), "STORE_UNOPENABLE");
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
