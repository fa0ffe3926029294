//! A token: its text, which only its bearer has, and what is kept of it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Scope, Visibility};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::python_text::visible;
use crate::role::Role;

/// What every token begins with, so that people and scanners know it for a secret.
const PREFIX: &str = "nxr_";
/// The length of an id.
const ID_LENGTH: usize = 12;
/// The letters of ids: 32, so that five random bits choose one, and none that looks like another.
const ID_LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The random bytes of a token.
const SECRET_BYTES: usize = 32;
/// Their length in Base64.
const SECRET_LENGTH: usize = 43;
/// The length of a token.
const LENGTH: usize = PREFIX.len() + ID_LENGTH + 1 + SECRET_LENGTH;
/// The longest name of a token.
const MAX_NAME: usize = 64;

/// What is kept of a token. Its text cannot be had from it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The part of its text by which it is found.
    pub id: String,
    /// The name that the operator gave it.
    pub name: String,
    /// What its bearer may do.
    pub scope: Scope,
    /// The role that bounds its bearer further, if any.
    pub role: Option<Role>,
    /// The runs that its bearer sees.
    pub sees: Visibility,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops being good, if ever.
    pub expires_at: Option<Timestamp>,
    /// The digest of its text.
    pub(super) digest: Digest,
}

impl Token {
    /// Says whether the token is no longer good.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

// By hand: the digest is nobody's business.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("scope", &self.scope)
            .field("role", &self.role)
            .field("sees", &self.sees)
            .field("created_at", &self.created_at)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// The text of a token: `nxr_`, the id, `_`, and 32 random bytes in Base64. It is a secret, and exists
/// only while it is handed over.
pub struct TokenText(String);

impl TokenText {
    /// Makes a new one.
    pub(super) fn generate() -> std::io::Result<Self> {
        let mut random = [0; ID_LENGTH + SECRET_BYTES];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let (id, secret) = random.split_at(ID_LENGTH);
        let mut text = String::with_capacity(LENGTH);
        text.push_str(PREFIX);
        text.extend(id.iter().map(|byte| char::from(ID_LETTERS[usize::from(byte & 31)])));
        text.push('_');
        URL_SAFE_NO_PAD.encode_string(secret, &mut text);
        Ok(Self(text))
    }

    /// Returns the text, to be shown to its bearer.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id in it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0[PREFIX.len()..PREFIX.len() + ID_LENGTH]
    }
}

// By hand: whoever prints this by mistake must not print the secret.
impl std::fmt::Debug for TokenText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenText({PREFIX}{}_…)", self.id())
    }
}

/// Returns the id in a text that has the form of a token.
pub(super) fn id_in(text: &str) -> Option<&str> {
    if text.len() != LENGTH {
        return None;
    }
    let (id, secret) = text.strip_prefix(PREFIX)?.split_at_checked(ID_LENGTH)?;
    let secret = secret.strip_prefix('_')?;
    // One digest belongs to one text, so it does not matter that the decoding takes no constant time.
    let mut bytes = [0; SECRET_BYTES + 1];
    let decoded = URL_SAFE_NO_PAD.decode_slice(secret, &mut bytes).ok()?;
    (is_id(id) && decoded == SECRET_BYTES).then_some(id)
}

/// Says whether a text has the form of an id.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == ID_LENGTH && text.bytes().all(|byte| ID_LETTERS.contains(&byte))
}

/// Says whether a token may have this name.
pub(super) fn is_name(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    // A token that is given in place of a name must not end up in a list.
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(letter)
        && !text.starts_with(PREFIX)
        && text != Caller::LOCAL
}

/// Returns what may be shown of a text that should be a name or an id, and may be a token by mistake.
pub(super) fn shown(text: &str) -> String {
    match text.find(PREFIX) {
        Some(at) => format!("{}{PREFIX}…", visible(&shortened(&text[..at]))),
        None => visible(&shortened(text)),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_new_text_has_the_form() {
        let text = TokenText::generate().unwrap();
        assert_eq!(text.as_str().len(), LENGTH);
        assert_eq!(id_in(text.as_str()), Some(text.id()));
        assert_ne!(TokenText::generate().unwrap().as_str(), text.as_str());
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let text = TokenText::generate().unwrap();
        let (text, end) = (text.as_str(), LENGTH - 1);
        let put = |at: usize, new: &str| format!("{}{new}{}", &text[..at], &text[at + 1..]);
        for bad in [
            String::new(),
            text[1..].to_owned(),
            text[..end].to_owned(),
            format!("{text}A"),
            format!("{}=", &text[..end]),
            put(0, "N"),
            put(5, "u"),
            put(5, "A"),
            put(16, "-"),
            put(20, "+"),
            put(20, "/"),
            put(20, " "),
            put(20, "é"),
            // The last letter carries four bits; one that carries more is not what was made.
            put(end, "B"),
            text.replace("nxr_", "nxré"),
        ] {
            assert_eq!(id_in(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn names_are_plain_and_never_tokens() {
        let long = "x".repeat(64);
        for good in ["ci", "a.b-c_D9", "locally", "LOCAL", &long] {
            assert!(is_name(good), "{good}");
        }
        let token = TokenText::generate().unwrap();
        for bad in ["", "a b", "é", "a/b", "local", "a\n", &format!("{long}x"), token.as_str()] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn the_secret_is_shown_nowhere() {
        let text = TokenText::generate().unwrap();
        let secret = &text.as_str()[17..];
        assert!(!format!("{text:?}").contains(secret));
        assert_eq!(shown(&format!("x {}", text.as_str())), "x nxr_…");
        assert_eq!(shown("a\u{1b}"), r"a\x1b");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), 65);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in prop_oneof![
            any::<String>(),
            "nxr_[0-9a-z]{12}_[A-Za-z0-9_-]{43}",
            "nxr_.{12}_.{43}",
        ]) {
            if let Some(id) = id_in(&text) {
                prop_assert!(is_id(id));
                let secret = &text[17..];
                let bytes = URL_SAFE_NO_PAD.decode(secret).unwrap();
                prop_assert_eq!(format!("nxr_{id}_{}", URL_SAFE_NO_PAD.encode(bytes)), text.as_str());
            }
            prop_assert!(shown(&text).chars().count() <= 10 * (MAX_NAME + 10));
        }
    }
}
