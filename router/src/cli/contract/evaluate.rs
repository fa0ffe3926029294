//! `nexus-router contract evaluate`.

use std::path::{Path, PathBuf};

use super::super::output::{Format, Output, tell};
use super::super::run::read_input;
use super::super::{Answer, Error};
use crate::app::{App, Named};
use crate::clock::Clock;
use crate::config::{ConfigFile, Environment};
use crate::files;
use crate::json::{self, Limits, Object, Value};
use crate::python_text::visible;
use crate::signal::{
    AcceptancePolicy, Action, Decision, Evaluation, Finding, Registry, Report, decide, evaluate,
};

/// The largest output whose fields are looked at, and the most that is in it.
const LIMITS: Limits = Limits::REQUEST;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The fields that an adapter gave: a JSON file, or - for standard input.
    fields: String,
    /// The id of the contract [default: that of --contract].
    #[arg(long, value_name = "ID", required_unless_present = "contract")]
    id: Option<String>,
    /// The version of the contract [default: the highest active one, or without any the highest deprecated one].
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// The acceptance policy [default: none, so that a review is required].
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The directory of contracts [default: that of router.toml, that of `AIGENTSY_ADAPTER_CONTRACTS_DIR`, or
    /// `data/adapter_contracts`].
    #[arg(long, value_name = "DIR", conflicts_with = "contract")]
    dir: Option<PathBuf>,
    /// The file of the contract, instead of a directory.
    #[arg(long, value_name = "FILE")]
    contract: Option<PathBuf>,
    /// The router's configuration file [default: router.toml, if there is one].
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let registry = registry(arguments, environment)?;
    let own = arguments.contract.as_ref().and_then(|file| {
        let mut contracts = registry.contracts();
        contracts.find(|it| it.source == crate::signal::Source::File(file.clone()))
    });
    if own.is_none() && arguments.contract.is_some() {
        // What is wrong with it is told.
        let unreadable = registry.reports().iter().any(|report| report.unreadable);
        return if unreadable { Err(unusable("the contract")) } else { Ok(Answer::No) };
    }
    let (id, version) = match (own, &arguments.id) {
        (Some(own), None) => {
            let version = arguments.version.as_ref().unwrap_or(&own.adapter_version);
            (own.adapter_id.clone(), Some(version.clone()))
        }
        (_, id) => (id.clone().unwrap_or_default(), arguments.version.clone()),
    };
    let policy = match arguments.policy.as_deref().map(read_policy).transpose()? {
        Some(None) => return Ok(Answer::No),
        policy => policy.flatten(),
    };
    let Some(fields) = read_fields(&arguments.fields)? else { return Ok(Answer::No) };
    let contract = registry.resolve(&id, version.as_deref());
    if let (Some(policy), Some(contract), Some(file)) = (&policy, contract, &arguments.policy) {
        let findings = policy.findings_for(contract);
        if !findings.is_empty() {
            tell_findings(file, &findings);
            return Ok(Answer::No);
        }
    }
    let now = Clock::System.now();
    let evaluation = evaluate(&registry, &id, version.as_deref(), &fields, now);
    let decision = decide(policy.as_ref(), &evaluation);
    if evaluation.contract.is_none()
        && let Some(meant) = registry.nearest(&id, version.as_deref())
    {
        tell(&format!("hint: did you mean {}?", visible(&meant)));
    }
    write(arguments, environment, &evaluation, &decision)?;
    Ok(match decision.action {
        Action::AutoAccept => Answer::Yes,
        Action::AutoReject => Answer::No,
        Action::RequireReview => Answer::Waits,
    })
}

/// Reads the contracts, and tells of files that are none.
fn registry(arguments: &Arguments, environment: &Environment) -> Result<Registry, Error> {
    if let Some(file) = &arguments.contract {
        let registry = Registry::of_file(file);
        tell_reports(&registry);
        return Ok(registry);
    }
    let directory = match &arguments.dir {
        Some(directory) => Some(directory.clone()),
        None => {
            let config = ConfigFile::find(arguments.config_file.as_deref(), environment)?;
            App::new(environment, config, Named::default()).signals_dir()
        }
    };
    let registry = Registry::open(directory.as_deref());
    tell_reports(&registry);
    let lost = |it: &&Report| it.unreadable && Some(&it.file) == directory.as_ref();
    match registry.reports().iter().find(lost) {
        Some(_) => Err(unusable("the directory of contracts")),
        None => Ok(registry),
    }
}

fn unusable(what: &str) -> Error {
    Error::usage(format!("{what} cannot be used"), "correct what is told above")
}

fn tell_reports(registry: &Registry) {
    for Report { file, findings, .. } in registry.reports() {
        tell_findings(file, findings);
    }
}

fn tell_findings(file: &Path, findings: &[Finding]) {
    for Finding { pointer, message, .. } in findings {
        let place = if pointer.is_empty() { String::new() } else { format!(" {pointer}") };
        tell(&visible(&format!("{}{place}: {message}", file.display())));
    }
}

/// Reads a policy. What is wrong with it is told, and then there is none.
fn read_policy(file: &Path) -> Result<Option<AcceptancePolicy>, Error> {
    let bytes = files::read_bounded(file, AcceptancePolicy::MAX_BYTES).map_err(|error| {
        let message = format!("cannot read {}: {error}", file.display());
        Error::usage(message, "name an acceptance policy")
    })?;
    let read = AcceptancePolicy::read(&bytes);
    Ok(read.map_err(|findings| tell_findings(file, &findings)).ok())
}

/// Reads what an adapter gave. What is no JSON is told, and then there is nothing.
fn read_fields(name: &str) -> Result<Option<Value>, Error> {
    let bytes = match name {
        "-" => read_input(name, LIMITS)?,
        file => files::read_bounded(Path::new(file), LIMITS.bytes).map_err(|error| {
            let message = format!("cannot read {file}: {error}");
            Error::usage(message, "name a file, or - for standard input")
        })?,
    };
    let told = |error: json::Error| {
        let text = format!("{name} is no JSON: {}: {error}; {}", error.code(), error.hint());
        tell(&visible(&text));
    };
    Ok(json::parse(&bytes, LIMITS).map_err(told).ok())
}

fn write(
    arguments: &Arguments,
    environment: &Environment,
    evaluation: &Evaluation,
    decision: &Decision,
) -> Result<(), Error> {
    let mut output = Output::new(environment);
    match arguments.format {
        Format::Json => {
            let mut answer = Object::with_capacity(2);
            answer.insert("evaluation", evaluation.to_json());
            answer.insert("decision", decision.to_explained_json());
            output.value(&answer.into())?;
        }
        Format::Github => {
            let level = match decision.action {
                Action::AutoAccept => "notice",
                Action::RequireReview => "warning",
                Action::AutoReject => "error",
            };
            let escaped = visible(&decision.reason).replace('%', "%25");
            let action = decision.action.name();
            output.line(&format!("::{level} title={action}::{escaped}"))?;
        }
        Format::Human => human(&mut output, evaluation, decision)?,
    }
    Ok(())
}

fn human(output: &mut Output, evaluation: &Evaluation, decision: &Decision) -> std::io::Result<()> {
    let version = evaluation.adapter_version.as_deref().unwrap_or("(no version)");
    let result = evaluation.validation_result.name();
    output.line(&visible(&format!("{} {version}: {result}", evaluation.adapter_id)))?;
    for rejection in &evaluation.rejected_fields {
        let expected = rejection.expected.as_deref().unwrap_or("no such field");
        let reason = rejection.reason.name();
        output
            .line(&visible(&format!("  ✗ {}: {reason}, expected {expected}", rejection.field)))?;
    }
    for warning in &evaluation.lifecycle_warnings {
        let newer = warning.replaced_by.as_deref().unwrap_or("(none declared)");
        let told = format!("  ! {}, replaced by {newer}", warning.kind.name());
        output.line(&visible(&told))?;
    }
    for rule in &decision.explained {
        let text = |value: &Value, key: &str| {
            value.get(key).map(|it| it.as_str().map_or_else(|| json::to_compact(it), str::to_owned))
        };
        let sign = |value: &Value| match value.get("holds") {
            Some(Value::Bool(true)) => '✓',
            _ => '✗',
        };
        let index = text(rule, "index").unwrap_or_default();
        let name = text(rule, "name").map_or_else(String::new, |name| format!(", {name}"));
        let action = text(rule, "action").unwrap_or_default();
        let line = format!("  {} rule {index}{name}: {action}", sign(rule));
        output.line(&visible(&line))?;
        for one in rule.get("conditions").and_then(Value::as_array).unwrap_or_default() {
            let part = |key: &str| one.get(key).map(json::to_compact).unwrap_or_default();
            let got = one.get("got").map_or_else(|| "not there".to_owned(), json::to_compact);
            let (field, op) = (text(one, "field"), text(one, "op"));
            let (field, op) = (field.unwrap_or_default(), op.unwrap_or_default());
            let line = format!("      {} {field} {op} {}, got {got}", sign(one), part("wanted"));
            output.line(&visible(&line))?;
        }
    }
    output.line(&visible(&format!("{}: {}", decision.action.name(), decision.reason)))
}
