//! Settings of the store.

use std::path::Path;

use crate::config::Origin;
use crate::secret::Source;
use crate::store::StoreKey;

/// Settings of the store.
#[derive(Clone, Debug, Default)]
pub struct StoreSettings {
    /// The secret key, instead of the key file beside the store.
    pub key: Option<KeyReference>,
}

/// Reference to the secret key of the store, with its place in the configuration.
#[derive(Clone)]
pub struct KeyReference {
    /// The variable or the file.
    pub source: Source,
    /// The place of the key `store.key`.
    pub origin: Origin,
}

impl std::fmt::Debug for KeyReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.source.fmt(f)
    }
}

/// Two references are equal if they name the same variable or file.
impl PartialEq for KeyReference {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl KeyReference {
    /// The remedy of a key that cannot be used.
    pub const HINT: &str = "give 32 random bytes as base64 (`openssl rand -base64 32`) or as 64 hexadecimal digits, in a \
                            variable or in a file of mode 0600";

    /// Reads the key.
    ///
    /// # Errors
    /// A text with the place in the configuration and the problem. It never shows the value.
    pub fn read(&self, file: Option<&Path>) -> Result<StoreKey, String> {
        StoreKey::read(&self.source, crate::config::variable).map_err(|problem| {
            let place = match (&self.origin, file) {
                (Origin::Variable(name), _) => format!("the environment variable {name}"),
                (Origin::File { line, column }, Some(file)) => {
                    format!("store.key in {} (line {line}, column {column})", file.display())
                }
                _ => "store.key".to_owned(),
            };
            format!("{place}: {problem}")
        })
    }
}
