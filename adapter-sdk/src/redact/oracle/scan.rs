//! Finds secrets in a text, in one pass from left to right.
//!
//! Every step either copies what it looked at or replaces it, and looks ahead only over what it then
//! consumes, or over blanks; so the time grows with the length of the text and no more.

use super::super::REDACTED;
use super::super::token::{holds_colon_in_base64, is_known_token};
use super::extent::{Extent, Separator, ends_with, is_literal, is_word};
use super::key::{self, Class};

/// Words after `Bearer` in sentences about it.
const NO_CREDENTIALS: &[&str] =
    &["auth", "authentication", "authorization", "credentials", "of", "scheme", "token", "tokens"];

/// Returns the text without its secrets, or nothing if it has none.
pub(in super::super) fn text(text: &str) -> Option<String> {
    Scan::new(text).run()
}

/// Returns the URL without its secrets.
pub(in super::super) fn url(url: &str) -> String {
    let mut scan = Scan::new(url);
    scan.enter_url(url.len());
    let is_part = |it: char| "/?#&=".contains(it) || it.is_ascii_whitespace();
    if url.split(is_part).next().is_some_and(|start| start.contains('@')) {
        scan.authority();
    }
    scan.run().unwrap_or_else(|| url.to_owned())
}

struct Scan<'a> {
    text: &'a str,
    extent: Extent<'a>,
    at: usize,
    out: String,
    /// Where the URL ends that `at` is in, if it is in one.
    url_end: usize,
    /// The last `@` before `url_end`.
    url_at_sign: Option<usize>,
    /// Something was replaced, though perhaps by itself.
    replaced: bool,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str) -> Self {
        let out = String::with_capacity(text.len());
        let extent = Extent { text };
        Self { text, extent, at: 0, out, url_end: 0, url_at_sign: None, replaced: false }
    }

    fn run(mut self) -> Option<String> {
        while let Some(character) = self.text[self.at..].chars().next() {
            if u8::try_from(character).is_ok_and(is_word) {
                self.word();
            } else if let Some(end) = self.extent.pem_end(self.at) {
                self.replace(end);
            } else {
                self.copy(self.at + character.len_utf8());
            }
        }
        (self.replaced && self.out != self.text).then_some(self.out)
    }

    /// Handles a word, which may turn out to be a key, a scheme or a token.
    fn word(&mut self) {
        let (start, end) = (self.at, self.extent.word_end(self.at));
        let word = &self.text[start..end];
        if self.text[end..].starts_with("://") {
            if !self.in_url() {
                self.enter_url(self.extent.bare_end(start, false));
            }
            self.copy(end + 3);
            self.authority();
        } else if let Some(separator) = self.secret_key(start, end) {
            self.pair(start, end, &separator);
        } else if self.out.ends_with("--") && key::class(word) == Class::Secret {
            self.copy(end);
            self.flag_value();
        } else if word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic") {
            self.copy(end);
            self.credentials(word);
        } else if is_known_token(word) {
            self.replace(end);
        } else {
            self.copy(end);
        }
    }

    /// Returns what stands behind a word if the word is a secret key with a value.
    fn secret_key(&self, start: usize, end: usize) -> Option<Separator> {
        let separator = self.extent.separator(end)?;
        let word = &self.text[start..end];
        let stem = word.trim_end_matches(|last: char| last.is_ascii_digit());
        let class = if ["key", "keys", "id"].iter().any(|it| stem.eq_ignore_ascii_case(it)) {
            key::class(&self.text[self.extent.phrase_start(start)..end])
        } else if self.in_url()
            && (word.eq_ignore_ascii_case("sig") || ends_with(word, "signature"))
        {
            Class::Secret
        } else {
            key::class(word)
        };
        // In prose, `auth: failed` is not a pair.
        let is_pair = separator.quote.is_some() || self.extent.byte(separator.sign) == Some(b'=');
        match class {
            Class::Plain => None,
            Class::Either if !is_pair || self.is_literal(separator.value) => None,
            Class::Either | Class::Secret => Some(separator),
        }
    }

    fn is_literal(&self, value: usize) -> bool {
        let end = self.extent.bare_end(value, self.in_url());
        is_literal(self.text[value..end].trim_matches(|it| "\"'`,;:)]}".contains(it)))
    }

    /// Replaces the value of a secret key.
    fn pair(&mut self, start: usize, end: usize, separator: &Separator) {
        let (extent, value) = (self.extent, separator.value);
        if let Some(quote) = separator.quote {
            let value_end = extent.literal_end(value);
            self.copy(value);
            quote.write(&mut self.out);
            self.replace(value_end.unwrap_or_else(|| extent.value_end(value, self.in_url())));
            return quote.write(&mut self.out);
        }
        let name = &self.text[start..end];
        let is_authorization = ends_with(name, "authorization");
        if is_authorization && let Some(credentials) = bearer(extent, value) {
            self.copy(value + "bearer".len());
            self.out.push(' ');
            return self.replace(extent.value_end(credentials, false));
        }
        let value_end = if extent.is_header(start, end, separator) {
            extent.header_end(start, value)
        } else {
            extent.value_end(value, self.in_url())
        };
        if is_api_key(name) {
            self.copy(value);
        } else {
            let shown =
                if is_authorization { name.len() - "authorization".len() } else { name.len() };
            self.out.push_str(&name[..shown]);
            self.out.push_str(&name[shown..].to_ascii_lowercase());
            self.out.push_str(self.text[end..separator.sign].trim_end());
            self.out.push('=');
        }
        self.replace(value_end);
    }

    /// Replaces what follows `--password`, unless it is another flag or a placeholder.
    fn flag_value(&mut self) {
        let value = self.extent.blanks_end(self.at);
        let is_flag = match self.text.as_bytes()[value..] {
            [] | [b'<' | b'\n' | b'\r', ..] | [b'-', _] | [b'-'] => true,
            [b'-', b'-', letter, ..] => letter.is_ascii_alphabetic(),
            [b'-', _, blank, ..] => blank.is_ascii_whitespace(),
            _ => false,
        };
        if value > self.at && !is_flag {
            self.copy(value);
            self.replace(self.extent.value_end(value, false));
        }
    }

    /// Replaces what follows the name of an authentication scheme.
    fn credentials(&mut self, scheme: &str) {
        let value = self.extent.blanks_end(self.at);
        if value == self.at || self.extent.inner_pair(value).is_some() {
            return;
        }
        let bare = self.extent.bare_end(value, false);
        let credentials = &self.text[value..bare];
        let word = credentials.trim_end_matches(|last: char| last.is_ascii_punctuation());
        let end = if scheme.eq_ignore_ascii_case("basic") {
            holds_colon_in_base64(credentials).then_some(bare)
        } else if NO_CREDENTIALS.iter().any(|it| word.eq_ignore_ascii_case(it)) {
            None
        } else {
            (bare > value).then(|| self.extent.value_end(value, false))
        };
        if let Some(end) = end {
            self.out.push(' ');
            self.replace(end);
        }
    }

    /// Notes that a URL begins here.
    fn enter_url(&mut self, end: usize) {
        self.url_end = end;
        self.url_at_sign = self.text[self.at..end].rfind('@').map(|index| self.at + index);
    }

    fn in_url(&self) -> bool {
        self.at < self.url_end
    }

    /// Handles the part of a URL before the path: a password goes, and so does a token as user.
    fn authority(&mut self) {
        let (text, start, limit) = (self.text, self.at, self.url_end.max(self.at));
        let path = |from: usize| {
            text[from..limit].find(['/', '?', '#']).map_or(limit, |index| from + index)
        };
        let authority = &text[start..path(start)];
        let inner = authority.rfind('@').map(|index| start + index);
        // Behind a colon stands either a port or a password; the latter may hold a slash, or be cut off.
        let has_port = inner.is_none()
            && has_plain_port(authority)
            && !(authority.ends_with(':') && self.url_at_sign.is_some());
        let sign = inner.or(self.url_at_sign.filter(|sign| !has_port && *sign >= start));
        if sign.is_none() && has_port {
            return self.copy(start + authority.len());
        }
        let userinfo = &text[start..sign.unwrap_or(start + authority.len())];
        let (user, password) = match userinfo.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (userinfo, None),
        };
        let is_token = matches!(password, Some("" | "x-oauth-basic")) || is_known_token(user);
        if is_token && !user.is_empty() {
            self.replace(start + user.len());
        }
        self.copy(start + user.len());
        if password.is_some() {
            self.out.push(':');
            self.replace(start + userinfo.len());
        }
        self.copy(path(self.at));
    }

    fn copy(&mut self, to: usize) {
        self.out.push_str(&self.text[self.at..to]);
        self.at = to;
    }

    fn replace(&mut self, to: usize) {
        self.out.push_str(REDACTED);
        self.at = to;
        self.replaced = true;
    }
}

/// Returns where the credentials begin if the value is `Bearer` and credentials.
fn bearer(extent: Extent<'_>, value: usize) -> Option<usize> {
    let end = value + "bearer".len();
    let scheme = extent.text.get(value..end)?;
    let credentials = extent.blanks_end(end);
    let follows = extent.byte(credentials).is_some_and(|byte| !byte.is_ascii_whitespace());
    (scheme.eq_ignore_ascii_case("bearer") && credentials > end && follows).then_some(credentials)
}

fn is_api_key(name: &str) -> bool {
    let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect();
    ends_with(&letters, "apikey")
}

/// Returns whether nothing but a port stands behind the host.
fn has_plain_port(authority: &str) -> bool {
    let host_end = if authority.starts_with('[') { authority.find(']').unwrap_or(0) } else { 0 };
    authority[host_end..]
        .split_once(':')
        .is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}
