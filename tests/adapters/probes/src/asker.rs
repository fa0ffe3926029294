//! An adapter that asks its host whatever it is told to ask, well or badly, and answers as a scout.

use std::sync::Mutex;
use std::sync::PoisonError;

use nexus_router_sdk::{Adapter, AdapterError, CallContext, Capability, Object};
use serde_json::{Value, json};

use crate::{Answer, CAPABILITIES};

pub(crate) const KIND: &str = "asker";

/// The adapter. What threads of it were told after their calls were over is kept for the next call.
pub(crate) struct Asker {
    adapter_id: String,
    late: &'static Mutex<Vec<Value>>,
}

impl Asker {
    pub(crate) fn new(adapter_id: Option<&str>) -> Self {
        let late = Box::leak(Box::default());
        Self { adapter_id: adapter_id.unwrap_or(KIND).to_owned(), late }
    }
}

impl Adapter for Asker {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        KIND
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    /// Asks each of `asks` as often as `times` says: one after the other, all `at_once`, `outside` of the call, or
    /// `after` it is over; `left` ones are under way when the call ends.
    fn call(&self, context: &CallContext, tool: &str, _: &str, args: Object) -> Answer {
        let asks = args.get("asks").and_then(Value::as_array).cloned().unwrap_or_default();
        let times = args.get("times").and_then(Value::as_u64).unwrap_or(1);
        // One that is written as a text is what stands in it: nobody on the way reads it as something else.
        let read = |ask: Value| match ask.as_str() {
            Some(text) => serde_json::from_str(text).unwrap_or_default(),
            None => ask,
        };
        let asks: Vec<Value> = (0..times).flat_map(|_| asks.clone()).map(read).collect();
        let how = args.get("how").and_then(Value::as_str).unwrap_or_default();
        let ask = |request: Value| told(context.ask(request));
        let answers: Vec<Value> = match how {
            "at_once" => std::thread::scope(|scope| {
                let threads: Vec<_> =
                    asks.into_iter().map(|request| scope.spawn(move || ask(request))).collect();
                let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
                joined.map(|answer| answer.unwrap_or_default()).collect()
            }),
            "outside" => asks.iter().map(|request| told(context.host().ask(request))).collect(),
            "after" | "left" => {
                for request in asks {
                    let (late, context) = (self.late, context.clone());
                    let waits = how == "after";
                    drop(std::thread::spawn(move || {
                        if waits {
                            std::thread::sleep(std::time::Duration::from_millis(200));
                        }
                        let answer = told(context.ask(request));
                        late.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
                    }));
                }
                if how == "left" {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                Vec::new()
            }
            "late" => {
                std::mem::take(&mut *self.late.lock().unwrap_or_else(PoisonError::into_inner))
            }
            _ => asks.into_iter().map(ask).collect(),
        };
        let output = json!({
            "adapter_role": "scout",
            "adapter_version": "1.0.0",
            "action_class": tool,
            "ok": true,
            "result": { "answers": answers },
            "sources": [],
            "errors": [],
        });
        Ok(output.as_object().cloned().unwrap_or_default())
    }
}

fn told(answer: Result<Value, AdapterError>) -> Value {
    match answer {
        Ok(answer) => json!({ "told": answer }),
        Err(error) => json!({ "error": error.code, "message": error.message }),
    }
}
