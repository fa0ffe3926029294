//! Whether an adapter that declares itself passive is: its examples, rendered in two processes that differ.

use nexus_router_sdk::{Capability, Passive};
use serde_json::Value;

use super::table::{Candidate, Outcome};
use crate::loader::wire::Observations;
use crate::loader::{AdapterLoadError, Call, Loader, Opened, Rehearsed, description};
use crate::python_text::visible;

/// The id of the check.
pub(super) const ID: &str = "PASSIVE_PURE";

/// More examples are not tried: each takes two processes.
const MAX_EXAMPLES: usize = 8;

/// What became of the examples of an adapter.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    declared: Result<Passive, String>,
    answers: Vec<[Rehearsed; 2]>,
}

/// Tries the examples of an adapter that declares itself passive.
pub(super) fn rehearse(
    loader: &Loader,
    opened: &Opened,
    observations: &Observations,
) -> Result<Option<Rehearsal>, AdapterLoadError> {
    let description = description::read_object(&observations.description).unwrap_or_default();
    let Some(declared) = description.get("passive") else { return Ok(None) };
    let declared = match serde_json::from_value::<Passive>(declared.clone()) {
        Err(error) => Err(format!("the declaration cannot be read: {error}")),
        Ok(passive) if passive.examples.len() > MAX_EXAMPLES => {
            let count = passive.examples.len();
            Err(format!("the declaration has {count} examples; at most {MAX_EXAMPLES} are tried"))
        }
        Ok(passive) => Ok(passive),
    };
    let answers = match &declared {
        Err(_) => Vec::new(),
        Ok(passive) => {
            let calls: Vec<Call<'_>> = passive
                .examples
                .iter()
                .map(|args| Call::new(&passive.tool, &passive.method, args))
                .collect();
            loader.rehearse(opened, &calls)?
        }
    };
    Ok(Some(Rehearsal { declared, answers }))
}

/// The check.
pub(super) fn passive_pure(candidate: &Candidate<'_>) -> Outcome {
    let Some(rehearsal) = &candidate.rehearsal else {
        return Outcome::Skip("Skipped: the adapter does not declare itself passive".to_owned());
    };
    if let Err(problem) = &rehearsal.declared {
        return Outcome::Fail(visible(problem));
    }
    let external = Capability::External.name();
    if candidate.capabilities().is_some_and(|names| names.iter().any(|name| name == external)) {
        return Outcome::Fail(
            "it declares itself passive and external; it cannot be both".to_owned(),
        );
    }
    for (index, [one, other]) in rehearsal.answers.iter().enumerate() {
        if one != other {
            let show = |text: &Rehearsed| match text {
                Ok(text) | Err(text) => candidate.opened.scrub(&first_difference(one, other, text)),
            };
            return Outcome::Fail(format!(
                "example {index} has two answers in two processes: {} and {}",
                show(one),
                show(other)
            ));
        }
    }
    let rendered = rehearsal.answers.iter().filter(|[one, _]| one.is_ok()).count();
    let refused = rehearsal.answers.len() - rendered;
    let told =
        format!("{rendered} examples rendered and {refused} refused, alike in two processes");
    if rendered == 0 {
        Outcome::Warn(format!("{told}: none rendered"))
    } else {
        Outcome::Pass(told)
    }
}

/// Shows a text around the place where two answers part.
fn first_difference(one: &Rehearsed, other: &Rehearsed, shown: &str) -> String {
    let text = |answer: &Rehearsed| match answer {
        Ok(text) | Err(text) => text.clone(),
    };
    let (one, other) = (text(one), text(other));
    let alike = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let around: String = shown.chars().skip(alike.saturating_sub(20)).take(60).collect();
    format!("…{}…", visible(&around))
}

/// Returns what a passive adapter declares, as lines for people: a path and a value each.
pub(crate) fn declared_lines(declares: &Value) -> Vec<(String, String)> {
    const MOST: usize = 200;
    let mut lines = Vec::new();
    walk(declares, &mut String::new(), &mut lines);
    lines.truncate(MOST);
    lines
}

fn walk(value: &Value, path: &mut String, lines: &mut Vec<(String, String)>) {
    let length = path.len();
    let is_flat = |items: &[Value]| !items.iter().any(|item| item.is_object() || item.is_array());
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                walk(member, path, lines);
                path.truncate(length);
            }
        }
        Value::Array(items) if !is_flat(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                walk(item, path, lines);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            lines.push((path.clone(), items.join(", ")));
        }
        other => lines.push((path.clone(), plain(other))),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
