//! `nexus-router contract manifest build`.

use std::path::PathBuf;

use super::super::super::output::{Output, tell};
use super::super::super::{Answer, Error};
use super::{Keys, Unread, read, tell_all};
use crate::clock::Timestamp;
use crate::config::Environment;
use crate::files;
use crate::json::{Object, to_indented};
use crate::key::SigningKey;
use crate::python_text::visible;
use crate::signal::manifest::{Builder, Built, Freshness, Source, gather};
use crate::signal::{CHANNELS, Publication, to_seconds};

/// A day, in milliseconds.
const DAY: i64 = 86_400_000;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// Contracts, entries and manifests: files, or directories of contracts.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The key to sign with; nexus-router contract keygen makes one.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Who publishes.
    #[arg(long, value_name = "ID")]
    publisher_id: String,
    /// What the publisher calls the key [default: a name that follows from it].
    #[arg(long, value_name = "ID")]
    publisher_key_id: Option<String>,
    /// The file to write [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The number of the manifest [default: one more than that of the previous, or 1].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    sequence: Option<u64>,
    /// From when on the manifest is no longer good: RFC 3339.
    #[arg(long, value_name = "TIME", conflicts_with = "valid_for")]
    expires: Option<String>,
    /// For how many days the manifest is good.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(i64).range(1..=36_500))]
    valid_for: Option<i64>,
    /// The manifest before this one.
    #[arg(long, value_name = "FILE")]
    previous: Option<String>,
    /// Where contracts are documented.
    #[arg(long, value_name = "URL", default_value = "")]
    docs_url: String,
    /// By which way contracts come that do not say it.
    #[arg(long, default_value = "third_party", value_parser = CHANNELS)]
    channel: String,
    #[command(flatten)]
    keys: Keys,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let key = SigningKey::read(&arguments.key)?;
    let now = environment.time().map_err(|message| Error::usage(message, "unset it"))?;
    let Some(trust) = arguments.keys.trust()? else { return Ok(Answer::No) };
    let previous = match arguments.previous.as_deref().map(read).transpose() {
        Ok(previous) => previous,
        Err(unread) => return unread.answer(),
    };
    let publication = Publication {
        channel: arguments.channel.clone(),
        published_at: to_seconds(now),
        docs_url: arguments.docs_url.clone(),
        publisher_id: arguments.publisher_id.clone(),
        publisher_key_id: arguments
            .publisher_key_id
            .clone()
            .unwrap_or_else(|| key.public().key_id()),
        ..Publication::default()
    };
    let freshness = arguments.freshness(now, previous.as_ref())?;
    let mut builder = Builder::new(&key, publication, &trust, previous.as_ref());
    let files = gather(&arguments.paths).map_err(|(path, error)| {
        let message = format!("cannot read {}: {error}", path.display());
        Error::usage(message, "name files or directories of contracts")
    })?;
    if files.is_empty() {
        let hint =
            "contracts in directories are named adapter_contract.json or *.adapter_contract.json";
        return Err(Error::usage("there are no contracts", hint));
    }
    for file in files {
        let from = file.display().to_string();
        match read(&from) {
            Ok(document) => builder.add(&from, Source::of(document)),
            Err(Unread::Malformed(_, error)) => builder.refuse(&from, error.to_string()),
            Err(unread) => return Err(unread.into()),
        }
    }
    match builder.finish(&freshness) {
        Ok(built) => arguments.write(&built, &freshness, environment),
        Err(problems) => {
            for problem in &problems {
                let from = if problem.from.is_empty() { "manifest" } else { &problem.from };
                tell_all(from, std::slice::from_ref(&problem.message));
            }
            tell("nothing was built");
            Ok(Answer::No)
        }
    }
}

impl Arguments {
    fn freshness(&self, now: Timestamp, previous: Option<&Object>) -> Result<Freshness, Error> {
        let wrong = |wrong: Vec<String>| {
            let hint =
                "name a manifest that nexus-router contract manifest verify holds to be good";
            Error::usage(format!("the previous manifest: {}", wrong.join("; ")), hint)
        };
        let before = previous.map(Freshness::of).transpose().map_err(wrong)?.flatten();
        let after = before.map_or(1, |before| before.sequence.saturating_add(1));
        let expires_at = match (&self.expires, self.valid_for) {
            (Some(time), _) if Timestamp::parse(time).is_some_and(|time| time > now) => {
                Some(time.clone())
            }
            (Some(time), _) => {
                let message = format!("--expires is {time:?}, and must be a time to come");
                return Err(Error::usage(message, "write RFC 3339, such as 2027-01-31T00:00:00Z"));
            }
            (None, Some(days)) => {
                Some(to_seconds(Timestamp::from_millis(now.as_millis() + days * DAY)))
            }
            (None, None) => None,
        };
        let previous = previous.and_then(|previous| previous.get("manifest_hash"));
        Ok(Freshness {
            sequence: self.sequence.unwrap_or(after),
            generated_at: to_seconds(now),
            expires_at,
            previous_manifest_hash: previous.and_then(|hash| hash.as_str()).map(str::to_owned),
        })
    }

    fn write(
        &self,
        built: &Built,
        freshness: &Freshness,
        environment: &Environment,
    ) -> Result<Answer, Error> {
        for note in &built.notes {
            tell(&visible(&format!("warning: {note}")));
        }
        if freshness.expires_at.is_none() {
            tell(
                "hint: this manifest is good for ever; --valid-for DAYS bounds how long an old one can be shown",
            );
        }
        let text = format!("{}\n", to_indented(&built.manifest.clone().into()));
        let mut output = Output::new(environment);
        let Some(out) = &self.out else {
            output.text(&text)?;
            return Ok(Answer::Yes);
        };
        files::write_whole(out, text.as_bytes()).map_err(|error| {
            let message = format!("cannot write {}: {error}", out.display());
            Error::usage(message, "check that its directory is there")
        })?;
        let member = |key: &str| built.manifest.get(key).cloned();
        let mut report = Object::with_capacity(10);
        report.insert("ok", true);
        report.insert("out", out.display().to_string());
        let entries = member("contracts");
        let count = entries.as_ref().and_then(|it| it.as_array()).map_or(0, <[_]>::len);
        report.insert("entry_count", count);
        for key in ["manifest_hash", "publisher_id", "publisher_key_id", "public_key_base64"] {
            report.insert(key, member(key));
        }
        report.insert("sequence", freshness.sequence);
        report.insert("expires_at", freshness.expires_at.as_deref());
        let next = format!(
            "nexus-router contract manifest verify {} --public-key-base64 KEY --require-signature, with the key as its \
             publisher tells it, and not as the manifest does",
            out.display()
        );
        report.insert("next", vec![next.into()]);
        output.line(&to_indented(&report.into()))?;
        Ok(Answer::Yes)
    }
}
