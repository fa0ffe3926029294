//! The text of the tokens' file: `{"version": 1, "tokens": [..]}`, read strictly.

use super::token::{is_id, is_name};
use super::{Scope, Token, Visibility};
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
    let mut object = Object::with_capacity(8);
    object.insert("id", token.id.as_str());
    object.insert("name", token.name.as_str());
    object.insert("sha256", token.digest.to_string());
    object.insert("scope", token.scope.name());
    if let Some(role) = token.role {
        object.insert("role", role.name());
    }
    // Absent means own, as in files of older versions.
    if token.sees != Visibility::default() {
        object.insert("sees", token.sees.name());
    }
    object.insert("created_at", token.created_at.to_string());
    if let Some(end) = token.expires_at {
        object.insert("expires_at", end.to_string());
    }
    object
}

/// Reads tokens. What is wrong is told with its place; values are not shown.
pub(super) fn read(text: &[u8]) -> Result<Vec<Token>, String> {
    let limits = Limits { bytes: usize::MAX, depth: DEPTH, ..Limits::REQUEST };
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
    let known = ["id", "name", "sha256", "scope", "role", "sees", "created_at", "expires_at"];
    refuse_unknown(object, &place, &known)?;
    let entry = Entry { object, place };
    Ok(Token {
        id: entry.required("id", "an id", |text| is_id(text).then(|| text.to_owned()))?,
        name: entry.required("name", "a name", |text| is_name(text).then(|| text.to_owned()))?,
        digest: entry.required("sha256", "a SHA-256 digest", |text| text.parse::<Digest>().ok())?,
        scope: entry.required("scope", "read, run, apply or admin", Scope::from_name)?,
        role: entry.optional("role", "scout or envoy", Role::from_name)?,
        sees: entry.optional("sees", "own or all", Visibility::from_name)?.unwrap_or_default(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_token() -> impl Strategy<Value = Token> {
        let times = (0_i64..4_000_000_000_000, prop::option::of(0_i64..4_000_000_000_000));
        let role = prop::option::of(prop::sample::select(&Role::ALL[..]));
        let scope = prop::sample::select(&Scope::ALL[..]);
        let sees = prop::sample::select(&Visibility::ALL[..]);
        let bounds = (scope, role, sees);
        ("[0-9a-hjkmnp-tv-z]{12}", "[A-Za-z0-9.-]{6,64}", bounds, times, any::<[u8; 32]>())
            .prop_map(|(id, name, (scope, role, sees), (created_at, expires_at), digest)| Token {
                id,
                name,
                scope,
                role,
                sees,
                created_at: Timestamp::from_millis(created_at),
                expires_at: expires_at.map(Timestamp::from_millis),
                digest: Digest::from_bytes(digest),
            })
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let good = format!(
            r#"{{"id":"0123456789ab","name":"ci","sha256":"{}","scope":"run","created_at":"2026-11-16T00:00:00Z"}}"#,
            "a".repeat(64)
        );
        let file = |token: &str| format!(r#"{{"version":1,"tokens":[{token}]}}"#);
        let token = &read(file(&good).as_bytes()).unwrap()[0];
        assert_eq!((token.name.as_str(), token.sees), ("ci", Visibility::Own));
        let with = |old: &str, new: &str| {
            assert!(good.contains(old), "{old}");
            file(&good.replace(old, new))
        };
        for (text, said) in [
            (String::new(), "line 1"),
            ("[]".to_owned(), "\"\" is of type array, not an object"),
            (r#"{"tokens":[]}"#.to_owned(), "\"/version\" is missing"),
            (r#"{"version":"1"}"#.to_owned(), "\"/version\" is not an integer"),
            (r#"{"version":2,"more":1}"#.to_owned(), "version 2; this program knows version 1"),
            (r#"{"version":1}"#.to_owned(), "\"/tokens\" is missing"),
            (r#"{"version":1,"tokens":[],"x":1}"#.to_owned(), "member 3 of \"\""),
            (file("7"), "\"/tokens/0\" is of type integer, not an object"),
            (with("0123456789ab", "short"), "\"/tokens/0/id\" is not an id"),
            (with("\"ci\"", "\"a b\""), "\"/tokens/0/name\" is not a name"),
            (with("\"ci\"", "null"), "\"/tokens/0/name\" is of type null"),
            (with("aaaa", "zz"), "\"/tokens/0/sha256\" is not a SHA-256 digest"),
            (with("\"run\"", "\"root\""), "\"/tokens/0/scope\" is not read, run, apply or admin"),
            (with("00Z\"", "00Z\",\"role\":\"king\""), "\"/tokens/0/role\" is not scout or envoy"),
            (with("00Z\"", "00Z\",\"sees\":\"some\""), "\"/tokens/0/sees\" is not own or all"),
            (with("T00:00:00Z", ""), "\"/tokens/0/created_at\" is not a time"),
            (
                with("00Z\"", "00Z\",\"expires_at\":1"),
                "\"/tokens/0/expires_at\" is of type integer",
            ),
            (with("00Z\"", "00Z\",\"expire_at\":\"x\""), "member 6 of \"/tokens/0\""),
            (with("\"name\":\"ci\",", ""), "\"/tokens/0/name\" is missing"),
            (with("\"name\"", "\"id\""), "id"),
            ("[".repeat(100), "deep"),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(tokens in prop::collection::vec(any_token(), 0..5)) {
            prop_assert_eq!(read(write(&tokens).as_bytes()), Ok(tokens));
        }

        #[test]
        fn a_damaged_file_is_read_without_harm(
            tokens in prop::collection::vec(any_token(), 0..3),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut text = write(&tokens).into_bytes();
            let at = at.index(text.len());
            text[at] = byte;
            if let Ok(read) = read(&text) {
                prop_assert_eq!(read.len(), tokens.len());
            }
            // All but the line's end is needed.
            prop_assert!(at + 1 == text.len() || super::read(&text[..at]).is_err());
        }
    }
}
