//! Rules for names, as data.

use alloc::format;
use alloc::string::String;

/// Which characters a name may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    /// Any.
    Any,
    /// ASCII letters, ASCII digits, and these besides.
    Word(&'static str),
    /// ASCII letters, and these besides.
    Letter(&'static str),
}

impl Letters {
    fn has(self, character: char) -> bool {
        match self {
            Self::Any => true,
            Self::Word(more) => character.is_ascii_alphanumeric() || more.contains(character),
            Self::Letter(more) => character.is_ascii_alphabetic() || more.contains(character),
        }
    }

    /// Returns the class as a regular expression has it.
    #[must_use]
    pub fn pattern(self) -> String {
        match self {
            Self::Any => ".".into(),
            Self::Word(more) => format!("[A-Za-z0-9{more}]"),
            Self::Letter(more) => format!("[A-Za-z{more}]"),
        }
    }
}

/// What a name must be. It is never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRule {
    /// The first character.
    pub first: Letters,
    /// All others.
    pub rest: Letters,
    /// The most characters.
    pub most: Option<u32>,
}

impl NameRule {
    /// The rule that a name is there.
    pub const ANY: Self = Self { first: Letters::Any, rest: Letters::Any, most: None };

    /// Returns a rule with one class for all characters.
    #[must_use]
    pub const fn of(letters: Letters, most: u32) -> Self {
        Self { first: letters, rest: letters, most: Some(most) }
    }

    /// Says whether a name keeps the rule.
    #[must_use]
    pub fn accepts(&self, name: impl Iterator<Item = char>) -> bool {
        let mut count: u32 = 0;
        for character in name {
            let letters = if count == 0 { self.first } else { self.rest };
            count = count.saturating_add(1);
            if !letters.has(character) || self.most.is_some_and(|most| count > most) {
                return false;
            }
        }
        count > 0
    }

    /// Returns the rule as a regular expression.
    #[must_use]
    pub fn pattern(&self) -> String {
        let rest = self.rest.pattern();
        match self.most {
            _ if self.first == self.rest && self.most.is_none() => format!("^{rest}+$"),
            Some(most) if self.first == self.rest => format!("^{rest}{{1,{most}}}$"),
            Some(most) => {
                format!("^{}{rest}{{0,{}}}$", self.first.pattern(), most.saturating_sub(1))
            }
            None => format!("^{}{rest}*$", self.first.pattern()),
        }
    }
}
