//! Approvals: list, show, approve, deny.

use axum::response::Response;
use http::StatusCode;

use super::guard::Context;
use super::problem::Problem;
use super::{reply, runs};
use crate::approval::Approval;
use crate::json::{self, Object, Value};
use crate::router::{Answer, Refusal};
use crate::store::ApprovalFilter;

/// The most bytes of a page of more than one approval.
const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// Copies of a page while it is read: its text, its values, and the text of the answer.
const COPIES: usize = 3;

/// Lists approvals.
pub(super) async fn list(context: Context) -> Result<Response, Problem> {
    let open = match context.query("state") {
        None | Some("open") => Some(true),
        Some("decided") => Some(false),
        Some("all") => None,
        Some(_) => return Err(Problem::query("state must be open, decided or all")),
    };
    if context.query("run_id") == Some("") {
        return Err(Problem::query("run_id must not be empty"));
    }
    let filter = ApprovalFilter {
        open,
        run_id: context.query("run_id").map(str::to_owned),
        visible: context.bearer.visible_runs(),
        limit: runs::number(&context, "limit", 1..=1000)?.unwrap_or(50),
        offset: runs::number(&context, "offset", 0..=usize::MAX >> 11)?.unwrap_or(0),
    };
    let asked = filter.clone();
    let (context, bytes) = context
        .ask_with(move |context| Ok(context.service.store().approvals_size(&asked)?))
        .await?;
    if bytes > PAGE_BYTES && filter.limit > 1 {
        let detail = format!("the page has {bytes} bytes, more than {PAGE_BYTES}");
        return Err(Problem::query(detail).hint("ask for fewer approvals with limit"));
    }
    let _reservation = context.memory.wait(COPIES * bytes).await?;
    context
        .blocking(move |context| {
            let (approvals, total) = context.service.router().approvals(&filter)?;
            let approvals: Vec<Value> = approvals.iter().map(Approval::to_json).collect();
            let mut answer = Object::new();
            answer.insert("total", total);
            answer.insert("approvals", approvals);
            Ok(reply::json(StatusCode::OK, &answer.into()))
        })
        .await
}

/// Returns an approval.
pub(super) async fn show(context: Context) -> Result<Response, Problem> {
    context
        .blocking(|context| {
            let approval_id = context.param("approval_id");
            let visible = context.bearer.visible_runs();
            let found = context.service.store().approval_visible(approval_id, &visible)?;
            let Some(approval) = found else {
                let approval_id = approval_id.to_owned();
                return Err(crate::router::Error::from(Refusal::Unknown { approval_id }).into());
            };
            Ok(reply::json(StatusCode::OK, &approval.to_json()))
        })
        .await
}

/// Says yes.
pub(super) async fn approve(context: Context) -> Result<Response, Problem> {
    decide(context, Answer::Approve).await
}

/// Says no.
pub(super) async fn deny(context: Context) -> Result<Response, Problem> {
    decide(context, Answer::Deny).await
}

async fn decide(mut context: Context, answer: Answer) -> Result<Response, Problem> {
    let reason = reason(&mut context).await?;
    // Its run would go on.
    if context.service.is_draining() {
        return Err(Problem::draining());
    }
    let (bearer, approval_id) = (&context.bearer, context.param("approval_id"));
    let decided = context.service.decide(bearer, approval_id, answer, reason.as_deref()).await?;
    let response = reply::json(StatusCode::OK, &decided.approval.to_json());
    Ok(reply::at_run(response, &decided.approval.run_id))
}

/// Reads the reason out of the body, which may be empty.
async fn reason(context: &mut Context) -> Result<Option<String>, Problem> {
    let wrong = |message: &str, pointer: &str| {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "REQUEST_INVALID", message)
            .hint("the body is {\"reason\": \"…\"}, or empty")
            .with("pointer", pointer)
    };
    if context.body.bytes.is_empty() {
        return Ok(None);
    }
    let body = context.json().await?;
    let mut body = body.into_object().ok_or_else(|| wrong("the body must be an object", ""))?;
    if let Some(unknown) = body.keys().find(|key| *key != "reason") {
        let pointer = format!("/{}", json::pointer_segment(unknown));
        return Err(wrong(&format!("unknown key {unknown:?}"), &pointer));
    }
    match body.remove("reason") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(reason)) => Ok(Some(reason)),
        Some(_) => Err(wrong("reason must be a text", "/reason")),
    }
}
