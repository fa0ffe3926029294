//! `nexus-router runs recover`.

use super::super::options::RouterOptions;
use super::super::output::{Form, Output, columns};
use super::super::{Answer, Error};
use crate::app::Absent;
use crate::config::Environment;
use crate::json::{Object, Value};
use crate::python_text::visible;
use crate::router::{How, Recovered, Resumable};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    router: RouterOptions,
    /// End also the runs that could go on.
    #[arg(long, conflicts_with = "dry_run")]
    end: bool,
    /// Only list the runs whose process is gone.
    #[arg(long)]
    dry_run: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let app = arguments.router.app(environment)?;
    let mut output = Output::new(environment);
    if arguments.dry_run {
        let orphans = app.reader()?.orphans()?;
        listed(&mut output, &orphans, arguments.format)?;
        return Ok(Answer::Yes);
    }
    let resumable = if arguments.end { Resumable::End } else { Resumable::Resume };
    app.check_callers_by_file();
    let router = app.router(Absent::Refuse)?;
    let recovered = router.recover_blocking(resumable).map_err(|error| Error::App(error.into()))?;
    match arguments.format {
        Form::Json => {
            let mut response = Object::new();
            response.insert("recovered", recovered.iter().map(as_json).collect::<Vec<_>>());
            output.value(&response.into())?;
        }
        Form::Human if recovered.is_empty() => output.line("no run was left behind")?,
        Form::Human => {
            let rows: Vec<Vec<String>> = recovered.iter().map(row).collect();
            for line in columns(&rows) {
                output.line(&line)?;
            }
        }
    }
    let left = recovered.iter().any(|run| matches!(run.how, How::Left { .. }));
    Ok(if left { Answer::No } else { Answer::Yes })
}

fn listed(output: &mut Output, orphans: &[String], form: Form) -> std::io::Result<()> {
    match form {
        Form::Json => {
            let ids = orphans.iter().map(|run_id| Value::from(run_id.as_str())).collect::<Vec<_>>();
            let mut response = Object::new();
            response.insert("orphans", ids);
            output.value(&response.into())
        }
        Form::Human if orphans.is_empty() => output.line("no run was left behind"),
        Form::Human => orphans.iter().try_for_each(|run_id| output.line(&visible(run_id))),
    }
}

/// Returns what was done in a word, why, and whether a call is in doubt.
fn told(how: &How) -> (&'static str, Option<&str>, bool) {
    match how {
        How::Resumed => ("resumed", None, false),
        How::Waits => ("waits", None, false),
        How::Ended { why, in_doubt } => ("ended", Some(why), *in_doubt),
        How::Left { why } => ("left", Some(why), false),
    }
}

fn row(recovered: &Recovered) -> Vec<String> {
    let (word, why, in_doubt) = told(&recovered.how);
    let why = visible(why.unwrap_or_default());
    let word = if in_doubt { "ended in doubt" } else { word };
    let status = recovered.status.name().to_owned();
    vec![visible(&recovered.run_id), word.to_owned(), status, why]
}

fn as_json(recovered: &Recovered) -> Value {
    let (word, why, in_doubt) = told(&recovered.how);
    let mut object = Object::new();
    object.insert("run_id", recovered.run_id.as_str());
    object.insert("how", word);
    object.insert("status", recovered.status.name());
    if let Some(why) = why {
        object.insert("why", why);
        object.insert("in_doubt", in_doubt);
    }
    object.into()
}
