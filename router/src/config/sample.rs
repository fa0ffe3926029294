//! The `router.toml` that `config init` writes: every key, with its default.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::file::ConfigFile;
use super::listener::Listener;
use super::settings::RunLimits;
use super::{show, toml_text};
use crate::json::Value;

/// The sample without its defaults, for each of which stands the path of the setting between braces.
const TEMPLATE: &str = include_str!("sample.toml");

/// Returns a file with every key. A line that begins with `#` and no blank is a setting that is not in force. The defaults are
/// those that the program uses.
#[must_use]
pub fn sample() -> String {
    let mut defaults = ConfigFile::default().to_json();
    defaults.insert("listener", show::listener(&Listener::default()));
    let blocking = RunLimits::BLOCKING_CALLS;
    let default = |path: &str| -> Option<String> {
        if path == "limits.blocking_calls" {
            return Some(blocking.to_string());
        }
        let mut keys = path.split('.');
        let first = defaults.get(keys.next()?)?;
        let value = keys.try_fold(first, |table: &Value, key| table.get(key))?;
        (!matches!(value, Value::Null)).then(|| toml_text::text(value))
    };
    let mut sample = String::with_capacity(TEMPLATE.len());
    for line in TEMPLATE.lines() {
        let setting = line.strip_suffix('}').and_then(|line| line.split_once(" = {"));
        match setting.and_then(|(key, path)| Some((key, default(path)?))) {
            Some((key, value)) => sample.push_str(&format!("{key} = {value}")),
            None => sample.push_str(line),
        }
        sample.push('\n');
    }
    sample
}

/// Writes the sample to a new file, which only its owner may read: secrets may be put into it.
///
/// # Errors
/// When the file is there already, or cannot be written.
pub fn write_sample(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(sample().as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::Document;
    use crate::config::reader::Report;
    use crate::config::renamed::without_numbers;
    use crate::config::sections;
    use crate::config::{Effect, PolicyDefault, PolicySettings};
    use crate::json::Object;

    /// Puts every setting in force.
    fn uncommented() -> String {
        let line = |line: &str| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
            _ => format!("{line}\n"),
        };
        sample().lines().map(line).collect()
    }

    fn read(text: &str, look: impl FnOnce(&Document, &Report<'_>)) -> ConfigFile {
        let document = Document::parse(text).unwrap();
        let report = Report::new(&document.origins);
        let config =
            report.section("", &document.table, |root| sections::config(root, Path::new("/")));
        assert!(report.problems.borrow().is_empty(), "{:?}", report.problems);
        look(&document, &report);
        config
    }

    #[test]
    fn sample_says_what_holds_without_it() {
        let config = read(&sample(), |_, _| {});
        // A daemon with the sample has adapters, and denies all calls but those of the example.
        let [rule] = &config.policy.rules[..] else { panic!("{:?}", config.policy) };
        assert_eq!((rule.effect, rule.adapter.as_ref().unwrap().as_str()), (Effect::Allow, "echo"));
        let (default, rules) = (Some(PolicyDefault::Deny), vec![rule.clone()]);
        let policy = PolicySettings { default, rules, ..PolicySettings::default() };
        let expected = ConfigFile { discover: true, policy, ..ConfigFile::default() };
        assert_eq!(format!("{config:?}"), format!("{expected:?}"));
    }

    /// Returns every setting that is not an item of a list, by its path.
    fn settings(config: &ConfigFile) -> Vec<(String, Value)> {
        fn of(table: &Object, path: &str, all: &mut Vec<(String, Value)>) {
            for (key, value) in table.iter() {
                let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                match value {
                    Value::Object(table) if !table.is_empty() => of(table, &path, all),
                    value => all.push((path, value.clone())),
                }
            }
        }
        let mut all = Vec::new();
        of(&config.to_json(), "", &mut all);
        all
    }

    #[test]
    fn every_default_of_the_sample_is_that_of_the_program() {
        let sample = sample();
        assert!(!sample.contains(" = {l") && !sample.contains("{server."), "{sample}");
        let config = read(&uncommented(), |document, report| {
            for key in report.known() {
                let mut given = document.origins.paths().map(without_numbers);
                assert!(given.any(|path| path == key), "{key} is not in sample.toml");
            }
        });
        let given: Vec<_> = settings(&config);
        let mut compared = 0;
        for (path, default) in settings(&ConfigFile::default()) {
            let has_default = match &default {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(_) => false,
                _ => true,
            };
            // What has no default has an example. The sample has a daemon with adapters, on one listener.
            if !has_default || ["discover", "listeners"].contains(&path.as_str()) {
                continue;
            }
            let found = given.iter().find(|(other, _)| *other == path);
            assert_eq!(found.map(|(_, value)| value), Some(&default), "{path}");
            compared += 1;
        }
        assert!(compared > 40, "{compared}");
        let listener = show::listener(&config.listeners[0]);
        for (key, default) in show::listener(&Listener::default()).as_object().unwrap().iter() {
            let value = listener.get(key).unwrap();
            assert!(*default == Value::Null || value == default, "{key}: {value:?}");
        }
        assert_eq!(config.limits.calls_per_adapter, Some(RunLimits::BLOCKING_CALLS));
        assert_eq!((config.tools.len(), config.tokens.len(), config.adapters.len()), (1, 1, 2));
    }

    #[test]
    fn sample_is_private_and_replaces_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("router.toml");
        write_sample(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), sample());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "").unwrap();
        let refused = write_sample(&path).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }
}
