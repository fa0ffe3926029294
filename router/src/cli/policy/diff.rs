//! `nexus-router policy diff`.

use std::path::PathBuf;

use super::super::options::StoreOptions;
use super::super::output::{Form, Output, columns, shortened, tell};
use super::super::runs::moment;
use super::super::{Answer, Error};
use super::check::NOT_JUDGED;
use super::{outcome_json, outcome_text};
use crate::app::{App, Named};
use crate::clock::Timestamp;
use crate::config::{ConfigFile, Environment};
use crate::json::{Object, Value};
use crate::policy::history::{
    Change, ChangedCall, ComparisonReport, Gap, PolicyCall, PolicyComparison, UnjudgedCall,
};
use crate::python_text::visible;

#[derive(clap::Args)]
pub(in crate::cli) struct DiffArgs {
    /// The configuration file with the new policy.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    #[command(flatten)]
    store: StoreOptions,
    /// Only calls that were decided at this time or later, such as 2026-11-16 or 2026-11-16T08:30:00+01:00.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Most calls of each kind to list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=10_000))]
    limit: u16,
    /// The change that makes the exit code 1.
    #[arg(long, value_enum, default_value_t)]
    fail_on: FailOn,
    /// Exit 1 instead of 2 if a call that cannot be judged may change in that way, or events cannot be read.
    #[arg(long)]
    strict: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

/// Change that makes the exit code 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// A recorded call is permitted more.
    #[default]
    Widens,
    /// A recorded call is permitted more or less.
    Change,
    /// None.
    Never,
}

pub(super) fn run(arguments: &DiffArgs, environment: &Environment) -> Result<Answer, Error> {
    let (old_app, old_origins) = arguments.store.traced_app(environment)?;
    let (new_config, new_origins) = ConfigFile::trace(Some(&arguments.new), environment)?;
    let named = Named { data_dir: arguments.store.data_dir().cloned(), ..Named::default() };
    let new_app = App::new(environment, new_config, named);
    let (old, new) = (old_app.policy_file(&old_origins)?, new_app.policy_file(&new_origins)?);
    let store = old_app.reader()?;
    let limit = usize::from(arguments.limit);
    let comparison = PolicyComparison::new(old, new, arguments.since, limit);
    let (comparison, scanned) = store.scan_events(comparison)?;
    let damaged = scanned.damaged + comparison.report.unreadable;
    if damaged > 0 {
        tell(&format!("{damaged} events cannot be read; `nexus-router store check` examines them"));
    }
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => output.value(&json(&comparison, arguments.since, damaged).into())?,
        Form::Human => {
            for line in human(&comparison, damaged) {
                output.line(&line)?;
            }
        }
    }
    Ok(arguments.answer(&comparison.report, damaged))
}

impl DiffArgs {
    fn answer(&self, report: &ComparisonReport, damaged: u64) -> Answer {
        let (changed, undecided) = match self.fail_on {
            FailOn::Never => return Answer::Yes,
            FailOn::Widens => (report.widened, report.may_widen),
            FailOn::Change => (report.widened + report.narrowed, report.unjudged),
        };
        match (changed > 0, undecided + damaged > 0) {
            (true, _) => Answer::No,
            (false, true) if self.strict => Answer::No,
            (false, true) => Answer::Unclear,
            (false, false) => Answer::Yes,
        }
    }
}

fn human(comparison: &PolicyComparison, damaged: u64) -> Vec<String> {
    let PolicyComparison { old, new, report, .. } = comparison;
    let mut rows = Vec::new();
    for changed in report.widening.iter().chain(&report.narrowing) {
        let ChangedCall { call, change, old: before, new: after } = changed;
        let mut row = vec![change.name().to_owned()];
        row.extend(call_cells(call));
        row.push(format!("{} -> {}", outcome_text(old, *before), outcome_text(new, *after)));
        rows.push(row);
    }
    for UnjudgedCall { call, gaps, possible } in &report.unjudged_calls {
        let possible: Vec<&str> = possible.iter().map(|change| change.name()).collect();
        let gaps: Vec<&str> = gaps.iter().map(|gap| gap.text()).collect();
        let mut row = vec![format!("{}?", possible.join("/"))];
        row.extend(call_cells(call));
        row.push(gaps.join("; "));
        rows.push(row);
    }
    let mut lines = Vec::new();
    if !rows.is_empty() {
        let head = ["CHANGE", "RUN", "STEP", "TIME", "CALLER", "OPERATION", "DECISION"];
        rows.insert(0, head.map(str::to_owned).to_vec());
        let cell = |cell: String| shortened(&visible(&cell));
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|row| row.into_iter().map(cell).collect()).collect();
        lines.extend(columns(&rows));
        lines.push(String::new());
    }
    let listed = report.widening.len() + report.narrowing.len() + report.unjudged_calls.len();
    let all = report.widened + report.narrowed + report.unjudged;
    let rest = all.saturating_sub(listed as u64);
    if rest > 0 {
        lines.push(format!("{rest} more calls are not listed; --limit lists more"));
    }
    for (gap, count) in &report.gaps {
        lines.push(format!("cannot judge {count}: {}", gap.text()));
    }
    let restriction = match is_complete(report, damaged) {
        true => "",
        false => " as far as it can be judged",
    };
    lines.push(format!(
        "{}{restriction}: {} recorded calls: {} equal, {} narrowed, {} widened, {} cannot be judged",
        report.verdict().name(),
        report.total,
        report.equal,
        report.narrowed,
        report.widened,
        report.unjudged
    ));
    lines
}

/// Returns whether every recorded call was read and judged.
const fn is_complete(report: &ComparisonReport, damaged: u64) -> bool {
    report.unjudged + damaged == 0
}

fn call_cells(call: &PolicyCall) -> [String; 5] {
    [
        call.run_id.clone(),
        call.step_id.clone(),
        call.at.to_string(),
        caller_text(call).unwrap_or("-").to_owned(),
        call.operation(),
    ]
}

/// Returns the name of a caller; absent for the command line and unknown callers.
fn caller_text(call: &PolicyCall) -> Option<&str> {
    call.caller.caller().map(|caller| caller.name.as_str())
}

fn json(comparison: &PolicyComparison, since: Option<Timestamp>, damaged: u64) -> Object {
    let PolicyComparison { old, new, report, .. } = comparison;
    let mut answer = Object::new();
    answer.insert("verdict", report.verdict().name());
    answer.insert("complete", is_complete(report, damaged));
    answer.insert("since", since.map(|since| since.to_string()));
    let mut calls = Object::new();
    calls.insert("total", report.total);
    calls.insert("equal", report.equal);
    calls.insert("narrowed", report.narrowed);
    calls.insert("widened", report.widened);
    calls.insert("unjudged", report.unjudged);
    answer.insert("calls", calls);
    let changes = report.widening.iter().chain(&report.narrowing).map(|changed| {
        let mut object = call_json(&changed.call);
        object.insert("change", changed.change.name());
        object.insert("old", outcome_json(old, changed.old));
        object.insert("new", outcome_json(new, changed.new));
        Value::Object(object)
    });
    answer.insert("changes", changes.collect::<Vec<_>>());
    let mut unjudged = Object::new();
    let mut gaps = Object::new();
    for (gap, count) in &report.gaps {
        gaps.insert(gap.name(), *count);
    }
    unjudged.insert("missing", gaps);
    unjudged.insert("may_widen", report.may_widen);
    let listed = report.unjudged_calls.iter().map(|one| {
        let mut object = call_json(&one.call);
        let names = one.possible.iter().map(|change: &Change| change.name().into());
        object.insert("possible", names.collect::<Vec<Value>>());
        let names = one.gaps.iter().map(|gap: &Gap| gap.name().into());
        object.insert("missing", names.collect::<Vec<Value>>());
        Value::Object(object)
    });
    unjudged.insert("calls", listed.collect::<Vec<_>>());
    answer.insert("unjudged", unjudged);
    answer.insert("unreadable_events", damaged);
    answer.insert("not_judged", NOT_JUDGED.map(Value::from).to_vec());
    answer
}

fn call_json(call: &PolicyCall) -> Object {
    let mut object = Object::new();
    object.insert("run_id", call.run_id.as_str());
    object.insert("step_id", call.step_id.as_str());
    object.insert("at", call.at.to_string());
    object.insert("caller", caller_text(call));
    object.insert("mode", call.mode.name());
    object.insert("adapter", call.adapter_id.as_str());
    object.insert("tool", call.tool.as_str());
    object.insert("method", call.method.as_str());
    object
}
