//! `nexus-router contract lint PATH...`.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::output::{Format, Output};
use super::super::{Answer, Error};
use super::report::{
    Loaded, Source, any_error, finding_annotation, finding_json, finding_line, messages, print,
    sources, whole,
};
use crate::config::Environment;
use crate::interface::{FORMAT, LOCK_FORMAT};
use crate::json::{Object, Value};
use crate::python_text::visible;
use crate::signal::{Finding, Kinship, Member, Severity, lint};

/// Fewer are read faster by one thread than threads are started.
const FEW: usize = 32;

const HELP: &str = "\
Examples:
  nexus-router contract lint adapter_contract.json
  nexus-router contract lint contracts --format github
  nexus-router contract lint - < adapter_contract.json

Of a directory every file below it is taken that is named adapter_contract.json or *.adapter_contract.json; what begins
with a dot is passed over. Several contracts are also held to each other: no two for one version, no pointers round in
circles. Exits 0 if nothing is wrong, 1 if something is, and 2 if something cannot be read.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(in crate::cli) struct Arguments {
    /// Files, directories, or - for standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The format of the answer [default: the JSON of the AiGentsy tools for one contract, json for several].
    #[arg(long, value_enum)]
    format: Option<Format>,
}

/// What was found in one place.
struct Checked {
    path: String,
    findings: Vec<Finding>,
    /// What the contract says of itself; none if there is no contract.
    said: Option<[Value; 3]>,
    member: Option<Member>,
    /// Why it could not be read.
    closed: Option<String>,
}

/// What is told of a contract besides findings.
const SAID: [&str; 3] = ["adapter_id", "contract_hash", "input_schema_hash"];

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let sources = sources(&arguments.paths)?;
    // A directory stands for any number of contracts, unless it has none.
    let single = match (&arguments.paths[..], &sources[..]) {
        ([named], [source]) => source.shown == named.display().to_string(),
        _ => false,
    };
    let mut checked = check_all(&sources);
    let members: Vec<Member> = checked.iter_mut().filter_map(|it| it.member.take()).collect();
    let kinship = Kinship::of(&members);
    let ok = kinship.ok() && !checked.iter().any(|it| any_error(&it.findings));
    let mut output = Output::new(environment);
    match (arguments.format, checked.first()) {
        (None, Some(one)) if single => {
            print(&mut output, peer(one))?;
            whole(&closed(&checked))?;
            return Ok(if any_error(&one.findings) { Answer::No } else { Answer::Yes });
        }
        (None | Some(Format::Json), _) => print(&mut output, json(ok, &checked, &kinship))?,
        (Some(Format::Human), _) => human(&mut output, ok, &checked, &kinship)?,
        (Some(Format::Github), _) => {
            for (file, finding) in all(&checked, &kinship) {
                output.line(&finding_annotation(file, finding))?;
            }
        }
    }
    whole(&closed(&checked))?;
    Ok(if ok { Answer::Yes } else { Answer::No })
}

/// Looks at every contract, on all processors; the order stays.
fn check_all(sources: &[Source]) -> Vec<Checked> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if sources.len() <= FEW || processors == 1 {
        return sources.iter().map(check).collect();
    }
    // Each thread takes the next one that nobody took: files are of different sizes.
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(sources.len()));
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                let mut own = Vec::new();
                while let Some((at, source)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    sources.get(at).map(|source| (at, source))
                } {
                    own.push((at, check(source)));
                }
                // Nothing between lock and unlock can panic.
                done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut own);
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, checked)| checked).collect()
}

fn check(source: &Source) -> Checked {
    let path = source.shown.clone();
    let bare = |findings, closed| Checked {
        path: path.clone(),
        findings,
        said: None,
        member: None,
        closed,
    };
    match source.load() {
        Loaded::Contract(_, contract) if interface_contract(&contract).is_some() => {
            bare(interface_contract(&contract).into_iter().collect(), None)
        }
        Loaded::Contract(_, contract) => {
            let findings = lint(&contract);
            let said = SAID.map(|key| contract.get(key).cloned().unwrap_or_else(|| "".into()));
            let member = Member::new(&path, &contract, !any_error(&findings));
            Checked { path, findings, said: Some(said), member, closed: None }
        }
        Loaded::Refused(finding) => bare(vec![finding], None),
        Loaded::Unreadable(why) => {
            bare(vec![Finding::error("", format!("file_unreadable: {path} {why}"))], Some(why))
        }
    }
}

/// Tells that a document is an interface contract, or a lock of them, if it says so.
fn interface_contract(document: &Object) -> Option<Finding> {
    let format = document.get("format").and_then(Value::as_str)?;
    let (what, verb) = match format {
        FORMAT => ("an interface contract", "nexus-router interface diff ID FILE and freeze FILE"),
        LOCK_FORMAT => ("a lock of interface contracts", "nexus-router interface verify"),
        _ => return None,
    };
    let message = format!(
        "not_a_signal_contract: this is {what}; contract lint takes signal contracts (*.adapter_contract.json), and \
         {verb} take this"
    );
    Some(Finding::error("/format", message))
}

fn closed(checked: &[Checked]) -> Vec<(String, String)> {
    let closed = checked.iter().filter_map(|it| Some((it.path.clone(), it.closed.clone()?)));
    closed.collect()
}

/// The form of the AiGentsy tools.
fn peer(checked: &Checked) -> Object {
    let mut report = Object::with_capacity(6);
    verdict(&mut report, checked);
    report
}

fn verdict(report: &mut Object, checked: &Checked) {
    report.insert("ok", !any_error(&checked.findings));
    report.insert("errors", messages(&checked.findings, Severity::Error));
    report.insert("warnings", messages(&checked.findings, Severity::Warning));
    for (key, value) in SAID.into_iter().zip(checked.said.iter().flatten()) {
        report.insert(key, value.clone());
    }
}

fn json(ok: bool, checked: &[Checked], kinship: &Kinship<'_>) -> Object {
    let contract = |checked: &Checked| -> Value {
        let mut object = Object::with_capacity(8);
        object.insert("path", checked.path.as_str());
        verdict(&mut object, checked);
        let findings = checked.findings.iter().map(|it| finding_json(&checked.path, it));
        object.insert("findings", findings.collect::<Vec<Value>>());
        object.into()
    };
    let mut beside = Object::with_capacity(4);
    for (key, severity) in [("errors", Severity::Error), ("warnings", Severity::Warning)] {
        beside.insert(key, messages(kinship.findings.iter().map(|(_, it)| it), severity));
    }
    let findings = kinship.findings.iter().map(|(file, it)| finding_json(file, it));
    beside.insert("findings", findings.collect::<Vec<Value>>());
    let heads = kinship.heads.iter().map(|head| -> Value {
        let mut object = Object::with_capacity(3);
        object.insert("adapter_id", head.id());
        object.insert("adapter_version", head.version());
        object.insert("path", head.file());
        object.into()
    });
    beside.insert("heads", heads.collect::<Vec<Value>>());
    let mut report = Object::with_capacity(5);
    report.insert("ok", ok);
    report.insert("checked", checked.len());
    report.insert("failed", checked.iter().filter(|it| any_error(&it.findings)).count());
    report.insert("contracts", checked.iter().map(contract).collect::<Vec<Value>>());
    report.insert("registry", beside);
    report
}

/// Returns every finding with its file.
fn all<'a>(
    checked: &'a [Checked],
    kinship: &'a Kinship<'_>,
) -> impl Iterator<Item = (&'a str, &'a Finding)> {
    let own =
        checked.iter().flat_map(|it| it.findings.iter().map(|found| (it.path.as_str(), found)));
    own.chain(kinship.findings.iter().map(|(file, found)| (*file, found)))
}

fn human(
    output: &mut Output,
    ok: bool,
    checked: &[Checked],
    kinship: &Kinship<'_>,
) -> std::io::Result<()> {
    let mut counts = [0, 0];
    for (file, finding) in all(checked, kinship) {
        counts[usize::from(finding.severity == Severity::Warning)] += 1;
        output.line(&finding_line(output, file, finding))?;
    }
    for head in &kinship.heads {
        output.line(&visible(&format!(
            "head  {}@{}  {}",
            head.id(),
            head.version(),
            head.file()
        )))?;
    }
    let verdict = if ok { "ok" } else { "not ok" };
    let [errors, warnings] = counts;
    output.line(&format!(
        "{verdict}: {} contracts, {errors} errors, {warnings} warnings",
        checked.len()
    ))
}
