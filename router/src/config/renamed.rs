//! Keys that people know by another name, and what they are called here.

/// The key as it may be guessed, what it is called here, and why.
pub(super) const RENAMED: &[(&str, &str, &str)] = &[
    ("adapters.factory_ref", "adapters.ref", "the table already says that it is an adapter's"),
    ("adapters.adapter_id", "adapters.id", "the table already says that it is an adapter's"),
    ("adapters.timeout", "adapters.timeout_ms", "the unit stands in the name"),
    ("adapters.memory", "adapters.memory_mb", "the unit stands in the name"),
    ("adapters.workers", "adapters.processes", "workers are processes"),
    ("adapters.permissions", "adapters.grants", "what is not granted is not permitted"),
    ("workers.memory", "workers.memory_mb", "the unit stands in the name"),
    ("database", "db", "the store is one file"),
    ("db_path", "db", "the store is one file"),
    ("listen", "listeners.address", "there may be more than one [[listeners]]"),
    ("port", "listeners.address", "it is written HOST:PORT, in [[listeners]]"),
    ("host", "listeners.address", "it is written HOST:PORT, in [[listeners]]"),
    ("bind", "listeners.address", "there may be more than one [[listeners]]"),
    ("server.listen", "listeners.address", "there may be more than one [[listeners]]"),
    ("server.bind", "listeners.address", "there may be more than one [[listeners]]"),
    ("server.host", "listeners.address", "it is written HOST:PORT, in [[listeners]]"),
    ("server.port", "listeners.address", "it is written HOST:PORT, in [[listeners]]"),
    ("server.bodies_bytes", "server.memory_bytes", "it counts parsed values and answers, too"),
    ("default_adapter_id", "default_adapter", "an adapter is named by its id everywhere"),
    ("tls", "listeners.tls_cert and listeners.tls_key", "each listener has its own certificate"),
    ("listeners.tls", "listeners.tls_cert and listeners.tls_key", "there are two files to name"),
    ("log_level", "log.level", "all about the log stands in [log]"),
    ("otel", "telemetry", "it is about traces, by whatever protocol"),
    ("limits.max_steps", "policy.max_steps", "it is about what plans may be, not about load"),
    ("policy.allow_apply", "policy.apply", "what the policy says is what it allows"),
];

/// Returns what a key is called here, and why, if it is known by another name.
pub(super) fn hint(path: &str) -> Option<String> {
    let (_, new, why) = RENAMED.iter().find(|(old, ..)| *old == path)?;
    Some(format!("it is called {new} here: {why}"))
}

/// Returns a path without the numbers of items.
pub(super) fn without_numbers(path: &str) -> String {
    let parts = path.split('[').enumerate().map(|(index, part)| match index {
        0 => part,
        _ => part.split_once(']').map_or(part, |(_, rest)| rest),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::Document;
    use crate::config::reader::Report;
    use crate::config::sections;

    fn look(text: &str) -> (Vec<crate::config::Problem>, std::collections::BTreeSet<String>) {
        let document = Document::parse(text).unwrap();
        let report = Report::new(&document.origins);
        report
            .section("", &document.table, |root| sections::config(root, std::path::Path::new("/")));
        let problems = report.problems.borrow().clone();
        (problems, report.known())
    }

    #[test]
    fn every_other_name_is_explained_and_leads_to_a_key() {
        let all = "[[adapters]]\n[[listeners]]\n[[policy.rules]]\n[[tools]]\n[[tokens]]\n";
        let (_, known) = look(all);
        for (old, new, why) in RENAMED {
            assert!(!known.contains(*old) && !why.is_empty(), "{old} is a key");
            for new in new.split(" and ") {
                assert!(known.contains(new), "{old} leads to {new}, which is no key");
            }
            let text = match old.split_once('.') {
                Some((list @ ("adapters" | "listeners"), key)) => {
                    format!("[[{list}]]\n{key} = 1\n")
                }
                Some((table, key)) => format!("[{table}]\n{key} = 1\n"),
                None => format!("{old} = 1\n"),
            };
            let (problems, _) = look(&text);
            let explained = problems.iter().find(|problem| problem.hint.contains(why)).unwrap();
            assert!(explained.hint.contains(&format!("called {new} here")), "{explained:?}");
            assert!(explained.message.starts_with("unknown field"), "{explained:?}");
        }
    }

    #[test]
    fn numbers_of_items_are_left_out() {
        assert_eq!(without_numbers("a[0].b[12].c"), "a.b.c");
        assert_eq!(without_numbers("a.b"), "a.b");
    }
}
