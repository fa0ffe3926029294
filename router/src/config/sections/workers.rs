//! Reads where adapters run and what each is granted there: `[workers]`, and keys of `[[adapters]]`.

use std::path::Path;

use super::super::reader::Section;
use super::super::settings::{AdapterEntry, Workers};
use crate::grant::{Feature, Grants, Isolation, Kind};

const MEBIBYTE: u64 = 1024 * 1024;

pub(super) fn workers(section: &Section<'_>) -> Workers {
    let default = Workers::default();
    Workers {
        isolation: section.choice("isolation", Isolation::ALL).unwrap_or(default.isolation),
        processes: processes(section).unwrap_or(default.processes),
        memory: memory(section).unwrap_or(default.memory),
        start_timeout: section.milliseconds("start_timeout_ms").unwrap_or(default.start_timeout),
        load_timeout: section.milliseconds("load_timeout_ms").unwrap_or(default.load_timeout),
        crashes: section.count("crashes").unwrap_or(default.crashes),
        crash_window: section.milliseconds("crash_window_ms").unwrap_or(default.crash_window),
        quarantine: section.milliseconds("quarantine_ms").unwrap_or(default.quarantine),
        require_valid: section.flag("require_valid", default.require_valid),
        accept_missing: section.choices("accept_missing", Feature::ALL),
    }
}

/// Reads the keys of an adapter, whose isolation is `default` unless it says another.
pub(super) fn place(
    section: &Section<'_>,
    base: &Path,
    default: Isolation,
    entry: AdapterEntry,
) -> AdapterEntry {
    let isolation = section.choice("isolation", Isolation::ALL);
    let grants = section.within("grants", |section| grants(section, base));
    if entry.factory_ref == AdapterEntry::ENVOY_REF {
        let settled = [("isolation", isolation.is_some()), ("role", entry.role.is_some())];
        for (key, _) in settled.into_iter().filter(|(_, given)| *given) {
            section.wrong(
                key,
                "is settled: an envoy has its role, and a sandbox of its own for every call",
                "leave it out",
            );
        }
        return AdapterEntry { memory: memory(section), grants, ..entry };
    }
    if isolation.unwrap_or(default) == Isolation::Inline && !grants.is_empty() {
        section.wrong(
            "grants",
            "would bind nobody: grants hold for workers, and this adapter runs inline",
            "write isolation = \"worker\", or leave the grants out: inline it may do whatever the \
             router may",
        );
    }
    AdapterEntry {
        isolation,
        processes: processes(section),
        memory: memory(section),
        grants,
        ..entry
    }
}

fn processes(section: &Section<'_>) -> Option<usize> {
    let number = section.between("processes", 1, Workers::MAX_PROCESSES as u64)?;
    usize::try_from(number).ok()
}

fn memory(section: &Section<'_>) -> Option<u64> {
    let (least, most) = (Workers::MIN_MEMORY / MEBIBYTE, Workers::MAX_MEMORY / MEBIBYTE);
    section.between("memory_mb", least, most).map(|number| number * MEBIBYTE)
}

fn grants(section: &Section<'_>, base: &Path) -> Grants {
    let mut grants = Grants::default();
    for (key, kind) in Kind::ALL {
        for (index, text) in section.texts(key).iter().enumerate() {
            if let Err(refused) = grants.add(*kind, text, base) {
                let message = format!("cannot be granted: {}", refused.why);
                section.wrong(&format!("{key}[{index}]"), &message, refused.remedy);
            }
        }
    }
    grants
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigFile, Environment, Error, Problem};

    fn read(text: &str, overrides: &[(&str, &str)]) -> Result<ConfigFile, Error> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        std::fs::write(&file, text).unwrap();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let overrides = overrides.iter().map(owned).collect();
        let read =
            ConfigFile::find(Some(&file), &Environment { overrides, ..Environment::default() });
        // As if it had been in a directory that everybody knows.
        read.map(|mut config| {
            for path in config.adapters.iter_mut().flat_map(|entry| &mut entry.grants.read) {
                if let Ok(inside) = path.strip_prefix(directory.path()) {
                    *path = Path::new("/etc/router").join(inside);
                }
            }
            config
        })
    }

    #[test]
    fn adapters_run_confined_and_are_granted_nothing_unless_it_is_written() {
        let config = read("[[adapters]]\nref = 'm:f'\n", &[]).unwrap();
        assert_eq!(config.workers, Workers::default());
        assert_eq!(config.workers.isolation, Isolation::Worker);
        let [entry] = &config.adapters[..] else { panic!("{config:?}") };
        assert!(entry.grants.is_empty() && entry.isolation.is_none());
        assert_eq!((entry.processes, entry.memory), (None, None));

        let text = "[workers]\nisolation = 'inline'\nprocesses = 3\nmemory_mb = 64\n\
                    accept_missing = ['landlock-scope', 'seccomp-notify']\ncrashes = 2\n\
                    [[adapters]]\nref = 'm:f'\nisolation = 'worker'\nprocesses = 64\n\
                    memory_mb = 1048576\n[adapters.grants]\nconnect = ['*:443']\n\
                    read = ['data', '/srv']\nenv = ['HOME']\n";
        let overrides = [
            ("NEXUS_ROUTER__WORKERS__QUARANTINE_MS", "5"),
            ("NEXUS_ROUTER__ADAPTERS__0__GRANTS__RUN", "['/usr/bin/git']"),
            ("NEXUS_ROUTER__ADAPTERS__0__GRANTS__ENV__1", "LANG"),
        ];
        let config = read(text, &overrides).unwrap();
        let expected = Workers {
            isolation: Isolation::Inline,
            processes: 3,
            memory: 64 * MEBIBYTE,
            crashes: 2,
            quarantine: std::time::Duration::from_millis(5),
            accept_missing: vec![Feature::LandlockScope, Feature::SeccompNotify],
            ..Workers::default()
        };
        assert_eq!(config.workers, expected);
        let [entry] = &config.adapters[..] else { panic!("{config:?}") };
        assert_eq!(entry.isolation, Some(Isolation::Worker));
        assert_eq!((entry.processes, entry.memory), (Some(64), Some(1_048_576 * MEBIBYTE)));
        let grants = Grants {
            connect: vec!["*:443".parse().unwrap()],
            read: vec!["/etc/router/data".into(), "/srv".into()],
            write: Vec::new(),
            run: vec!["/usr/bin/git".into()],
            env: vec!["HOME".to_owned(), "LANG".to_owned()],
        };
        assert_eq!(entry.grants, grants);
    }

    #[test]
    fn everything_that_cannot_hold_is_told_with_its_place_and_without_its_value() {
        let text = "[workers]\nisolation = 'hunter22'\nprocesses = 0\nmemory_mb = 63\n\
                    accept_missing = ['seccomp', 'hunter22']\ncrashes = 0\n\
                    [[adapters]]\nref = 'm:f'\nprocesses = 65\nmemory_mb = 1048577\n\
                    [adapters.grants]\nconnect = ['a:1', 'hunter22']\nread = ['hunter22/..']\n\
                    env = ['HUNTER=hunter22',\n'LD_AUDIT']\nopen = ['x']\n";
        let override_ = ("NEXUS_ROUTER__WORKERS__CRASH_WINDOW_MS", "hunter22");
        let Err(Error::Invalid { first, others, .. }) = read(text, &[override_]) else {
            panic!("it was taken")
        };
        let problems: Vec<&Problem> = std::iter::once(&first).chain(&others).collect();
        let expected = [
            "workers.isolation is not one of the names that are known here (line 2",
            "workers.processes is not from 1 to 64 (line 3",
            "workers.memory_mb is not from 64 to 1048576 (line 4",
            "workers.accept_missing[1] is not one of the names that are known here (line 5",
            "workers.crashes is 0 (line 6",
            "adapters[0].processes is not from 1 to 64 (line 9",
            "adapters[0].memory_mb is not from 64 to 1048576 (line 10",
            "adapters[0].grants.connect[1] cannot be granted: there is no port (line 12",
            "adapters[0].grants.read[0] cannot be granted: the path goes up with .. (line 13",
            "adapters[0].grants.env[0] cannot be granted: it is no name of a variable (line 14",
            "adapters[0].grants.env[1] cannot be granted: it steers the system's loader (line 15",
            "unknown field `open` in adapters[0].grants (line 16",
            "workers.crash_window_ms must be a whole number",
        ];
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.placed().starts_with(expected), "{expected}: {problem:?}");
            assert!(!problem.hint.is_empty(), "{problem:?}");
            assert!(!format!("{problem:?}").contains("hunter22"), "{problem:?}");
        }
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    }

    #[test]
    fn grants_without_a_worker_are_refused() {
        let grants = "[adapters.grants]\nenv = ['HOME']\n";
        for text in [
            format!("[[adapters]]\nref = 'm:f'\nisolation = 'inline'\n{grants}"),
            format!("[workers]\nisolation = 'inline'\n[[adapters]]\nref = 'm:f'\n{grants}"),
        ] {
            let error = read(&text, &[]).unwrap_err();
            assert!(error.to_string().contains("adapters[0].grants would bind nobody"), "{error}");
            assert!(error.hint().contains("isolation = \"worker\""), "{}", error.hint());
        }
        let empty =
            "[[adapters]]\nref = 'm:f'\nisolation = 'inline'\n[adapters.grants]\nenv = []\n";
        assert!(read(empty, &[]).is_ok());
    }
}
