//! Reads what an adapter may ask the router to fetch for it: `sources` of `[[adapters]]`.

use std::collections::BTreeSet;

use super::super::reader::Section;
use super::super::settings::{AdapterEntry, SourceEntry};
use super::super::toml_value;
use crate::grant::Isolation;
use crate::role::Role;

/// Reads the sources of an adapter, which runs as `default` says unless it says otherwise itself.
pub(super) fn of_adapter(
    section: &Section<'_>,
    default: Isolation,
    entry: AdapterEntry,
) -> AdapterEntry {
    let sources = section.each("sources", source);
    if sources.is_empty() {
        return entry;
    }
    if entry.role != Some(Role::Scout) {
        let hint =
            "write role = \"scout\", or leave the sources out: no other role fetches anything";
        section.wrong("sources", "stand without role = \"scout\"", hint);
    }
    if entry.isolation.unwrap_or(default) == Isolation::Inline {
        let message = "would be of no use: workers ask, and this adapter runs inline";
        let hint = "write isolation = \"worker\": whoever may ask must not be able to help itself";
        section.wrong("sources", message, hint);
    }
    let mut seen = BTreeSet::new();
    for (index, source) in sources.iter().enumerate().filter(|(_, one)| !one.name.is_empty()) {
        if !seen.insert(source.name.as_str()) {
            let place = format!("sources[{index}].name");
            section.wrong(&place, "is that of an earlier source", "give each its own name");
        }
    }
    AdapterEntry { sources, ..entry }
}

fn source(section: &Section<'_>) -> SourceEntry {
    let name = section.needed("name");
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.len() > 64 || !name.bytes().all(fits) {
        let hint = "use letters, digits, _ . and -, 64 at most";
        section.wrong("name", "is no name for a source", hint);
    }
    let classes = SourceEntry::CLASSES.map(|class| (class.name(), class));
    let class = section.choice("action_class", &classes);
    if class.is_none() && section.get("action_class").is_none() {
        let hint = "write web_search, doc_retrieval or data_lookup";
        section.wrong("action_class", "is missing", hint);
    }
    let args = section.free("args").map(toml_value::object).transpose();
    let args = args.unwrap_or_else(|message| {
        let hint = "JSON, in which arguments are written, has no such number";
        section.wrong("args", &format!("cannot be used: {message}"), hint);
        None
    });
    let volatile = section.texts("volatile");
    for (index, _) in volatile.iter().enumerate().filter(|(_, one)| !one.starts_with('/')) {
        let hint = "such as /processingTimeMs";
        section.wrong(&format!("volatile[{index}]"), "is no JSON pointer", hint);
    }
    SourceEntry {
        name,
        adapter: section.needed("adapter"),
        tool: section.needed("tool"),
        method: section.needed("method"),
        action_class: class.unwrap_or(SourceEntry::CLASSES[0]),
        args: args.unwrap_or_default(),
        volatile,
        timeout: section.milliseconds("timeout_ms"),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{ConfigFile, Environment, Error};
    use crate::role::ActionClass;

    fn read(text: &str) -> Result<ConfigFile, Error> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        std::fs::write(&file, text).unwrap();
        ConfigFile::find(Some(&file), &Environment::default())
    }

    const SCOUT: &str = "[[adapters]]\nref = 'm:f'\nrole = 'scout'\n";
    const SOURCE: &str = "[[adapters.sources]]\nname = 'docs'\nadapter = 'http'\ntool = 't'\n\
                          method = 'm'\naction_class = 'doc_retrieval'\n";

    #[test]
    fn a_source_is_an_operation_of_another_adapter_with_what_stands_fast() {
        let more = "args = { n = 1 }\nvolatile = ['/took']\ntimeout_ms = 5\n";
        let config = read(&format!("{SCOUT}{SOURCE}{more}")).unwrap();
        let [source] = &config.adapters[0].sources[..] else { panic!("{config:?}") };
        assert_eq!((source.name.as_str(), source.adapter.as_str()), ("docs", "http"));
        assert_eq!((source.tool.as_str(), source.method.as_str()), ("t", "m"));
        assert_eq!(source.action_class, ActionClass::DocRetrieval);
        assert_eq!((source.args.len(), source.volatile.len()), (1, 1));
        assert_eq!(source.timeout, Some(std::time::Duration::from_millis(5)));
    }

    #[test]
    fn only_confined_scouts_have_sources_and_only_of_classes_that_fetch() {
        let plain = "[[adapters]]\nref = 'm:f'\n";
        let envoy = "[[adapters]]\nref = 'm:f'\nrole = 'envoy'\n";
        let replaced = |from: &str, to: &str| format!("{SCOUT}{}", SOURCE.replace(from, to));
        for (text, told) in [
            (format!("{plain}{SOURCE}"), "adapters[0].sources stand without role = \"scout\""),
            (format!("{envoy}{SOURCE}"), "adapters[0].sources stand without role = \"scout\""),
            (format!("{SCOUT}isolation = 'inline'\n{SOURCE}"), "would be of no use"),
            (format!("[workers]\nisolation = 'inline'\n{SCOUT}{SOURCE}"), "would be of no use"),
            (format!("{SCOUT}{SOURCE}{SOURCE}"), "sources[1].name is that of an earlier source"),
            (replaced("doc_retrieval", "file_write"), "action_class is not one of the names"),
            (replaced("doc_retrieval", "transform_text"), "action_class is not one of the names"),
            (replaced("action_class = 'doc_retrieval'\n", ""), "action_class is missing"),
            (replaced("'docs'", "'d o'"), "name is no name for a source"),
            (replaced("tool = 't'\n", ""), "sources[0].tool is missing"),
            (format!("{SCOUT}{SOURCE}volatile = ['took']\n"), "volatile[0] is no JSON pointer"),
            (
                format!("{SCOUT}{SOURCE}url = 'x'\n"),
                "unknown field `url` in adapters[0].sources[0]",
            ),
        ] {
            let error = read(&text).expect_err(told);
            assert!(error.to_string().contains(told), "{told}: {error}");
        }
    }
}
