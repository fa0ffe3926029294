//! `nexus-router runs list`.

use super::super::options::StoreOptions;
use super::super::output::{Form, Output, columns, shortened};
use super::super::{Answer, Error};
use crate::clock::Timestamp;
use crate::config::Environment;
use crate::inspect::{Inspection, inspect};
use crate::python_text::visible;
use crate::store::{Filter, RunRecord, Status};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    store: StoreOptions,
    /// Only runs of this status.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<Status>,
    /// Only runs created at this time or later, such as 2026-11-16 or 2026-11-16T08:30:00+01:00.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// How many at most.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// How many to pass over first.
    #[arg(long, default_value_t = 0)]
    offset: usize,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let filter = Filter {
        run_id: None,
        status: arguments.status,
        since: arguments.since.map(|moment| moment.to_string()),
        limit: usize::from(arguments.limit),
        offset: arguments.offset,
        ..Filter::default()
    };
    let store = arguments.store.app(environment)?.reader()?;
    let inspection = inspect(&store, &filter)?;
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => output.value(&inspection.to_json())?,
        Form::Human => human(&mut output, &inspection)?,
    }
    Ok(Answer::Yes)
}

fn human(output: &mut Output, inspection: &Inspection) -> std::io::Result<()> {
    let head = ["RUN", "STATUS", "MODE", "STEPS", "CREATED", "GOAL"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(inspection.runs.iter().map(row));
    for line in columns(&rows) {
        output.line(&line)?;
    }
    let counted = inspection.counted;
    let shown = match (inspection.runs.len(), counted.total) {
        (_, 1) => "1 run".to_owned(),
        (shown, total) if shown as u64 == total => format!("{total} runs"),
        (shown, total) => format!("{shown} of {total} runs"),
    };
    output.line(&format!(
        "\n{shown}: {} completed, {} failed, {} running",
        counted.completed, counted.failed, counted.running
    ))
}

fn row(record: &RunRecord) -> Vec<String> {
    let (header, progress) = (&record.header, &record.progress);
    let steps = format!("{}/{}", progress.steps_executed, progress.steps_planned);
    let status = progress.status.name();
    let status = if record.waits { &format!("{status}, waits") } else { status };
    let cells = [&header.run_id, status, &header.mode, &steps, &header.created_at, &header.goal];
    cells.map(|cell| shortened(&visible(cell))).to_vec()
}

fn status(text: &str) -> Result<Status, String> {
    let known = Status::from_name(&text.to_ascii_uppercase());
    known.ok_or_else(|| {
        let names: Vec<&str> = Status::ALL.iter().map(|status| status.name()).collect();
        format!("must be one of {}", names.join(", "))
    })
}

pub(in crate::cli) fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text)
        .or_else(|| Timestamp::parse(&format!("{text}T00:00:00Z")))
        .ok_or_else(|| "not a date, or a time with its offset".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_or_have_an_offset() {
        assert_eq!(moment("2026-11-16").unwrap().to_string(), "2026-11-16T00:00:00.000Z");
        let told = moment("2026-11-16T08:30:00+01:00").unwrap().to_string();
        assert_eq!(told, "2026-11-16T07:30:00.000Z");
        assert!(moment("yesterday").is_err() && moment("2026-11-16T08:30:00").is_err());
        assert_eq!(status("failed").unwrap(), Status::Failed);
        assert!(status("done").unwrap_err().contains("RUNNING"));
    }
}
