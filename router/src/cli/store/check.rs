//! `nexus-router store check`: a verdict on the store, with a reason, for every file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::super::options::StoreOptions;
use super::super::output::{Form, Output};
use super::super::progress::Progress;
use super::super::{Answer, Error};
use crate::app;
use crate::check;
use crate::config::Environment;
use crate::json::{Object, Value};
use crate::python_text::visible;
use crate::store::{Error as StoreError, Finding, Health, lost_log_pages};

/// The first bytes of every SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// A text in every store.
const TABLE: &[u8] = b"CREATE TABLE owners (";
/// So much of a file is looked at for them.
const LOOKED_AT: u64 = 1024 * 1024;

#[derive(clap::Args)]
pub(in crate::cli) struct CheckArguments {
    #[command(flatten)]
    store: StoreOptions,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

/// Verdict on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreVerdict {
    /// Nothing is wrong.
    Ok,
    /// Something in it is wrong, or it cannot be read as a store.
    Damaged,
    /// It is a file of another program.
    NotAStore,
    /// It could not be looked at.
    NotChecked,
}

impl StoreVerdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Damaged => "damaged",
            Self::NotAStore => "not_a_store",
            Self::NotChecked => "not_checked",
        }
    }

    const fn answer(self) -> Answer {
        match self {
            Self::Ok => Answer::Yes,
            Self::Damaged => Answer::No,
            Self::NotAStore | Self::NotChecked => Answer::Unclear,
        }
    }
}

/// Result of a check.
struct CheckReport {
    verdict: StoreVerdict,
    /// The reason of any verdict but `ok`.
    reason: Option<String>,
    /// The error that kept the store from being read.
    error: Option<StoreError>,
    file: PathBuf,
    health: Option<Health>,
}

pub(super) fn check(
    arguments: &CheckArguments,
    environment: &Environment,
) -> Result<Answer, Error> {
    let app = arguments.store.app(environment)?;
    let file = app.db()?;
    // To open the store may remove the trace.
    let lost = lost_log_pages(&file);
    let mut progress = Progress::new("checking runs");
    if let Some(pages) = lost {
        return report(arguments.format, &CheckReport::of_lost(file, pages), environment);
    }
    let checked = app.reader().and_then(|store| {
        let checked = store.check(move |done, total| progress.tell(done, total));
        checked.map_err(app::Error::from)
    });
    let checked = match checked {
        Ok(health) => CheckReport::of_health(file, health),
        Err(app::Error::Store(error)) => CheckReport::of_error(file, error),
        Err(error) => return Err(error.into()),
    };
    report(arguments.format, &checked, environment)
}

fn report(format: Form, report: &CheckReport, environment: &Environment) -> Result<Answer, Error> {
    let mut output = Output::new(environment);
    match format {
        Form::Json => output.value(&report.to_json())?,
        Form::Human => report.human(&mut output)?,
    }
    if let Some(error) = &report.error {
        super::super::report(&Error::App(error.clone().into()));
    }
    Ok(report.verdict.answer())
}

impl CheckReport {
    /// Reports a removed or truncated log. The store stays closed: to open it would remove the trace of the log.
    fn of_lost(file: PathBuf, pages: u32) -> Self {
        let reason = format!(
            "the write-ahead log was removed or truncated with {pages} pages that are not in the file: what was recorded last is lost"
        );
        let error = Some(StoreError::Damaged(reason.clone()));
        let verdict = StoreVerdict::Damaged;
        Self { verdict, reason: Some(reason), error, file, health: None }
    }

    fn of_health(file: PathBuf, health: Health) -> Self {
        let reason = health.findings.first().map(|first| first.problem.clone());
        let verdict = if reason.is_none() { StoreVerdict::Ok } else { StoreVerdict::Damaged };
        Self { verdict, reason, error: None, file, health: Some(health) }
    }

    fn of_error(file: PathBuf, error: StoreError) -> Self {
        let (verdict, reason) = match &error {
            StoreError::Damaged(_) => (StoreVerdict::Damaged, error.to_string()),
            // What it was can still be seen in it.
            StoreError::Foreign(_) if holds(&file, TABLE) => {
                (StoreVerdict::Damaged, "it was a store, and its header is damaged".to_owned())
            }
            StoreError::Foreign(_) if !holds(&file, MAGIC) => {
                (StoreVerdict::NotAStore, "the file is not a database".to_owned())
            }
            StoreError::Foreign(_) => (StoreVerdict::NotAStore, error.to_string()),
            StoreError::Missing(_) if file.exists() => {
                (StoreVerdict::Damaged, "the file holds no store: it has no tables".to_owned())
            }
            other => (StoreVerdict::NotChecked, other.to_string()),
        };
        Self { verdict, reason: Some(reason), error: Some(error), file, health: None }
    }

    fn human(&self, output: &mut Output) -> std::io::Result<()> {
        let sign = output.sign(check::Status::Fail);
        let Some(health) = &self.health else {
            let reason = visible(self.reason.as_deref().unwrap_or_default());
            let shown = visible(&self.file.display().to_string());
            output.line(&format!("{sign} {reason}"))?;
            let verdict = match self.verdict {
                StoreVerdict::NotAStore | StoreVerdict::NotChecked => "not checked",
                StoreVerdict::Ok | StoreVerdict::Damaged => "not ok",
            };
            return output.line(&format!("{verdict}: {shown}"));
        };
        for Finding { run_id, problem } in &health.findings {
            let problem = visible(problem);
            match run_id {
                Some(run_id) => {
                    output.line(&format!("{sign} run {}: {problem}", visible(run_id)))?;
                }
                None => output.line(&format!("{sign} {problem}"))?,
            }
        }
        let verdict = if health.findings.is_empty() { "ok" } else { "not ok" };
        let Health { runs, events, audit, run_records, moved, findings } = health;
        if *moved {
            output.line("the store was moved, copied or restored; `store adopt` continues it")?;
        }
        let some = |count: u64, what: &str| match count {
            0 => String::new(),
            count => format!("{count} {what}, "),
        };
        let more = some(*audit, "audit events") + &some(*run_records, "run records");
        let findings = findings.len();
        output.line(&format!("{verdict}: {runs} runs, {events} events, {more}{findings} findings"))
    }

    fn to_json(&self) -> Value {
        let findings = self.health.iter().flat_map(|health| &health.findings).map(|finding| {
            let mut object = Object::new();
            object.insert("run_id", finding.run_id.clone());
            object.insert("problem", finding.problem.as_str());
            Value::Object(object)
        });
        let mut response = Object::new();
        response.insert("findings", findings.collect::<Vec<_>>());
        response.insert("ok", self.verdict == StoreVerdict::Ok);
        response.insert("verdict", self.verdict.name());
        response.insert("reason", self.reason.clone());
        response.insert("store", self.file.display().to_string());
        if let Some(error) = &self.error {
            response.insert("code", error.code());
            response.insert("hint", error.hint().into_owned());
        }
        if let Some(health) = &self.health {
            response.insert("runs", health.runs);
            response.insert("events", health.events);
            response.insert("audit_events", health.audit);
            response.insert("run_records", health.run_records);
            response.insert("moved", health.moved);
        }
        response.into()
    }
}

/// Returns whether the beginning of a file holds a text. No connection to the file is open.
fn holds(file: &Path, text: &[u8]) -> bool {
    let mut begin = Vec::new();
    let read =
        std::fs::File::open(file).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut begin));
    read.is_ok() && begin.windows(text.len()).any(|part| part == text)
}
