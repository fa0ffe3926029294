//! The name of a member, kept in place when it is short.

/// The longest name kept in place; it makes a name as large as a `String`.
const IN_PLACE: usize = 22;

/// The name of a member.
///
/// Objects are mostly short names, and allocating each took half the time of reading them.
#[derive(Clone)]
pub(super) enum Name {
    Short { len: u8, bytes: [u8; IN_PLACE] },
    Long(Box<str>),
}

impl Name {
    pub(super) const EMPTY: Self = Self::Short { len: 0, bytes: [0; IN_PLACE] };

    /// Replaces an empty name; in place, since moving one that was just written is slow.
    pub(super) fn set(&mut self, text: &str) {
        if let Self::Short { len, bytes } = self
            && let Some(room) = bytes.get_mut(..text.len())
            && let Ok(short) = u8::try_from(text.len())
        {
            room.copy_from_slice(text.as_bytes());
            *len = short;
        } else {
            *self = Self::Long(text.into());
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => &bytes[..usize::from(*len)],
            Self::Long(text) => text.as_bytes(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            // They were copied from a text, so they are one.
            Self::Short { .. } => str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Self::Long(text) => text,
        }
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        let mut name = Self::EMPTY;
        name.set(text);
        name
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        match name {
            Name::Short { .. } => name.as_str().to_owned(),
            Name::Long(text) => text.into(),
        }
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_is_as_large_as_a_string() {
        assert_eq!(size_of::<Name>(), size_of::<String>());
    }

    proptest! {
        #[test]
        fn a_name_is_the_text_it_was_made_of(text in "\\PC{0,30}") {
            let name = Name::from(text.as_str());
            prop_assert_eq!(matches!(name, Name::Short { .. }), text.len() <= IN_PLACE);
            prop_assert_eq!(name.as_str(), &text);
            prop_assert_eq!(String::from(name), text);
        }
    }
}
