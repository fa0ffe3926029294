//! `nexus-router approvals list`.

use super::super::output::{Form, Output, columns, shortened};
use super::super::reach::refused;
use super::super::{Answer, Error};
use super::{Door, MAX_ANSWER, PATH, Place};
use crate::approval::{Approval, told_grants};
use crate::config::Environment;
use crate::json::{self, Object, Value};
use crate::python_text::visible;
use crate::store::ApprovalFilter;

const EXAMPLES: &str = "\
Examples:
  nexus-router approvals list
  nexus-router approvals list --all --format json
  nexus-router approvals approve ID --reason 'Ada ordered it'
  nexus-router approvals list --db runs.db";

const HEAD: [&str; 9] =
    ["APPROVAL", "STATE", "CALL", "ADAPTER", "CALLER", "EXPIRES", "REASON", "GRANTS", "ARGUMENTS"];

/// At most so many are listed.
const LIMIT: usize = 1000;

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// List also those that are decided.
    #[arg(long)]
    all: bool,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let answer = match arguments.place.door(environment)? {
        Door::Daemon(daemon) => {
            let state = if arguments.all { "all" } else { "open" };
            let path = format!("{PATH}?state={state}&limit={LIMIT}");
            let (status, body) = daemon.get(&path, MAX_ANSWER)?;
            match (status, body.get("approvals"), body.get("code")) {
                (200, Some(Value::Array(_)), _) => body,
                (400.., _, Some(Value::String(code))) => {
                    return Err(refused(&daemon, (code, "read"), &body));
                }
                _ => return Err(daemon.stranger(PATH, status)),
            }
        }
        Door::Store(app) => {
            let open = (!arguments.all).then_some(true);
            let filter = ApprovalFilter { open, limit: LIMIT, ..ApprovalFilter::default() };
            let (approvals, total) = app.reader()?.approvals(&filter)?;
            let mut answer = Object::new();
            answer.insert("total", total);
            let approvals: Vec<Value> = approvals.iter().map(Approval::to_json).collect();
            answer.insert("approvals", approvals);
            answer.into()
        }
    };
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => output.value(&answer)?,
        Form::Human => human(&mut output, &answer)?,
    }
    Ok(Answer::Yes)
}

fn human(output: &mut Output, answer: &Value) -> std::io::Result<()> {
    let approvals = answer.get("approvals").and_then(Value::as_array).unwrap_or_default();
    if approvals.is_empty() {
        return output.line("nothing is waited for");
    }
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(approvals.iter().map(row));
    columns(&rows).iter().try_for_each(|line| output.line(line))
}

fn row(approval: &Value) -> Vec<String> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("-").to_owned();
    let of = |key: &str| text(approval.get(key));
    let call = |key: &str| approval.get("call").and_then(|call| call.get(key));
    let state = match approval.get("decided").and_then(|decided| decided.get("by")) {
        Some(Value::String(by)) => format!("{} by {by}", of("state")),
        _ => of("state"),
    };
    // Long cells are cut, but for this one: nobody is to grant what they do not see.
    let granted = approval.get("grants").and_then(Value::as_array).unwrap_or_default();
    let granted = if granted.is_empty() { "-".to_owned() } else { told_grants(granted) };
    let cells = [
        of("approval_id"),
        state,
        format!("{}.{}", text(call("tool")), text(call("method"))),
        of("adapter_id"),
        text(approval.get("caller").and_then(|caller| caller.get("name"))),
        of("expires_at"),
        of("reason"),
        call("args").map_or_else(|| "-".to_owned(), json::to_compact),
    ];
    let mut cells: Vec<String> = cells.iter().map(|cell| shortened(&visible(cell))).collect();
    cells.insert(cells.len() - 1, visible(&granted));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    #[test]
    fn a_row_says_what_is_asked_as_far_as_it_is_known() {
        let shown = |text: &str| row(&parse(text.as_bytes(), Limits::REQUEST).unwrap());
        let whole = r#"{"approval_id": "a", "state": "denied", "adapter_id": "shop", "reason": null,
            "call": {"tool": "orders", "method": "buy", "args": {"n": 1}}, "caller": {"name": "ci"},
            "expires_at": "2030", "decided": {"by": "ada"}}"#;
        let expected =
            ["a", "denied by ada", "orders.buy", "shop", "ci", "2030", "-", "-", r#"{"n":1}"#];
        assert_eq!(shown(whole), expected);
        let targets = (0..20).map(|it| format!("host-{it}:443")).collect::<Vec<_>>();
        let granting = serde_json::json!({ "grants": [{ "grant": "shell_exec" },
            { "grant": "network", "targets": targets }] });
        let cells = shown(&granting.to_string());
        let granted = &cells[HEAD.iter().position(|head| *head == "GRANTS").unwrap()];
        assert_eq!(*granted, format!("shell_exec; network to {}", targets.join(", ")));
        assert_eq!(shown("1"), ["-", "-", "-.-", "-", "-", "-", "-", "-", "-"]);
    }
}
