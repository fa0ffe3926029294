//! Reads a payload whatever its state.

use std::borrow::Cow;

use super::scan::Members;
use crate::event::{Fact, Kind, Planned, PlannedStep, Requested, Started, ToolCallRetry};

/// In which state a payload was found.
#[derive(Debug)]
pub(crate) enum Reading<'a> {
    /// It says what it should in JSON.
    Sound {
        /// The text of its member of that name.
        output: Option<&'a str>,
    },
    /// It holds numbers that are not finite, which JSON cannot and the Python router does write.
    NotFinite(serde_json::Error),
    /// It is no JSON object, or one whose members have other types.
    Damaged(serde_json::Error),
}

/// Reads what a payload says. A damaged one says nothing but its kind.
pub(crate) fn read<'a, T>(
    kind: Kind,
    payload: &'a str,
    take: impl FnOnce(&Fact<'_>, Reading<'a>) -> T,
) -> T {
    if let Some((fact, output)) = quick(kind, payload) {
        return take(&fact, Reading::Sound { output });
    }
    let error = match Fact::read(kind, payload) {
        Ok(fact) => {
            let output = Members::of(payload).find("output");
            return take(&fact, Reading::Sound { output });
        }
        Err(error) => error,
    };
    if let Some(finite) = finite(payload)
        && let Ok(fact) = Fact::read(kind, &finite)
    {
        return take(&fact, Reading::NotFinite(error));
    }
    take(&silent(kind), Reading::Damaged(error))
}

/// Reads a payload of the plain form that nearly all have: the same as [`Fact::read`], or nothing; and the
/// text of its output.
///
/// It takes two thirds of the time, and gives the output for nothing.
fn quick(kind: Kind, payload: &str) -> Option<(Fact<'_>, Option<&str>)> {
    Some(match kind {
        // There is one in a log, or a few.
        Kind::RunStarted
        | Kind::ApprovalRequested
        | Kind::ApprovalDecided
        | Kind::ToolCallRetried => return None,
        // What matters of it stands deeper than this looks.
        Kind::SignalsEvaluated => return None,
        Kind::PlanCreated => (Fact::PlanCreated(quick_plan(payload)?), None),
        Kind::ToolCallRequested => (Fact::ToolCallRequested(quick_request(payload)?), None),
        Kind::DispatchSelected
        | Kind::StepStarted
        | Kind::ToolCallSucceeded
        | Kind::ToolCallFailed
        | Kind::StepCompleted
        | Kind::ProvenanceEmitted
        | Kind::RunCompleted
        | Kind::RunFailed => {
            let names = ["step_id", "status", "adapter_id", "outcome", "reason", "output"];
            let mut members = Members::of(payload);
            let [step_id, status, adapter_id, outcome, reason, output] = pick(&mut members, names)?;
            if !members.is_over() {
                return None;
            }
            let (step_id, status) = (plain(step_id)?, plain(status)?);
            let (adapter_id, outcome, reason) =
                (plain(adapter_id)?, plain(outcome)?, plain(reason)?);
            let fact = match kind {
                Kind::DispatchSelected => Fact::DispatchSelected { adapter_id },
                Kind::StepStarted => Fact::StepStarted { step_id },
                Kind::ToolCallSucceeded => Fact::ToolCallSucceeded { step_id },
                Kind::ToolCallFailed => Fact::ToolCallFailed { step_id },
                Kind::StepCompleted => Fact::StepCompleted { step_id, status },
                Kind::RunCompleted => Fact::RunCompleted { outcome },
                Kind::RunFailed => Fact::RunFailed { reason },
                _ => Fact::ProvenanceEmitted,
            };
            (fact, output)
        }
    })
}

fn quick_plan(payload: &str) -> Option<Planned<'_>> {
    let mut members = Members::of(payload);
    let mut steps = None;
    while let Some(name) = members.name()? {
        if name == "plan" {
            let mut found = Vec::new();
            members.items(|step| {
                let [step_id] = pick(step, ["step_id"])?;
                found.push(PlannedStep { step_id: plain(step_id)? });
                Some(())
            })?;
            if steps.replace(found).is_some() {
                return None;
            }
        } else {
            members.value()?;
            if name.contains('\\') {
                return None;
            }
        }
    }
    members.is_over().then(|| Planned { steps: steps.unwrap_or_default() })
}

fn quick_request(payload: &str) -> Option<Requested<'_>> {
    let mut members = Members::of(payload);
    let (mut step_id, mut method, mut attempt) = (None, None, None);
    while let Some(name) = members.name()? {
        let again = match name {
            "step_id" => step_id.replace(plain(Some(members.value()?))?).is_some(),
            "call" => {
                let [called] = members.inner(|call| pick(call, ["method"]))?;
                method.replace(plain(called)?).is_some()
            }
            "attempt" => attempt.replace(members.value()?.parse().ok()?).is_some(),
            _ => {
                members.value()?;
                name.contains('\\')
            }
        };
        if again {
            return None;
        }
    }
    let (step_id, method) = (step_id.flatten(), method.flatten());
    members.is_over().then_some(Requested { step_id, method, attempt: attempt.unwrap_or(1) })
}

/// Returns the texts of some members' values, unless the text is odd.
fn pick<'a, const N: usize>(
    members: &mut Members<'a>,
    names: [&str; N],
) -> Option<[Option<&'a str>; N]> {
    let mut picked = [None; N];
    while let Some(name) = members.name()? {
        let value = members.value()?;
        if let Some(at) = names.iter().position(|wanted| *wanted == name) {
            if picked[at].replace(value).is_some() {
                return None;
            }
        } else if name.contains('\\') {
            return None;
        }
    }
    Some(picked)
}

/// Returns a text without escapes, or that there is none; nothing at all for other values.
fn plain(value: Option<&str>) -> Option<Option<Cow<'_, str>>> {
    match value {
        None | Some("null") => Some(None),
        Some(value) => {
            let text = value.strip_prefix('"')?.strip_suffix('"')?;
            (!text.contains('\\')).then_some(Some(Cow::Borrowed(text)))
        }
    }
}

/// Returns the text with `null` in place of the numbers that are not finite, if it has any.
fn finite(payload: &str) -> Option<String> {
    const WORDS: [&str; 3] = ["NaN", "-Infinity", "Infinity"];
    let mut out = String::with_capacity(payload.len());
    let mut found = false;
    let mut rest = payload;
    while let Some(at) = rest.find(['"', 'N', '-', 'I']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = if let Some(word) = WORDS.iter().find(|word| rest.starts_with(**word)) {
            found = true;
            out.push_str("null");
            word.len()
        } else {
            let taken = if rest.starts_with('"') { string_length(rest) } else { 1 };
            out.push_str(&rest[..taken]);
            taken
        };
        rest = &rest[taken..];
    }
    out.push_str(rest);
    found.then_some(out)
}

/// Returns the length of the string with which a text begins, quotes included.
fn string_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            // What is escaped is ASCII in JSON; anything else ends the text here or in its middle.
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

const fn silent(kind: Kind) -> Fact<'static> {
    match kind {
        Kind::RunStarted => Fact::RunStarted(Started {
            mode: None,
            goal: None,
            router_version: None,
            continues_on_error: false,
        }),
        Kind::PlanCreated => Fact::PlanCreated(Planned { steps: Vec::new() }),
        Kind::DispatchSelected => Fact::DispatchSelected { adapter_id: None },
        Kind::StepStarted => Fact::StepStarted { step_id: None },
        Kind::ApprovalRequested => Fact::ApprovalRequested { step_id: None, approval_id: None },
        Kind::ApprovalDecided => {
            Fact::ApprovalDecided { step_id: None, approval_id: None, decision: None }
        }
        Kind::ToolCallRequested => {
            Fact::ToolCallRequested(Requested { step_id: None, method: None, attempt: 1 })
        }
        Kind::ToolCallRetried => Fact::ToolCallRetried(ToolCallRetry { step_id: None, attempt: 0 }),
        Kind::ToolCallSucceeded => Fact::ToolCallSucceeded { step_id: None },
        Kind::ToolCallFailed => Fact::ToolCallFailed { step_id: None },
        Kind::SignalsEvaluated => Fact::SignalsEvaluated { step_id: None, action: None },
        Kind::StepCompleted => Fact::StepCompleted { step_id: None, status: None },
        Kind::ProvenanceEmitted => Fact::ProvenanceEmitted,
        Kind::RunCompleted => Fact::RunCompleted { outcome: None },
        Kind::RunFailed => Fact::RunFailed { reason: None },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn state(payload: &str) -> &'static str {
        read(Kind::StepStarted, payload, |_, reading| match reading {
            Reading::Sound { .. } => "sound",
            Reading::NotFinite(_) => "not finite",
            Reading::Damaged(_) => "damaged",
        })
    }

    #[test]
    fn payloads_are_read_whatever_their_state() {
        for (payload, expected) in [
            (r#"{"step_id":"a"}"#, "sound"),
            (r#"{"step_id":"NaN","x":[1,{"y":null}]}"#, "sound"),
            (r#"{"step_id":"a","x":NaN}"#, "not finite"),
            (r#"{"step_id":"\"NaN","x":[-Infinity,Infinity,-1]}"#, "not finite"),
            (r#"{"step_id":NaNa}"#, "damaged"),
            (r#"{"step_id":"#, "damaged"),
            (r#"{"step_id":5}"#, "damaged"),
            (r#"["a"]"#, "damaged"),
            ("\"\\", "damaged"),
            ("\"\\é", "damaged"),
            ("NaN", "damaged"),
            ("", "damaged"),
        ] {
            assert_eq!(state(payload), expected, "{payload}");
        }
    }

    #[test]
    fn numbers_that_are_not_finite_do_not_hide_the_rest() {
        let payload = r#"{"call":{"args":{"x":NaN},"method":"m"},"step_id":"a"}"#;
        read(Kind::ToolCallRequested, payload, |fact, _| {
            let Fact::ToolCallRequested(requested) = fact else { panic!("{fact:?}") };
            assert_eq!(requested.step_id.as_deref(), Some("a"));
            assert_eq!(requested.method.as_deref(), Some("m"));
        });
    }

    proptest! {
        #[test]
        fn the_quick_way_reads_the_same(
            kind in proptest::sample::select(&Kind::ALL[..]),
            names in proptest::collection::vec(proptest::sample::select(&[
                "step_id", "status", "adapter_id", "outcome", "reason", "call", "attempt", "plan", "x",
            ][..]), 0..5),
            values in proptest::collection::vec(proptest::sample::select(&[
                "null", "\"a\"", "\"\\u0061\"", "\"\"", "1", "-1", "2.0", "{}", "{\"method\":\"m\"}",
                "{\"method\":1}", "[]", "tru", "\"\\ud800\"", "18446744073709551616", "01",
                "[{\"step_id\":\"a\",\"x\":[1]},{}]", "[{\"step_id\":1}]", "[[]]", "[{},]",
            ][..]), 5),
        ) {
            let members = names.iter().zip(values).map(|(name, value)| format!("\"{name}\":{value}"));
            let payload = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
            if let Some((fact, _)) = quick(kind, &payload) {
                prop_assert_eq!(Fact::read(kind, &payload).ok(), Some(fact), "{}", payload);
            }
        }
    }
}
