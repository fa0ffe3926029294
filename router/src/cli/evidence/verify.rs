//! `nexus-router evidence verify`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::output::{Output, tell};
use super::super::{Answer, Error};
use super::{Format, Place};
use crate::config::Environment;
use crate::evidence::verify::{Options, Report, Standing, Total, Verdict, Verifier};
use crate::files;
use crate::json::{Object, Value, to_compact};
use crate::key::PublicKey;
use crate::notary;
use crate::python_text::{json_escaped, visible};
use crate::seal::Trust;
use crate::tlog;

#[derive(clap::Args)]
#[command(after_help = "\
Exits 0 if everything is genuine, 1 if something is not, and 2 if that cannot be told: something cannot be read, no \
trusted keys are known, or there is more than the verifier takes upon itself.

Keys are taken from --trust, or --key and --log-key, or keys/trust.json of the cabinet that --root or the configuration \
names; never from what is verified, unless that is this very cabinet.

With --format json the answer is one object: trusted (from, attestation_keys, log_keys), verdicts (place, kind, verdict, \
findings, findings_left_out, checked, task_id, exec_id, spec_sha256, manifest_sha256, rests_on), total (genuine, not_genuine, \
could_not_tell), verdict.

Examples:
  nexus-router evidence verify
  nexus-router evidence verify sealed/evidence/task-1/exec-1 --trust trust.json
  nexus-router evidence verify run.json --trust trust.json
  nexus-router evidence verify sealed --since checkpoint-of-last-week --format json")]
pub(in crate::cli) struct Arguments {
    /// Bundles, cabinets as a whole, or files of exported runs [default: the cabinet].
    directories: Vec<PathBuf>,
    /// The keys that are trusted, with their ranges [default: keys/trust.json of the cabinet].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "log_key"])]
    trust: Option<PathBuf>,
    /// The attestation key that is trusted for every entry of the log, as ed25519:BASE64.
    #[arg(long, value_name = "KEY", requires = "log_key")]
    key: Option<PublicKey>,
    /// The log key that is trusted for every size of the log, as a vkey NAME+HASH+BASE64.
    #[arg(long, value_name = "VKEY", requires = "key")]
    log_key: Option<tlog::Verifier>,
    /// An earlier checkpoint of the log: the log has to begin with what it says.
    #[arg(long, value_name = "FILE", conflicts_with = "hashes_only")]
    since: Option<PathBuf>,
    /// Check hashes, documents and roles alone: shows damage, not forgery.
    #[arg(long)]
    hashes_only: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let trust = trust(arguments, environment)?;
    let since = arguments.since.as_deref().map(read_checkpoint).transpose()?;
    let directories = match arguments.directories.as_slice() {
        [] => vec![arguments.place.root(environment)?],
        given => given.to_vec(),
    };
    let options = Options { hashes_only: arguments.hashes_only, ..Options::default() };
    let mut verifier = Verifier::new(trust.keys.clone().map(Arc::new), options);
    let mut teller = Teller {
        output: Output::new(environment),
        format: arguments.format,
        total: Total::default(),
        first: true,
        failed: None,
        // Of many bundles only those are told that are not genuine.
        all: true,
    };
    teller.begin(&trust);
    let mut cabinets = 0;
    for directory in &directories {
        // What cannot be opened has its verdict as a bundle. A file is a run that was exported.
        if directory.is_file() {
            teller.tell(&notary::judge(directory, trust.keys.as_ref()));
        } else if verifier.is_cabinet(directory).unwrap_or(false) {
            cabinets += 1;
            teller.all = false;
            let Report { cabinet, log, entries } =
                verifier.cabinet(directory, since.as_deref(), &mut |verdict| teller.tell(verdict));
            teller.all = true;
            teller.whole(&cabinet);
            if let Some(log) = log {
                teller.log(&log, entries);
            }
        } else {
            let verdict = verifier.bundle(directory);
            teller.tell(&verdict);
        }
    }
    if since.is_some() && cabinets == 0 {
        return Err(Error::usage(
            "--since is about a log, and no cabinet is named",
            "name the directory in which evidence and log are",
        ));
    }
    teller.end()
}

/// The keys that are trusted, and where they come from.
struct Trusted {
    keys: Option<Trust>,
    from: String,
}

fn trust(arguments: &Arguments, environment: &Environment) -> Result<Trusted, Error> {
    if arguments.hashes_only {
        return Ok(Trusted { keys: None, from: "nothing: hashes only".to_owned() });
    }
    if let (Some(key), Some(log_key)) = (arguments.key, &arguments.log_key) {
        let keys = Some(Trust::of(key, log_key.clone()));
        return Ok(Trusted { keys, from: "the keys of the command line".to_owned() });
    }
    let file = match &arguments.trust {
        Some(file) => file.clone(),
        None => arguments.place.root(environment)?.join("keys").join("trust.json"),
    };
    let missing = arguments.trust.is_none() && !file.exists();
    if missing {
        tell(&format!(
            "hint: there is no {}; name the keys that you trust with --trust FILE, or --key and --log-key",
            visible(&file.display().to_string())
        ));
        return Ok(Trusted { keys: None, from: "nothing: no keys are known".to_owned() });
    }
    let keys = Trust::read(&file).map_err(|error| {
        Error::usage(
            error.to_string(),
            "get trust.json from whoever seals, on a way that you trust",
        )
    })?;
    Ok(Trusted { keys: Some(keys), from: file.display().to_string() })
}

fn read_checkpoint(path: &Path) -> Result<String, Error> {
    let failed = |why: String| {
        Error::usage(
            format!("cannot read {}: {why}", path.display()),
            "name a copy of log/checkpoint that was made earlier",
        )
    };
    let bytes =
        files::read_bounded(path, MAX_CHECKPOINT).map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| failed("it is no UTF-8".to_owned()))
}

/// A longer file is no checkpoint.
const MAX_CHECKPOINT: usize = 128 * 1024;

/// Tells verdicts as they come, so that a cabinet of any size needs no memory for them.
struct Teller {
    output: Output,
    format: Format,
    total: Total,
    first: bool,
    failed: Option<std::io::Error>,
    all: bool,
}

impl Teller {
    fn write(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.output.text(text).err();
        }
    }

    fn begin(&mut self, trust: &Trusted) {
        match self.format {
            Format::Text => {
                let text = format!("trusted: {}\n", visible(&trust.from));
                self.write(&text);
            }
            Format::Json => {
                let mut object = Object::with_capacity(3);
                object.insert("from", trust.from.as_str());
                let keys = trust.keys.as_ref();
                let list = |texts: Vec<String>| -> Vec<Value> {
                    texts.into_iter().map(Value::from).collect()
                };
                let attestation = keys.map_or_else(Vec::new, |keys| {
                    keys.public_keys().iter().map(ToString::to_string).collect()
                });
                let log = keys.map_or_else(Vec::new, |keys| {
                    keys.verifiers().iter().map(ToString::to_string).collect()
                });
                object.insert("attestation_keys", list(attestation));
                object.insert("log_keys", list(log));
                let text = format!("{{\"trusted\":{},\n\"verdicts\":[", line(&object.into()));
                self.write(&text);
            }
        }
    }

    /// Tells the verdict about a bundle.
    fn tell(&mut self, verdict: &Verdict) {
        self.total.count(verdict.standing());
        self.show(verdict);
    }

    /// Tells what is wrong with a cabinet besides its bundles; nothing if nothing is.
    fn whole(&mut self, verdict: &Verdict) {
        if verdict.standing() != Standing::Genuine {
            self.tell(verdict);
        }
    }

    fn log(&mut self, verdict: &Verdict, entries: u64) {
        self.tell(verdict);
        if self.format == Format::Text {
            let text = format!("  {entries} entries\n");
            self.write(&text);
        }
    }

    fn show(&mut self, verdict: &Verdict) {
        let text = match self.format {
            Format::Text if !self.all && verdict.standing() == Standing::Genuine => return,
            Format::Text => verdict.to_lines().join("\n") + "\n",
            Format::Json => {
                let comma = if self.first { "" } else { "," };
                format!("{comma}\n{}", line(&verdict.to_json()))
            }
        };
        self.first = false;
        self.write(&text);
    }

    fn end(mut self) -> Result<Answer, Error> {
        let Total { genuine, forged, unclear } = self.total;
        let standing = self.total.standing();
        let text = match self.format {
            Format::Text => format!(
                "{}: {genuine} genuine, {forged} not genuine, {unclear} could not be told\n",
                match standing {
                    Standing::Genuine => "genuine",
                    Standing::Forged => "NOT GENUINE",
                    Standing::Unclear => "could not tell",
                }
            ),
            Format::Json => format!(
                "\n],\n\"total\":{{\"genuine\":{genuine},\"not_genuine\":{forged},\"could_not_tell\":{unclear}}},\n\"verdict\":\"{}\"}}\n",
                standing.name()
            ),
        };
        self.write(&text);
        match self.failed {
            Some(error) => Err(error.into()),
            None => Ok(match standing {
                Standing::Genuine => Answer::Yes,
                Standing::Forged => Answer::No,
                Standing::Unclear => Answer::Unclear,
            }),
        }
    }
}

/// Writes a value as JSON on one line that no terminal takes for commands.
fn line(value: &Value) -> String {
    json_escaped(&to_compact(value))
}
