//! What a change of a contract means for whoever relies on it, and whether its version says so.

use std::collections::BTreeSet;

use super::compare::{Difference, differences};
use super::declaration::LIFECYCLE;
use super::pattern::{SemverParts, semver_parts};
use crate::interface::Class;
use crate::json::{self, Object, Value, to_repr};

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// How much it means.
    pub class: Class,
    /// Whether a hash covers it, so that it needs another version.
    pub hashed: bool,
    /// Where it is: a JSON pointer.
    pub pointer: String,
    /// What it is.
    pub message: String,
}

/// How one version stands to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is the same.
    Same,
    /// It is higher, in the part that is named.
    Raised(Class),
    /// It is lower.
    Lowered,
    /// One of them is no version.
    Unknown,
}

impl Step {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "none",
            Self::Raised(class) => class.name(),
            Self::Lowered => "lowered",
            Self::Unknown => "unknown",
        }
    }

    fn between(old: Option<&Value>, new: Option<&Value>) -> Self {
        let parts = |value: Option<&Value>| value.and_then(Value::as_str).and_then(semver_parts);
        let (Some(old), Some(new)) = (parts(old), parts(new)) else { return Self::Unknown };
        if new < old {
            return Self::Lowered;
        }
        let differs = old.digits().iter().zip(new.digits()).position(|(old, new)| old != new);
        match differs {
            None => Self::Same,
            Some(0) => Self::Raised(Class::Major),
            Some(1) => Self::Raised(Class::Minor),
            Some(_) => Self::Raised(Class::Patch),
        }
    }
}

/// What differs between two contracts, and what that asks of the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compatibility {
    /// Everything that differs, the worst first. The version itself and the hashes are no changes of their own.
    pub changes: Vec<Change>,
    /// How the versions stand to each other.
    pub declared: Step,
    /// The lowest version that says enough; none if the older one has no version, or no higher one is needed.
    pub next: Option<String>,
}

impl Compatibility {
    /// Compares two contracts.
    #[must_use]
    pub fn of(old: &Object, new: &Object) -> Self {
        let mut changes = Vec::new();
        let typed = [old, new].iter().all(|it| is_typed(it));
        for difference in differences(old, new) {
            // Who names the types of its fields is bound to them by the validator's name.
            if !(typed && difference.field == "validator_name") {
                judge(&difference, &mut changes);
            }
        }
        changes.sort_by_key(|change| std::cmp::Reverse(change.class));
        let versions = [old, new].map(|it| it.get("adapter_version"));
        let mut verdict =
            Self { changes, declared: Step::between(versions[0], versions[1]), next: None };
        let parts = versions[0].and_then(Value::as_str).and_then(semver_parts);
        verdict.next = parts.zip(verdict.required()).map(|(parts, class)| next(&parts, class));
        verdict
    }

    /// Returns how much the changes mean; none if nothing differs.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        self.changes.iter().map(|change| change.class).max()
    }

    /// Returns which part of the version has to be higher; none if the version may stay. What no hash covers may change
    /// within a version: that is how a contract is deprecated.
    #[must_use]
    pub fn required(&self) -> Option<Class> {
        self.changes.iter().filter(|change| change.hashed).map(|change| change.class).max()
    }

    /// Says whether the version says enough.
    #[must_use]
    pub fn ok(&self) -> bool {
        match self.declared {
            Step::Same => self.required().is_none(),
            Step::Raised(class) => self.required().is_none_or(|needed| class >= needed),
            Step::Lowered | Step::Unknown => false,
        }
    }
}

fn is_typed(contract: &Object) -> bool {
    let name = contract.get("validator_name").and_then(Value::as_str);
    name.is_some_and(|it| it.starts_with("typed_"))
        && contract.get("field_types").is_some_and(|it| it.as_object().is_some())
}

/// Tells what a difference of one key means.
fn judge(difference: &Difference<'_>, changes: &mut Vec<Change>) {
    let Difference { field, old, new } = *difference;
    let mut tell = |class, hashed, pointer: &str, message: String| {
        changes.push(Change { class, hashed, pointer: format!("/{pointer}"), message });
    };
    let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), to_repr);
    let became = || format!("{field} was {}, and is {}", shown(old), shown(new));
    match field {
        // The version is what is judged, and the hashes follow from the rest.
        "adapter_version" | "contract_hash" | "input_schema_hash" => {}
        "output_fields" | "allowed_policy_fields" => lists(difference, &mut tell),
        "field_types" => types(old, new, &mut tell),
        "input_schema_version" => {
            let class = match Step::between(old, new) {
                Step::Raised(class) => class,
                _ => Class::Major,
            };
            tell(class, true, field, became());
        }
        "adapter_id" | "adapter_contract_version" | "validator_name" | "validator_version" => {
            tell(Class::Major, true, field, became());
        }
        _ if LIFECYCLE.contains(&field) => tell(Class::Patch, false, field, became()),
        _ => {
            let message = format!("{} changed; no hash covers it", to_repr(&field.into()));
            tell(Class::Patch, false, &escaped(field), message);
        }
    }
}

type Tell<'a> = &'a mut dyn FnMut(Class, bool, &str, String);

/// Tells which fields are gone and which are new.
fn lists(difference: &Difference<'_>, tell: Tell<'_>) {
    let Difference { field, old, new } = *difference;
    let names = |value: Option<&Value>| -> Option<Vec<String>> {
        value?.as_array()?.iter().map(|it| it.as_str().map(str::to_owned)).collect()
    };
    let (Some(old), Some(new)) = (names(old), names(new)) else {
        tell(Class::Major, true, field, format!("{field} is no list of names on both sides"));
        return;
    };
    let [was, is] = [&old, &new].map(|names| names.iter().collect::<BTreeSet<_>>());
    let shown = |name: &String| to_repr(&name.as_str().into());
    for gone in was.difference(&is) {
        tell(Class::Major, true, field, format!("{field} has no {} any more", shown(gone)));
    }
    for added in is.difference(&was) {
        tell(Class::Minor, true, field, format!("{field} has {} too", shown(added)));
    }
    if was == is && old.len() == new.len() {
        tell(Class::Patch, false, field, format!("{field} is written in another order"));
    } else if was == is {
        tell(Class::Patch, true, field, format!("{field} names a field more than once"));
    }
}

/// Tells which types of fields are others. The validator's name binds them to the hashes.
fn types(old: Option<&Value>, new: Option<&Value>, tell: Tell<'_>) {
    let members = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
    let (Some(old), Some(new)) = (members(old), members(new)) else {
        tell(Class::Major, true, "field_types", "field_types came or went".to_owned());
        return;
    };
    let told = differences(&old, &new);
    for Difference { field, old, new } in &told {
        let pointer = format!("field_types/{}", escaped(field));
        let name = to_repr(&(*field).into());
        match (old, new) {
            (None, Some(_)) => tell(Class::Minor, true, &pointer, format!("{name} has a type")),
            (Some(_), None) => {
                tell(Class::Major, true, &pointer, format!("{name} has no type any more"));
            }
            _ => tell(Class::Major, true, &pointer, format!("the type of {name} changed")),
        }
    }
    if told.is_empty() {
        tell(Class::Major, true, "field_types", "field_types changed".to_owned());
    }
}

fn escaped(name: &str) -> String {
    json::pointer_segment(name)
}

/// Returns the lowest version that is higher in one part.
fn next(parts: &SemverParts, class: Class) -> String {
    let part = match class {
        Class::Major => 0,
        Class::Minor => 1,
        Class::Patch => 2,
    };
    let number = |(index, digits): (usize, &String)| match index.cmp(&part) {
        std::cmp::Ordering::Less if digits.is_empty() => "0".to_owned(),
        std::cmp::Ordering::Less => digits.clone(),
        std::cmp::Ordering::Equal => incremented(digits),
        std::cmp::Ordering::Greater => "0".to_owned(),
    };
    parts.digits().iter().enumerate().map(number).collect::<Vec<_>>().join(".")
}

/// Adds one to a number of any length.
fn incremented(digits: &str) -> String {
    let kept = digits.trim_end_matches('9');
    let nines = digits.len() - kept.len();
    let (head, last) = kept.split_at(kept.len().saturating_sub(1));
    let last = last.bytes().next().map_or('1', |digit| char::from(digit + 1));
    format!("{head}{last}{}", "0".repeat(nines))
}

#[cfg(test)]
mod tests {
    use super::super::scaffold;
    use super::*;
    use crate::json::{Limits, parse};

    /// Compares a contract with itself after some members of it were changed.
    fn judged(version: &str, members: &str) -> Compatibility {
        let old = scaffold("acme.x", "1.2.3", "a,b").unwrap();
        let mut new = old.clone();
        new.insert("adapter_version", version);
        let members = parse(members.as_bytes(), Limits::REQUEST).unwrap().into_object().unwrap();
        new.extend(members);
        Compatibility::of(&old, &new)
    }

    #[test]
    fn each_change_has_its_class_and_asks_for_its_version() {
        use Class::{Major, Minor, Patch};
        for (members, class, required, next) in [
            ("{}", None, None, None),
            (r#"{"output_fields": ["a"]}"#, Some(Major), Some(Major), Some("2.0.0")),
            (r#"{"allowed_policy_fields": ["a"]}"#, Some(Major), Some(Major), Some("2.0.0")),
            (r#"{"output_fields": ["c", "b", "a"]}"#, Some(Minor), Some(Minor), Some("1.3.0")),
            (r#"{"output_fields": ["b", "a"]}"#, Some(Patch), None, None),
            (r#"{"output_fields": ["a", "b", "a"]}"#, Some(Patch), Some(Patch), Some("1.2.4")),
            (r#"{"output_fields": 5}"#, Some(Major), Some(Major), Some("2.0.0")),
            (r#"{"validator_version": "1.0.1"}"#, Some(Major), Some(Major), Some("2.0.0")),
            (r#"{"validator_name": "other"}"#, Some(Major), Some(Major), Some("2.0.0")),
            (r#"{"adapter_id": "acme.y"}"#, Some(Major), Some(Major), Some("2.0.0")),
            (r#"{"input_schema_version": "1.0.1"}"#, Some(Patch), Some(Patch), Some("1.2.4")),
            (r#"{"input_schema_version": "0.9.0"}"#, Some(Major), Some(Major), Some("2.0.0")),
            (r#"{"field_types": {}}"#, Some(Major), Some(Major), Some("2.0.0")),
            (r#"{"status": "revoked", "_x": 1, "y/z": 2}"#, Some(Patch), None, None),
            (r#"{"contract_hash": "x"}"#, None, None, None),
        ] {
            let verdict = judged("1.2.3", members);
            assert_eq!((verdict.class(), verdict.required()), (class, required), "{members}");
            assert_eq!(verdict.next.as_deref(), next, "{members}");
            assert_eq!(verdict.ok(), required.is_none(), "{members}");
            assert!(judged("9.0.0", members).ok() && !judged("1.2.2", members).ok());
        }
        assert!(judged("1.3.0", r#"{"output_fields": ["a", "b", "c"]}"#).ok());
        assert!(!judged("1.2.4", r#"{"output_fields": ["a", "b", "c"]}"#).ok());
        assert_eq!(judged("x", "{}").declared, Step::Unknown);
    }

    #[test]
    fn fields_with_types_are_compared_one_by_one() {
        let with = |types: &str| {
            let mut contract = scaffold("acme.x", "1.0.0", "a,b").unwrap();
            let types = parse(types.as_bytes(), Limits::REQUEST).unwrap();
            contract.insert("validator_name", format!("typed_{}", types.count()));
            contract.insert("field_types", types);
            contract
        };
        let old = with(r#"{"a": {"type": "boolean"}}"#);
        for (types, class) in [
            (r#"{"a": {"type": "boolean"}, "b": {"type": "string"}}"#, Class::Minor),
            (r#"{"a": {"type": "string"}}"#, Class::Major),
            ("{}", Class::Major),
        ] {
            assert_eq!(Compatibility::of(&old, &with(types)).required(), Some(class), "{types}");
        }
    }

    #[test]
    fn versions_of_any_length_go_on() {
        for (old, class, expected) in [
            ("0.0.0", Class::Patch, "0.0.1"),
            ("0.9.9", Class::Minor, "0.10.0"),
            ("99999999999999999999.1.1", Class::Major, "100000000000000000000.0.0"),
            ("1.0.19", Class::Patch, "1.0.20"),
        ] {
            assert_eq!(next(&semver_parts(old).unwrap(), class), expected);
        }
    }
}
