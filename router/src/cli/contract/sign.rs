//! `nexus-router contract sign`: signs entries, as `attest` prints them, alone or in a manifest.

use std::path::{Path, PathBuf};

use super::super::output::{Output, tell};
use super::super::{Answer, Error};
use super::manifest::{Unread, read, tell_all};
use crate::clock::Clock;
use crate::config::Environment;
use crate::files;
use crate::json::{Object, Value, to_indented};
use crate::key::SigningKey;
use crate::signal::manifest::{Freshness, Rules, Source, entries, manifest_hash, seal, verify};
use crate::signal::{
    Severity, Trust, bad_pointers, entry_form, entry_hash, entry_name, entry_status, sign_entry,
};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// What attest printed, entries, or manifests.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The key to sign with; nexus-router contract keygen makes one.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Who publishes [default: as the entry says; in a manifest only entries of this publisher are signed].
    #[arg(long, value_name = "ID")]
    publisher_id: Option<String>,
    /// What the publisher calls the key [default: as the entry says].
    #[arg(long, value_name = "ID")]
    publisher_key_id: Option<String>,
    /// Write what is signed back to its file [default: print it].
    #[arg(long)]
    in_place: bool,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    if arguments.files.len() > 1 && !arguments.in_place {
        return Err(Error::usage("more than one file is named", "give --in-place, or one file"));
    }
    let key = SigningKey::read(&arguments.key)?;
    let mut signed = Vec::new();
    let mut refused = false;
    for file in &arguments.files {
        let shown = file.display().to_string();
        let result = match read(&shown) {
            Ok(document) => arguments.sign(Source::of(document), &key),
            Err(Unread::Malformed(_, error)) => Err(vec![error.to_string()]),
            Err(unread) => return Err(unread.into()),
        };
        match result {
            Ok(document) => signed.push((file, document)),
            Err(wrong) => {
                tell_all(&shown, &wrong);
                refused = true;
            }
        }
    }
    if refused {
        tell("nothing was signed");
        return Ok(Answer::No);
    }
    for (file, document) in signed {
        let text = format!("{}\n", to_indented(&document.into()));
        match arguments.in_place {
            true => write(file, &text)?,
            false => Output::new(environment).text(&text)?,
        }
    }
    Ok(Answer::Yes)
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    files::write_whole(file, text.as_bytes()).map_err(|error| {
        let message = format!("cannot write {}: {error}", file.display());
        Error::usage(message, "check that this user may write there")
    })?;
    tell(&format!("signed {}", file.display()));
    Ok(())
}

impl Arguments {
    fn sign(&self, source: Source, key: &SigningKey) -> Result<Object, Vec<String>> {
        match source {
            Source::Entry(entry) => self.sign_one(entry, key),
            Source::Manifest(manifest) => self.sign_manifest(manifest, key),
            Source::Declaration(_) => Err(vec![
                "it is no entry; nexus-router contract attest writes the entry of a contract"
                    .to_owned(),
            ]),
        }
    }

    fn sign_one(&self, mut entry: Object, key: &SigningKey) -> Result<Object, Vec<String>> {
        let mut wrong: Vec<String> = entry_form(&entry).into_iter().map(str::to_owned).collect();
        wrong.extend(bad_pointers(&entry).into_iter().map(|key| format!("{key} is no ID@VERSION")));
        if entry_status(&entry).is_none() {
            wrong.push("its status is none of active, deprecated and revoked".to_owned());
        }
        // Whoever signs must say so: else what one wrote would be signed as another.
        if entry.contains_key("entry_signature")
            && entry.get("entry_hash").and_then(Value::as_str) != Some(&entry_hash(&entry))
        {
            wrong.push(
                "it was signed, and changed since; take entry_signature out of it".to_owned(),
            );
        }
        if !wrong.is_empty() {
            let name = entry_name(&entry);
            return Err(wrong.into_iter().map(|wrong| format!("{name}: {wrong}")).collect());
        }
        for (key, value) in
            [("publisher_id", &self.publisher_id), ("publisher_key_id", &self.publisher_key_id)]
        {
            if let Some(value) = value {
                entry.insert(key, value.as_str());
            }
        }
        sign_entry(&mut entry, key);
        Ok(entry)
    }

    /// Signs the entries of a manifest that are not signed yet, and the manifest itself if it is of the same publisher.
    fn sign_manifest(&self, mut manifest: Object, key: &SigningKey) -> Result<Object, Vec<String>> {
        entries(&manifest)?;
        let (publisher, key_id) = (self.publisher_id.as_deref(), self.publisher_key_id.as_deref());
        let said =
            |object: &Object, key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let is_of = |object: &Object| {
            publisher.is_none_or(|it| said(object, "publisher_id").as_deref() == Some(it))
                && key_id.is_none_or(|it| said(object, "publisher_key_id").as_deref() == Some(it))
        };
        let mut wrong = Vec::new();
        if let Some(Value::Array(entries)) = manifest.get_mut("contracts") {
            for entry in entries {
                let Value::Object(own) = entry else { continue };
                if own.contains_key("entry_signature") || !is_of(own) {
                    continue;
                }
                match self.sign_one(own.clone(), key) {
                    Ok(signed) => *own = signed,
                    Err(more) => wrong.extend(more),
                }
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        if is_of(&manifest) {
            let freshness = Freshness::of(&manifest)?;
            seal(&mut manifest, key, freshness.as_ref());
            // Whoever signs a list says that everything in it is as it should be.
            let report = verify(&manifest, &Rules::plain(&Trust::Nobody, Clock::System.now()))?;
            let wrong: Vec<String> = (report.findings.into_iter())
                .filter(|it| it.severity == Severity::Error && it.pointer.starts_with("/contracts"))
                .map(|finding| finding.message)
                .collect();
            if !wrong.is_empty() {
                return Err(wrong);
            }
        } else if let Some(hash) = said(&manifest, "manifest_hash")
            && manifest_hash(&manifest, &entries(&manifest)?) != hash
        {
            let message = "manifest_hash does not hold any more, and only the publisher of the manifest can mend it: \
                           sign the entry alone, and give it to nexus-router contract manifest build";
            return Err(vec![message.to_owned()]);
        }
        Ok(manifest)
    }
}
