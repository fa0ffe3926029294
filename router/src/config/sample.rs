//! The `router.toml` that `config init` writes: every key, with its default.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// A file with every key. A line that begins with `#` and no blank is a setting that is not in force.
pub const SAMPLE: &str = include_str!("sample.toml");

/// Writes the sample to a new file, which only its owner may read: secrets may be put into it.
///
/// # Errors
/// When the file is there already, or cannot be written.
pub fn write_sample(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(SAMPLE.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::Document;
    use crate::config::reader::Report;
    use crate::config::renamed::without_numbers;
    use crate::config::sections;
    use crate::config::{
        ConfigFile, Effect, Listener, PolicyDefault, PolicySettings, Server, Workers,
    };
    use crate::share::ShareLimits;

    /// Puts every setting in force.
    fn uncommented() -> String {
        let line = |line: &str| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
            _ => format!("{line}\n"),
        };
        SAMPLE.lines().map(line).collect()
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
        let config = read(SAMPLE, |_, _| {});
        // A daemon with the sample has adapters, and denies all calls but those of the example.
        let [rule] = &config.policy.rules[..] else { panic!("{:?}", config.policy) };
        assert_eq!((rule.effect, rule.adapter.as_ref().unwrap().as_str()), (Effect::Allow, "echo"));
        let (default, rules) = (Some(PolicyDefault::Deny), vec![rule.clone()]);
        let policy = PolicySettings { default, rules, ..PolicySettings::default() };
        let expected = ConfigFile { discover: true, policy, ..ConfigFile::default() };
        assert_eq!(format!("{config:?}"), format!("{expected:?}"));
    }

    #[test]
    fn every_key_stands_in_the_sample_with_its_default() {
        let config = read(&uncommented(), |document, report| {
            for key in report.known() {
                let mut given = document.origins.paths().map(without_numbers);
                assert!(given.any(|path| path == key), "{key} is not in sample.toml");
            }
        });
        assert_eq!(config.listeners[0].address, Listener::default().address);
        assert!(config.listeners[0].tls.is_some() && config.listeners[0].tokens);
        // Absent, the share of a token is half of all.
        let token_connections = config.server.token_connections();
        assert_eq!(token_connections, Server::default().token_connections());
        let server = Server { connections_per_token: None, ..config.server };
        assert_eq!(server, Server::default());
        let shares = ShareLimits { runs_per_token: None, ..config.limits.shares() };
        assert_eq!(shares, ShareLimits::default());
        let (runs, all) = (config.limits.runs_per_token, config.limits.runs_in_flight);
        assert_eq!((runs, all), (Some(8192), Some(16_384)));
        assert_eq!(config.workers, Workers::default());
        assert_eq!(
            PolicySettings { rules: Vec::new(), default: None, ..config.policy },
            PolicySettings::default()
        );
        assert_eq!((config.log, config.recover), Default::default());
        let (given, default) = (config.telemetry, ConfigFile::default().telemetry);
        assert_eq!(
            (given.service_name, given.sample_ratio),
            (default.service_name, default.sample_ratio)
        );
        assert_eq!((config.tools.len(), config.tokens.len(), config.adapters.len()), (1, 1, 2));
    }

    #[test]
    fn sample_is_private_and_replaces_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("router.toml");
        write_sample(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), SAMPLE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "").unwrap();
        let refused = write_sample(&path).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }
}
