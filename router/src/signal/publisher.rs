//! Publishers: the documents that tell their keys, and whether a signature is that of a publisher who is trusted.
//!
//! A document is what the AiGentsy tools read (`publisher_id`, `publisher_key_id`, `public_key_base64`), with three more
//! members: `status`, which is `retired` for a key that is no longer good, `namespaces`, which bounds the contracts that a
//! publisher may speak for, and `keys` for more than one key.

use std::collections::BTreeMap;

use super::entry::text;
use crate::json::{Object, Value};
use crate::key::{PublicKey, Signature};

/// What is known of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureStatus {
    /// There is none.
    Absent,
    /// It was not checked, as nobody said with which key.
    NoPublicKey,
    /// It is that of the key.
    Ok,
    /// It is not.
    Bad,
    /// Nobody who is trusted has this publisher id and key id.
    UnknownPublisher,
    /// The key was good once.
    RetiredKey,
    /// The publisher does not speak for contracts of this name.
    OutsideNamespace,
}

impl SignatureStatus {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::NoPublicKey => "no_public_key",
            Self::Ok => "ok",
            Self::Bad => "bad",
            Self::UnknownPublisher => "unknown_publisher",
            Self::RetiredKey => "retired_key",
            Self::OutsideNamespace => "outside_namespace",
        }
    }

    /// Tells people what it means.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Absent => "it is not signed",
            Self::NoPublicKey => "its signature was NOT checked, as no key was given",
            Self::Ok => "its signature holds",
            Self::Bad => "its signature does not hold: it was changed, or signed with another key",
            Self::UnknownPublisher => "its publisher and key are not among those that are trusted",
            Self::RetiredKey => "its key is retired",
            Self::OutsideNamespace => "its publisher does not speak for contracts of this name",
        }
    }

    /// Says whether it was checked, and did not hold, or is not there to be checked.
    #[must_use]
    pub const fn is_refused(self) -> bool {
        !matches!(self, Self::Ok | Self::NoPublicKey)
    }
}

/// Whose signatures are believed.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Nobody's: signatures are not checked.
    #[default]
    Nobody,
    /// Those of one key, whoever signs with it says to be. None if what was given is no key, so that nothing holds.
    Key(Option<PublicKey>),
    /// Those of publishers, each by the names of its keys.
    Publishers(Publishers),
}

/// The publishers who are trusted, by publisher id and key id.
#[derive(Clone, Debug, Default)]
pub struct Publishers(BTreeMap<(String, String), Standing>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Standing {
    key: PublicKey,
    retired: bool,
    /// None: any.
    namespaces: Option<Vec<String>>,
}

impl Trust {
    /// Trusts a key as the AiGentsy tools are given it; an empty text is none.
    #[must_use]
    pub fn in_key(text: &str) -> Self {
        if text.is_empty() { Self::Nobody } else { Self::Key(PublicKey::from_lenient(text)) }
    }

    /// Says whether signatures are checked.
    #[must_use]
    pub const fn is_somebody(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// Judges a signature of what `signed` (an entry or a manifest) says to be published by.
    #[must_use]
    pub fn judge(
        &self,
        signed: &Object,
        message: &[u8],
        signature: Option<&Value>,
    ) -> SignatureStatus {
        let Some(signature) = signature else { return SignatureStatus::Absent };
        let key = match self {
            Self::Nobody => return SignatureStatus::NoPublicKey,
            Self::Key(key) => *key,
            Self::Publishers(publishers) => match publishers.key_of(signed) {
                Ok(key) => Some(key),
                Err(status) => return status,
            },
        };
        let signature = signature.as_str().and_then(Signature::from_lenient);
        match (key, signature) {
            (Some(key), Some(signature)) if key.verifies(message, &signature) => {
                SignatureStatus::Ok
            }
            _ => SignatureStatus::Bad,
        }
    }
}

impl Publishers {
    /// Takes the keys of a document, or of a list of documents.
    ///
    /// # Errors
    /// Everything that is wrong with it; then nothing of it is taken.
    pub fn add(&mut self, document: &Value) -> Result<(), Vec<String>> {
        let documents = match document {
            Value::Array(documents) => documents.as_slice(),
            one => std::slice::from_ref(one),
        };
        let (mut found, mut wrong) = (self.0.clone(), Vec::new());
        for document in documents {
            match document.as_object() {
                Some(document) => read(document, &mut found, &mut wrong),
                None => wrong.push("a publisher document is a JSON object".to_owned()),
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        self.0 = found;
        Ok(())
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Says whether nobody is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn key_of(&self, signed: &Object) -> Result<PublicKey, SignatureStatus> {
        let part = |key| text(signed, key).unwrap_or_default().to_owned();
        let standing = self.0.get(&(part("publisher_id"), part("publisher_key_id")));
        let standing = standing.ok_or(SignatureStatus::UnknownPublisher)?;
        if standing.retired {
            return Err(SignatureStatus::RetiredKey);
        }
        // A manifest is of no adapter; its entries are.
        let id = signed.get("adapter_id").map(|id| id.as_str().unwrap_or_default());
        let speaks_for = |id: &str| {
            let is_within = |space: &String| {
                id.strip_prefix(space.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            standing.namespaces.as_ref().is_none_or(|spaces| spaces.iter().any(is_within))
        };
        match id.is_none_or(speaks_for) {
            true => Ok(standing.key),
            false => Err(SignatureStatus::OutsideNamespace),
        }
    }
}

/// Returns the text of the key in a document of the AiGentsy tools; none if there is none, or an empty one.
#[must_use]
pub fn document_key(document: &Object) -> Option<&Value> {
    let is_empty =
        |value: &&Value| matches!(value, Value::Null | Value::Bool(false) | Value::Int(0));
    ["public_key_base64", "public_key"]
        .into_iter()
        .filter_map(|key| document.get(key))
        .find(|value| !is_empty(value) && value.as_str() != Some(""))
}

/// Returns the document of a publisher with one key.
#[must_use]
pub fn document(publisher_id: &str, publisher_key_id: &str, key: &PublicKey) -> Object {
    let mut document = Object::with_capacity(5);
    document.insert("publisher_id", publisher_id);
    document.insert("publisher_key_id", publisher_key_id);
    document.insert("algorithm", "Ed25519");
    document.insert("public_key_base64", key.to_base64());
    document.insert("status", "active");
    document
}

fn read(
    document: &Object,
    found: &mut BTreeMap<(String, String), Standing>,
    wrong: &mut Vec<String>,
) {
    let Some(publisher) = text(document, "publisher_id").filter(|id| !id.is_empty()) else {
        wrong.push("publisher_id is missing, or no text".to_owned());
        return;
    };
    let namespaces = match document.get("namespaces") {
        None => None,
        Some(Value::Array(spaces)) if spaces.iter().all(|it| it.as_str().is_some()) => {
            Some(spaces.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        Some(_) => {
            wrong.push(format!("{publisher}: namespaces is no list of texts"));
            return;
        }
    };
    let keys = match document.get("keys") {
        None => vec![document],
        Some(Value::Array(keys)) if keys.iter().all(|key| key.as_object().is_some()) => {
            keys.iter().filter_map(Value::as_object).collect()
        }
        Some(_) => {
            wrong.push(format!("{publisher}: keys is no list of objects"));
            return;
        }
    };
    for told in keys {
        let Some(name) = text(told, "publisher_key_id").filter(|name| !name.is_empty()) else {
            wrong.push(format!("{publisher}: publisher_key_id is missing, or no text"));
            continue;
        };
        let key = document_key(told).and_then(Value::as_str).and_then(PublicKey::from_lenient);
        let Some(key) = key else {
            let message = "public_key_base64 is not the base64 of 32 bytes";
            wrong.push(format!("{publisher}: {name}: {message}"));
            continue;
        };
        let algorithm = told.get("algorithm").or_else(|| document.get("algorithm"));
        // A publisher who is retired has no key that is good.
        let (Some(own), Some(whole)) = (is_retired(told), is_retired(document)) else {
            wrong.push(format!("{publisher}: {name}: status is neither active nor retired"));
            continue;
        };
        if algorithm.is_some_and(|it| it.as_str() != Some("Ed25519")) {
            wrong.push(format!("{publisher}: {name}: algorithm is not Ed25519"));
            continue;
        }
        let standing = Standing { key, retired: own || whole, namespaces: namespaces.clone() };
        let place = (publisher.to_owned(), name.to_owned());
        // Which of the two holds would depend on the order of files.
        if found.get(&place).is_some_and(|other| *other != standing) {
            wrong.push(format!("{publisher}: {name}: two documents tell different things"));
            continue;
        }
        found.insert(place, standing);
    }
}

/// Says whether a document calls a key retired; none if it says neither that nor the opposite.
fn is_retired(document: &Object) -> Option<bool> {
    match document.get("status").map(Value::as_str) {
        None | Some(Some("active")) => Some(false),
        Some(Some("retired" | "revoked")) => Some(true),
        Some(_) => None,
    }
}
