//! Asks an adapter for its catalogue, within a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use nexus_router_sdk::{AdapterError, Catalog, Object, code};
use serde_json::Value;

use super::adapter::{Adapter, Call};

/// Longer catalogues are refused: every caller is told all of it.
const MAX_ENTRIES: usize = 10_000;

impl Adapter {
    /// Asks for the catalogue, and waits no longer than `time`. An adapter without one has an empty one.
    ///
    /// # Errors
    /// When there is no answer, or none that is a catalogue.
    pub fn catalog(&self, time: Duration) -> Result<Catalog, AdapterError> {
        if !self.has_catalog() {
            return Ok(Catalog::default());
        }
        let (answer, answered) = mpsc::sync_channel(1);
        let adapter = self.clone();
        // One that was given up may still be out there.
        let number = ASKED.fetch_add(1, Ordering::Relaxed);
        let call_id = format!("nexus-router/catalog/{number}");
        let asked = call_id.clone();
        // An adapter that runs here may keep the thread for as long as it likes.
        let ask = move || {
            let (tool, method) = Catalog::CALL;
            let nothing = Object::new();
            let call = Call {
                call_id: Some(&asked),
                time: Some(time),
                ..Call::new(tool, method, &nothing)
            };
            adapter.start(&call, move |result| drop(answer.send(result)));
        };
        let thread = std::thread::Builder::new().name("catalogue".to_owned()).spawn(ask);
        thread.map_err(|error| AdapterError::bug(format!("there is no thread: {error}")))?;
        let output = answered.recv_timeout(time).unwrap_or_else(|_| {
            self.cancel(&call_id);
            let message = format!("no catalogue after {} milliseconds", time.as_millis());
            Err(AdapterError::operational(code::TIMEOUT, message))
        })?;
        read(output)
    }
}

/// How often anybody was asked; each question has a name of its own.
static ASKED: AtomicU64 = AtomicU64::new(0);

fn read(output: Object) -> Result<Catalog, AdapterError> {
    let catalog: Catalog = serde_json::from_value(Value::Object(output))
        .map_err(|error| AdapterError::bug(format!("the catalogue is not one: {error}")))?;
    let Catalog { tools, resources, resource_templates, prompts, .. } = &catalog;
    let entries = tools.len() + resources.len() + resource_templates.len() + prompts.len();
    if entries > MAX_ENTRIES {
        let message = format!("the catalogue has {entries} entries; the limit is {MAX_ENTRIES}");
        return Err(AdapterError::operational(code::OUTPUT_TOO_LARGE, message));
    }
    Ok(catalog)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_catalogue_of_sensible_size_is_taken() {
        let catalog = |value: Value| read(value.as_object().cloned().unwrap());
        let tool = json!({"tool": "t", "method": "m", "definition": {"name": "n"}, "later": 1});
        let read = catalog(json!({ "tools": [tool] })).unwrap();
        assert_eq!(read.tools[0].name(), "n");
        assert!(catalog(json!({ "tools": [{ "tool": "t" }] })).is_err());
        let many = vec![json!({}); MAX_ENTRIES + 1];
        assert_eq!(catalog(json!({ "prompts": many })).unwrap_err().code, code::OUTPUT_TOO_LARGE);
    }
}
