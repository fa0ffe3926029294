//! Reads typed settings out of tables, and tells everything that is wrong with them.

use std::cell::RefCell;
use std::time::Duration;

use super::document::Origins;
use super::error::Origin;
use super::error::Problem;
use super::pattern::Pattern;
use super::renamed;

/// A year: longer times are mistakes, and may be more than a clock can add.
const LONGEST_MS: u64 = 366 * 24 * 60 * 60 * 1000;

/// What was found wrong so far.
pub(super) struct Report<'a> {
    pub(super) origins: &'a Origins,
    pub(super) problems: RefCell<Vec<Problem>>,
    /// Every key that was asked for, with its place but without numbers of items.
    known: RefCell<std::collections::BTreeSet<String>>,
}

impl<'a> Report<'a> {
    pub(super) fn new(origins: &'a Origins) -> Self {
        Self { origins, problems: RefCell::default(), known: RefCell::default() }
    }

    /// Reads a table: what `read` does not ask for is unknown.
    pub(super) fn section<T>(
        &self,
        path: &str,
        table: &toml::Table,
        read: impl FnOnce(&Section<'_>) -> T,
    ) -> T {
        let section =
            Section { report: self, path: path.to_owned(), table, asked: RefCell::default() };
        let value = read(&section);
        section.refuse_unknown();
        value
    }

    #[cfg(test)]
    pub(super) fn known(&self) -> std::collections::BTreeSet<String> {
        self.known.borrow().clone()
    }
}

/// A table that is being read.
pub(super) struct Section<'a> {
    report: &'a Report<'a>,
    path: String,
    table: &'a toml::Table,
    asked: RefCell<Vec<&'static str>>,
}

impl Section<'_> {
    /// Returns the path of a key.
    pub(super) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Tells that a value is wrong; `message` goes on behind the key.
    pub(super) fn wrong(&self, key: &str, message: &str, hint: &str) {
        let path = self.path(key);
        let origin = self.report.origins.of(&path);
        let message = format!("{path} {message}");
        self.report.problems.borrow_mut().push(Problem { origin, message, hint: hint.to_owned() });
    }

    /// Returns where a key is set.
    pub(super) fn origin(&self, key: &str) -> Origin {
        self.report.origins.of(&self.path(key))
    }

    pub(super) fn get(&self, key: &'static str) -> Option<&toml::Value> {
        self.asked.borrow_mut().push(key);
        self.report.known.borrow_mut().insert(renamed::without_numbers(&self.path(key)));
        self.table.get(key)
    }

    fn typed<'t, T>(
        &'t self,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&'t toml::Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(key)?;
        let read = read(value);
        if read.is_none() {
            let found = value.type_str();
            self.wrong(key, &format!("must be {expected}"), &format!("it is {}", a(found)));
        }
        read
    }

    pub(super) fn text(&self, key: &'static str) -> Option<String> {
        let text = self.typed(key, "a text", toml::Value::as_str)?;
        if text.is_empty() {
            self.wrong(key, "is empty", "leave the key out, or write what it should be");
            return None;
        }
        Some(text.to_owned())
    }

    /// Returns a text that must be there; without it, the empty one, and the problem is told.
    pub(super) fn needed(&self, key: &'static str) -> String {
        let text = self.text(key);
        if text.is_none() && !self.table.contains_key(key) {
            self.wrong(key, "is missing", &format!("write {key} = \"…\""));
        }
        text.unwrap_or_default()
    }

    pub(super) fn texts(&self, key: &'static str) -> Vec<String> {
        let all = |value: &toml::Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        };
        self.typed(key, "a list of texts", all).unwrap_or_default()
    }

    /// Reads a list of patterns.
    pub(super) fn patterns(&self, key: &'static str) -> Vec<Pattern> {
        let texts = self.texts(key);
        let numbered = texts.iter().enumerate();
        numbered
            .filter_map(|(index, text)| self.pattern(&format!("{key}[{index}]"), text))
            .collect()
    }

    /// Reads the text of a key as a pattern.
    pub(super) fn pattern(&self, key: &str, text: &str) -> Option<Pattern> {
        let pattern = Pattern::new(text);
        if pattern.is_none() {
            let message = format!("is empty or has more than {} characters", Pattern::MAX_CHARS);
            self.wrong(key, &message, "write a pattern, and shorten it with *");
        }
        pattern
    }

    pub(super) fn flag(&self, key: &'static str, default: bool) -> bool {
        self.typed(key, "true or false", toml::Value::as_bool).unwrap_or(default)
    }

    /// Returns whether a switch is on, if the key is there.
    pub(super) fn switch(&self, key: &'static str) -> Option<bool> {
        self.typed(key, "true or false", toml::Value::as_bool)
    }

    pub(super) fn number(&self, key: &'static str) -> Option<u64> {
        self.typed(key, "a whole number that is not negative", |value| {
            value.as_integer().and_then(|number| u64::try_from(number).ok())
        })
    }

    /// Returns a number other than 0.
    pub(super) fn positive(&self, key: &'static str) -> Option<u64> {
        match self.number(key)? {
            0 => {
                self.wrong(key, "is 0", "nothing would ever be carried out");
                None
            }
            number => Some(number),
        }
    }

    pub(super) fn count(&self, key: &'static str) -> Option<usize> {
        self.positive(key).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
    }

    /// Returns a number that is neither less nor more than these.
    pub(super) fn between(&self, key: &'static str, least: u64, most: u64) -> Option<u64> {
        let number = self.number(key)?;
        let fits = (least..=most).contains(&number);
        if !fits {
            let message = format!("is not from {least} to {most}");
            self.wrong(key, &message, "leave the key out, or write such a number");
        }
        fits.then_some(number)
    }

    /// Returns a number of 32 bits.
    pub(super) fn rate(&self, key: &'static str, positive: bool) -> Option<u32> {
        let number = if positive { self.positive(key) } else { self.number(key) }?;
        let small = u32::try_from(number).ok();
        if small.is_none() {
            self.wrong(key, "is too large", &format!("{} is the most", u32::MAX));
        }
        small
    }

    pub(super) fn milliseconds(&self, key: &'static str) -> Option<Duration> {
        let number = self.positive(key)?;
        if number > LONGEST_MS {
            self.wrong(key, "is more than a year", "it is a number of milliseconds");
            return None;
        }
        Some(Duration::from_millis(number))
    }

    /// Returns a number from 0 to 1.
    pub(super) fn ratio(&self, key: &'static str) -> Option<f64> {
        self.typed(key, "a number from 0 to 1", |value| match value {
            toml::Value::Integer(0) => Some(0.0),
            toml::Value::Integer(1) => Some(1.0),
            toml::Value::Float(number) => Some(*number).filter(|it| (0.0..=1.0).contains(it)),
            _ => None,
        })
    }

    /// Returns what one of some names stands for.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, names: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        self.named(key, &text, names)
    }

    /// Returns what each of a list of names stands for.
    pub(super) fn choices<T: Copy>(&self, key: &'static str, names: &[(&str, T)]) -> Vec<T> {
        let texts = self.texts(key).into_iter().enumerate();
        texts
            .filter_map(|(index, text)| self.named(&format!("{key}[{index}]"), &text, names))
            .collect()
    }

    fn named<T: Copy>(&self, key: &str, text: &str, names: &[(&str, T)]) -> Option<T> {
        let found = names.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            let hint = nearest(text, names.iter().copied())
                .map_or_else(String::new, |meant| format!("did you mean {meant}? "));
            let hint = format!("{hint}Known are {}", names.join(", "));
            self.wrong(key, "is not one of the names that are known here", &hint);
        }
        found.map(|(_, value)| *value)
    }

    /// Returns a table whose keys the operator makes up.
    pub(super) fn free(&self, key: &'static str) -> Option<&toml::Table> {
        self.typed(key, "a table", toml::Value::as_table)
    }

    /// Reads a table inside, or an empty one.
    pub(super) fn within<T>(&self, key: &'static str, read: impl FnOnce(&Section<'_>) -> T) -> T {
        let empty = toml::Table::new();
        let table = self.free(key).unwrap_or(&empty);
        self.report.section(&self.path(key), table, read)
    }

    /// Reads a table under a key that the operator chose; `path` is the whole path of the key.
    pub(super) fn inside<T>(
        &self,
        path: &str,
        table: &toml::Table,
        read: impl FnOnce(&Section<'_>) -> T,
    ) -> T {
        self.report.section(path, table, read)
    }

    /// Reads the tables of a list.
    pub(super) fn each<T>(&self, key: &'static str, read: impl Fn(&Section<'_>) -> T) -> Vec<T> {
        let tables = |value: &'_ toml::Value| -> Option<Vec<toml::Table>> {
            value.as_array()?.iter().map(|item| item.as_table().cloned()).collect()
        };
        let hint = format!("a list of tables: [[{key}]]");
        let tables = self.typed(key, &hint, tables).unwrap_or_default();
        let path = self.path(key);
        let one = |(index, table): (usize, &toml::Table)| {
            self.report.section(&format!("{path}[{index}]"), table, &read)
        };
        tables.iter().enumerate().map(one).collect()
    }

    fn refuse_unknown(&self) {
        let asked = self.asked.borrow();
        for key in self.table.keys().filter(|key| !asked.contains(&key.as_str())) {
            let path = self.path(key);
            let hint = renamed::hint(&renamed::without_numbers(&path)).unwrap_or_else(|| {
                nearest(key, asked.iter().copied()).map_or_else(
                    || "README.md shows a router.toml".to_owned(),
                    |meant| format!("did you mean {meant}?"),
                )
            });
            let place = match self.path.as_str() {
                "" => String::new(),
                path => format!(" in {path}"),
            };
            let message = format!("unknown field `{key}`{place}");
            let origin = self.report.origins.of(&path);
            self.report.problems.borrow_mut().push(Problem { origin, message, hint });
        }
    }
}

fn a(type_name: &str) -> String {
    let article = if type_name.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {type_name}")
}

fn nearest<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|word| (crate::near::likeness(text, word), word));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1)
}
