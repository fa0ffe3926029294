//! Takes secrets out of values and texts before anyone stores or shows them.
//!
//! # Keys
//!
//! A key is split into lower-case words at every character that is neither letter nor digit and at
//! the humps of camelCase; `apiKey`, `API-KEY` and `api key` are the same two words. It is secret when
//! one of its words
//!
//! * contains `password`, `passwd`, `passphrase`, `passcode`, `credential`, `authorization`, `apikey`,
//!   `privatekey`, `accesskey` or `secretkey` (but not `passwordless`);
//! * ends with `secret`, `secrets`, `token`, `cookie`, `cookies` or `pwd`, or is `jwt` or `bearer`;
//! * is `key` or `keys` after a word such as `api`, `private`, `access`, `secret` or `signing`;
//! * is `tokens` after a word such as `access` or `refresh`.
//!
//! It is not secret when its last word shows that the value only speaks about a secret: a count, a
//! limit, a type, a name, a path, a URL and the like. So `max_tokens`, `tokens_used`, `token_type`,
//! `secret_name` and `secretary` stay, and `aws_access_key_id` does not.
//!
//! `tokens`, `auth`, `cred`, `creds` and `pass` (alone, or as in `db_pass`) may be either; below them
//! numbers, booleans and null stay, and all else goes.
//!
//! # Texts
//!
//! A value goes when a secret key stands before it: with `=` or `:` between (blanks allowed), with
//! the key in quotes as in JSON, also in JSON within JSON, or as a flag (`--password x`). It reaches to
//! the next blank, to the closing quote, to the matching bracket, or, in the headers `Authorization:`
//! and `Cookie:`, to the end of the line. A quote that is never closed counts to the end of its line,
//! a bracket to the end of the text.
//!
//! Without a key go credentials after `Bearer` and `Basic`, passwords in URLs, private keys in PEM,
//! and tokens whose form is well known. The shape of the result is that of the Python router:
//! `token: x` becomes `token=[REDACTED]`.
//!
//! This is a net with meshes: a secret that looks like any other word passes. Keep secrets out of
//! arguments and messages; a reference `{"$secret": "NAME"}` is no secret and stays.

mod extent;
mod glance;
mod key;
mod landmark;
#[cfg(test)]
mod oracle;
mod scan;
mod token;

use serde_json::Value;

pub use key::Class;

use crate::Object;

/// What stands in the place of a secret.
pub const REDACTED: &str = "[REDACTED]";

/// No text is known that changes in a third pass.
const MAX_PASSES: usize = 8;

/// Longer texts skip the quick check.
const SHORT_TEXT: usize = 512;

/// Says whether values under this key are hidden; see the [rules](self#keys).
///
/// ```
/// use nexus_router_sdk::redact::is_secret_key;
/// assert!(is_secret_key("X-Api-Key") && is_secret_key("clientSecret"));
/// assert!(!is_secret_key("max_tokens") && !is_secret_key("secretary"));
/// ```
#[must_use]
pub fn is_secret_key(key: &str) -> bool {
    key::class(key) != Class::Plain
}

/// Says what a key says about its value; see the [rules](self#keys).
///
/// ```
/// use nexus_router_sdk::redact::{Class, key_class};
/// assert_eq!(key_class("db_password"), Class::Secret);
/// assert_eq!(key_class("tokens"), Class::Either);
/// ```
#[must_use]
pub fn key_class(key: &str) -> Class {
    key::class(key)
}

/// Says whether a text may be the name in a reference `{"$secret": "NAME"}`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    !name.is_empty() && name.bytes().all(name_byte)
}

/// Returns the value without its secrets: by key, and in every string by [`text`].
///
/// ```
/// use nexus_router_sdk::redact;
/// let args = serde_json::json!({ "user": "ada", "password": "x", "note": "token=y" });
/// let safe = serde_json::json!({
///     "user": "ada", "password": "[REDACTED]", "note": "token=[REDACTED]"
/// });
/// assert_eq!(redact::value(&args), safe);
/// ```
#[must_use]
pub fn value(value: &Value) -> Value {
    walk(value, Class::Plain)
}

/// Returns the object without its secrets, as [`value`] does.
#[must_use]
pub fn object(object: &Object) -> Object {
    members(object, Class::Plain)
}

/// Returns the text without its secrets; see the [rules](self#texts).
///
/// ```
/// use nexus_router_sdk::redact;
/// assert_eq!(redact::text("Authorization: Bearer abc"), "Authorization: Bearer [REDACTED]");
/// ```
#[must_use]
pub fn text(text: &str) -> String {
    text_if_secret(text).unwrap_or_else(|| text.to_owned())
}

/// Returns the text without its secrets, or nothing if it has none, as nearly every text.
///
/// A text without secrets costs one look at each of its bytes and no allocation.
///
/// ```
/// use nexus_router_sdk::redact;
/// assert_eq!(redact::text_if_secret("see chapter 3"), None);
/// assert_eq!(redact::text_if_secret("pwd=x").as_deref(), Some("pwd=[REDACTED]"));
/// ```
#[must_use]
pub fn text_if_secret(text: &str) -> Option<String> {
    // A glance costs a short text less than the automaton does.
    if text.len() <= SHORT_TEXT && glance::is_plain_text(text) {
        return None;
    }
    let mut redacted = scan::text(text)?;
    // Removing a secret may bring together what then reads as another, such as two halves of a URL.
    for _ in 0..MAX_PASSES {
        let Some(again) = scan::text(&redacted) else { break };
        redacted = again;
    }
    Some(redacted)
}

/// Returns the URL without its password and without the secret values of its query and fragment.
///
/// ```
/// use nexus_router_sdk::redact;
/// assert_eq!(
///     redact::url("https://ada:x@example.com/a?token=y&page=2"),
///     "https://ada:[REDACTED]@example.com/a?token=[REDACTED]&page=2"
/// );
/// ```
#[must_use]
pub fn url(url: &str) -> String {
    scan::url(url)
}

/// Walks a value whose surroundings are of class `within`.
fn walk(value: &Value, within: Class) -> Value {
    match (within, value) {
        (_, reference) if is_reference(reference) => reference.clone(),
        (Class::Secret, _) => REDACTED.into(),
        (_, Value::Null | Value::Bool(_) | Value::Number(_)) => value.clone(),
        (Class::Plain, Value::String(string)) => text(string).into(),
        (Class::Either, Value::String(_)) => REDACTED.into(),
        (_, Value::Array(items)) => items.iter().map(|item| walk(item, within)).collect(),
        (_, Value::Object(object)) => members(object, within).into(),
    }
}

fn members(object: &Object, within: Class) -> Object {
    let redacted = |(key, value): (&String, &Value)| {
        let shown = text(key);
        // The key as shown may say more: `pwd=3 max` is about a limit, `pwd=[REDACTED]` a password.
        let class = key::class(key).max(key::class(&shown)).max(within);
        (shown, walk(value, class))
    };
    object.iter().map(redacted).collect()
}

/// Says whether the value is `{"$secret": "NAME"}`, which the router resolves at the call.
fn is_reference(value: &Value) -> bool {
    value.as_object().filter(|object| object.len() == 1).is_some_and(|object| {
        object.get("$secret").and_then(Value::as_str).is_some_and(is_secret_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Texts where the Python router lets a secret through or loses the shape of the text.
    const BETTER_TEXTS: &[(&str, &str, &str)] = &[
        ("bearer abc", "bearer [REDACTED]", "leak: lower-case scheme"),
        (
            "authorization: bearer abc",
            "authorization: bearer [REDACTED]",
            "leak: lower-case scheme",
        ),
        (
            "Authorization: Basic dXNlcjpwYXNz",
            "authorization=[REDACTED]",
            "leak: Basic credentials",
        ),
        ("Token = abc", "Token=[REDACTED]", "leak: blank before the separator"),
        ("password=\"a b\"", "password=[REDACTED]", "leak: quoted value with a blank"),
        ("{\"password\": \"hunter2\"}", "{\"password\": \"[REDACTED]\"}", "leak: quoted key"),
        (
            "Set-Cookie: sid=1; path=/",
            "Set-Cookie=[REDACTED]",
            "leak: the header's further cookies",
        ),
        (
            "token=\nnext",
            "token=\nnext",
            "the next line is not the value, and may hold a key: leak",
        ),
        ("api_key=sk-ABC-123_x!tail", "api_key=[REDACTED]", "leak: end of the key"),
    ];

    fn golden() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/nexus/redact.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn texts_are_redacted_as_in_python_or_better() {
        let (mut same, mut better) = (0, 0);
        for case in golden()["text"].as_array().unwrap() {
            let (input, peer) = (case["in"].as_str().unwrap(), case["out"].as_str().unwrap());
            if let Some((_, ours, why)) = BETTER_TEXTS.iter().find(|(of, ..)| *of == input) {
                assert_ne!(peer, *ours, "no longer better: {why}");
                assert_eq!(text(input), *ours, "{why}");
                better += 1;
            } else {
                assert_eq!(text(input), peer, "text {input:?}");
                same += 1;
            }
        }
        assert_eq!((same, better), (20, BETTER_TEXTS.len()));
    }

    #[test]
    fn values_are_redacted_as_in_python_or_better() {
        let hidden = REDACTED;
        let better = [
            (json!({"max_tokens": 100}), json!({"max_tokens": 100}), "a count"),
            (
                json!({"api_key": "a", "api-key": "b", "apikey": "c", "ApiKey": "d", "api key": "e"}),
                json!({"api_key": hidden, "api-key": hidden, "apikey": hidden, "ApiKey": hidden,
                    "api key": hidden}),
                "leak: key with a blank",
            ),
            (
                json!({"Authorization": "Bearer x", "X-Authorization": 1, "authorisation": 2}),
                json!({"Authorization": hidden, "X-Authorization": hidden, "authorisation": hidden}),
                "leak: British spelling",
            ),
            (
                json!({"private_key": 1, "private-key": 2, "privatekey": 3, "private key": 4}),
                json!({"private_key": hidden, "private-key": hidden, "privatekey": hidden,
                    "private key": hidden}),
                "leak: key with a blank",
            ),
            (
                json!({"value": "token=abc"}),
                json!({"value": "token=[REDACTED]"}),
                "leak: in a value",
            ),
            (
                json!({"passwd": 1, "pwd": 2, "pass": 3, "passphrase": 4}),
                json!({"passwd": hidden, "pwd": hidden, "pass": 3, "passphrase": hidden}),
                "leak: other words for password",
            ),
        ];
        let (mut same, mut differ) = (0, 0);
        for case in golden()["args"].as_array().unwrap() {
            let ours = value(&case["in"]);
            if let Some((_, expected, why)) = better.iter().find(|(of, ..)| *of == case["in"]) {
                assert_ne!(case["out"], *expected, "no longer better: {why}");
                assert_eq!(ours, *expected, "{why}");
                differ += 1;
            } else {
                assert_eq!(ours, case["out"], "value {}", case["in"]);
                same += 1;
            }
        }
        assert_eq!((same, differ), (6, better.len()));
    }

    #[test]
    fn counts_below_ambiguous_keys_stay() {
        let usage = json!({"tokens": {"input": 5, "output": 7}, "auth": false, "pass": 12});
        assert_eq!(value(&usage), usage);
        assert_eq!(value(&json!({"tokens": ["abc"]})), json!({"tokens": [REDACTED]}));
        assert_eq!(value(&json!({"auth": {"as": "x"}})), json!({"auth": {"as": REDACTED}}));
    }

    #[test]
    fn references_to_secrets_stay() {
        let args = json!({"token": {"$secret": "GITHUB_TOKEN"}});
        assert_eq!(value(&args), args);
        let forged = json!({"token": {"$secret": "not a name"}});
        assert_eq!(value(&forged), json!({"token": REDACTED}));
    }

    proptest! {
        #[test]
        fn a_value_never_keeps_a_secret(
            secret in "[A-Za-z0-9!?*+/_.-]{12,24}",
            key in "(db_)?(password|apiKey|clientSecret|access-token|Cookie|private key)[0-9]?",
            depth in 0_usize..4,
        ) {
            let mut planted = json!({ key.as_str(): [secret.as_str()], "n": format!("{key}={secret}") });
            for _ in 0..depth {
                planted = json!({ "list": [planted] });
            }
            let redacted = value(&planted);
            prop_assert!(!redacted.to_string().contains(&secret), "{}", redacted);
            prop_assert_eq!(value(&redacted), redacted);
        }
    }

    #[test]
    fn long_runs_do_not_hang() {
        // Seconds for all of them; with quadratic time a single one takes minutes.
        const ENOUGH: std::time::Duration = std::time::Duration::from_secs(100);
        let (done, all_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let units =
                ["\\", "\"", "'", "[", "{", "a=", "token=", "://", "@", ":", "Bearer ", "=["];
            for unit in units {
                for start in ["", "token=[", "password: \"", "Authorization: ", "https://u:"] {
                    let run = unit.repeat(200_000 / unit.len());
                    drop(super::text(&format!("{start}{run}")));
                }
            }
            done.send(()).unwrap();
        });
        all_done.recv_timeout(ENOUGH).expect("redaction takes more than linear time");
    }
}
