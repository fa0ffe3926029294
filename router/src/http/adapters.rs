//! Adapters: list, show, health, release, validate, inspect.

use std::time::Instant;

use axum::response::Response;
use http::StatusCode;

use super::guard::Context;
use super::problem::Problem;
use super::reply;
use crate::access::Scope;
use crate::app::{UnreadyAdapter, add_confinement, moment, until};
use crate::json::{Object, Value};
use crate::loader::Adapter;
use crate::service::RetryResult;

/// Lists the adapters.
pub(super) async fn list(context: Context) -> Result<Response, Problem> {
    let mut request = Object::new();
    if let Some(capability) = context.query("capability") {
        request.insert("capability", capability);
    }
    context
        .blocking(move |context| {
            let mut listed = context.service.app().tool("nexus-router.adapters", request.into())?;
            if !context.bearer.may(Scope::Admin) {
                remove_messages(&mut listed);
            }
            Ok(reply::json(StatusCode::OK, &listed))
        })
        .await
}

/// Removes the messages of adapters that failed to load, which may hold paths.
fn remove_messages(listed: &mut Value) {
    let Value::Object(members) = listed else { return };
    let Some(Value::Array(adapters)) = members.get_mut("adapters") else { return };
    for adapter in adapters {
        if let Value::Object(members) = adapter {
            members.remove("message");
            members.remove("hint");
        }
    }
}

/// Returns an adapter that is not ready, if there is one of that id.
fn unready(context: &Context) -> Result<Option<UnreadyAdapter>, Problem> {
    let adapter_id = context.param("adapter_id");
    if context.service.router().registry().get(adapter_id).is_ok() {
        return Ok(None);
    }
    let unready = context.service.app().unready_adapters()?.into_iter();
    let mut named = unready.filter(|one| one.adapter_id == adapter_id);
    Ok(named.next())
}

/// Loads an adapter again that failed.
pub(super) async fn retry(context: Context) -> Result<Response, Problem> {
    context
        .blocking(|context| {
            let adapter_id = context.param("adapter_id").to_owned();
            let name = context.bearer.caller.name.as_str();
            let retried = context.service.retry_adapter(&adapter_id, name)?;
            let (status, state) = match retried {
                RetryResult::Begins => (StatusCode::ACCEPTED, "loading"),
                RetryResult::Loading => (StatusCode::OK, "loading"),
                RetryResult::Ready => (StatusCode::OK, "ready"),
                RetryResult::Unknown => {
                    find(context)?;
                    (StatusCode::OK, "ready")
                }
            };
            let mut object = Object::new();
            object.insert("adapter_id", adapter_id);
            object.insert("retried", retried == RetryResult::Begins);
            object.insert("state", state);
            Ok(reply::json(status, &object.into()))
        })
        .await
}

fn find(context: &Context) -> Result<Adapter, Problem> {
    let adapter_id = context.param("adapter_id");
    let registry = context.service.router().registry();
    if let Some(unavailable) = registry.unavailability(adapter_id) {
        return Err(Problem::unavailable(&unavailable));
    }
    registry.get(adapter_id).cloned().map_err(|error| {
        Problem::new(StatusCode::NOT_FOUND, error.code(), error.to_string()).hint(error.hint())
    })
}

/// Tells what is known of an adapter.
pub(super) async fn show(context: Context) -> Result<Response, Problem> {
    if let Some(unready) = unready(&context)? {
        let object = unready.to_json(context.bearer.may(Scope::Admin));
        return Ok(reply::json(StatusCode::OK, &object.into()));
    }
    let adapter = find(&context)?;
    let mut capabilities: Vec<&str> =
        adapter.capabilities().iter().map(|capability| capability.name()).collect();
    capabilities.sort_unstable();
    let tools = context.standing.tools.iter();
    let tools = tools.filter(|tool| tool.adapter_id == adapter.adapter_id());
    let mut object = Object::new();
    object.insert("adapter_id", adapter.adapter_id());
    object.insert("adapter_kind", adapter.adapter_kind());
    object.insert("factory_ref", adapter.factory_ref());
    object.insert("capabilities", capabilities.into_iter().map(Value::from).collect::<Vec<_>>());
    object.insert("library", adapter.digest().map(|digest| digest.to_string()));
    context.service.app().add_state(&mut object, &adapter);
    add_confinement(&mut object, &adapter);
    object.insert("tools", tools.map(|tool| tool.name.as_str().into()).collect::<Vec<Value>>());
    Ok(reply::json(StatusCode::OK, &object.into()))
}

/// Tells how an adapter does.
pub(super) async fn health(context: Context) -> Result<Response, Problem> {
    if let Some(unready) = unready(&context)? {
        let mut object = Object::new();
        object.insert("adapter_id", unready.adapter_id.as_str());
        object.insert("status", unready.state());
        return Ok(reply::json(StatusCode::OK, &object.into()));
    }
    let adapter = find(&context)?;
    let slots = context.service.router().slots(adapter.adapter_id());
    let mut object = Object::new();
    object.insert("adapter_id", adapter.adapter_id());
    let full = slots.is_some_and(|slots| slots.busy >= slots.calls);
    let workers = adapter.workers();
    // Calls to one that starts, or will when it is called, wait for it; to these they are refused.
    let refuses = workers.as_ref().map(|workers| workers.state);
    let refuses = refuses.filter(|state| ["quarantined", "waiting"].contains(state));
    object.insert("status", refuses.unwrap_or(if full { "busy" } else { "ok" }));
    let circuit = adapter.breaker().map(|breaker| breaker.status(Instant::now()));
    if let (None, Some(circuit)) = (refuses, circuit.filter(|circuit| circuit.left.is_some())) {
        object.insert("status", "circuit_open");
        object.insert("until", circuit.left.and_then(moment));
    }
    if let (Some(_), Some(workers)) = (refuses, &workers) {
        object.insert("until", until(workers));
    }
    if let Some(slots) = slots {
        object.insert("calls_in_flight", slots.busy);
        object.insert("calls_limit", slots.calls);
    }
    Ok(reply::json(StatusCode::OK, &object.into()))
}

/// Lets an adapter out of quarantine, and closes its circuit.
pub(super) async fn release(context: Context) -> Result<Response, Problem> {
    if let Some(failed) = unready(&context)?.filter(|unready| unready.failure.is_some()) {
        let mut object = failed.to_json(context.bearer.may(Scope::Admin));
        object.insert("released", false);
        return Ok(reply::json(StatusCode::OK, &object.into()));
    }
    let adapter = find(&context)?;
    let name = context.bearer.caller.name.as_str();
    let closed = context.service.router().reset_circuit(&adapter, Some(name));
    let released = adapter.release_by(Some(name)) || closed;
    let mut object = Object::new();
    object.insert("adapter_id", adapter.adapter_id());
    object.insert("released", released);
    context.service.app().add_state(&mut object, &adapter);
    Ok(reply::json(StatusCode::OK, &object.into()))
}

/// Validates an adapter library.
pub(super) async fn validate(context: Context) -> Result<Response, Problem> {
    examine(context, "nexus-router.validate_adapter").await
}

/// Validates an adapter library, and reports what is known of it.
pub(super) async fn inspect(context: Context) -> Result<Response, Problem> {
    examine(context, "nexus-router.inspect_adapter").await
}

async fn examine(mut context: Context, tool: &'static str) -> Result<Response, Problem> {
    let request = context.json().await?;
    context
        .blocking(move |context| {
            let report = context.service.own_tool_now(tool, request)?;
            Ok(reply::json(StatusCode::OK, &report))
        })
        .await
}
