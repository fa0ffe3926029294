//! Secrets: where they come from, how arguments refer to them, and how they are kept out of what is recorded.
//!
//! A secret is given by the operator, under a name, as a [`Source`]. Arguments name it,
//! `{"$secret": "NAME"}`, and [`Secrets::resolve_bound`] puts the value there for the call alone, if the operator
//! bound the secret to that call. [`Secrets::resolve`] is for the operator's own configuration. Stored and logged text goes
//! through [`Secrets::redact`]; answers only lose exact values of known secrets. Redaction removes the text that the
//! [rules](nexus_router_sdk::redact) of the SDK find by key and by form, and each known secret in every spelling.

mod decoding;
mod error;
mod known;
mod matcher;
mod needle;
mod redact;
mod settings;
mod source;
mod spelling;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

pub use error::Error;
pub(crate) use known::redacted_pointers;
pub use settings::secret_values;
pub use source::Source;

use nexus_router_sdk::redact::is_secret_name;

use crate::json::{self, Object, Value};
use needle::Needles;

/// The key of a reference to a secret.
pub const REFERENCE_KEY: &str = "$secret";

/// A shorter value would blot out ordinary words.
pub const MIN_LENGTH: usize = 4;

/// What stands before a token in a header. A service may repeat the token without it.
const SCHEMES: [&str; 4] = ["bearer", "basic", "token", "apikey"];

/// A shorter token behind a scheme may be an ordinary word.
const MIN_TOKEN: usize = 8;

/// The secrets that the router knows by name, and every value that it must never show.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Known>);

#[derive(Clone, Default)]
struct Known {
    named: BTreeMap<String, String>,
    /// Values that have no name.
    hidden: Vec<String>,
    needles: Needles,
}

impl Secrets {
    /// Returns no secrets; what looks like one is hidden all the same.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Reads the named secrets; `environment` looks up a variable.
    ///
    /// # Errors
    /// When a name cannot be used in a reference, or a secret is not there, is no text, or is too short
    /// to be told from ordinary text.
    pub fn from_sources(
        sources: &BTreeMap<String, Source>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Error> {
        let mut named = BTreeMap::new();
        for (name, source) in sources {
            if !is_secret_name(name) {
                return Err(Error::Name { name: name.clone() });
            }
            named.insert(name.clone(), source.read(name, &environment)?);
        }
        Ok(Self::of(named, Vec::new()))
    }

    /// Adds values that must never be shown, such as those of [`secret_values`].
    #[must_use]
    pub fn with_hidden_values(self, values: impl IntoIterator<Item = String>) -> Self {
        let mut known = Arc::unwrap_or_clone(self.0);
        let before = known.hidden.len();
        known.hidden.extend(values.into_iter().filter(|value| value.len() >= MIN_LENGTH));
        if known.hidden.len() == before {
            return Self(Arc::new(known));
        }
        known.hidden.sort_unstable();
        known.hidden.dedup();
        Self::of(known.named, known.hidden)
    }

    /// Adds every value of `others` to those that must never be shown.
    #[must_use]
    pub(crate) fn with_values_of(self, others: &Self) -> Self {
        let known = |value: &&String| {
            self.0.named.values().any(|own| own == *value) || self.0.hidden.contains(value)
        };
        let values = others.0.named.values().chain(&others.0.hidden);
        let values: Vec<String> = values.filter(|value| !known(value)).cloned().collect();
        self.with_hidden_values(values)
    }

    fn of(named: BTreeMap<String, String>, hidden: Vec<String>) -> Self {
        let whole = named.values().chain(&hidden);
        let tokens: Vec<String> = whole.clone().filter_map(|value| token(value)).collect();
        let needles = Needles::of(whole.chain(&tokens));
        Self(Arc::new(Known { named, hidden, needles }))
    }

    /// Returns the names of the secrets, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.named.keys().map(String::as_str)
    }

    /// Replaces the references in the operator's own configuration by the secrets they name.
    ///
    /// # Errors
    /// When there is no secret of that name, or an object with a `$secret` is not a reference.
    pub fn resolve<'a>(&self, config: &'a Object) -> Result<Cow<'a, Object>, Error> {
        self.resolve_bound(config, |_| true)
    }

    /// Replaces the references in arguments of a caller by the secrets they name, if `is_bound` accepts the names.
    ///
    /// # Errors
    /// When the secret is unknown or not bound, or an object with `$secret` is not a reference.
    pub fn resolve_bound<'a>(
        &self,
        args: &'a Object,
        is_bound: impl Fn(&str) -> bool,
    ) -> Result<Cow<'a, Object>, Error> {
        if args.contains_key(REFERENCE_KEY) {
            return Err(Error::Reference { pointer: String::new() });
        }
        if !args.iter().any(|(_, value)| holds_reference(value)) {
            return Ok(Cow::Borrowed(args));
        }
        let mut resolved = args.clone();
        for (key, value) in resolved.iter_mut() {
            walk_references(value, &mut pointer_to(key), &mut |place, pointer| {
                *place = self.value_of(place, pointer, &is_bound)?.into();
                Ok(())
            })?;
        }
        Ok(Cow::Owned(resolved))
    }

    /// Returns the secret that a reference names.
    fn value_of(
        &self,
        place: &Value,
        pointer: &str,
        is_bound: &impl Fn(&str) -> bool,
    ) -> Result<&str, Error> {
        let Some(name) = place.as_object().and_then(reference) else {
            return Err(Error::Reference { pointer: pointer.to_owned() });
        };
        let (name, pointer) = (name.to_owned(), pointer.to_owned());
        match self.0.named.get(&name) {
            None => Err(Error::Unknown { name, pointer }),
            Some(_) if !is_bound(&name) => Err(Error::NotBound { name, pointer }),
            Some(secret) => Ok(secret),
        }
    }
}

/// Returns the JSON pointers of the references in arguments.
#[must_use]
pub fn reference_pointers(args: &Object) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in args {
        // The visitor never fails.
        drop(walk_references(&mut value.clone(), &mut pointer_to(key), &mut |_, pointer| {
            found.push(pointer.to_owned());
            Ok(())
        }));
    }
    found
}

/// Returns the JSON pointer to a member of the root.
fn pointer_to(key: &str) -> String {
    format!("/{}", json::pointer_segment(key))
}

/// Visits every object with a `$secret` at or below a value; `pointer` leads to the value.
fn walk_references(
    value: &mut Value,
    pointer: &mut String,
    visit: &mut impl FnMut(&mut Value, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let length = pointer.len();
    match value {
        Value::Object(object) if object.contains_key(REFERENCE_KEY) => visit(value, pointer),
        Value::Object(object) => {
            for (key, member) in object.iter_mut() {
                pointer.push_str(&pointer_to(key));
                walk_references(member, pointer, visit)?;
                pointer.truncate(length);
            }
            Ok(())
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                pointer.push_str(&format!("/{index}"));
                walk_references(item, pointer, visit)?;
                pointer.truncate(length);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.named.keys()).finish()
    }
}

/// Returns the token of a value that is a scheme and a token: it is as secret as the whole.
fn token(value: &str) -> Option<String> {
    let (scheme, token) = value.trim().split_once(char::is_whitespace)?;
    let token = token.trim_start();
    let known = SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme));
    let one_word = token.len() >= MIN_TOKEN && !token.contains(char::is_whitespace);
    (known && one_word).then(|| token.to_owned())
}

/// Returns the name that an object refers to, if it is a reference and nothing else.
fn reference(object: &Object) -> Option<&str> {
    let name = object.get(REFERENCE_KEY)?.as_str()?;
    (object.len() == 1 && is_secret_name(name)).then_some(name)
}

fn holds_reference(value: &Value) -> bool {
    match value {
        Value::Object(object) => {
            object.iter().any(|(key, value)| key == REFERENCE_KEY || holds_reference(value))
        }
        Value::Array(items) => items.iter().any(holds_reference),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
