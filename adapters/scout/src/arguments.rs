//! Reads the arguments of calls: closed, typed and bounded.

use nexus_router_sdk::{AdapterError, Object, code};
use serde_json::Value;

/// Longer texts are not worked on.
pub(crate) const MAX_TEXT: usize = 1024 * 1024;

pub(crate) fn invalid(message: impl Into<String>) -> AdapterError {
    AdapterError::operational(code::INVALID_ARGUMENT, message)
}

/// Arguments that are read one by one; what is left at the end is unknown.
pub(crate) struct Arguments {
    args: Object,
    known: Vec<&'static str>,
}

impl Arguments {
    pub(crate) const fn new(args: Object) -> Self {
        Self { args, known: Vec::new() }
    }

    fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.args.remove(name).filter(|value| !value.is_null())
    }

    /// Returns a text, if it is there.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, AdapterError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= MAX_TEXT => Ok(Some(text)),
            Some(Value::String(text)) => {
                Err(invalid(format!("{name} has {} bytes; the limit is {MAX_TEXT}", text.len())))
            }
            Some(_) => Err(invalid(format!("{name} must be a text"))),
        }
    }

    /// Returns a text that must be there.
    pub(crate) fn needed(&mut self, name: &'static str) -> Result<String, AdapterError> {
        self.text(name)?.ok_or_else(|| invalid(format!("{name} is missing")))
    }

    /// Returns a whole number from 1 to `most`, or the default.
    pub(crate) fn count(
        &mut self,
        name: &'static str,
        default: usize,
        most: usize,
    ) -> Result<usize, AdapterError> {
        let Some(value) = self.take(name) else { return Ok(default) };
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        number
            .filter(|number| (1..=most).contains(number))
            .ok_or_else(|| invalid(format!("{name} must be a whole number from 1 to {most}")))
    }

    /// Returns an object, or an empty one.
    pub(crate) fn object(&mut self, name: &'static str) -> Result<Object, AdapterError> {
        match self.take(name) {
            None => Ok(Object::new()),
            Some(Value::Object(object)) => Ok(object),
            Some(_) => Err(invalid(format!("{name} must be an object"))),
        }
    }

    /// Returns a list that must be there.
    pub(crate) fn list(&mut self, name: &'static str) -> Result<Vec<Value>, AdapterError> {
        match self.take(name) {
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(invalid(format!("{name} must be a list"))),
            None => Err(invalid(format!("{name} is missing"))),
        }
    }

    /// Refuses what nobody asked for.
    pub(crate) fn end(self) -> Result<(), AdapterError> {
        match self.args.keys().next() {
            None => Ok(()),
            Some(unknown) => Err(invalid(format!(
                "there is no argument '{unknown}'; there are {}",
                self.known.join(", ")
            ))),
        }
    }
}
