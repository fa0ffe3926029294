//! What settings of a binding demand of each other, as data.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::binding::{Binding, Setting, pointer, whole};
use crate::refusal::{Refusal, rule};

/// A rule about several settings of one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingRelation {
    /// At most one of the two is given.
    Excludes(&'static str, &'static str),
    /// What fulfils the condition needs another setting that fulfils one of these.
    Needs(SettingCondition, &'static [SettingCondition]),
    /// The first number is less than the second.
    Below(&'static str, &'static str),
}

/// A setting that is given, and has one of these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingCondition {
    /// The setting.
    pub setting: &'static str,
    /// The values; any, if there are none.
    pub values: &'static [&'static str],
}

impl SettingCondition {
    /// Returns the condition that a setting is given.
    #[must_use]
    pub const fn given(setting: &'static str) -> Self {
        Self { setting, values: &[] }
    }

    /// Returns the condition that a setting has one of these values.
    #[must_use]
    pub const fn one_of(setting: &'static str, values: &'static [&'static str]) -> Self {
        Self { setting, values }
    }

    fn holds(self, binding: &Binding) -> bool {
        match binding.get(self.setting) {
            Some(Setting::Text(text)) => {
                self.values.is_empty() || self.values.contains(&text.as_str())
            }
            Some(_) => self.values.is_empty(),
            None => false,
        }
    }

    fn describe(self) -> String {
        if self.values.is_empty() {
            return self.setting.into();
        }
        format!("{} = {}", self.setting, self.values.join(" or "))
    }
}

impl SettingRelation {
    /// Refuses a binding that breaks the rule.
    pub(crate) fn check(self, binding: &Binding) -> Result<(), Refusal> {
        let invalid =
            |setting, why| Err(Refusal::new(rule::BINDING_INVALID, pointer(setting), why));
        match self {
            Self::Excludes(one, other) if binding.has_any(&[one]) && binding.has_any(&[other]) => {
                invalid(other, format!("{other} cannot stand beside {one}"))
            }
            Self::Needs(condition, others)
                if condition.holds(binding) && !others.iter().any(|other| other.holds(binding)) =>
            {
                invalid(condition.setting, self.describe())
            }
            Self::Below(less, more) => {
                let value = |name| binding.get(name).and_then(whole);
                match (value(less), value(more)) {
                    (Some(one), Some(other)) if one >= other => {
                        invalid(less, format!("{less} must be less than {more}, which is {other}"))
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Returns the rule in words.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Excludes(one, other) => format!("{one} or {other}, not both"),
            Self::Needs(condition, others) => {
                let others: Vec<String> = others.iter().map(|other| other.describe()).collect();
                format!("{} needs {}", condition.describe(), others.join(" or "))
            }
            Self::Below(less, more) => format!("{less} is less than {more}"),
        }
    }
}
