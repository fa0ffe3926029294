//! What a canonical document cannot supply: the model, limits and switches of the provider, given explicitly.
//!
//! Nothing here has a default. A setting that was not given is not written.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::refusal::{Refusal, rule};
use crate::text::push_escaped;
use crate::writer::Writer;

/// A setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A text.
    Text(String),
    /// A whole number.
    Number(u64),
    /// On or off.
    Flag(bool),
    /// Something else, which no setting is; for whoever reads configurations.
    Other,
}

/// A setting that a target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: SettingKind,
    /// Whether it must be given.
    pub required: bool,
    /// What it is for.
    pub meaning: &'static str,
}

/// The type of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// Text that is not empty and has no control characters.
    Text,
    /// The last part of a path: letters, digits, dots, dashes and underscores.
    Name,
    /// A whole number, from 1 to 2^53.
    Limit,
    /// On or off.
    Flag,
}

impl SettingKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "a text that is not empty, without control characters",
            Self::Name => "letters, digits, dots, dashes and underscores",
            Self::Limit => "a whole number from 1 to 2^53",
            Self::Flag => "true or false",
        }
    }

    fn accepts(self, setting: &Setting) -> bool {
        match (self, setting) {
            (Self::Text, Setting::Text(text)) => {
                !text.is_empty() && !text.chars().any(char::is_control)
            }
            (Self::Name, Setting::Text(text)) => {
                let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
                !text.is_empty()
                    && text.bytes().all(is_fine)
                    && !text.bytes().all(|byte| byte == b'.')
            }
            (Self::Limit, Setting::Number(number)) => (1..=1 << 53).contains(number),
            (Self::Flag, Setting::Flag(_)) => true,
            _ => false,
        }
    }
}

/// The settings of a translator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    settings: BTreeMap<String, Setting>,
}

impl Binding {
    /// Holds settings to the fields of a target.
    ///
    /// # Errors
    /// The first that is unknown, wrong or missing.
    pub(crate) fn new(
        fields: &[Field],
        settings: impl IntoIterator<Item = (impl Into<String>, Setting)>,
    ) -> Result<Self, Refusal> {
        let settings: BTreeMap<String, Setting> =
            settings.into_iter().map(|(name, setting)| (name.into(), setting)).collect();
        let pointer = |name: &str| {
            let mut pointer = String::from("/");
            push_escaped(&mut pointer, name);
            pointer
        };
        for (name, setting) in &settings {
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                let why = "this target has no such setting".into();
                return Err(Refusal::new(rule::BINDING_INVALID, pointer(name), why));
            };
            if !field.kind.accepts(setting) {
                let why = format!("it must be {}", field.kind.name());
                return Err(Refusal::new(rule::BINDING_INVALID, pointer(name), why));
            }
        }
        for field in fields.iter().filter(|field| field.required) {
            if !settings.contains_key(field.name) {
                let why = format!("{} must be bound: {}", field.name, field.meaning);
                return Err(Refusal::new(rule::BINDING_MISSING, pointer(field.name), why));
            }
        }
        Ok(Self { settings })
    }

    /// Returns every setting that was given, by name.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.settings.iter().map(|(name, setting)| (name.as_str(), setting))
    }

    /// Returns a text; none if it was not given.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.settings.get(name)? {
            Setting::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a switch; none if it was not given.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.settings.get(name)? {
            Setting::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Writes a setting as a member of the open object, if it was given.
    pub fn write(&self, out: &mut Writer, name: &str, member: &str) {
        let Some(setting) = self.settings.get(name) else { return };
        out.name(member);
        match setting {
            Setting::Text(text) => out.string(text),
            Setting::Number(number) => out.raw(&format!("{number}")),
            Setting::Flag(flag) => out.raw(if *flag { "true" } else { "false" }),
            Setting::Other => out.raw("null"),
        }
    }
}
