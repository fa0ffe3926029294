//! Examples of an operation: read, checked against its schemas and each other, and compared with outputs.

use std::collections::BTreeMap;

use super::document::{Example, FaultExample, Operation};
use super::finding::below;
use super::reader::Reader;
use crate::conform::Schema;
use crate::json::{self, Object, Value};

impl Reader<'_> {
    /// Reads `examples`.
    pub(super) fn examples(&mut self, object: &Object, place: &str) -> Vec<Example> {
        let place = below(place, "examples");
        let listed = self.list(object, &place, "examples");
        let mut examples = Vec::new();
        for (index, example) in listed.iter().enumerate() {
            let place = below(&place, &index.to_string());
            examples.extend(self.example(example, &place, &["input", "output", "error"]));
        }
        examples
    }

    /// Reads `fault_examples`.
    pub(super) fn fault_examples(&mut self, object: &Object, place: &str) -> Vec<FaultExample> {
        let place = below(place, "fault_examples");
        let listed = self.list(object, &place, "fault_examples");
        let mut examples = Vec::new();
        for (index, value) in listed.iter().enumerate() {
            let place = below(&place, &index.to_string());
            let example = self.example(value, &place, &["when", "input", "output", "error"]);
            let when = value.as_object().map(|members| self.text(members, &place, "when"));
            let both = when.zip(example);
            examples.extend(both.map(|(when, example)| FaultExample { when, example }));
        }
        examples
    }

    fn example(&mut self, value: &Value, place: &str, members: &[&str]) -> Option<Example> {
        let object = value.as_object();
        let input = object.and_then(|object| object.get("input")).and_then(Value::as_object);
        let (Some(object), Some(input)) = (object, input) else {
            self.wrong(place, "must be an object with input, and output or error");
            return None;
        };
        self.only(object, place, members);
        let comes = match (object.get("output"), object.get("error").and_then(Value::as_str)) {
            (Some(output), None) => Ok(output.clone()),
            (None, Some(code)) => Err(code.to_owned()),
            _ => {
                self.wrong(place, "must have either output or error");
                return None;
            }
        };
        Some(Example { input: input.clone(), comes })
    }

    /// Checks examples against the schemas and the failure modes of their operation, and against each other.
    pub(super) fn check_examples(&mut self, operation: &Operation, place: &str) {
        let read = |schema: &Value| Schema::read(&schema.to_serde()).ok();
        let places = [below(place, "examples"), below(place, "fault_examples")];
        let plain = operation.examples.iter();
        let faults = operation.fault_examples.iter().map(|fault| &fault.example);
        let numbered = |of: &str, index: usize| below(of, &index.to_string());
        let all: Vec<(String, &Example)> = plain
            .enumerate()
            .map(|(index, it)| (numbered(&places[0], index), it))
            .chain(faults.enumerate().map(|(index, it)| (numbered(&places[1], index), it)))
            .collect();
        if all.is_empty() {
            return;
        }
        // The schema's own findings have their places already.
        let schemas = (read(&operation.input_schema), read(&operation.output_schema));
        if let (Some(input), Some(output)) = schemas {
            for (place, example) in &all {
                self.check_example(operation, &input, &output, example, place);
            }
        }
        self.refuse_contradictions(operation, &places[0]);
    }

    fn check_example(
        &mut self,
        operation: &Operation,
        input: &Schema,
        output: &Schema,
        example: &Example,
        place: &str,
    ) {
        if let Err(misfit) = input.check(&example.input.to_serde().into()) {
            self.wrong(&below(place, "input"), format!("does not fit input_schema: {misfit}"));
        }
        match &example.comes {
            Ok(value) => {
                if let Err(misfit) = output.check(&value.to_serde()) {
                    let message = format!("does not fit output_schema: {misfit}");
                    self.wrong(&below(place, "output"), message);
                }
            }
            Err(code) if operation.failure_modes.iter().all(|mode| mode.code != *code) => {
                let message = format!("{code} is none of the failure_modes");
                self.wrong(&below(place, "error"), message);
            }
            Err(_) => {}
        }
    }

    /// Refuses two examples with the same input and different outcomes: no adapter can pass both.
    fn refuse_contradictions(&mut self, operation: &Operation, place: &str) {
        let mut known: BTreeMap<String, (usize, Outcome)> = BTreeMap::new();
        for (index, example) in operation.examples.iter().enumerate() {
            // Numbers without a canonical form are findings of the whole document.
            let Ok(input) = json::to_jcs(&example.input.clone().into()) else { continue };
            let outcome = outcome(example, &operation.volatile);
            match known.get(&input) {
                Some((first, other)) if *other != outcome => {
                    let message = format!(
                        "has the input of example {first} and another outcome; give an outcome that the input does \
                         not decide as one of fault_examples, with when"
                    );
                    self.wrong(&below(&below(place, &index.to_string()), "input"), message);
                }
                Some(_) => {}
                None => {
                    known.insert(input, (index, outcome));
                }
            }
        }
    }
}

/// Canonical text of an output without its volatile parts, or an error code.
type Outcome = Result<Option<String>, String>;

fn outcome(example: &Example, volatile: &[String]) -> Outcome {
    let blank = |output: &Value| json::to_jcs(&with_blanks(output.clone(), volatile)).ok();
    example.comes.as_ref().map(blank).map_err(Clone::clone)
}

/// Compares an output with that of an example, except for the volatile parts.
///
/// The output may have members that the example does not show. Whether they are allowed is a matter of the schema.
///
/// # Errors
/// With both values, if the output differs.
pub fn compare_output(
    output: &Object,
    expected: &Value,
    volatile: &[String],
) -> Result<(), String> {
    let output = with_blanks(output.clone().into(), volatile);
    let expected = with_blanks(expected.clone(), volatile);
    if has_all_of(&output, &expected) {
        return Ok(());
    }
    let (output, expected) = (json::to_compact(&output), json::to_compact(&expected));
    Err(format!("the output is {output}, and not {expected}"))
}

/// Returns true if a value is `expected`, apart from members that `expected` does not have.
fn has_all_of(value: &Value, expected: &Value) -> bool {
    match (value, expected) {
        (Value::Object(value), Value::Object(expected)) => expected
            .iter()
            .all(|(name, member)| value.get(name).is_some_and(|own| has_all_of(own, member))),
        (Value::Array(value), Value::Array(expected)) => {
            value.len() == expected.len()
                && value.iter().zip(expected).all(|(own, item)| has_all_of(own, item))
        }
        // 1 and 1.0 are the same number.
        (value, expected) => match (json::to_jcs(value), json::to_jcs(expected)) {
            (Ok(value), Ok(expected)) => value == expected,
            _ => value == expected,
        },
    }
}

fn with_blanks(value: Value, volatile: &[String]) -> Value {
    volatile.iter().fold(value, |value, pointer| blanked(value, pointer))
}

/// Replaces the member that a pointer leads to by null, if it leads to one.
fn blanked(mut value: Value, pointer: &str) -> Value {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return value };
    let name = last.replace("~1", "/").replace("~0", "~");
    let mut at = Some(&mut value);
    for token in parent.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        at = match at {
            Some(Value::Object(object)) => object.get_mut(&token),
            Some(Value::Array(items)) => {
                token.parse::<usize>().ok().and_then(|index| items.get_mut(index))
            }
            _ => None,
        };
    }
    if let Some(Value::Object(object)) = at
        && object.contains_key(&name)
    {
        object.insert(name, Value::Null);
    }
    value
}

#[cfg(test)]
mod tests;
