//! Adapters that exercise what ABI v1 must carry: progress, cancellation, many calls, a streamed log.
#![forbid(unsafe_code)]

mod asker;
mod fake;
mod many_calls;
mod passive;
mod replays;

use std::time::Duration;

use nexus_router_sdk::{
    Adapter, AdapterError, CallContext, Capability, Completion, Level, Manifest, Object, code,
    export_adapter, wait,
};
use serde_json::Value;

use crate::asker::Asker;
use crate::fake::Fake;
use crate::many_calls::ManyCalls;
use crate::passive::Noticing;
use crate::replays::Replays;

const CAPABILITIES: &[Capability] = &[Capability::Apply];

/// Longer than any test waits: only a cancellation or a deadline ends such a call.
const FOREVER: Duration = Duration::from_secs(600);

type Answer = Result<Object, AdapterError>;

/// An adapter that is its kind and two functions.
struct Probe {
    adapter_id: String,
    kind: &'static str,
    call: fn(&CallContext, Object) -> Answer,
    start: Option<fn(CallContext, Object, Completion)>,
}

impl Adapter for Probe {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        self.kind
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn call(&self, context: &CallContext, _: &str, _: &str, args: Object) -> Answer {
        (self.call)(context, args)
    }

    fn start(&self, context: CallContext, _: String, _: String, args: Object, done: Completion) {
        match self.start {
            Some(start) => start(context, args, done),
            None => done.complete((self.call)(&context, args)),
        }
    }
}

fn probe(
    adapter_id: Option<&str>,
    kind: &'static str,
    call: fn(&CallContext, Object) -> Answer,
) -> Probe {
    Probe { adapter_id: adapter_id.unwrap_or(kind).to_owned(), kind, call, start: None }
}

fn count(args: &Object) -> Result<u32, AdapterError> {
    let count = args.get("count").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    count.ok_or_else(|| AdapterError::operational(code::INVALID_ARGUMENT, "args.count is missing"))
}

/// Reports progress `count` times, then answers.
fn progress(adapter_id: Option<&str>, _: Object) -> Result<Probe, AdapterError> {
    Ok(probe(adapter_id, "progress", |context, args| {
        let total = count(&args)?;
        for done in 1..=total {
            context.check()?;
            context.progress(done.into(), Some(total.into()), "working");
        }
        Ok(args)
    }))
}

/// Says that it has begun, then waits until it is cancelled or its deadline passes.
fn cancellable(adapter_id: Option<&str>, _: Object) -> Result<Probe, AdapterError> {
    Ok(probe(adapter_id, "cancellable", |context, _| {
        context.progress(0.0, None, "waiting");
        context.sleep(FOREVER)?;
        Err(AdapterError::bug("nobody ended the call"))
    }))
}

/// Sends `count` lines to the log and as many to the output, in turn.
fn streamed_log(adapter_id: Option<&str>, _: Object) -> Result<Probe, AdapterError> {
    Ok(probe(adapter_id, "streamed_log", |context, args| {
        for line in 1..=count(&args)? {
            context.log(Level::Info, &format!("line {line}"));
            context.output(&format!("text {line}\n"));
        }
        Ok(args)
    }))
}

/// Panics in a call that asks for it, and answers others.
fn panics_in_start(adapter_id: Option<&str>, _: Object) -> Result<Probe, AdapterError> {
    fn answer(args: Object) -> Answer {
        assert!(!args.contains_key("panic"), "as was asked for");
        Ok(args)
    }
    let start = |_, args, done: Completion| done.complete(answer(args));
    let probe = probe(adapter_id, "panics_in_start", |_, args| answer(args));
    Ok(Probe { start: Some(start), ..probe })
}

/// Forgets every call that it is given.
fn drops_completion(adapter_id: Option<&str>, _: Object) -> Result<Probe, AdapterError> {
    let probe = probe(adapter_id, "drops_completion", |context, _| wait(context, drop));
    Ok(Probe { start: Some(|_, _, done| drop(done)), ..probe })
}

/// Holds any number of calls with one thread.
fn many_calls(adapter_id: Option<&str>, _: Object) -> Result<ManyCalls, AdapterError> {
    Ok(ManyCalls::new(adapter_id.unwrap_or(many_calls::KIND)))
}

/// Asks its host whatever it is told to ask.
fn asker(adapter_id: Option<&str>, _: Object) -> Result<Asker, AdapterError> {
    Ok(Asker::new(adapter_id))
}

/// Does what its configuration says.
#[expect(clippy::needless_pass_by_value, reason = "a factory takes its configuration")]
fn fake(adapter_id: Option<&str>, config: Object) -> Result<Fake, AdapterError> {
    Fake::new(adapter_id, &config)
}

const fn manifest(kind: &'static str) -> Manifest {
    Manifest::new(kind, CAPABILITIES).router_versions(">=1.2,<2").config(&[])
}

export_adapter!(progress, manifest("progress"));
export_adapter!(cancellable, manifest("cancellable"));
export_adapter!(streamed_log, manifest("streamed_log"));
export_adapter!(panics_in_start, manifest("panics_in_start"));
export_adapter!(drops_completion, manifest("drops_completion"));
export_adapter!(many_calls, manifest(many_calls::KIND));
export_adapter!(asker, manifest(asker::KIND));
export_adapter!(fake);

/// Answers as the examples of a contract say.
#[expect(clippy::needless_pass_by_value, reason = "a factory takes its configuration")]
fn replays(adapter_id: Option<&str>, config: Object) -> Result<Replays, AdapterError> {
    Replays::new(adapter_id, &config)
}

export_adapter!(replays);

/// The same, and it can be granted something.
fn outgoing(adapter_id: Option<&str>, mut config: Object) -> Result<Fake, AdapterError> {
    config.insert("capabilities".to_owned(), Value::from(vec!["apply", "external"]));
    Fake::new(adapter_id, &config)
}

export_adapter!(
    outgoing,
    Manifest::new(fake::KIND, &[Capability::Apply, Capability::External])
        .router_versions(">=1.2,<2")
);

/// Gives back what it is given, and what it noticed on the way.
#[expect(clippy::needless_pass_by_value, reason = "a factory takes its configuration")]
fn noticing(adapter_id: Option<&str>, config: Object) -> Result<Noticing, AdapterError> {
    Ok(Noticing::new(adapter_id, &config))
}

export_adapter!(noticing, passive::MANIFEST);

/// Answers a text of `bytes` bytes.
fn sized(adapter_id: Option<&str>, _: Object) -> Result<Probe, AdapterError> {
    Ok(probe(adapter_id, "sized", |_, args| {
        let bytes = args.get("bytes").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let text = "x".repeat(bytes.unwrap_or_default());
        Ok(Object::from_iter([("text".to_owned(), Value::from(text))]))
    }))
}

export_adapter!(sized, manifest("sized"));
