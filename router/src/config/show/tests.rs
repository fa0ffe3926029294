//! Tests of what is shown of a configuration.

use super::*;
use crate::config::Environment;

fn find(text: &str, overrides: &[(&str, &str)]) -> (tempfile::TempDir, ConfigFile, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("router.toml");
    std::fs::write(&file, text).unwrap();
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let overrides = overrides.iter().map(owned).collect();
    let environment = Environment { overrides, ..Environment::default() };
    let (config, origins) = ConfigFile::trace(Some(&file), &environment).unwrap();
    let shown = config.to_toml(&origins);
    (directory, config, shown)
}

#[test]
fn what_is_shown_is_a_configuration_that_says_the_same() {
    let sample = crate::config::sample();
    let sample = sample.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
        _ => format!("{line}\n"),
    });
    let odd = "[adapters.config.'a \\u{7f}\"b']\nf = [1, 2.5, 1e300, { x = [] }]\n\
               g = \"\\u001b[2J\\n\\U0001F600\"\nh = [{ i = 1 }, { j = {} }]\n";
    let text = sample.collect::<String>().replace("config = {}\n", "");
    let text = text.replace("# What may be under", &format!("{odd}\n# What may be under"));
    let (_directory, config, shown) = find(&text, &[]);
    assert!(!shown.contains('\u{1b}'));
    let (_other, again, _) = find(&shown, &[]);
    let again = ConfigFile { source: config.source.clone(), ..again };
    assert_eq!(format!("{config:?}"), format!("{again:?}"));
    assert!(config.adapters[1].config.get("a \\u{7f}\"b").is_some(), "{shown}");
}

#[test]
fn secrets_are_hidden_and_references_are_not() {
    let text = "[secrets]\nT = 'env:TTT'\n[[adapters]]\nref = 'm:f'\n[adapters.config]\n\
                api_key = 'hunter22'\nurl = 'https://u:hunter33@example.com'\n\
                token = { '$secret' = 'T' }\nname = 'Ada'\n";
    let (_directory, config, shown) = find(text, &[]);
    assert!(!shown.contains("hunter") && shown.contains("[REDACTED]"), "{shown}");
    assert!(shown.contains("T = \"env:TTT\"") && shown.contains("\"Ada\""), "{shown}");
    assert!(shown.contains("\"$secret\" = \"T\""), "{shown}");
    assert!(!format!("{config:?}").contains("hunter"));
}

#[test]
fn source_of_each_setting_is_told() {
    let overrides = [
        ("NEXUS_ROUTER__SERVER__BURST", "7"),
        ("NEXUS_ROUTER__LOG", "{ level = 'debug' }"),
        ("NEXUS_ROUTER__ADAPTERS__0__GRANTS__ENV", "['HOME']"),
    ];
    let text = "db = 'x'\n[server]\nstreams = 1\n[[adapters]]\nref = 'm:f'\n";
    let (directory, config, shown) = find(text, &overrides);
    let file = directory.path().join("router.toml").display().to_string();
    for line in [
        format!("/x\"  # {file}:1\n"),
        format!("streams = 1  # {file}:3\n"),
        "burst = 7  # NEXUS_ROUTER__SERVER__BURST\n".to_owned(),
        "connections = 1024  # default\n".to_owned(),
        "level = \"debug\"  # NEXUS_ROUTER__LOG\n".to_owned(),
        "format = \"text\"  # default\n".to_owned(),
        format!("ref = \"m:f\"  # {file}:5\n"),
        "env = [\"HOME\"]  # NEXUS_ROUTER__ADAPTERS__0__GRANTS__ENV\n".to_owned(),
        "# default_adapter is not set  # default\n".to_owned(),
    ] {
        assert!(shown.contains(&line), "{line}: {shown}");
    }
    assert!(config.limits.call_timeout == std::time::Duration::from_secs(300));
    assert!(shown.contains("call_timeout_ms = 300000  # default\n"), "{shown}");
    assert!(shown.contains("runs_in_flight = 16384  # default\n"), "{shown}");
}

/// A setting cannot be forgotten: every key that is read is shown, with its source.
#[test]
fn every_setting_is_shown_with_its_source() {
    use crate::config::document::Document;
    use crate::config::reader::Report;
    use crate::config::renamed::without_numbers;
    use crate::config::sections;
    let sample = crate::config::sample();
    let all = sample.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
        _ => format!("{line}\n"),
    });
    for text in [String::new(), all.collect()] {
        let mut document = Document::parse(&text).unwrap();
        assert!(document.lay_over(&[]).is_empty());
        let report = Report::new(&document.origins);
        let config =
            report.section("", &document.table, |root| sections::config(root, Path::new("/")));
        let sources = config.sources(&document.origins);
        let shown: Vec<String> = sources.keys().map(without_numbers).collect();
        for key in report.known() {
            let inside = format!("{key}.");
            let items = format!("{key}[");
            let is_shown = shown
                .iter()
                .any(|path| *path == key || path.starts_with(&inside) || path.starts_with(&items));
            assert!(is_shown, "{key} is not shown: {shown:?}");
        }
        assert!(sources.iter().all(|(_, source)| source.as_str().is_some_and(|it| !it.is_empty())));
    }
}
