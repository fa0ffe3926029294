//! The text of the tokens' file: `{"version": 1, "tokens": [..]}`, read strictly.

use super::token::{is_id, is_name};
use super::{Scope, Token};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::json::{Limits, Object, Value, parse, to_pretty};
use crate::role::Role;

/// The version of the form.
const VERSION: i64 = 1;

/// A list of tokens is not deep.
const DEPTH: usize = 8;

/// Returns the text of tokens.
pub(super) fn write(tokens: &[Token]) -> String {
    let tokens = tokens.iter().map(|token| Value::Object(entry(token)));
    let mut file = Object::new();
    file.insert("version", VERSION);
    file.insert("tokens", tokens.collect::<Vec<_>>());
    to_pretty(&file.into()) + "\n"
}

fn entry(token: &Token) -> Object {
    let mut object = Object::with_capacity(7);
    object.insert("id", token.id.as_str());
    object.insert("name", token.name.as_str());
    object.insert("sha256", token.digest.to_string());
    object.insert("scope", token.scope.name());
    if let Some(role) = token.role {
        object.insert("role", role.name());
    }
    object.insert("created_at", token.created_at.to_string());
    if let Some(end) = token.expires_at {
        object.insert("expires_at", end.to_string());
    }
    object
}

/// Reads tokens. What is wrong is told with its place; values are not shown.
pub(super) fn read(text: &[u8]) -> Result<Vec<Token>, String> {
    let limits = Limits { bytes: usize::MAX, depth: DEPTH };
    let file = parse(text, limits).map_err(|error| error.to_string())?;
    let file = file.as_object().ok_or_else(|| expected("", "an object", Some(&file)))?;
    let version = file.get("version");
    match version.and_then(Value::as_i64) {
        Some(VERSION) => {}
        Some(other) => {
            return Err(format!("it has version {other}; this program knows version {VERSION}"));
        }
        None => return Err(expected("/version", "an integer", version)),
    }
    refuse_unknown(file, "", &["version", "tokens"])?;
    let tokens = file.get("tokens");
    let list = tokens.and_then(Value::as_array);
    let list = list.ok_or_else(|| expected("/tokens", "an array", tokens))?;
    list.iter().enumerate().map(|(index, entry)| token(index, entry)).collect()
}

fn token(index: usize, entry: &Value) -> Result<Token, String> {
    let place = format!("/tokens/{index}");
    let object = entry.as_object().ok_or_else(|| expected(&place, "an object", Some(entry)))?;
    // A misspelt `expires_at` would make a token that never expires.
    let known = ["id", "name", "sha256", "scope", "role", "created_at", "expires_at"];
    refuse_unknown(object, &place, &known)?;
    let entry = Entry { object, place };
    Ok(Token {
        id: entry.required("id", "an id", |text| is_id(text).then(|| text.to_owned()))?,
        name: entry.required("name", "a name", |text| is_name(text).then(|| text.to_owned()))?,
        digest: entry.required("sha256", "a SHA-256 digest", |text| text.parse::<Digest>().ok())?,
        scope: entry.required("scope", "read, run, apply or admin", Scope::from_name)?,
        role: entry.optional("role", "scout or envoy", Role::from_name)?,
        created_at: entry.required("created_at", "a time (RFC 3339)", Timestamp::parse)?,
        expires_at: entry.optional("expires_at", "a time (RFC 3339)", Timestamp::parse)?,
    })
}

/// A member of the list, and where it stands.
struct Entry<'a> {
    object: &'a Object,
    place: String,
}

impl Entry<'_> {
    fn required<T>(
        &self,
        key: &str,
        what: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, String> {
        self.optional(key, what, read)?.ok_or_else(|| self.wrong(key, what))
    }

    fn optional<T>(
        &self,
        key: &str,
        what: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        match self.object.get(key) {
            None => Ok(None),
            Some(value) => {
                value.as_str().and_then(read).map(Some).ok_or_else(|| self.wrong(key, what))
            }
        }
    }

    fn wrong(&self, key: &str, what: &str) -> String {
        expected(&format!("{}/{key}", self.place), what, self.object.get(key))
    }
}

fn refuse_unknown(object: &Object, place: &str, known: &[&str]) -> Result<(), String> {
    match object.iter().position(|(key, _)| !known.contains(&key)) {
        None => Ok(()),
        Some(at) => Err(format!(
            "member {} of \"{place}\" has a name that is not known here; known are {}",
            at + 1,
            known.join(", ")
        )),
    }
}

fn expected(place: &str, what: &str, found: Option<&Value>) -> String {
    match found {
        None => format!("\"{place}\" is missing"),
        Some(value) if value.as_str().is_some() => format!("\"{place}\" is not {what}"),
        Some(value) => format!("\"{place}\" is of type {}, not {what}", value.type_name()),
    }
}
