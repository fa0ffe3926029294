//! Decides by its name whether a key holds a secret.

use super::super::glance;
pub(super) use super::super::key::Class;

/// Words that make a key secret wherever they stand in one of its words.
const ANYWHERE: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "credential",
    "authorization",
    "authorisation",
    "apikey",
    "privatekey",
    "accesskey",
    "secretkey",
];

/// Words that make a key secret at the end of one of its words: `secretary` is none.
const AT_THE_END: &[&str] = &["secret", "secrets", "token", "cookie", "cookies", "pwd"];

/// Words before `key` that make it a secret one; a primary key or a cache key is none.
const KEYS: &[&str] = &[
    "access",
    "account",
    "aes",
    "api",
    "auth",
    "client",
    "decryption",
    "deploy",
    "encryption",
    "hmac",
    "license",
    "master",
    "private",
    "rsa",
    "secret",
    "service",
    "session",
    "shared",
    "signing",
    "ssh",
    "webhook",
];

/// Words before `tokens` that make them secrets and not counts.
const GRANTS: &[&str] = &[
    "access", "api", "auth", "bearer", "bot", "client", "csrf", "deploy", "device", "id", "login",
    "oauth", "personal", "push", "refresh", "reset", "secret", "service", "session", "user",
    "xsrf",
];

/// Words before `pass` that make it a password and not a verdict.
const ACCOUNTS: &[&str] = &[
    "admin", "basic", "database", "db", "email", "ftp", "http", "login", "mail", "mysql", "pg",
    "postgres", "proxy", "redis", "root", "smtp", "ssh", "user",
];

/// Last words of keys whose value only speaks about a secret.
const ABOUT: &[&str] = &[
    "alg",
    "algorithm",
    "at",
    "audience",
    "budget",
    "count",
    "counts",
    "dir",
    "domain",
    "enabled",
    "endpoint",
    "env",
    "expiration",
    "expires",
    "expiry",
    "field",
    "file",
    "format",
    "in",
    "index",
    "issuer",
    "kind",
    "len",
    "length",
    "limit",
    "limits",
    "max",
    "min",
    "name",
    "path",
    "policy",
    "present",
    "provider",
    "required",
    "scope",
    "scopes",
    "size",
    "source",
    "total",
    "ttl",
    "type",
    "uri",
    "url",
    "usage",
    "used",
    "valid",
    "version",
];

/// Returns the class of a key.
pub(super) fn class(key: &str) -> Class {
    if glance::is_plain_key(key) { Class::Plain } else { class_of_words(key) }
}

fn class_of_words(key: &str) -> Class {
    let words = words(key);
    let Some(last) = words.last() else { return Class::Plain };
    if ABOUT.contains(&last.as_str()) || key == "$secret" {
        return Class::Plain;
    }
    let before = |index: usize| index.checked_sub(1).map_or("", |before| words[before].as_str());
    let of = |(index, word): (usize, &String)| word_class(before(index), word);
    words.iter().enumerate().map(of).max().unwrap_or(Class::Plain).max(ambiguous(&words, last))
}

/// Returns the class of a word; `before` is the word before it, or empty.
fn word_class(before: &str, word: &str) -> Class {
    let secret = match word {
        "jwt" | "bearer" => true,
        "key" | "keys" => KEYS.contains(&before),
        "tokens" => GRANTS.contains(&before),
        _ => {
            AT_THE_END.iter().any(|end| word.ends_with(end))
                || word.strip_suffix("tokens").is_some_and(|grant| GRANTS.contains(&grant))
                || (ANYWHERE.iter().any(|part| word.contains(part)) && word != "passwordless")
        }
    };
    if secret { Class::Secret } else { Class::Plain }
}

/// Returns `Either` for keys that name a secret in one program and something harmless in another.
fn ambiguous(words: &[String], last: &str) -> Class {
    let account = || words.iter().rev().nth(1).is_some_and(|it| ACCOUNTS.contains(&it.as_str()));
    let either = match last {
        "auth" | "cred" | "creds" => true,
        "tokens" => words.len() == 1,
        "pass" => words.len() == 1 || account(),
        _ => false,
    };
    if either { Class::Either } else { Class::Plain }
}

/// Splits a key into lower-case words of letters; digits and everything else stand between words.
fn words(key: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut characters = decoded(key).into_iter().peekable();
    let mut before = ' ';
    while let Some(character) = characters.next() {
        let lower_follows = characters.peek().is_some_and(|next| next.is_lowercase());
        let hump = character.is_uppercase()
            && (before.is_lowercase() || (before.is_uppercase() && lower_follows));
        if (hump || !character.is_alphabetic()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_alphabetic() {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Resolves the `%5F` of URLs, as far as it stands for ASCII.
fn decoded(key: &str) -> Vec<char> {
    let mut characters = Vec::with_capacity(key.len());
    let mut rest = key.chars();
    while let Some(character) = rest.next() {
        let code = rest.as_str().get(..2).filter(|_| character == '%');
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) if byte.is_ascii() => {
                characters.push(char::from(byte));
                rest.nth(1);
            }
            _ => characters.push(character),
        }
    }
    characters
}
