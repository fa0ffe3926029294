//! Compact text of an outcome, written without copies of its plan and outputs.

use super::{Outcome, StepResult, result_frame};
use crate::json::{self, Object};

impl Outcome {
    /// Writes the response of [`to_json`](Self::to_json) as compact text.
    pub(crate) fn write_compact(&self, out: &mut String) {
        out.push('{');
        for (index, (name, value)) in self.frame().iter().enumerate() {
            separate(out, index);
            json::write_compact(out, &name.into());
            out.push(':');
            match name {
                "plan" => write_list(out, &self.plan, json::write_compact_object),
                "results" => write_list(out, &self.results, write_result),
                _ => json::write_compact(out, value),
            }
        }
        out.push('}');
    }
}

fn write_result(out: &mut String, result: &StepResult) {
    let (before, after) = result_parts(result);
    out.push_str(&before);
    json::write_compact_object(out, result.for_caller());
    out.push_str(&after);
}

/// Returns the texts of a result before and after its output.
pub(super) fn result_parts(result: &StepResult) -> (String, String) {
    let mut parts = split(&result_frame(result), &["output"]);
    let after = parts.pop().unwrap_or_default();
    (parts.pop().unwrap_or_default(), after)
}

/// Returns the compact text of an object, split at the values of some members, which are left out.
pub(super) fn split(object: &Object, gaps: &[&str]) -> Vec<String> {
    let (mut parts, mut out) = (Vec::with_capacity(gaps.len() + 1), String::from("{"));
    for (index, (name, value)) in object.iter().enumerate() {
        separate(&mut out, index);
        json::write_compact(&mut out, &name.into());
        out.push(':');
        if gaps.contains(&name) {
            parts.push(std::mem::take(&mut out));
        } else {
            json::write_compact(&mut out, value);
        }
    }
    out.push('}');
    parts.push(out);
    parts
}

fn write_list<T>(out: &mut String, items: &[T], write: fn(&mut String, &T)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        separate(out, index);
        write(out, item);
    }
    out.push(']');
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push(',');
    }
}
