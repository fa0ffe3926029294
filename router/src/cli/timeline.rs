//! How a run is shown to people: a line per step, with a bar that is as long as the step took.

use super::output::{Output, columns, shortened};
use crate::app::{Span, SpanStatus, StepForecast, Timeline};
use crate::approval::{Approval, Ruling};
use crate::check;
use crate::python_text::visible;
use crate::signal::Action;
use crate::store::Status;

/// The width of a bar, in characters.
const WIDTH: usize = 32;

/// How much of the steps is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bars {
    Drawn,
    Left,
}

/// Returns a line per step.
pub(super) fn steps(output: &Output, timeline: &Timeline, bars: Bars) -> Vec<String> {
    let rows: Vec<Vec<String>> = timeline
        .spans
        .iter()
        .map(|span| {
            let mut row =
                vec![cell(&span.step_id), cell(&format!("{}.{}", span.tool, span.method))];
            if bars == Bars::Drawn {
                row.push(bar(span, timeline));
            }
            row.push(took(span));
            row.push(told(span));
            row
        })
        .collect();
    // Signs may be coloured, and colours have no width.
    let signs = timeline.spans.iter().map(|span| match span.forecast {
        Some(StepForecast::NeedsApproval) => output.sign(check::Status::Warn),
        _ => sign(output, span.status),
    });
    signs.zip(columns(&rows)).map(|(sign, line)| format!("{sign} {line}")).collect()
}

/// Returns one line about the whole run.
pub(super) fn summary(timeline: &Timeline) -> String {
    let record = &timeline.record;
    let begun = timeline.spans.iter();
    let begun =
        begun.filter(|span| !matches!(span.status, SpanStatus::Skipped | SpanStatus::Waiting));
    let (done, planned) = (begun.count(), timeline.spans.len());
    let steps = match (done, planned) {
        (1, 1) => "1 step".to_owned(),
        (done, planned) if done == planned => format!("{done} steps"),
        (done, planned) => format!("{done} of {planned} steps"),
    };
    let status = record.progress.status.name();
    let dry = if timeline.is_dry_run() { "DRY RUN " } else { "" };
    let mut line = format!("{dry}{status} run {} {steps}", visible(&record.header.run_id));
    if let Some(time) = timeline.milliseconds() {
        line.push_str(&format!(" in {}", duration(time)));
    }
    if let Some(waiting) = timeline.waiting() {
        line.push_str(&format!(", waits for approval {}", visible(&waiting.approval_id)));
    }
    if let (Status::Failed, Some(why)) = (record.progress.status, why(timeline)) {
        line.push_str(&format!(", {why}"));
    }
    if planned == 0 && record.progress.status == Status::Completed {
        line.push_str(&format!(", {}", crate::outcome::EMPTY_PLAN));
    }
    line
}

/// Returns a line for each kind of step that would not simply be executed after a dry run.
pub(super) fn forecast(timeline: &Timeline) -> Vec<String> {
    let kinds = [
        (StepForecast::NeedsApproval, "would need approval"),
        (StepForecast::Denied, "would be denied"),
    ];
    let line = |(kind, words): (StepForecast, &str)| {
        let spans = timeline.spans.iter().filter(|span| span.forecast == Some(kind));
        let steps: Vec<String> = spans.map(|span| visible(&span.step_id)).collect();
        (!steps.is_empty()).then(|| format!("{words}: {}", steps.join(", ")))
    };
    kinds.into_iter().filter_map(line).collect()
}

/// Returns what is said of a run besides its steps, as rows of a label and a text.
pub(super) fn header(timeline: &Timeline) -> Vec<Vec<String>> {
    let record = &timeline.record;
    let adapters: Vec<String> = timeline
        .adapters
        .iter()
        .map(|choice| {
            let source = &choice.selection_source;
            format!("{} ({}, by {source})", choice.adapter_id, choice.adapter_kind)
        })
        .collect();
    let mut rows = vec![
        ("run", record.header.run_id.clone()),
        ("status", record.progress.status.name().to_owned()),
        ("goal", record.header.goal.clone()),
        ("mode", record.header.mode.clone()),
        ("created", record.header.created_at.clone()),
    ];
    if let Some(time) = timeline.milliseconds() {
        rows.push(("took", duration(time)));
    }
    if !adapters.is_empty() {
        rows.push(("adapters", adapters.join(", ")));
    }
    rows.push(("events", record.progress.events.to_string()));
    rows.extend(record.origin.clone().map(|origin| ("origin", origin)));
    rows.extend(timeline.waiting().map(|waiting| {
        ("waits", format!("for approval {} until {}", waiting.approval_id, waiting.expires_at))
    }));
    rows.extend(why(timeline).map(|why| ("failed", why)));
    rows.into_iter().map(|(label, text)| vec![label.to_owned(), visible(&text)]).collect()
}

fn why(timeline: &Timeline) -> Option<String> {
    let reason = timeline.reason.as_ref()?;
    Some(match &timeline.message {
        Some(message) => format!("{}: {}", visible(reason), visible(message)),
        None => visible(reason),
    })
}

fn cell(text: &str) -> String {
    shortened(&visible(text))
}

fn sign(output: &Output, status: SpanStatus) -> String {
    match status {
        SpanStatus::Ok => output.sign(check::Status::Pass),
        SpanStatus::Error => output.sign(check::Status::Fail),
        SpanStatus::Running => "▶".to_owned(),
        SpanStatus::Asked => output.sign(check::Status::Warn),
        SpanStatus::Waiting | SpanStatus::Skipped => output.sign(check::Status::Skip),
    }
}

fn took(span: &Span) -> String {
    match (span.status, span.milliseconds()) {
        (SpanStatus::Ok, Some(0)) if span.forecast.is_some() => "simulated".to_owned(),
        (SpanStatus::Ok | SpanStatus::Error, Some(time)) => duration(time),
        (status, _) => status.name().to_owned(),
    }
}

fn told(span: &Span) -> String {
    match &span.error {
        Some((code, message)) if span.forecast == Some(StepForecast::Denied) => {
            format!("would be denied: {}: {}", visible(code), visible(message))
        }
        Some((code, message)) => format!("{}: {}", visible(code), visible(message)),
        None if span.forecast == Some(StepForecast::NeedsApproval) => {
            "would need approval".to_owned()
        }
        None => match span.signals.as_ref().filter(|it| it.action == Action::RequireReview) {
            Some(signals) => format!("needs review: {}", visible(&signals.reason)),
            None => span.approvals.last().map_or_else(String::new, asked),
        },
    }
}

/// Says what a person was asked, or what they said.
fn asked(approval: &Approval) -> String {
    let Some(Ruling { decision, by, reason, .. }) = &approval.ruling else {
        let why = approval.asked_because.as_deref().unwrap_or("the operator wants it");
        return format!("approval {}: {}", visible(&approval.approval_id), visible(why));
    };
    let by = by.as_ref().map_or_else(String::new, |by| format!(" by {}", visible(by)));
    let why = reason.as_ref().map_or_else(String::new, |why| format!(": {}", visible(why)));
    format!("{}{by}{why}", decision.name())
}

/// Draws when a step began and how long it took, within the time of the run.
fn bar(span: &Span, timeline: &Timeline) -> String {
    let (Some(began), Some(first)) = (span.began, timeline.began) else {
        return "·".repeat(WIDTH);
    };
    let total = timeline.milliseconds().unwrap_or(0).max(1);
    let end = span.ended.or(timeline.last).unwrap_or(began);
    let since = |moment: crate::clock::Timestamp| {
        u64::try_from(moment.as_millis() - first.as_millis()).unwrap_or(0).min(total)
    };
    let place = |time: u64| usize::try_from(time * WIDTH as u64 / total).unwrap_or(WIDTH);
    // A step that took less than a character is still drawn.
    let from = place(since(began)).min(WIDTH - 1);
    let to = place(since(end)).clamp(from + 1, WIDTH);
    format!("{}{}{}", "·".repeat(from), "━".repeat(to - from), "·".repeat(WIDTH - to))
}

/// Returns a time as people say it.
fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{}.{:03} s", milliseconds / 1_000, milliseconds % 1_000),
        _ => format!("{} min {} s", milliseconds / 60_000, milliseconds / 1_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_people_say_them() {
        let told: Vec<String> = [0, 999, 1_000, 59_999, 61_000].map(duration).to_vec();
        assert_eq!(told, ["0 ms", "999 ms", "1.000 s", "59.999 s", "1 min 1 s"]);
    }
}
