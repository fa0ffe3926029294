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
    /// Returns where a setting was said, or else what holds it.
    pub(super) fn of(&self, path: &str) -> Origin {
        let mut path = path;
        loop {
            if let Some(origin) = self.0.get(path) {
                return origin.clone();
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return Origin::Default,
            }
        }
    }

    /// Returns the distinct origins of what is at or below a path.
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
        let refused = |error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let hint = "README.md shows a router.toml".to_owned();
            // The parser's message, without the line itself, which may hold a secret.
            let message = error.message().replace('\n', " ");
            Problem { origin: place(text, start), message, hint }
        };
        let spanned = DeTable::parse(text).map_err(refused)?;
        let table: toml::Table = toml::from_str(text).map_err(refused)?;
        let mut origins = Origins::default();
        note_table(spanned.get_ref(), "", text, &mut origins);
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
        let put = put(&mut root, &mut path, &segments, read_value(text));
        if let toml::Value::Table(table) = root {
            self.table = table;
        }
        put?;
        // What was inside before is gone.
        self.origins.0.retain(|other, _| {
            other.strip_prefix(&path).is_none_or(|rest| !rest.starts_with(['.', '[']))
        });
        self.origins.0.insert(path, Origin::Variable(name.to_owned()));
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

fn note_table(table: &DeTable<'_>, path: &str, text: &str, origins: &mut Origins) {
    for (key, value) in table {
        let name = key.get_ref();
        let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        origins.0.insert(path.clone(), place(text, key.span().start));
        note_value(value.get_ref(), &path, text, origins);
    }
}

fn note_value(value: &DeValue<'_>, path: &str, text: &str, origins: &mut Origins) {
    match value {
        DeValue::Table(table) => note_table(table, path, text, origins),
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                origins.0.insert(path.clone(), place(text, item.span().start));
                note_value(item.get_ref(), &path, text, origins);
            }
        }
        _ => {}
    }
}

fn place(text: &str, start: usize) -> Origin {
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Origin::File { line, column }
}
