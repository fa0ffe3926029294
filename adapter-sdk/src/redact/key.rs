//! Decides by its name whether a key holds a secret.

use super::glance;

/// What a key says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing secret.
    Plain,
    /// A secret, unless it is a number, a boolean or null.
    Either,
    /// A secret.
    Secret,
}

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

/// Longer keys, and those that are not plain ASCII, are split into words on the heap.
const SHORT: usize = 128;

/// Returns the class of a key.
pub(super) fn class(key: &str) -> Class {
    if glance::is_plain_key(key) { Class::Plain } else { class_of_words(key) }
}

fn class_of_words(key: &str) -> Class {
    let is_plain = |byte: u8| byte.is_ascii() && byte != b'%';
    if key.len() > SHORT || !key.bytes().all(is_plain) {
        let words = words(key);
        let mut classifier = WordClassifier::default();
        words.iter().for_each(|word| classifier.add(word.as_bytes()));
        return classifier.class(key);
    }
    let mut buffer = [0; SHORT];
    let lower = &mut buffer[..key.len()];
    lower.copy_from_slice(key.as_bytes());
    lower.make_ascii_lowercase();
    let mut classifier = WordClassifier::default();
    ascii_words(key.as_bytes(), lower, &mut classifier);
    classifier.class(key)
}

/// Adds the words of a key of plain ASCII; `lower` is the key in lower case.
fn ascii_words<'k>(key: &[u8], lower: &'k [u8], classifier: &mut WordClassifier<'k>) {
    let mut start = 0;
    for (at, byte) in key.iter().enumerate() {
        let before = at.checked_sub(1).map_or(b' ', |before| key[before]);
        let lower_follows = || key.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        let hump = byte.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || (before.is_ascii_uppercase() && lower_follows()));
        if (hump || !byte.is_ascii_alphabetic()) && start < at {
            classifier.add(&lower[start..at]);
            start = at;
        }
        if !byte.is_ascii_alphabetic() {
            start = at + 1;
        }
    }
    if start < key.len() {
        classifier.add(&lower[start..]);
    }
}

/// Class of the words of a key that were added so far.
struct WordClassifier<'k> {
    class: Class,
    count: usize,
    /// The last word, and the one before it.
    last: &'k [u8],
    before: &'k [u8],
}

impl Default for WordClassifier<'_> {
    fn default() -> Self {
        Self { class: Class::Plain, count: 0, last: b"", before: b"" }
    }
}

impl<'k> WordClassifier<'k> {
    fn add(&mut self, word: &'k [u8]) {
        self.class = self.class.max(word_class(self.last, word));
        self.count += 1;
        (self.before, self.last) = (self.last, word);
    }

    fn class(&self, key: &str) -> Class {
        if self.count == 0 || key == "$secret" || is_one_of(ABOUT, self.last) {
            return Class::Plain;
        }
        self.class.max(self.ambiguous())
    }

    /// Returns `Either` for keys that name a secret in one program and something harmless in another.
    fn ambiguous(&self) -> Class {
        let either = match self.last {
            b"auth" | b"cred" | b"creds" => true,
            b"tokens" => self.count == 1,
            b"pass" => self.count == 1 || is_one_of(ACCOUNTS, self.before),
            _ => false,
        };
        if either { Class::Either } else { Class::Plain }
    }
}

/// Returns the class of a word; `before` is the word before it, or empty.
fn word_class(before: &[u8], word: &[u8]) -> Class {
    let secret = match word {
        b"jwt" | b"bearer" => true,
        b"key" | b"keys" => is_one_of(KEYS, before),
        b"tokens" => is_one_of(GRANTS, before),
        _ => {
            AT_THE_END.iter().any(|end| word.ends_with(end.as_bytes()))
                || word.strip_suffix(b"tokens").is_some_and(|grant| is_one_of(GRANTS, grant))
                || (holds_secret_part(word) && word != b"passwordless")
        }
    };
    if secret { Class::Secret } else { Class::Plain }
}

fn is_one_of(words: &[&str], word: &[u8]) -> bool {
    words.iter().any(|it| it.as_bytes() == word)
}

/// Returns whether a word contains one of [`ANYWHERE`].
fn holds_secret_part(word: &[u8]) -> bool {
    let begins = |at: usize| ANYWHERE.iter().any(|part| word[at..].starts_with(part.as_bytes()));
    word.iter()
        .enumerate()
        .any(|(at, byte)| matches!(byte, b'p' | b'c' | b'a' | b's') && begins(at))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_split_into_words() {
        assert_eq!(words("maxTokens_per-Second v2"), ["max", "tokens", "per", "second", "v"]);
        assert_eq!(words("HTTPProxyPASS"), ["http", "proxy", "pass"]);
        assert_eq!(words("api%5Fkey%zz%"), ["api", "key", "zz"]);
        assert_eq!(words("--_ 12"), Vec::<String>::new());
    }

    #[test]
    fn secret_keys_are_known() {
        for key in [
            "password",
            "Passwd",
            "pwd",
            "passphrase",
            "user_password2",
            "dbpassword",
            "PASSWORD_HASH",
            "secret",
            "secrets",
            "client_secret",
            "clientSecret",
            "SecretKey",
            "secretkey",
            "token",
            "TOKEN",
            "access-token",
            "accessToken",
            "authtoken",
            "token_value",
            "refresh_tokens",
            "apiKey",
            "APIKey",
            "X-API-Key",
            "api key",
            "api_keys",
            "aws_access_key_id",
            "AWS_SECRET_ACCESS_KEY",
            "private key",
            "privateKey",
            "signing_key",
            "Authorization",
            "Proxy-Authorization",
            "authorization_header",
            "cookie",
            "Set-Cookie",
            "cookies",
            "credentials",
            "google_credential",
            "jwt",
            "spring.datasource.password",
            "secret_id",
        ] {
            assert_eq!(class(key), Class::Secret, "{key}");
        }
    }

    #[test]
    fn keys_that_only_look_secret_stay() {
        for key in [
            "",
            "max_tokens",
            "maxTokens",
            "tokens_used",
            "total_tokens",
            "tokens_per_second",
            "token_count",
            "token_type",
            "token_limit",
            "tokenizer",
            "tokenized",
            "token_url",
            "token_expires_in",
            "secretary",
            "secretariat",
            "secret_name",
            "passwordless",
            "password_file",
            "compass",
            "bypass",
            "first_pass",
            "passenger",
            "keyboard",
            "key",
            "primary_key",
            "public_key",
            "cache_key",
            "idempotency_key",
            "monkey",
            "author",
            "authority",
            "authentication",
            "cookiecutter",
            "cookie_domain",
            "$secret",
            "description",
        ] {
            assert_eq!(class(key), Class::Plain, "{key}");
        }
    }

    #[test]
    fn every_secret_word_is_seen_at_a_glance() {
        let words = [ANYWHERE, AT_THE_END].concat();
        for word in words.into_iter().chain(["jwt", "bearer", "key", "tokens", "auth", "cred"]) {
            assert!(!glance::is_plain_key(word), "{word}");
        }
    }

    proptest! {
        #[test]
        fn what_is_plain_at_a_glance_is_plain(
            key in "([a-zA-Z%5_. -]|\u{212a}|sig|pass|pwd|db|to|ken|secret|TOKEN|ook|cred|key|api)*"
        ) {
            prop_assert_eq!(class(&key), class_of_words(&key));
            prop_assert_eq!(class(&key), super::super::oracle::class(&key));
        }

        #[test]
        fn classes_equal_those_of_the_oracle(
            key in "([a-zA-Z_. -]|[0-9]|é|api|key|auth|tokens?|pass|db|word|less|cred|s|secret|access|max|id|Pwd){0,12}"
        ) {
            prop_assert_eq!(class(&key), super::super::oracle::class(&key));
            let long = key.repeat(20);
            prop_assert_eq!(class(&long), super::super::oracle::class(&long));
        }
    }

    #[test]
    fn ambiguous_keys_are_either() {
        for key in
            ["tokens", "Tokens", "auth", "basic_auth", "pass", "db_pass", "smtpPass", "creds"]
        {
            assert_eq!(class(key), Class::Either, "{key}");
        }
    }
}
