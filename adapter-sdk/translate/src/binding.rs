//! What a canonical document cannot supply: the model, limits and switches of the provider, given explicitly.
//!
//! Nothing here has a default. A setting that was not given is not written.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::refusal::{Refusal, rule};
use crate::relation::SettingRelation;
use crate::text::{number, push_escaped};
use crate::writer::Writer;

/// A setting's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A text.
    Text(String),
    /// A whole number.
    Number(u64),
    /// A number with a fraction or a sign.
    Decimal(f64),
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
    /// A whole number between two others, both included.
    Whole {
        /// The least.
        least: i64,
        /// The most.
        most: i64,
    },
    /// A number between two others, both included.
    Decimal {
        /// The least.
        least: i32,
        /// The most, if there is one.
        most: Option<i32>,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// On or off.
    Flag,
}

impl SettingKind {
    /// Returns the values that are accepted, in words.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Text => "a text that is not empty, without control characters".into(),
            Self::Name => "letters, digits, dots, dashes and underscores".into(),
            Self::Limit => "a whole number from 1 to 2^53".into(),
            Self::Whole { least, most } => format!("a whole number from {least} to {most}"),
            Self::Decimal { least, most: Some(most) } => format!("a number from {least} to {most}"),
            Self::Decimal { least, most: None } => format!("a number, {least} or more"),
            Self::Word(words) => words.join(" or "),
            Self::Flag => "true or false".into(),
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
            (Self::Whole { least, most }, setting) => {
                whole(setting).is_some_and(|number| (least..=most).contains(&number))
            }
            (Self::Decimal { least, most }, setting) => decimal(setting).is_some_and(|number| {
                number.is_finite()
                    && number >= f64::from(least)
                    && most.is_none_or(|most| number <= f64::from(most))
            }),
            (Self::Word(words), Setting::Text(text)) => words.contains(&text.as_str()),
            (Self::Flag, Setting::Flag(_)) => true,
            _ => false,
        }
    }
}

/// Returns the value of a whole number, however it was written.
pub(crate) fn whole(setting: &Setting) -> Option<i64> {
    match setting {
        Setting::Number(number) => i64::try_from(*number).ok(),
        // The canonical text of a whole number has neither a point nor an exponent.
        Setting::Decimal(decimal) => number(*decimal).parse().ok(),
        _ => None,
    }
}

/// Returns the value of a number. Whole ones from 2^32 are out of range wherever a fraction may stand.
fn decimal(setting: &Setting) -> Option<f64> {
    match setting {
        Setting::Number(number) => u32::try_from(*number).ok().map(f64::from),
        Setting::Decimal(decimal) => Some(*decimal),
        _ => None,
    }
}

/// The settings of a translator.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    settings: BTreeMap<String, Setting>,
}

impl Binding {
    /// Validates settings against the fields of a target and their relations.
    ///
    /// # Errors
    /// The first that is unknown, wrong, missing or in conflict with another.
    pub(crate) fn new(
        fields: &[Field],
        relations: &[SettingRelation],
        settings: impl IntoIterator<Item = (impl Into<String>, Setting)>,
    ) -> Result<Self, Refusal> {
        let settings: BTreeMap<String, Setting> =
            settings.into_iter().map(|(name, setting)| (name.into(), setting)).collect();
        for (name, setting) in &settings {
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                let why = "this target has no such setting".into();
                return Err(Refusal::new(rule::BINDING_INVALID, pointer(name), why));
            };
            if !field.kind.accepts(setting) {
                let why = format!("it must be {}", field.kind.describe());
                return Err(Refusal::new(rule::BINDING_INVALID, pointer(name), why));
            }
        }
        for field in fields.iter().filter(|field| field.required) {
            if !settings.contains_key(field.name) {
                let why = format!("{} must be bound: {}", field.name, field.meaning);
                return Err(Refusal::new(rule::BINDING_MISSING, pointer(field.name), why));
            }
        }
        let binding = Self { settings };
        relations.iter().try_for_each(|relation| relation.check(&binding))?;
        Ok(binding)
    }

    /// Returns a setting; none if it was not given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    /// Returns true if one of these settings was given.
    #[must_use]
    pub fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.settings.contains_key(*name))
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
        write_setting(out, setting);
    }

    /// Writes an object with these settings, each under its member, unless none of them was given.
    pub fn write_object(&self, out: &mut Writer, name: &str, members: &[(&str, &str)]) {
        if !members.iter().any(|(setting, _)| self.settings.contains_key(*setting)) {
            return;
        }
        out.name(name);
        out.open('{');
        members.iter().for_each(|(setting, member)| self.write(out, setting, member));
        out.close('}');
    }

    /// Returns the binding as RFC 8785 text: an object of the settings that were given.
    #[must_use]
    pub fn to_canonical(&self) -> String {
        let mut out = Writer::default();
        out.open('{');
        for (name, setting) in &self.settings {
            out.name(name);
            write_setting(&mut out, setting);
        }
        out.close('}');
        out.finish()
    }
}

fn write_setting(out: &mut Writer, setting: &Setting) {
    match setting {
        Setting::Text(text) => out.string(text),
        Setting::Number(number) => out.raw(&format!("{number}")),
        Setting::Decimal(decimal) => out.raw(&number(*decimal)),
        Setting::Flag(flag) => out.raw(if *flag { "true" } else { "false" }),
        Setting::Other => out.raw("null"),
    }
}

/// Returns the pointer to a setting.
pub(crate) fn pointer(name: &str) -> String {
    let mut pointer = String::from("/");
    push_escaped(&mut pointer, name);
    pointer
}
