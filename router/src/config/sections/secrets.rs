//! Reads `[secrets]`: `NAME = "env:…"` for the configuration alone, `[secrets.NAME]` for arguments of callers too.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::pattern::Pattern;
use crate::config::reader::Section;
use crate::config::settings::{SecretBinding, SecretEntry};
use crate::secret::Source;

/// Reads every secret. Paths are relative to `base`.
pub(super) fn secrets(root: &Section<'_>, base: &Path) -> BTreeMap<String, SecretEntry> {
    let hint = "write NAME = \"env:VARIABLE\" or NAME = \"file:PATH\"; or [secrets.NAME] with from = \"env:VARIABLE\"";
    let mut secrets = BTreeMap::new();
    for (name, value) in root.free("secrets").into_iter().flatten() {
        let path = format!("secrets.{name}");
        let entry = match value {
            toml::Value::String(text) => {
                source(text, base, |why| root.wrong(&path, why, hint)).map(SecretEntry::from)
            }
            toml::Value::Table(table) => {
                root.inside(&path, table, |section| bound_secret(section, base))
            }
            _ => {
                root.wrong(&path, "is neither a text nor a table", hint);
                None
            }
        };
        secrets.extend(entry.map(|entry| (name.clone(), entry)));
    }
    secrets
}

/// Reads the source of a secret. The error does not show the text: it may be the secret.
pub(super) fn source(text: &str, base: &Path, wrong: impl FnOnce(&str)) -> Option<Source> {
    match text.parse() {
        Ok(Source::File(path)) => Some(Source::File(base.join(path))),
        Ok(source) => Some(source),
        Err(error) => {
            wrong(&format!("is not a reference: {error}"));
            None
        }
    }
}

fn bound_secret(section: &Section<'_>, base: &Path) -> Option<SecretEntry> {
    let hint = "write from = \"env:VARIABLE\" or from = \"file:PATH\"";
    let text = section.needed("from");
    let source = (!text.is_empty())
        .then(|| source(&text, base, |why| section.wrong("from", why, hint)))
        .flatten();
    let adapters = patterns(section, "adapters");
    let tools = patterns(section, "tools");
    let tokens = patterns(section, "tokens");
    let binding = match (adapters, tools, tokens) {
        (None, None, None) => None,
        (Some(adapters), tools, tokens) => Some(SecretBinding {
            adapters,
            tools: tools.unwrap_or_default(),
            tokens: tokens.unwrap_or_default(),
        }),
        (None, ..) => {
            let hint = "write adapters = [\"ID\"]: tools and tokens only narrow the adapters";
            section.wrong("adapters", "is missing", hint);
            None
        }
    };
    Some(SecretEntry { source: source?, binding })
}

/// Reads a list of patterns; `None` if the key is absent.
fn patterns(section: &Section<'_>, key: &'static str) -> Option<Vec<Pattern>> {
    let list = section.get(key)?;
    if list.as_array().is_some_and(Vec::is_empty) {
        section.wrong(key, "is empty", "leave the key out, or write at least one pattern");
    }
    Some(section.patterns(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigFile, Environment, Error};

    fn read(text: &str) -> Result<ConfigFile, Error> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        std::fs::write(&file, text).unwrap();
        ConfigFile::find(Some(&file), &Environment::default())
    }

    #[test]
    fn short_form_has_no_binding_and_table_has_one() {
        let config = read(
            "[secrets]\nA = 'env:AAA'\n[secrets.B]\nfrom = 'env:BBB'\n\
             [secrets.C]\nfrom = 'env:CCC'\nadapters = ['shop', 'm*']\ntools = ['buy']\ntokens = ['ci']\n",
        )
        .unwrap();
        let env = |name: &str| Source::Env(name.to_owned());
        assert_eq!(config.secrets["A"], env("AAA").into());
        assert_eq!(config.secrets["B"], env("BBB").into());
        let binding = config.secrets["C"].binding.clone().unwrap();
        let texts =
            |patterns: &[Pattern]| patterns.iter().map(Pattern::to_string).collect::<Vec<_>>();
        assert_eq!(texts(&binding.adapters), ["shop", "m*"]);
        assert_eq!(
            (texts(&binding.tools), texts(&binding.tokens)),
            (vec!["buy".into()], vec!["ci".into()])
        );
    }

    #[test]
    fn rejects_invalid_bindings_with_their_line() {
        for (text, told, hint) in [
            ("[secrets.A]\nadapters = ['x']\n", "secrets.A.from is missing (line 1", "from ="),
            (
                "[secrets.A]\nfrom = 'hunter22'\n",
                "secrets.A.from is not a reference",
                "env:VARIABLE",
            ),
            (
                "[secrets.A]\nfrom = 'env:A'\ntools = ['x']\n",
                "secrets.A.adapters is missing",
                "adapters = ",
            ),
            (
                "[secrets.A]\nfrom = 'env:A'\nadapters = []\n",
                "secrets.A.adapters is empty (line 3",
                "leave",
            ),
            (
                "[secrets.A]\nfrom = 'env:A'\nadapters = ['']\n",
                "secrets.A.adapters[0] is empty",
                "*",
            ),
            (
                "[secrets.A]\nfrom = 'env:A'\nadapters = 'x'\n",
                "secrets.A.adapters must be a list",
                "string",
            ),
            (
                "[secrets.A]\nfrom = 'env:A'\nadaptors = ['x']\n",
                "unknown field `adaptors` in secrets.A (line 3, column 1)",
                "did you mean adapters?",
            ),
            ("[secrets.A]\nenv = 'A'\nfrom = 'env:A'\n", "unknown field `env`", "README.md"),
            ("[secrets.A]\nfrom = 'env:A'\nadapter = 'x'\n", "unknown field `adapter`", "adapters"),
            ("[secrets]\nA = 5\n", "secrets.A is neither a text nor a table (line 2", "from ="),
        ] {
            let error = read(text).unwrap_err();
            let shown = format!("{error} | {}", error.hint());
            assert!(error.to_string().contains(told), "{shown}");
            assert!(error.hint().contains(hint), "{shown}");
            assert!(!shown.contains("hunter22"), "{shown}");
        }
    }
}
