//! The daemon itself: health, metrics, log, audit, reload, and what codes mean.

use std::time::Duration;

use axum::response::Response;
use http::StatusCode;

use super::guard::Context;
use super::problem::Problem;
use super::runs::number;
use super::{openapi, reply};
use crate::access::{Bearer, Scope};
use crate::app::{AdapterCounts, add_disabled};
use crate::code;
use crate::json::{Object, Value};
use crate::metrics::CONTENT_TYPE;
use crate::service::LoadPhase;
use crate::store::{Displacement, Rescue};

/// The remedy while adapters are being loaded.
const LOADING_HINT: &str =
    "ask again later: every adapter is ready or failed within workers.load_timeout_ms";

/// Says that the process answers.
pub(super) async fn healthz(_: Context) -> Result<Response, Problem> {
    let mut answer = Object::new();
    answer.insert("status", "ok");
    Ok(reply::json(StatusCode::OK, &answer.into()))
}

/// Says whether runs should be sent here, and how many adapters there are in each state.
pub(super) async fn readyz(context: Context) -> Result<Response, Problem> {
    let counts = counts(context.service.app().adapter_counts());
    match context.service.unready() {
        None => {
            let mut answer = Object::new();
            answer.insert("status", "ready");
            answer.insert("adapters", counts);
            Ok(reply::json(StatusCode::OK, &answer.into()))
        }
        Some("draining") => Err(Problem::draining()),
        Some(why) => {
            let problem = not_ready(why).with("adapters", counts);
            Err(match context.service.load_phase() {
                LoadPhase::Loading => problem.hint(LOADING_HINT),
                LoadPhase::Over | LoadPhase::Broken => problem,
            })
        }
    }
}

fn counts(counts: AdapterCounts) -> Object {
    let AdapterCounts { loading, ready, failed } = counts;
    let mut object = Object::new();
    object.insert("loading", loading);
    object.insert("ready", ready);
    object.insert("failed", failed);
    object
}

fn not_ready(why: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "NOT_READY", why)
        .retry_after(Duration::from_secs(1))
}

/// Returns the OpenAPI document.
pub(super) async fn description(_: Context) -> Result<Response, Problem> {
    Ok(reply::json(StatusCode::OK, &openapi::document()))
}

/// Returns the metrics.
pub(super) async fn metrics(context: Context) -> Result<Response, Problem> {
    context
        .blocking(|context| {
            let text = context.service.metrics().render(&context.service.gauges());
            Ok(reply::text(StatusCode::OK, CONTENT_TYPE, text))
        })
        .await
}

/// Tells what the daemon is and does.
pub(super) async fn status(context: Context) -> Result<Response, Problem> {
    context
        .blocking(|context| {
            let (service, gauges) = (&context.service, context.service.gauges());
            let mut answer = Object::new();
            answer.insert("version", gauges.version);
            answer.insert("status", service.unready().unwrap_or("ready"));
            answer.insert("uptime_s", service.uptime().as_secs());
            answer.insert("runs_in_flight", gauges.runs_in_flight);
            answer.insert("runs_limit", gauges.runs_limit);
            answer.insert("approvals_open", gauges.approvals_open);
            answer.insert("connections", gauges.connections);
            answer.insert("streams", gauges.streams);
            answer.insert("adapters", gauges.adapters);
            answer.insert("adapter_states", counts(service.app().adapter_counts()));
            let detailed = context.bearer.may(Scope::Admin);
            let failed = service.app().unready_adapters()?.into_iter();
            let failed = failed.filter(|one| one.failure.is_some() && !one.needs_config());
            let failed: Vec<Value> = failed.map(|one| one.to_json(detailed).into()).collect();
            if !failed.is_empty() {
                answer.insert("failed_adapters", failed);
            }
            let disabled = service.app().disabled_adapters()?.into_iter().map(|(id, unusable)| {
                let mut object = Object::new();
                object.insert("adapter_id", id);
                add_disabled(&mut object, &unusable);
                if !detailed {
                    object.remove("message");
                }
                Value::Object(object)
            });
            let disabled: Vec<Value> = disabled.collect();
            if !disabled.is_empty() {
                answer.insert("disabled_adapters", disabled);
            }
            answer.insert("tools", context.standing.tools.iter().count());
            if let Some(displacement) = service.store().displacement() {
                let mut shown = displaced(&displacement, detailed);
                if let Some(path) = service.store().present_path().filter(|_| detailed) {
                    shown.insert("present_path", path.display().to_string());
                }
                answer.insert("store", shown);
            }
            if let Some(reload) = service.last_reload() {
                answer.insert("last_reload", reload.to_json(context.bearer.may(Scope::Admin)));
            }
            answer.insert("you", you(context));
            Ok(reply::json(StatusCode::OK, &answer.into()))
        })
        .await
}

/// Returns how the store was displaced; paths are for administrators.
fn displaced(displacement: &Displacement, admin: bool) -> Object {
    let mut answer = Object::new();
    answer.insert("displaced", displacement.change.name());
    answer.insert("rescue", displacement.rescue.name());
    if admin {
        answer.insert("file", displacement.path.display().to_string());
        if let Rescue::Copied(copy) = &displacement.rescue {
            answer.insert("copy", copy.display().to_string());
        }
    }
    answer
}

fn you(context: &Context) -> Object {
    let mut you = context.bearer.caller.to_json();
    let Bearer { caller, sees } = &context.bearer;
    you.insert("sees", sees.effective(caller.scope).name());
    you
}

/// Explains a code.
pub(super) async fn explain(context: Context) -> Result<Response, Problem> {
    let asked = context.param("code");
    let meanings: Vec<Value> = code::find(asked)
        .map(|known| {
            let mut object = Object::new();
            object.insert("code", known.code);
            object.insert("kind", known.kind.name());
            object.insert("meaning", known.meaning);
            object.insert("remedy", known.remedy);
            object.into()
        })
        .collect();
    if meanings.is_empty() {
        let detail = format!("there is no code {asked:?}");
        let problem = Problem::new(StatusCode::NOT_FOUND, "UNKNOWN_CODE", detail);
        return Err(match code::near(asked)[..] {
            [] => problem,
            [nearest, ..] => problem.hint(format!("did you mean {nearest}?")),
        });
    }
    let mut answer = Object::new();
    answer.insert("meanings", meanings);
    Ok(reply::json(StatusCode::OK, &answer.into()))
}

/// Returns what happened to the daemon itself.
pub(super) async fn audit(context: Context) -> Result<Response, Problem> {
    let after = number(&context, "after", 0..=usize::MAX >> 11)?.unwrap_or(0) as u64;
    let limit = number(&context, "limit", 1..=10_000)?.unwrap_or(1000);
    context
        .blocking(move |context| {
            let lines = context.service.store().audit_page(after, limit)?;
            let mut text = lines.join("\n");
            if !text.is_empty() {
                text.push('\n');
            }
            Ok(reply::text(StatusCode::OK, "application/jsonl", text))
        })
        .await
}

fn level(context: &Context) -> Response {
    let mut answer = Object::new();
    answer.insert("level", context.service.telemetry().level());
    reply::json(StatusCode::OK, &answer.into())
}

/// Tells what is logged.
pub(super) async fn log_level(context: Context) -> Result<Response, Problem> {
    Ok(level(&context))
}

/// Changes what is logged.
pub(super) async fn set_log_level(mut context: Context) -> Result<Response, Problem> {
    let body = context.json().await?;
    let body = body.into_object().unwrap_or_default();
    let (Some(wanted), 1) = (body.get("level").and_then(Value::as_str), body.len()) else {
        let detail = "the body must be {\"level\": \"…\"}";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "REQUEST_INVALID", detail));
    };
    let telemetry = context.service.telemetry();
    telemetry.set_level(wanted).map_err(|error| {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.code(), error.to_string())
            .hint(error.hint())
            .with("pointer", "/level")
    })?;
    let mut payload = Object::new();
    payload.insert("level", telemetry.level());
    payload.insert("name", context.bearer.caller.name.as_str());
    context.service.audit().record("log.level_changed", payload);
    Ok(level(&context))
}

/// Reads the configuration again.
pub(super) async fn reload(context: Context) -> Result<Response, Problem> {
    context
        .blocking(|context| {
            let name = &context.bearer.caller.name;
            let reloaded = context.service.reload_by("a request", Some(name))?;
            let list = |ids: &[String]| -> Vec<Value> {
                ids.iter().map(|id| id.as_str().into()).collect()
            };
            let mut answer = Object::new();
            answer.insert("added", list(&reloaded.changes.added));
            answer.insert("removed", list(&reloaded.changes.removed));
            answer.insert("replaced", list(&reloaded.changes.replaced));
            answer.insert("kept", list(&reloaded.changes.kept));
            answer.insert("needs_restart", list(&reloaded.later));
            let failed = reloaded.changes.failed.iter().map(|failure| {
                let mut object = Object::new();
                object.insert("adapter_id", failure.adapter_id.as_str());
                failure.add_to(&mut object, true);
                Value::Object(object)
            });
            let failed: Vec<Value> = failed.collect();
            if !failed.is_empty() {
                answer.insert("failed", failed);
            }
            Ok(reply::json(StatusCode::OK, &answer.into()))
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse as _;

    #[test]
    fn who_is_sent_away_is_told_when_to_come_back() {
        let response = not_ready("the store cannot be written").into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[http::header::RETRY_AFTER], "1");
    }
}
