//! What is wrong with a configuration that can be read: things that other verbs would stumble over one by one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use nexus_router_sdk::redact::is_secret_name;

use super::Environment;
use super::document::Origins;
use super::error::{Error, Problem};
use super::file::ConfigFile;
use super::settings::KeyReference;
use crate::files;
use crate::secret::{self, Secrets, Source};
use crate::signal::{
    AcceptancePolicy, Finding, MANIFEST_LIMITS, PUBLISHER_LIMITS, PublisherPages, manifest_page,
};
use crate::store::StoreKey;

/// Hint about a file that cannot be read.
const UNREADABLE: &str = "check the path, and that this user may read the file";

impl ConfigFile {
    /// Looks at everything that can be known without loading an adapter: that no listener is open to
    /// strangers, that files are readable and secrets are there, and that no two things have one name.
    pub(crate) fn problems(
        &self,
        origins: &Origins,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Vec<Problem> {
        let mut found = Found { origins, problems: Vec::new() };
        self.check_listeners(&mut found);
        self.check_secrets(&mut found, &environment);
        if let Some(key) = &self.store.key
            && let Err(problem) = StoreKey::read(&key.source, &environment)
        {
            found.add("store.key", format!("store.key: {problem}"), KeyReference::HINT);
        }
        self.check_adapters(&mut found);
        self.check_policies(&mut found);
        self.check_published(&mut found);
        found.problems.sort_by(|a, b| a.origin.cmp(&b.origin));
        found.problems
    }

    fn check_listeners(&self, found: &mut Found<'_>) {
        for (index, listener) in self.listeners.iter().enumerate() {
            let path = format!("listeners[{index}]");
            if let Err(error) = listener.refuse_unsafe() {
                found.add(&path, error.to_string(), error.hint());
            }
            let before = self.listeners[..index].iter();
            let address = listener.address;
            if address.port() != 0 && before.clone().any(|other| other.address == address) {
                let message = format!("{path}.address is that of an earlier listener: {address}");
                found.add(&format!("{path}.address"), message, "give each its own address");
            }
            let Some(tls) = &listener.tls else { continue };
            if let Err(error) = read(&tls.cert) {
                let path = format!("{path}.tls_cert");
                let message = format!("{path}: cannot read {}: {error}", tls.cert.display());
                found.add(&path, message, UNREADABLE);
            }
        }
        self.check_tls_keys(found);
    }

    /// Checks that the keys of the listeners can be read, by their owner alone.
    fn check_tls_keys(&self, found: &mut Found<'_>) {
        for (index, listener) in self.listeners.iter().enumerate() {
            let Some(file) = listener.tls.as_ref().map(|tls| &tls.key) else { continue };
            let path = format!("listeners[{index}].tls_key");
            let shown = file.display();
            if let Err(error) = read(file) {
                found.add(&path, format!("{path}: cannot read {shown}: {error}"), UNREADABLE);
            } else if let Ok(Some(mode)) =
                files::open_regular(file).and_then(|file| files::exposed_mode(&file))
            {
                let message = format!(
                    "{path}: group or others have access to {shown}, whose mode is {mode:04o}"
                );
                found.add(&path, message, &format!("run chmod 600 {shown}"));
            }
        }
    }

    /// Reads the configuration of a daemon. Unlike [`find`](Self::find) it refuses keys of listeners that cannot be
    /// read, or that others may read.
    ///
    /// # Errors
    /// When the configuration, or a key that it names, cannot be used.
    pub(crate) fn find_for_daemon(
        named: Option<&Path>,
        environment: &Environment,
    ) -> Result<Self, Error> {
        let (config, origins) = Self::trace(named, environment)?;
        let mut found = Found { origins: &origins, problems: Vec::new() };
        config.check_tls_keys(&mut found);
        let mut problems = found.problems.into_iter();
        match problems.next() {
            None => Ok(config),
            Some(first) => {
                let path = config.source.clone();
                Err(Error::Invalid { path, first, others: problems.collect() })
            }
        }
    }

    fn check_secrets(
        &self,
        found: &mut Found<'_>,
        environment: &impl Fn(&str) -> Option<OsString>,
    ) {
        let mut check = |section: &str, sources: &BTreeMap<String, Source>| {
            for (name, source) in sources {
                // One by one, to find all that is wrong.
                let one = BTreeMap::from([(name.clone(), source.clone())]);
                if let Err(error) = Secrets::from_sources(&one, environment) {
                    let path = format!("{section}.{name}");
                    found.add(&path, format!("{path}: {}", whole(&error)), error.hint());
                }
            }
        };
        check("secrets", &self.secret_sources());
        check("telemetry.headers", &self.telemetry.headers);
    }

    /// Reads the acceptance policies. Whether they fit the contracts is known when those are read.
    fn check_policies(&self, found: &mut Found<'_>) {
        let own = self.adapters.iter().enumerate().filter_map(|(index, adapter)| {
            Some((format!("adapters[{index}].acceptance"), adapter.acceptance.as_deref()?))
        });
        let all = self.signals.policy.as_deref().map(|file| ("signals.policy".to_owned(), file));
        for (path, file) in own.chain(all) {
            let hint = "nexus-router contract evaluate --policy FILE tells what a policy decides";
            let read = |bytes: Vec<u8>| AcceptancePolicy::read(&bytes).map(drop);
            found.check_file((&path, file), AcceptancePolicy::MAX_BYTES, read, hint);
        }
    }

    /// Reads what is told to anybody.
    fn check_published(&self, found: &mut Found<'_>) {
        if let Some(file) = self.signals.manifest.as_deref() {
            let hint = "nexus-router contract manifest build writes one";
            let read = |bytes| manifest_page(bytes).map(drop);
            found.check_file(("signals.manifest", file), MANIFEST_LIMITS.bytes, read, hint);
        }
        if let Some(file) = self.signals.publisher.as_deref() {
            let hint = "nexus-router contract keygen FILE --document FILE writes one";
            let read = |bytes| PublisherPages::read(bytes, false).map(drop);
            found.check_file(("signals.publisher", file), PUBLISHER_LIMITS.bytes, read, hint);
        }
    }

    fn check_adapters(&self, found: &mut Found<'_>) {
        // References are looked up among names alone: whether the values are there was told already.
        let stand_in = |_: &str| Some(OsString::from("stand-in"));
        let named = self.secrets.keys().filter(|name| is_secret_name(name));
        let named = named.map(|name| (name.clone(), Source::Env(name.clone())));
        let names = Secrets::from_sources(&named.collect(), stand_in).unwrap_or_default();
        let mut ids = BTreeMap::new();
        for (index, adapter) in self.adapters.iter().enumerate() {
            let path = format!("adapters[{index}]");
            if let Err(error) = names.resolve(&adapter.config) {
                let path = format!("{path}.config");
                found.add(&path, format!("{path}: {}", whole(&error)), error.hint());
            }
            for (number, source) in adapter.sources.iter().enumerate() {
                if let Err(error) = names.resolve(&source.args) {
                    let path = format!("{path}.sources[{number}].args");
                    found.add(&path, format!("{path}: {}", whole(&error)), error.hint());
                }
            }
            let Some(id) = &adapter.id else { continue };
            if let Some(first) = ids.get(id) {
                let message = format!("{path} has the id of adapters[{first}]");
                found.add(&format!("{path}.id"), message, "give each its own id");
            } else {
                ids.insert(id.clone(), index);
            }
        }
    }
}

struct Found<'a> {
    origins: &'a Origins,
    problems: Vec<Problem>,
}

impl Found<'_> {
    fn add(&mut self, path: &str, message: String, hint: &str) {
        let origin = self.origins.of(path);
        self.problems.push(Problem { origin, message, hint: hint.to_owned() });
    }

    /// Reads a file that a key names, and tells everything that is wrong with it.
    fn check_file(
        &mut self,
        (path, file): (&str, &Path),
        most: usize,
        read: impl FnOnce(Vec<u8>) -> Result<(), Vec<Finding>>,
        hint: &str,
    ) {
        match files::read_bounded(file, most) {
            Err(error) => {
                let message = format!("{path}: cannot read {}: {error}", file.display());
                self.add(path, message, hint);
            }
            Ok(bytes) => {
                for Finding { pointer, message, .. } in read(bytes).err().unwrap_or_default() {
                    self.add(path, format!("{path}: {message} (at {pointer:?})"), hint);
                }
            }
        }
    }
}

/// Returns what an error says, with its cause.
fn whole(error: &secret::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Reads a file, but no more than tells that it can be read. A directory can be opened, but not read.
fn read(path: &Path) -> std::io::Result<()> {
    use std::io::Read as _;
    match std::fs::File::open(path)?.read(&mut [0])? {
        0 => Err(std::io::Error::other("it is empty")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    #[test]
    fn everything_that_is_wrong_is_found_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        let text = "[[listeners]]\naddress = '0.0.0.0:1'\ntls_cert = 'missing.pem'\n\
                    tls_key = '.'\ntokens = false\n[[listeners]]\naddress = '0.0.0.0:1'\n\
                    allow_remote_plaintext = true\n\
                    [secrets]\nGOOD = 'env:GOOD'\nUNSET = 'env:UNSET'\nGONE = 'file:gone'\n'a b' = 'env:GOOD'\n\
                    [[adapters]]\nref = 'm:f'\nid = 'a'\n[adapters.config]\nx = { '$secret' = 'NO' }\n\
                    [[adapters]]\nref = 'm:f'\nid = 'a'\n[adapters.config]\nx = { '$secret' = 'GONE' }\n\
                    [telemetry.headers]\nAuthorization = 'env:UNSET'\n";
        std::fs::write(&file, text).unwrap();
        let (config, origins) = ConfigFile::trace(Some(&file), &Environment::default()).unwrap();
        let lookup = |name: &str| (name == "GOOD").then(|| OsString::from("hunter22"));
        let problems = config.problems(&origins, lookup);
        let expected = [
            (1, "without tokens"),
            (3, "missing.pem"),
            (4, "listeners[0].tls_key"),
            (7, "earlier listener: 0.0.0.0:1"),
            (11, "UNSET is not set"),
            (12, "gone"),
            (13, "no name for a secret"),
            (25, "telemetry.headers.Authorization"),
            (17, "\"NO\""),
            (21, "has the id of adapters[0]"),
        ];
        for (line, told) in expected {
            let found = problems.iter().find(
                |problem| matches!(problem.origin, Origin::File { line: at, .. } if at == line),
            );
            let found = found.unwrap_or_else(|| panic!("nothing at line {line}: {problems:#?}"));
            assert!(found.message.contains(told), "{found:?}");
            assert!(!found.hint.is_empty() && !found.message.contains("hunter22"), "{found:?}");
        }
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        let default = ConfigFile::default();
        assert_eq!(default.problems(&Origins::default(), |_| None), []);
    }

    #[test]
    fn finds_tls_keys_that_others_may_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("key.pem"), "key").unwrap();
        let text =
            "[[listeners]]\naddress = '127.0.0.1:1'\ntls_cert = 'key.pem'\ntls_key = 'key.pem'\n";
        std::fs::write(at("router.toml"), text).unwrap();
        let find = |mode: u32| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(at("key.pem"), permissions).unwrap();
            let file = at("router.toml");
            let (config, origins) =
                ConfigFile::trace(Some(&file), &Environment::default()).unwrap();
            let problems = config.problems(&origins, |_| None);
            (problems, ConfigFile::find_for_daemon(Some(&file), &Environment::default()))
        };
        for mode in [0o600, 0o400] {
            let (problems, config) = find(mode);
            assert!(problems.is_empty() && config.is_ok(), "{problems:?}");
        }
        for mode in [0o644, 0o640, 0o602] {
            let (problems, config) = find(mode);
            let [problem] = &problems[..] else { panic!("{problems:?}") };
            assert!(matches!(problem.origin, Origin::File { line: 4, .. }), "{problem:?}");
            assert!(problem.message.contains(&format!("{mode:04o}")), "{problem:?}");
            assert!(problem.hint.contains("chmod 600"), "{problem:?}");
            assert_eq!(config.unwrap_err().code(), "CONFIG_FILE_INVALID");
        }
    }
}
