//! Builds a manifest of contracts and of entries that others signed, and signs it.

use std::collections::{BTreeMap, HashMap};

use super::super::declaration::STATUSES;
use super::super::entry::{
    HASHED, Publication, bad_pointers, entry_form, entry_hash, entry_name, sign_entry, text,
};
use super::super::lint::{Severity, lint};
use super::super::pattern::{SemverParts, semver_parts};
use super::super::publisher::{SignatureStatus, Trust};
use super::freshness::{Freshness, MEMBER};
use super::verify::{Rules, check_row, check_top, verify};
use super::{Source, entries, manifest_hash};
use crate::clock::Timestamp;
use crate::json::{Object, Value};
use crate::key::SigningKey;

/// Why something cannot stand in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file that it came from; empty for the manifest itself.
    pub from: String,
    /// What is wrong.
    pub message: String,
}

/// A manifest that was built, and what is worth knowing of it.
#[derive(Clone, Debug)]
pub struct Built {
    /// The manifest.
    pub manifest: Object,
    /// What people should know.
    pub notes: Vec<String>,
}

/// Puts a manifest together.
pub struct Builder<'a> {
    key: &'a SigningKey,
    /// What is said of contracts that do not say it themselves.
    publication: Publication,
    /// Who is believed to have signed entries of others.
    trust: &'a Trust,
    previous: Option<&'a Object>,
    known: HashMap<String, &'a Object>,
    /// In the order in which they will stand.
    entries: BTreeMap<(String, Option<SemverParts>, String), (String, Object)>,
    problems: Vec<Problem>,
    notes: Vec<String>,
}

impl<'a> Builder<'a> {
    /// Begins with nothing.
    #[must_use]
    pub fn new(
        key: &'a SigningKey,
        publication: Publication,
        trust: &'a Trust,
        previous: Option<&'a Object>,
    ) -> Self {
        let mut builder = Self {
            key,
            publication,
            trust,
            previous,
            known: HashMap::new(),
            entries: BTreeMap::new(),
            problems: Vec::new(),
            notes: Vec::new(),
        };
        if let Some(previous) = previous {
            builder.look_back(previous);
        }
        builder
    }

    /// Takes what a file holds.
    pub fn add(&mut self, from: &str, source: Source) {
        match source {
            Source::Declaration(declaration) => self.add_declaration(from, &declaration),
            Source::Entry(entry) => self.add_entry(from, entry),
            Source::Manifest(manifest) => match entries(&manifest) {
                Ok(entries) => {
                    entries.into_iter().for_each(|entry| self.add_entry(from, entry.clone()));
                }
                Err(wrong) => wrong.into_iter().for_each(|wrong| self.refuse(from, wrong)),
            },
        }
    }

    /// Tells of a file that cannot be read.
    pub fn refuse(&mut self, from: &str, message: impl Into<String>) {
        self.problems.push(Problem { from: from.to_owned(), message: message.into() });
    }

    /// Signs what was taken.
    ///
    /// # Errors
    /// Everything that stands in the way.
    pub fn finish(mut self, freshness: &Freshness) -> Result<Built, Vec<Problem>> {
        let mut manifest = Object::with_capacity(10);
        manifest.insert("manifest_version", "1.0.0");
        manifest.insert("manifest_schema_version", "1.0.0");
        manifest.insert("generated_at", freshness.generated_at.as_str());
        manifest.insert("publisher_id", self.publication.publisher_id.as_str());
        manifest.insert("publisher_key_id", self.publication.publisher_key_id.as_str());
        let entries = std::mem::take(&mut self.entries).into_values();
        manifest.insert("contracts", entries.map(|(_, entry)| entry.into()).collect::<Vec<_>>());
        seal(&mut manifest, self.key, Some(freshness));
        self.judge(&manifest, freshness);
        if self.problems.is_empty() {
            return Ok(Built { manifest, notes: self.notes });
        }
        Err(self.problems)
    }

    /// Holds the whole to the rules that others will hold it to. Signatures of others were looked at already.
    fn judge(&mut self, manifest: &Object, freshness: &Freshness) {
        let now = Timestamp::parse(&freshness.generated_at).unwrap_or(Timestamp::from_millis(0));
        let rules = Rules { previous: self.previous, ..Rules::plain(&Trust::Nobody, now) };
        let report = match verify(manifest, &rules) {
            Ok(report) => report,
            Err(wrong) => return wrong.into_iter().for_each(|wrong| self.refuse("", wrong)),
        };
        for finding in report.findings {
            match finding.severity {
                Severity::Error => self.refuse("", finding.message),
                Severity::Warning if finding.pointer.ends_with("_signature") => {}
                Severity::Warning => self.notes.push(finding.message),
            }
        }
    }

    /// Remembers the entries of the manifest before, which must be one of this publisher.
    fn look_back(&mut self, previous: &'a Object) {
        let entries = match entries(previous) {
            Ok(entries) => entries,
            Err(wrong) => {
                return wrong.into_iter().for_each(|wrong| self.refuse("previous", wrong));
            }
        };
        let own = Trust::Key(Some(self.key.public()));
        let holds =
            |trust: &Trust| check_top(previous, &entries, trust).signature == SignatureStatus::Ok;
        if !holds(&own) && !holds(self.trust) {
            let message = "the previous manifest is signed with another key; name that of its publisher with \
                           --publishers if the key was changed";
            self.refuse("previous", message);
        }
        self.known = entries.into_iter().map(|entry| (entry_name(entry), entry)).collect();
    }

    fn add_declaration(&mut self, from: &str, declaration: &Object) {
        let findings = lint(declaration);
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
        let before = self.problems.len();
        errors.for_each(|finding| self.refuse(from, finding.message.as_str()));
        if self.problems.len() > before {
            return;
        }
        let said = |key: &str, absent: &str| text(declaration, key).unwrap_or(absent).to_owned();
        let general = &self.publication;
        let publication = Publication {
            status: said("status", "active"),
            channel: said("distribution_channel", &general.channel),
            published_at: said("published_at", &general.published_at),
            supersedes: said("supersedes", ""),
            replaced_by: said("replaced_by", ""),
            ..general.clone()
        };
        let mut entry = publication.entry(declaration);
        // What did not change was published when it was published first.
        if let Some(known) = self.known.get(&entry_name(&entry)).copied()
            && text(declaration, "published_at").is_none()
            && HASHED.iter().all(|key| *key == "published_at" || known.get(key) == entry.get(key))
        {
            let published = known.get("published_at").cloned();
            entry.insert("published_at", published.unwrap_or("".into()));
        }
        sign_entry(&mut entry, self.key);
        self.place(from, entry);
    }

    fn add_entry(&mut self, from: &str, mut entry: Object) {
        let name = entry_name(&entry);
        let before = self.problems.len();
        for message in entry_form(&entry) {
            self.refuse(from, format!("{name}: {message}"));
        }
        for key in bad_pointers(&entry) {
            self.refuse(from, format!("{name}: {key} is no ID@VERSION"));
        }
        if !text(&entry, "status").is_some_and(|status| STATUSES.contains(&status)) {
            let message = "its status is none of active, deprecated and revoked";
            self.refuse(from, format!("{name}: {message}"));
        }
        let Publication { publisher_id, publisher_key_id, .. } = &self.publication;
        let is_own = text(&entry, "publisher_id") == Some(publisher_id)
            && text(&entry, "publisher_key_id") == Some(publisher_key_id);
        if !entry.contains_key("entry_signature") {
            if is_own {
                sign_entry(&mut entry, self.key);
            } else {
                let publisher = text(&entry, "publisher_id").unwrap_or("nobody");
                let message = format!(
                    "{name}: it is published by {publisher}, who did not sign it; nexus-router contract sign does that \
                     with the key of {publisher}"
                );
                self.refuse(from, message);
            }
        } else if entry.get("entry_hash").and_then(Value::as_str) != Some(&entry_hash(&entry)) {
            self.refuse(from, format!("{name}: entry_hash does not hold"));
        } else {
            let own = Trust::Key(Some(self.key.public()));
            let trust = if is_own { &own } else { self.trust };
            let status = check_row(0, &entry, trust).signature;
            match status {
                SignatureStatus::Ok => {}
                SignatureStatus::NoPublicKey => self
                    .notes
                    .push(format!("{name}: kept as its publisher signed it; {}", status.meaning())),
                _ => self.refuse(from, format!("{name}: {}", status.meaning())),
            }
        }
        if self.problems.len() == before {
            self.place(from, entry);
        }
    }

    fn place(&mut self, from: &str, entry: Object) {
        let part = |key| text(&entry, key).unwrap_or_default().to_owned();
        let (id, version) = (part("adapter_id"), part("adapter_version"));
        let place = (id, semver_parts(&version), version);
        let Some((other, there)) = self.entries.get(&place) else {
            self.entries.insert(place, (from.to_owned(), entry));
            return;
        };
        if there.get("entry_hash") == entry.get("entry_hash") {
            return;
        }
        let name = entry_name(&entry);
        let message = match there.get("contract_hash") == entry.get("contract_hash") {
            true => format!("{name}: {other} says something else of it; leave one of the two out"),
            false => format!(
                "{name}: {other} has another contract of this version; raise one of the two"
            ),
        };
        self.refuse(from, message);
    }
}

/// Writes the hash of a manifest into it, the signature of a key for that, and how fresh it is.
pub fn seal(manifest: &mut Object, key: &SigningKey, freshness: Option<&Freshness>) {
    let hash = entries(manifest).map(|entries| manifest_hash(manifest, &entries));
    let hash = hash.unwrap_or_default();
    manifest.insert("manifest_hash", hash.as_str());
    manifest.insert("manifest_signature", key.sign(hash.as_bytes()).to_string());
    manifest.insert("public_key_base64", key.public().to_base64());
    match freshness {
        Some(freshness) => manifest.insert(MEMBER, freshness.signed(&hash, key)),
        None => drop(manifest.remove(MEMBER)),
    }
}
