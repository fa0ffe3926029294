//! `nexus-router contract attest`: writes the manifest entry of a contract, not signed.

use super::super::output::{Output, tell};
use super::super::{Answer, Error};
use super::manifest::{self, Unread};
use crate::config::Environment;
use crate::json::{Object, Value, to_indented};
use crate::python_text::visible;
use crate::signal::manifest::Malformed;
use crate::signal::{
    CHANNELS, Publication, STATUSES, Severity, entry_hash, is_pointer, lint, to_seconds,
    without_comments,
};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The contract.
    path: String,
    /// What became of the contract.
    #[arg(long, default_value = "active", value_parser = STATUSES)]
    status: String,
    /// By which way it comes.
    #[arg(long, default_value = "developer.local", value_parser = CHANNELS)]
    channel: String,
    /// Who publishes it.
    #[arg(long, value_name = "ID", default_value = "aigentsy.publisher.v1")]
    publisher_id: String,
    /// With which key.
    #[arg(long, value_name = "ID", default_value = "aigentsy_log_signer_v1")]
    publisher_key_id: String,
    /// Where it is documented.
    #[arg(long, value_name = "URL", default_value = "https://aigentsy.com/docs/adapter-contracts")]
    docs_url: String,
    /// Where the contract itself is.
    #[arg(long, value_name = "URL", default_value = "")]
    declaration_url: String,
    /// What is new.
    #[arg(long, value_name = "TEXT", default_value = "")]
    release_notes: String,
    /// The version that it takes the place of: ID@VERSION.
    #[arg(long, value_name = "ID@VERSION", default_value = "")]
    supersedes: String,
    /// The version that takes its place: ID@VERSION.
    #[arg(long, value_name = "ID@VERSION", default_value = "")]
    replaced_by: String,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    for (option, pointer) in
        [("--supersedes", &arguments.supersedes), ("--replaced-by", &arguments.replaced_by)]
    {
        if !pointer.is_empty() && !is_pointer(pointer) {
            let message = format!("{option} is {pointer:?}, and leads nowhere");
            return Err(Error::usage(
                message,
                "write ID@VERSION, such as acme.eval_suite.v0@1.2.0",
            ));
        }
    }
    let time = environment.time().map_err(|message| Error::usage(message, "unset it"))?;
    let declaration = match manifest::read(&arguments.path) {
        Ok(declaration) => without_comments(&declaration),
        Err(unread @ Unread::Malformed(_, Malformed::NoObject(_))) => return unread.answer(),
        Err(unread) => return Err(unread.into()),
    };
    let findings = lint(&declaration);
    let of = |severity| -> Vec<Value> {
        let meant = findings.iter().filter(|finding| finding.severity == severity);
        meant.map(|finding| finding.message.as_str().into()).collect()
    };
    let mut report = Object::with_capacity(4);
    let errors = of(Severity::Error);
    if !errors.is_empty() {
        report.insert("ok", false);
        report.insert("errors", errors);
        report.insert("warnings", of(Severity::Warning));
        let note = "an entry is only written for a contract that passes nexus-router contract lint";
        report.insert("note", note);
        Output::new(environment).line(&to_indented(&report.into()))?;
        return Ok(Answer::No);
    }
    for warning in findings {
        tell(&visible(&format!("warning: {}", warning.message)));
    }
    let entry = Publication {
        status: arguments.status.clone(),
        channel: arguments.channel.clone(),
        published_at: to_seconds(time),
        docs_url: arguments.docs_url.clone(),
        declaration_url: arguments.declaration_url.clone(),
        release_notes: arguments.release_notes.clone(),
        supersedes: arguments.supersedes.clone(),
        replaced_by: arguments.replaced_by.clone(),
        publisher_id: arguments.publisher_id.clone(),
        publisher_key_id: arguments.publisher_key_id.clone(),
    }
    .entry(&declaration);
    report.insert("ok", true);
    report.insert("entry_hash", entry_hash(&entry));
    report.insert("entry", entry);
    let next: [Value; 2] = [
        "nexus-router contract sign ENTRY.json --key KEY.pem signs it: it is not signed yet".into(),
        "nexus-router contract manifest build takes it, once it is signed, into a manifest".into(),
    ];
    report.insert("next_steps", next.to_vec());
    Output::new(environment).line(&to_indented(&report.into()))?;
    Ok(Answer::Yes)
}
