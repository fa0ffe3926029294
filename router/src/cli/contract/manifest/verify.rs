//! `nexus-router contract manifest verify`.

use super::super::super::output::{Format, Output, tell};
use super::super::super::{Answer, Error};
use super::super::fetch::{FetchOptions, shown_url};
use super::{Keys, annotation, read, tell_all};
use crate::clock::{Clock, Timestamp};
use crate::config::Environment;
use crate::json::{Object, Value, to_indented};
use crate::python_text::visible;
use crate::signal::manifest::{HashStatus, Report, Row, Rules, verify};
use crate::signal::{Severity, SignatureStatus, Trust, document_key};

const NOTE: &str = "Hashes and signatures of a manifest tell where contracts come from; bundles are replayed from the \
                    declarations in them. no_public_key means that a signature was NOT checked: nexus-router contract \
                    manifest verify --require-signature refuses that.";
/// Where the AiGentsy tools look for the document of their publisher.
const DOCUMENT: &str = "https://aigentsy.com/.well-known/aigentsy-publisher.json";

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The manifest: a file, - for standard input, or with --fetch an https:// URL.
    target: String,
    #[command(flatten)]
    fetch: FetchOptions,
    #[command(flatten)]
    keys: Keys,
    /// Take the key from the publisher document that --from-publisher-document names.
    #[arg(long)]
    fetch_publisher: bool,
    /// The publisher document: a file, or with --fetch an https:// URL [default: that of AiGentsy].
    #[arg(long, value_name = "FILE", default_value = DOCUMENT, hide_default_value = true)]
    from_publisher_document: String,
    #[command(flatten)]
    held: Held,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
}

/// What a manifest is held to, besides what the AiGentsy tools hold it to.
#[derive(clap::Args)]
pub(in crate::cli::contract) struct Held {
    /// Refuse what is not signed, and signatures that were not checked.
    #[arg(long)]
    pub(in crate::cli::contract) require_signature: bool,
    /// Refuse a manifest that does not say how fresh it is.
    #[arg(long)]
    require_freshness: bool,
    /// Refuse warnings too: pointers that lead nowhere, a manifest without a hash.
    #[arg(long)]
    strict: bool,
    /// The manifest that was taken before: refuse an older one, and entries that became other contracts.
    #[arg(long, value_name = "FILE")]
    previous: Option<String>,
    /// Refuse a lower sequence.
    #[arg(long, value_name = "NUMBER")]
    min_sequence: Option<u64>,
    /// The time at which it must be good [default: now].
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<Timestamp>,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "write RFC 3339, such as 2026-11-15T23:48:16Z".to_owned())
}

impl Held {
    /// Reads the manifest that was taken before. What is wrong with it is told.
    pub(in crate::cli::contract) fn previous(
        &self,
    ) -> Result<Result<Option<Object>, Answer>, Error> {
        match self.previous.as_deref().map(read).transpose() {
            Ok(previous) => Ok(Ok(previous)),
            Err(unread) => unread.answer().map(Err),
        }
    }

    /// Returns the rules.
    pub(in crate::cli::contract) fn rules<'a>(
        &self,
        trust: &'a Trust,
        previous: Option<&'a Object>,
    ) -> Rules<'a> {
        Rules {
            require_signature: self.require_signature || self.strict,
            require_freshness: self.require_freshness,
            min_sequence: self.min_sequence,
            previous,
            strict: self.strict,
            ..Rules::plain(trust, self.at.unwrap_or_else(|| Clock::System.now()))
        }
    }

    fn is_used(&self) -> bool {
        self.require_signature
            || self.require_freshness
            || self.strict
            || self.previous.is_some()
            || self.min_sequence.is_some()
    }
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let mut output = Output::new(environment);
    let target = shown_url(&arguments.target);
    let mut fail = |error: String| -> Result<Answer, Error> {
        let mut report = Object::with_capacity(2);
        report.insert("ok", false);
        report.insert("error", error.as_str());
        match arguments.format {
            Format::Json => output.line(&to_indented(&report.into()))?,
            Format::Human => tell_all(&target, &[error]),
            Format::Github => {
                output.line(&annotation(true, &target, "manifest", &error))?;
            }
        }
        Ok(Answer::No)
    };
    let manifest = match arguments.fetch.read(&arguments.target) {
        Ok(manifest) => manifest,
        Err(unread) => return fail(unread.exception()),
    };
    let Some(mut trust) = arguments.keys.trust()? else { return Ok(Answer::No) };
    let mut document_used = None;
    if arguments.fetch_publisher && !trust.is_somebody() {
        let path = arguments.from_publisher_document.as_str();
        match arguments.fetch.read(path) {
            Ok(document) => trust = in_document(&document),
            Err(unread) => {
                return fail(format!("publisher_document_fetch_failed: {}", unread.exception()));
            }
        }
        document_used = Some(shown_url(path));
    }
    let previous = match arguments.held.previous()? {
        Ok(previous) => previous,
        Err(answer) => return Ok(answer),
    };
    let rules = arguments.held.rules(&trust, previous.as_ref());
    let report = match verify(&manifest, &rules) {
        Ok(report) => report,
        Err(wrong) => return fail(wrong.join("; ")),
    };
    match arguments.format {
        Format::Json => {
            let is_ours = arguments.held.is_used()
                || arguments.keys.publishers.is_some()
                || manifest.contains_key("freshness")
                // Nothing else would tell why.
                || !report.ok && report.rows.is_empty() && report.top.hash == HashStatus::Absent;
            let told = as_json(&report, document_used.as_deref(), trust.is_somebody(), is_ours);
            output.line(&to_indented(&told.into()))?;
        }
        Format::Human => {
            for line in people(&report) {
                output.line(&visible(&line))?;
            }
            if !trust.is_somebody() {
                tell(
                    "hint: give --public-key-base64 or --publishers, and --require-signature where it matters",
                );
            }
        }
        Format::Github => {
            for finding in &report.findings {
                let is_error = finding.severity == Severity::Error || rules.strict;
                let title = if finding.pointer.is_empty() { "/" } else { &finding.pointer };
                let line = annotation(is_error, &target, title, &finding.message);
                output.line(&line)?;
            }
        }
    }
    Ok(if report.ok { Answer::Yes } else { Answer::No })
}

/// Trusts the key of a publisher document; in one that has none, nobody.
fn in_document(document: &Object) -> Trust {
    match document_key(document) {
        None => Trust::Nobody,
        Some(key) => key.as_str().map_or(Trust::Key(None), Trust::in_key),
    }
}

fn as_json(report: &Report, document: Option<&str>, has_key: bool, is_ours: bool) -> Object {
    let mut told = Object::with_capacity(12);
    told.insert("ok", report.ok);
    told.insert("manifest_hash_status", report.top.hash.name());
    told.insert("manifest_signature_status", report.top.signature.name());
    let collisions = report.collisions.iter().map(|key| Value::Array(key.to_vec()));
    told.insert("loud_collisions", collisions.collect::<Vec<_>>());
    told.insert("publisher_document_used", document);
    told.insert("public_key_supplied", has_key);
    told.insert("entry_count", report.rows.len());
    told.insert("entries", report.rows.iter().map(row_json).collect::<Vec<_>>());
    told.insert("note", NOTE);
    if is_ours {
        told.insert("verified", report.verified);
        let mut freshness = Object::with_capacity(5);
        freshness.insert("signature_status", report.freshness.signature.name());
        if let Some(fresh) = &report.freshness.freshness {
            fresh.to_object().into_iter().for_each(|(key, value)| freshness.insert(key, value));
        }
        told.insert("freshness", freshness);
        let findings = report.findings.iter().map(|finding| {
            let mut told = Object::with_capacity(3);
            let is_error = finding.severity == Severity::Error;
            told.insert("severity", if is_error { "error" } else { "warning" });
            told.insert("pointer", finding.pointer.as_str());
            told.insert("message", finding.message.as_str());
            Value::from(told)
        });
        told.insert("findings", findings.collect::<Vec<_>>());
    }
    told
}

fn row_json(row: &Row) -> Value {
    let mut told = Object::with_capacity(10);
    told.insert("index", row.index);
    for (key, value) in ["adapter_id", "adapter_version", "status"].into_iter().zip(&row.said) {
        told.insert(key, value.clone());
    }
    told.insert("entry_hash_status", row.hash.name());
    if let HashStatus::Mismatch { expected, recomputed } = &row.hash {
        told.insert("expected", expected.clone());
        told.insert("recomputed", recomputed.as_str());
    }
    told.insert("entry_signature_status", row.signature.name());
    if !row.has_status {
        told.insert("status_validity", "invalid");
    }
    // Of an entry that does not hold, enough is told.
    if !row.form.is_empty() && row.hash == HashStatus::Ok {
        let wrong = row.form.iter().map(|wrong| Value::from(*wrong));
        told.insert("format_errors", wrong.collect::<Vec<_>>());
    }
    told.into()
}

/// Tells people what was found: what holds, what does not, and what nobody looked at.
fn people(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &report.rows {
        let holds = row.hash == HashStatus::Ok && row.has_status && row.form.is_empty();
        let sign = match row.signature {
            SignatureStatus::Ok if holds => '✓',
            SignatureStatus::NoPublicKey if holds => '?',
            _ => '✗',
        };
        let status = row.said[2].as_str().unwrap_or("?");
        lines.push(format!("{sign} {} ({status}): {}", row.name, row.signature.meaning()));
    }
    for finding in report.findings.iter().filter(|it| !it.pointer.ends_with("/entry_signature")) {
        let sign = if finding.severity == Severity::Error { '✗' } else { '!' };
        lines.push(format!("{sign} {}", finding.message));
    }
    let count = report.rows.len();
    lines.push(match (report.ok, report.verified) {
        (true, true) => format!("ok: {count} entries, every signature holds"),
        (true, false) => {
            format!("NOT VERIFIED: {count} entries hold to their hashes, but not everything was signed and checked")
        }
        (false, _) => "not ok: the manifest does not hold".to_owned(),
    });
    lines
}
