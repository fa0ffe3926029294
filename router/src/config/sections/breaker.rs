//! Reads `[breaker]`: when the circuit of an adapter opens, and for how long.

use crate::breaker::BreakerSettings;
use crate::config::reader::Section;

/// The most failures in a row that can be asked for.
const MAX_FAILURES: u64 = 1_000_000;

pub(super) fn breaker(section: &Section<'_>) -> BreakerSettings {
    let default = BreakerSettings::default();
    let failures = section.between("failures", 1, MAX_FAILURES);
    let failures = failures.and_then(|failures| u32::try_from(failures).ok());
    let pause = section.milliseconds("pause_ms").unwrap_or(default.pause);
    let max_pause = section.milliseconds("max_pause_ms");
    if max_pause.is_some_and(|max_pause| max_pause < pause) {
        section.wrong("max_pause_ms", "is less than pause_ms", "write at least pause_ms");
    }
    BreakerSettings {
        enabled: section.flag("enabled", default.enabled),
        failures: failures.unwrap_or(default.failures),
        pause,
        max_pause: max_pause.unwrap_or(default.max_pause).max(pause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigFile, Environment, Error};
    use std::time::Duration;

    fn read(text: &str) -> Result<ConfigFile, Error> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        std::fs::write(&file, text).unwrap();
        ConfigFile::find(Some(&file), &Environment::default())
    }

    #[test]
    fn breaker_has_defaults_and_takes_settings() {
        assert_eq!(read("").unwrap().breaker, BreakerSettings::default());
        let text = "[breaker]\nenabled = false\nfailures = 2\npause_ms = 90000\n\
                    [[adapters]]\nref = 'm:f'\nbreaker = false\n[[adapters]]\nref = 'm:g'\n";
        let config = read(text).unwrap();
        let pause = Duration::from_secs(90);
        let expected = BreakerSettings { enabled: false, failures: 2, pause, max_pause: pause };
        assert_eq!(config.breaker, expected);
        let of_adapters: Vec<Option<bool>> =
            config.adapters.iter().map(|entry| entry.breaker).collect();
        assert_eq!(of_adapters, [Some(false), None]);
    }

    #[test]
    fn rejects_settings_that_cannot_hold() {
        for (line, expected) in [
            ("failures = 0", "breaker.failures is not from 1 to 1000000"),
            ("pause_ms = 0", "breaker.pause_ms is 0"),
            ("pause_ms = 9\nmax_pause_ms = 8", "breaker.max_pause_ms is less than pause_ms"),
            ("pause = 9", "unknown field `pause` in breaker"),
        ] {
            let error = read(&format!("[breaker]\n{line}\n")).unwrap_err();
            assert!(error.to_string().contains(expected), "{line}: {error}");
        }
    }
}
