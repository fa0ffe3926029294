//! `nexus-router runs show ID`.

use std::io::IsTerminal as _;
use std::time::Duration;

use super::super::options::StoreOptions;
use super::super::output::{Form, Output, columns, tell};
use super::super::timeline::{self, Bars};
use super::super::{Answer, Error};
use crate::app::{App, SpanStatus, StoreOption, Timeline};
use crate::config::Environment;
use crate::outcome::Outcome;
use crate::python_text::visible;
use crate::store::{Log, Status, Store};

/// How often a run that is under way is looked at.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The run.
    run_id: String,
    #[command(flatten)]
    store: StoreOptions,
    /// Go on until the run is over; in JSON, one line per event.
    #[arg(long)]
    follow: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let app = arguments.store.app(environment)?;
    let store = app.reader()?;
    let mut output = Output::new(environment);
    let Some(log) = store.log(&arguments.run_id)? else {
        return Ok(super::not_found(&arguments.run_id));
    };
    if arguments.follow {
        return follow(&mut output, &app, (&store, log), arguments.format);
    }
    match arguments.format {
        Form::Json => output.value(&as_json(&log))?,
        Form::Human => {
            for line in drawn(&output, &Timeline::of(&log)) {
                output.line(&line)?;
            }
        }
    }
    Ok(Answer::Yes)
}

/// Returns the response of the run as it is recorded, with its steps in time.
fn as_json(log: &Log) -> crate::json::Value {
    let mut response = Outcome::of_log(log).to_json().into_object().unwrap_or_default();
    response.insert("goal", log.record.header.goal.as_str());
    response.insert("created_at", log.record.header.created_at.as_str());
    response.insert("timeline", Timeline::of(log).to_json());
    response.into()
}

fn drawn(output: &Output, timeline: &Timeline) -> Vec<String> {
    let mut lines = columns(&timeline::header(timeline));
    if !timeline.spans.is_empty() {
        lines.push(String::new());
        lines.extend(timeline::steps(output, timeline, Bars::Drawn));
    }
    lines
}

/// Shows a run again and again until it is over, or nobody carries it out.
fn follow(
    output: &mut Output,
    app: &App,
    (store, log): (&Store, Log),
    form: Form,
) -> Result<Answer, Error> {
    let options = || visible(&app.command_options(StoreOption::Always));
    let run_id = log.record.header.run_id.clone();
    let mut shown = Shown { form, lines: 0 };
    let mut log = log;
    loop {
        if log.record.waits {
            tell("it waits for an approval");
            tell(&format!("hint: nexus-router approvals list{}", options()));
        }
        shown.show(output, &log)?;
        let status = log.record.progress.status;
        if status != Status::Running {
            return Ok(if status == Status::Completed { Answer::Yes } else { Answer::No });
        }
        let events = log.record.progress.events;
        loop {
            std::thread::sleep(PAUSE);
            let Some(record) = store.find(&run_id)? else { return Ok(super::not_found(&run_id)) };
            if record.progress.events != events {
                break;
            }
            if !record.owned || store.orphans()?.contains(&run_id) {
                tell("no process executes this run any more");
                tell(&format!("hint: nexus-router runs recover{}", options()));
                return Ok(Answer::No);
            }
        }
        let Some(longer) = store.log(&run_id)? else { return Ok(super::not_found(&run_id)) };
        log = longer;
    }
}

/// What of a run has been shown already.
struct Shown {
    form: Form,
    /// Lines on the terminal, steps elsewhere, events in JSON.
    lines: usize,
}

impl Shown {
    fn show(&mut self, output: &mut Output, log: &Log) -> Result<(), Error> {
        if self.form == Form::Json {
            let new: Vec<&str> = log.lines().skip(self.lines).collect();
            self.lines += new.len();
            new.into_iter().try_for_each(|line| output.line(line))?;
            return Ok(());
        }
        let timeline = Timeline::of(log);
        if std::io::stdout().is_terminal() {
            let lines = fitting(drawn(output, &timeline));
            if self.lines > 0 {
                output.text(&format!("\x1b[{}A\x1b[J", self.lines))?;
            }
            self.lines = lines.len();
            return Ok(lines.iter().try_for_each(|line| output.line(line))?);
        }
        let over = |status| matches!(status, SpanStatus::Ok | SpanStatus::Error);
        let done = timeline.spans.iter().take_while(|span| over(span.status)).count();
        let lines = timeline::steps(output, &timeline, Bars::Left);
        for line in lines.iter().take(done).skip(self.lines) {
            output.line(line)?;
        }
        self.lines = done;
        if log.record.progress.status != Status::Running {
            output.line(&timeline::summary(&timeline))?;
        }
        Ok(())
    }
}

/// Cuts lines off that would wrap, and leaves out those that would scroll away: what is drawn again must
/// be where it was.
fn fitting(mut lines: Vec<String>) -> Vec<String> {
    let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout()) else { return lines };
    let (width, height) = (usize::from(size.ws_col), usize::from(size.ws_row));
    if width == 0 || height < 2 {
        return lines;
    }
    lines.drain(..lines.len().saturating_sub(height - 1));
    lines.iter().map(|line| clipped(line, width)).collect()
}

/// Returns as much of a line as has a width; colours have none.
fn clipped(line: &str, width: usize) -> String {
    let (mut shown, mut column, mut escape) = (String::with_capacity(line.len()), 0, false);
    for c in line.chars() {
        escape |= c == '\x1b';
        if escape {
            shown.push(c);
            escape = c != 'm';
        } else if column < width {
            shown.push(c);
            column += 1;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_clipped_without_their_colours() {
        assert_eq!(clipped("\x1b[32m✓\x1b[0m step", 3), "\x1b[32m✓\x1b[0m s");
        assert_eq!(clipped("short", 80), "short");
    }
}
