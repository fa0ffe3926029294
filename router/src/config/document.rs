//! The text of `router.toml` and what variables put over it, as one table that knows where each value is from.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use toml::de::{DeTable, DeValue};

use super::error::{Origin, Problem};

/// The prefix of variables that stand for a setting.
pub(super) const PREFIX: &str = "NEXUS_ROUTER__";

/// Tables whose keys the operator makes up: there, the letters of a variable stay as they are.
const OWN_NAMES: [&str; 2] = ["secrets", "telemetry.headers"];

/// Settings, and where each was said.
#[derive(Default)]
pub(super) struct Document {
    pub(super) table: toml::Table,
    pub(super) origins: Origins,
}

/// Where settings were said, by path: `listeners[0].address`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Returns where a setting was said, or else what holds it, or something beside it.
    pub(crate) fn of(&self, path: &str) -> Origin {
        let mut path = path;
        loop {
            let beside = || self.below(path).into_iter().next();
            if let Some(origin) = self.0.get(path).or_else(beside) {
                return origin.clone();
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return Origin::Default,
            }
        }
    }

    /// Returns where exactly this setting was said; the default if nowhere.
    pub(super) fn exact(&self, path: &str) -> &Origin {
        self.0.get(path).unwrap_or(&Origin::Default)
    }

    #[cfg(test)]
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Notes that a variable of its own says a setting.
    pub(crate) fn note(&mut self, path: &str, variable: &str) {
        self.0.insert(path.to_owned(), Origin::Variable(variable.to_owned()));
    }

    /// Returns the origins of what is at or below a path.
    pub(super) fn below(&self, path: &str) -> Vec<&Origin> {
        let inside = |other: &str| {
            let rest = other.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.0.iter().filter(|(other, _)| inside(other)).map(|(_, origin)| origin).collect()
    }
}

impl Document {
    /// Reads the text of a file.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let lines = Lines::new(text);
        let refused = |error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let hint = "README.md shows a router.toml".to_owned();
            // The parser's message, without the line itself, which may hold a secret.
            let message = error.message().replace('\n', " ");
            Problem { origin: lines.place(start), message, hint }
        };
        let spanned = DeTable::parse(text).map_err(refused)?;
        let table: toml::Table = toml::from_str(text).map_err(refused)?;
        let mut origins = Origins::default();
        note_table(spanned.get_ref(), "", &lines, &mut origins);
        Ok(Self { table, origins })
    }

    /// Puts the values of variables into the places that they name. What is wrong is told; all else is used.
    pub(super) fn lay_over(&mut self, variables: &[(String, String)]) -> Vec<Problem> {
        let mut variables: Vec<&(String, String)> = variables.iter().collect();
        // Items of a list are added in their order, and a whole section before what is inside.
        variables.sort_by_key(|(name, _)| Segments(name));
        let mut problems = Vec::new();
        let mut before: Option<&str> = None;
        for (name, text) in variables {
            let told = match before.filter(|before| before.eq_ignore_ascii_case(name)) {
                Some(before) => Err((
                    format!("{before} names the same setting"),
                    "unset one of the two: letters may be large or small",
                )),
                None => self.lay(name, text),
            };
            before = Some(name);
            if let Err((message, hint)) = told {
                let origin = Origin::Variable(name.clone());
                problems.push(Problem { origin, message, hint: hint.to_owned() });
            }
        }
        problems
    }

    fn lay(&mut self, name: &str, text: &str) -> Result<(), Wrong> {
        if text.contains('\0') {
            return Err(("its value is not UTF-8".to_owned(), "settings are texts of UTF-8"));
        }
        let segments = name.get(PREFIX.len()..).unwrap_or_default();
        let segments: Vec<&str> = segments.split("__").collect();
        if segments.iter().any(|segment| segment.is_empty()) {
            return Err(("it names no setting".to_owned(), FORM));
        }
        let mut root = toml::Value::Table(std::mem::take(&mut self.table));
        let mut path = String::new();
        let value = read_value(text);
        let put = put(&mut root, &mut path, &segments, value.clone());
        if let toml::Value::Table(table) = root {
            self.table = table;
        }
        put?;
        // What was inside before is gone.
        self.origins.0.retain(|other, _| {
            other.strip_prefix(&path).is_none_or(|rest| !rest.starts_with(['.', '[']))
        });
        note_laid(&value, &path, &Origin::Variable(name.to_owned()), &mut self.origins);
        Ok(())
    }
}

/// What is wrong with a variable, and what to do about it.
type Wrong = (String, &'static str);

const FORM: &str =
    "write NEXUS_ROUTER__SECTION__KEY, or NEXUS_ROUTER__LIST__0__KEY for the first item of a list";

/// Puts a value where the segments lead to from `place`, whose path is `path`; afterwards it is that of the
/// value.
fn put(
    place: &mut toml::Value,
    path: &mut String,
    segments: &[&str],
    value: toml::Value,
) -> Result<(), Wrong> {
    let [segment, rest @ ..] = segments else {
        *place = value;
        return Ok(());
    };
    let fresh = match rest.first() {
        Some(next) if is_index(next) => toml::Value::Array(Vec::new()),
        _ => toml::Value::Table(toml::Table::new()),
    };
    let inside = match place {
        toml::Value::Table(table) => {
            let known = table.keys().find(|key| key.eq_ignore_ascii_case(segment)).cloned();
            let key = known.unwrap_or_else(|| match OWN_NAMES.contains(&path.as_str()) {
                true => (*segment).to_owned(),
                false => segment.to_ascii_lowercase(),
            });
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&key);
            table.entry(key).or_insert(fresh)
        }
        toml::Value::Array(items) => {
            let index = segment.parse().ok().filter(|index: &usize| *index <= items.len());
            let Some(index) = index else {
                let message = format!(
                    "{path} has {} items, and {segment} is neither the number of one, counted from 0, \
                     nor of the next",
                    items.len()
                );
                return Err((message, FORM));
            };
            if index == items.len() {
                items.push(fresh);
            }
            path.push_str(&format!("[{index}]"));
            &mut items[index]
        }
        _ => return Err((format!("{path} has nothing inside"), FORM)),
    };
    put(inside, path, rest, value)
}

/// Reads a value of TOML; what is none is a text.
fn read_value(text: &str) -> toml::Value {
    let read = toml::de::ValueDeserializer::parse(text);
    let value = read.ok().and_then(|value| toml::Value::deserialize(value).ok());
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

fn is_index(segment: &str) -> bool {
    segment.bytes().all(|byte| byte.is_ascii_digit())
}

/// The order of variables: by segment, whatever the case, and numbers as numbers.
#[derive(PartialEq, Eq)]
struct Segments<'a>(&'a str);

impl Segments<'_> {
    fn keys(&self) -> Vec<(usize, String)> {
        let lower = self.0.to_ascii_lowercase();
        let key = |segment: &str| (segment.parse().unwrap_or(0), segment.to_owned());
        lower.split("__").map(key).collect()
    }
}

impl Ord for Segments<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.keys().cmp(&other.keys()).then_with(|| self.0.cmp(other.0))
    }
}

impl PartialOrd for Segments<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Notes the origin of a value, and of everything in it.
fn note_laid(value: &toml::Value, path: &str, origin: &Origin, origins: &mut Origins) {
    origins.0.insert(path.to_owned(), origin.clone());
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                note_laid(value, &format!("{path}.{key}"), origin, origins);
            }
        }
        toml::Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                note_laid(value, &format!("{path}[{index}]"), origin, origins);
            }
        }
        _ => {}
    }
}

fn note_table(table: &DeTable<'_>, path: &str, lines: &Lines<'_>, origins: &mut Origins) {
    for (key, value) in table {
        let name = key.get_ref();
        let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        origins.0.insert(path.clone(), lines.place(key.span().start));
        note_value(value.get_ref(), &path, lines, origins);
    }
}

fn note_value(value: &DeValue<'_>, path: &str, lines: &Lines<'_>, origins: &mut Origins) {
    match value {
        DeValue::Table(table) => note_table(table, path, lines, origins),
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                origins.0.insert(path.clone(), lines.place(item.span().start));
                note_value(item.get_ref(), &path, lines, origins);
            }
        }
        _ => {}
    }
}

/// Text of a file, with the starts of its lines.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let after = text.match_indices('\n').map(|(end, _)| end + 1);
        Self { text, starts: std::iter::once(0).chain(after).collect() }
    }

    /// Returns the line and column of a byte, counted from 1.
    fn place(&self, at: usize) -> Origin {
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts[line - 1];
        let column = self.text.get(start..at).unwrap_or_default().chars().count() + 1;
        Origin::File { line, column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lay(text: &str, variables: &[(&str, &str)]) -> (Document, Vec<Problem>) {
        let mut document = Document::parse(text).unwrap();
        let owned = |(name, value): &(&str, &str)| (format!("{PREFIX}{name}"), (*value).to_owned());
        let variables: Vec<_> = variables.iter().map(owned).collect();
        let problems = document.lay_over(&variables);
        (document, problems)
    }

    #[test]
    fn variables_lead_to_their_places() {
        let (document, problems) = lay(
            "db = 'a'\n[server]\nstreams = 1\nburst = 2\n[[listeners]]\ntokens = true\n\
             [secrets]\nMine = 'env:A'\n",
            &[
                ("SERVER__BURST", "7"),
                ("Db", "plain text"),
                ("LISTENERS__1__ADDRESS", "127.0.0.1:2"),
                ("listeners__0__tokens", "false"),
                ("LOG__LEVEL", "\"debug\""),
                ("SECRETS__MINE", "env:B"),
                ("SECRETS__NEW_One", "env:C"),
                ("SERVER__ALLOWED_HOSTS", "['a', 'b']"),
                ("DEFAULT_ADAPTER", "1 # no comment\nx = 2"),
            ],
        );
        assert_eq!(problems, []);
        let expected = "db = 'plain text'\ndefault_adapter = \"1 # no comment\\nx = 2\"\n\
                        [server]\nstreams = 1\nburst = 7\nallowed_hosts = ['a', 'b']\n\
                        [[listeners]]\ntokens = false\n[[listeners]]\naddress = '127.0.0.1:2'\n\
                        [secrets]\nMine = 'env:B'\nNEW_One = 'env:C'\n[log]\nlevel = 'debug'\n";
        assert_eq!(document.table, expected.parse::<toml::Table>().unwrap());
        let variable = |name: &str| Origin::Variable(format!("{PREFIX}{name}"));
        assert_eq!(document.origins.of("server.burst"), variable("SERVER__BURST"));
        assert_eq!(
            document.origins.of("server.allowed_hosts[1]"),
            variable("SERVER__ALLOWED_HOSTS")
        );
        assert_eq!(document.origins.of("server.streams"), Origin::File { line: 3, column: 1 });
        assert_eq!(document.origins.of("nothing"), Origin::Default);
    }

    #[test]
    fn items_of_lists_are_added_in_their_order() {
        let names: Vec<String> =
            (0..12).rev().map(|index| format!("TOOLS__{index}__NAME")).collect();
        let variables: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let (document, problems) = lay("", &variables);
        assert_eq!(problems, []);
        assert_eq!(document.table["tools"].as_array().unwrap().len(), 12);
        // A whole section comes before what is inside of it.
        let (document, _) = lay("", &[("LOG__LEVEL", "warn"), ("LOG", "{ level = 'debug' }")]);
        assert_eq!(document.table["log"]["level"].as_str(), Some("warn"));
    }

    #[test]
    fn bad_variables_are_named_and_their_values_are_not() {
        for (name, told) in [
            ("", "names no setting"),
            ("A____B", "names no setting"),
            ("DB__INSIDE", "db has nothing inside"),
            ("LISTENERS__5__TOKENS", "listeners has 1 items"),
            ("LISTENERS__x__TOKENS", "listeners has 1 items"),
        ] {
            let text = "db = 'a'\n[[listeners]]\n";
            let (document, problems) = lay(text, &[(name, "hunter22"), ("LOG__LEVEL", "warn")]);
            let [problem] = &problems[..] else { panic!("{problems:?}") };
            assert!(problem.message.contains(told), "{problem:?}");
            assert_eq!(problem.origin, Origin::Variable(format!("{PREFIX}{name}")));
            assert!(!format!("{problem:?}").contains("hunter22"));
            assert_eq!(document.table["log"]["level"].as_str(), Some("warn"));
        }
        let (_, problems) = lay("", &[("DB", "a"), ("db", "b")]);
        assert!(problems[0].message.contains("names the same setting"), "{problems:?}");
        let (_, problems) = lay("", &[("DB", "\0")]);
        assert!(problems[0].message.contains("UTF-8"), "{problems:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_variable_brings_it_down(name in "[a-cA-C0-2_]{0,12}", value in "\\PC{0,12}") {
            lay("a = 1\n[b]\nc = [{ a = 1 }]\n", &[(&name, &value), ("B__C__0__A", "2")]);
        }
    }
}
