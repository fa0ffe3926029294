//! `router.toml`: finds it, reads it, and puts what the environment says over it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::document::{Document, Origins};
use super::error::Error;
use super::listener::Listener;
use super::reader::Report;
use super::sections;
use super::settings::{
    AdapterEntry, CacheSettings, ContractSettings, EvidenceSettings, Log, Mcp, PolicySettings,
    Recover, RunLimits, SecretBinding, SecretEntry, Server, SignalSettings, StoreSettings,
    Telemetry, TokenEntry, ToolEntry, Workers,
};
use super::{DATA_DIR_VARIABLE, DB_VARIABLE, Environment};
use crate::breaker::BreakerSettings;
use crate::files::open_regular;
use crate::secret::Source;

/// What the operator says in `router.toml`, and in variables that stand for keys of it.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// The file that it was read from.
    pub source: Option<PathBuf>,
    /// Directories with adapters.
    pub adapter_path: Vec<PathBuf>,
    /// Where the store, the tokens and the caches are.
    pub data_dir: Option<PathBuf>,
    /// The store.
    pub db: Option<PathBuf>,
    /// Load what is on the adapter path and needs no configuration, when no adapters are listed.
    pub discover: bool,
    /// Refuse to start, and to reload, when an adapter fails to load.
    pub require_all: bool,
    /// The adapter of steps that name none.
    pub default_adapter: Option<String>,
    /// What becomes of runs left behind by a process that is gone.
    pub recover: Recover,
    /// Secrets by name, each with the calls whose arguments may refer to it.
    pub secrets: BTreeMap<String, SecretEntry>,
    /// The adapters.
    pub adapters: Vec<AdapterEntry>,
    /// What may be under way at once.
    pub limits: RunLimits,
    /// When the circuits of adapters open.
    pub breaker: BreakerSettings,
    /// The cache with private copies of adapter libraries.
    pub cache: CacheSettings,
    /// The processes in which adapters run.
    pub workers: Workers,
    /// Where the daemon listens; there is at least one.
    pub listeners: Vec<Listener>,
    /// What the daemon takes from clients.
    pub server: Server,
    /// What runs may do.
    pub policy: PolicySettings,
    /// Where contracts are, and what holds for them.
    pub contracts: ContractSettings,
    /// Where signal contracts are, and by which policy their fields are accepted.
    pub signals: SignalSettings,
    /// Whether what is done is sealed, and where that is kept.
    pub evidence: EvidenceSettings,
    /// The store.
    pub store: StoreSettings,
    /// How MCP is spoken.
    pub mcp: Mcp,
    /// Names for operations of adapters.
    pub tools: Vec<ToolEntry>,
    /// What holds for single tokens.
    pub tokens: Vec<TokenEntry>,
    /// What is logged.
    pub log: Log,
    /// Where traces are exported to.
    pub telemetry: Telemetry,
}

impl Default for ConfigFile {
    fn default() -> Self {
        Self {
            source: None,
            adapter_path: Vec::new(),
            data_dir: None,
            db: None,
            discover: false,
            require_all: false,
            default_adapter: None,
            recover: Recover::default(),
            secrets: BTreeMap::new(),
            adapters: Vec::new(),
            limits: RunLimits::default(),
            breaker: BreakerSettings::default(),
            cache: CacheSettings::default(),
            workers: Workers::default(),
            listeners: vec![Listener::default()],
            server: Server::default(),
            policy: PolicySettings::default(),
            contracts: ContractSettings::default(),
            signals: SignalSettings::default(),
            evidence: EvidenceSettings::default(),
            store: StoreSettings::default(),
            mcp: Mcp::default(),
            tools: Vec::new(),
            tokens: Vec::new(),
            log: Log::default(),
            telemetry: Telemetry::default(),
        }
    }
}

impl ConfigFile {
    /// The name of the file that is read from the working directory when none is named.
    pub const DEFAULT_NAME: &str = "router.toml";

    /// Reads the named file, or that of `NEXUS_ROUTER_CONFIG`, or `router.toml` in the working directory if
    /// there is one; what variables of the environment say comes before it.
    ///
    /// # Errors
    /// When a named file is missing, a file is unreadable or invalid, or a variable is.
    pub fn find(named: Option<&Path>, environment: &Environment) -> Result<Self, Error> {
        Self::trace(named, environment).map(|(config, _)| config)
    }

    /// Returns the sources of the secrets, by name.
    #[must_use]
    pub fn secret_sources(&self) -> BTreeMap<String, Source> {
        let secrets = self.secrets.iter();
        secrets.map(|(name, entry)| (name.clone(), entry.source.clone())).collect()
    }

    /// Returns whether adapters on the adapter path are loaded.
    #[must_use]
    pub const fn discovers(&self) -> bool {
        self.discover && self.adapters.is_empty()
    }

    /// Returns the bindings of the secrets that arguments of callers may refer to, by name.
    #[must_use]
    pub fn secret_bindings(&self) -> BTreeMap<String, SecretBinding> {
        let bound = |(name, entry): (&String, &SecretEntry)| {
            entry.binding.clone().map(|binding| (name.clone(), binding))
        };
        self.secrets.iter().filter_map(bound).collect()
    }

    /// Like [`find`](Self::find), and tells where each setting was said.
    pub(crate) fn trace(
        named: Option<&Path>,
        environment: &Environment,
    ) -> Result<(Self, Origins), Error> {
        let default = Path::new(Self::DEFAULT_NAME);
        let file = named
            .or(environment.config_file.as_deref())
            .or_else(|| default.is_file().then_some(default));
        let unreadable = |source| {
            let path = file.unwrap_or(Path::new(".")).to_owned();
            Error::Unreadable { path, source }
        };
        let text = file.map(read_text).transpose().map_err(unreadable)?;
        let base = sections::base(file).map_err(unreadable)?;
        let path = file.map(Path::to_owned);
        let invalid = |problems: Vec<_>| {
            let mut problems = problems.into_iter();
            let first = problems.next()?;
            Some(Error::Invalid { path: path.clone(), first, others: problems.collect() })
        };
        let mut document = match Document::parse(&text.unwrap_or_default()) {
            Ok(document) => document,
            Err(first) => return Err(Error::Invalid { path, first, others: Vec::new() }),
        };
        let mut problems = document.lay_over(&environment.overrides);
        let report = Report::new(&document.origins);
        let mut config = report.section("", &document.table, |root| sections::config(root, &base));
        problems.extend(report.problems.into_inner());
        // In the order of the file; variables come last.
        problems.sort_by(|a, b| a.origin.cmp(&b.origin));
        if let Some(error) = invalid(problems) {
            return Err(error);
        }
        config.source = path;
        // These have variables of their own, which come before all.
        let mut origins = document.origins;
        for (key, slot, given, variable) in [
            ("db", &mut config.db, &environment.db, DB_VARIABLE),
            ("data_dir", &mut config.data_dir, &environment.data_dir, DATA_DIR_VARIABLE),
        ] {
            if let Some(path) = given {
                *slot = Some(path.clone());
                origins.note(key, variable);
            }
        }
        let mut misplaced = config.misplaced(environment, &origins).into_iter();
        if let Some(first) = misplaced.next() {
            let path = config.source.clone();
            return Err(Error::Invalid { path, first, others: misplaced.collect() });
        }
        Ok((config, origins))
    }
}

/// The largest file that is read: a thousand tools take a hundredth of it.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Reads the text of a file.
fn read_text(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let file = open_regular(path)?;
    let mut text = String::new();
    if file.take(MAX_FILE + 1).read_to_string(&mut text)? as u64 > MAX_FILE {
        return Err(std::io::Error::other("it is larger than 16 MiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn read(text: &str) -> Result<ConfigFile, Error> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        std::fs::write(&file, text).unwrap();
        ConfigFile::find(Some(&file), &Environment::default())
    }

    #[test]
    fn unknown_keys_are_refused_with_their_place_and_what_was_meant() {
        for (text, place, hint) in [
            ("adapter_paht = []\n", "line 1, column 1", "did you mean adapter_path?"),
            ("\n[limits]\nruns_in_fligt = 1\n", "line 3, column 1", "did you mean runs_in_flight?"),
            ("[[adapters]]\nref = 'a:b'\nconfg = {}\n", "line 3, column 1", "did you mean config?"),
            ("zzz = 1\n", "line 1, column 1", "README.md shows a router.toml"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(place), "{error}");
            assert!(error.to_string().contains("unknown field"), "{error}");
            assert_eq!((error.hint(), error.code()), (hint, "CONFIG_FILE_INVALID"));
        }
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        let text = "adapter_path = ['plugins', '/opt/x']\ndb = 'data/runs.db'\n\
                    [secrets]\nA = 'file:a.txt'\nB = 'env:B_TOKEN'\n";
        std::fs::write(&file, text).unwrap();
        let config = ConfigFile::find(Some(&file), &Environment::default()).unwrap();
        assert_eq!(config.adapter_path, [directory.path().join("plugins"), "/opt/x".into()]);
        assert_eq!(config.db, Some(directory.path().join("data/runs.db")));
        assert_eq!(config.secrets["A"].source, Source::File(directory.path().join("a.txt")));
        assert_eq!(config.secrets["B"].source, Source::Env("B_TOKEN".to_owned()));
    }

    #[test]
    fn store_in_memory_is_not_a_file() {
        assert_eq!(read("db = ':memory:'\n").unwrap().db, Some(":memory:".into()));
    }

    #[test]
    fn adapters_and_limits_are_read() {
        let pin = "ab".repeat(32);
        let text = format!(
            "default_adapter = 'web'\n[limits]\nruns_in_flight = 2\ncall_timeout_ms = 1500\n\
             [[adapters]]\nref = 'm:f'\nid = 'web'\npin = '{pin}'\n\
             [adapters.config]\ntoken = {{ '$secret' = 'T' }}\n[[adapters]]\nref = 'n:g'\n"
        );
        let config = read(&text).unwrap();
        assert_eq!(config.default_adapter.as_deref(), Some("web"));
        assert_eq!(config.limits.runs_in_flight, 2);
        assert_eq!(config.limits.call_timeout, Duration::from_millis(1500));
        let [web, other] = &config.adapters[..] else { panic!("{:?}", config.adapters) };
        assert_eq!((web.factory_ref.as_str(), web.id.as_deref()), ("m:f", Some("web")));
        assert_eq!(web.pin.unwrap().to_string(), pin);
        assert_eq!(web.config.get("token").unwrap().get("$secret").unwrap().as_str(), Some("T"));
        assert!(other.id.is_none() && other.pin.is_none() && other.config.is_empty());
    }

    /// Reads a file with variables over it.
    fn read_with(text: &str, overrides: &[(&str, &str)]) -> Result<ConfigFile, Error> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        std::fs::write(&file, text).unwrap();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let overrides = overrides.iter().map(owned).collect();
        let environment =
            Environment { overrides, config_file: Some(file), ..Environment::default() };
        assert!(!format!("{environment:?}").contains("hunter22"));
        ConfigFile::find(None, &environment)
    }

    #[test]
    fn layers_have_their_order() {
        let text = "db = 'of-file'\ndata_dir = 'of-file'\n[server]\nstreams = 1\nburst = 2\n";
        let overrides =
            [("NEXUS_ROUTER__SERVER__BURST", "3"), ("NEXUS_ROUTER__DB", "/of-override")];
        let config = read_with(text, &overrides).unwrap();
        assert_eq!((config.server.streams, config.server.burst), (1, 3));
        assert_eq!(config.server.connections, Server::default().connections);
        assert_eq!(config.db, Some("/of-override".into()));
        assert!(config.source.is_some() && config.data_dir.unwrap().ends_with("of-file"));
        let environment = Environment {
            data_dir: Some("/of-variable".into()),
            db: Some("/runs.db".into()),
            overrides: vec![("NEXUS_ROUTER__DB".to_owned(), "/of-override".to_owned())],
            ..Environment::default()
        };
        let config = ConfigFile::find(None, &environment).unwrap();
        assert_eq!(config.data_dir, Some("/of-variable".into()));
        assert_eq!(config.db, Some("/runs.db".into()));
    }

    #[test]
    fn bad_variables_are_refused_by_name() {
        for (name, value, told) in [
            ("NEXUS_ROUTER__SERVER__STREAMS", "hunter22", "must be a whole number"),
            ("NEXUS_ROUTER__SERVER__STREAMS", "-1", "must be a whole number"),
            ("NEXUS_ROUTER__SERVER__STREMS", "'hunter22'", "unknown field `strems`"),
            ("NEXUS_ROUTER__LOG__FORMAT", "hunter22", "not one of the names"),
            ("NEXUS_ROUTER__SECRETS__T", "hunter22", "secrets.T is not a reference"),
            ("NEXUS_ROUTER__ADAPTERS__0__ID", "hunter22", "adapters[0].ref is missing"),
            ("NEXUS_ROUTER__SERVER", "hunter22", "server must be a table"),
            ("NEXUS_ROUTER__SERVER__BODY_BYTES", "999999999999", "server.body_bytes does not fit"),
        ] {
            let error = read_with("", &[(name, value)]).unwrap_err();
            let shown = format!("{error} {} {error:?}", error.hint());
            assert!(shown.contains(name) && shown.contains(told), "{shown}");
            assert!(!shown.contains("hunter22"), "{shown}");
            assert_eq!(error.code(), "CONFIG_VARIABLE_INVALID");
        }
    }

    #[test]
    fn every_problem_is_told_in_the_order_of_the_file() {
        let text = "recover = 'maybe'\nzzz = 1\n[server]\nstreams = 'x'\nburst = 0\n[log]\n\
                    level = 'inof'\n[[tools]]\nname = 'nexus-router.x'\n";
        let Err(Error::Invalid { first, others, .. }) =
            read_with(text, &[("NEXUS_ROUTER__LOG__FORMAT", "x")])
        else {
            panic!("it was taken")
        };
        assert!(first.message.contains("recover"), "{first:?}");
        let told: Vec<String> = others.iter().map(crate::config::Problem::placed).collect();
        for (told, expected) in told.iter().zip([
            "unknown field `zzz` (line 2, column 1)",
            "server.streams must be a whole number",
            "server.burst is 0",
            "log.level",
            "tools[0].description is missing (line 8, column 1)",
            "tools[0].adapter",
            "tools[0].method",
            "tools[0].name begins with nexus-router.",
            "log.format",
        ]) {
            assert!(told.contains(expected), "{expected}: {told}");
        }
        assert_eq!(told.len(), 9, "{told:?}");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, told) in [
            ("[[listeners]]\naddress = 'example.com:1'\n", "address is not HOST:PORT"),
            ("[[listeners]]\ntls_key = 'k'\n", "tls_key stands without tls_cert"),
            ("[[listeners]]\ntls_cert = 'k'\n", "tls_cert stands without tls_key"),
            ("[server]\nallowed_origins = ['https://x/y']\n", "allowed_origins[0] is no origin"),
            ("[server]\nallowed_hosts = ['http://x']\n", "allowed_hosts[0] is no name"),
            ("[server]\ndrain_ms = 99999999999999\n", "more than a year"),
            ("[server]\nmemory_bytes = 5\n", "server.memory_bytes does not fit"),
            ("[server]\ntoken_memory_percent = 101\n", "server.token_memory_percent is 101"),
            ("[server]\nburst = 4294967296\n", "too large"),
            ("[[policy.rules]]\nmethod = 'x'\n", "policy.rules[0].effect is missing"),
            ("[[policy.rules]]\neffect = 'allwo'\n", "not one of the names"),
            (
                "[[policy.rules]]\neffect = 'approve'\nannotation = 'not_readonly'\n",
                "policy.rules[0].annotation is not one of the names",
            ),
            ("[policy.approvals]\nexpire_s = 0\n", "policy.approvals.expire_s is not from 1 to"),
            ("[telemetry]\nsample_ratio = 1.5\n", "must be a number from 0 to 1"),
            ("[telemetry]\notlp_endpoint = 'http://u:p@h'\n", "is no address of a collector"),
            ("[telemetry.headers]\n'a b' = 'env:X'\n", "is no name of a header"),
            (
                "[[tokens]]\nname = 'a'\n[[tokens]]\nname = 'a'\n",
                "tokens[1] has the name of tokens[0]",
            ),
            ("[[tokens]]\nname = 'a'\nrole = 'king'\n", "not one of the names"),
            ("listeners = 1\n", "must be a list of tables"),
            ("db = ''\n", "db is empty"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(told), "{text}: {error}");
            assert!(!error.hint().is_empty() && error.to_string().contains("line "), "{error}");
        }
    }

    #[test]
    fn no_message_repeats_what_may_be_a_secret() {
        for text in [
            "[secrets]\nT = 'hunter22'\n",
            "[secrets]\nT = ['hunter22']\n",
            "[secrets]\nT = 'hunter22\n",
            "[[adapters]]\nref = 'm:f'\nconfig = { token = 'hunter22', x = nan }\n",
            "[[adapters]]\nref = 'm:f'\npin = 'hunter22'\n",
            "[[adapters]]\nref = 'm:f'\nconfig = { token = 'hunter22' x = 1 }\n",
        ] {
            let error = read(text).unwrap_err();
            let shown = format!("{error} {}", error.hint());
            assert!(!shown.contains("hunter22") && !error.hint().is_empty(), "{shown}");
        }
        assert!(read("[limits]\nruns_in_flight = 0\n").is_err());
        let missing =
            ConfigFile::find(Some(Path::new("/nonexistent/router.toml")), &Environment::default())
                .unwrap_err();
        assert_eq!(missing.code(), "CONFIG_FILE_UNREADABLE");
    }
}
