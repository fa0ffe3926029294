//! Tools: what the caller may call, and calls.

use axum::response::Response;
use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};

use super::guard::Context;
use super::problem::Problem;
use super::{reply, runs};
use crate::access::Scope;
use crate::app::TOOLS;
use crate::json::{self, Object, Value};
use crate::outcome::{Outcome, pointers_json};
use crate::request::{Mode, RunToolRequest};
use crate::store::Status;
use crate::toolspec::ToolSpec;

/// The tool that carries out a plan, and so does not block.
const RUN: &str = "nexus-router.run";

/// Lists the tools that the caller may call. A tool that would be denied is not listed.
pub(super) async fn list(context: Context) -> Result<Response, Problem> {
    let standing = &context.standing;
    let caller = context.bearer.caller.clone();
    let allowed = |spec: &&ToolSpec| {
        context.bearer.may(Scope::Run) && standing.law.judge(Some(&caller), spec.act()).is_ok()
    };
    let mut tools: Vec<Value> =
        standing.tools.iter().filter(allowed).map(ToolSpec::to_json).collect();
    if context.bearer.may(Scope::Admin) {
        let local = standing.tools.locals().map(|(name, local)| (name, local.description.as_str()));
        tools.extend(local.chain(TOOLS.iter().map(|tool| (tool.id, tool.doc))).map(
            |(name, description)| {
                let mut object = Object::new();
                object.insert("name", name);
                object.insert("description", description);
                Value::Object(object)
            },
        ));
    }
    let mut answer = Object::new();
    answer.insert("total", tools.len());
    answer.insert("tools", tools);
    Ok(reply::json(StatusCode::OK, &answer.into()))
}

/// What the body of a call says.
struct Call {
    args: Object,
    mode: Mode,
}

impl Call {
    async fn read(context: &mut Context) -> Result<Self, Problem> {
        let wrong = |message: &str, pointer: &str| {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "REQUEST_INVALID", message)
                .hint("the body is {\"args\": {…}, \"mode\": \"apply\"}; both may be left out")
                .with("pointer", pointer)
        };
        if context.body.bytes.is_empty() {
            return Ok(Self { args: Object::new(), mode: Mode::Apply });
        }
        let body = context.json().await?;
        let mut body = body.into_object().ok_or_else(|| wrong("the body must be an object", ""))?;
        if let Some(unknown) = body.keys().find(|key| !["args", "mode"].contains(key)) {
            let pointer = format!("/{}", json::pointer_segment(unknown));
            return Err(wrong(&format!("unknown key {unknown:?}"), &pointer));
        }
        let mode = match body.get("mode").map(|mode| mode.as_str().and_then(Mode::from_name)) {
            None => Mode::Apply,
            Some(Some(mode)) => mode,
            Some(None) => return Err(wrong("mode must be dry_run or apply", "/mode")),
        };
        let args = match body.remove("args") {
            None => Object::new(),
            Some(Value::Object(args)) => args,
            Some(_) => return Err(wrong("args must be an object", "/args")),
        };
        Ok(Self { args, mode })
    }
}

/// Calls a tool.
pub(super) async fn call(mut context: Context) -> Result<Response, Problem> {
    let name = context.param("name").to_owned();
    if name.starts_with("nexus-router.") {
        return own(context, name).await;
    }
    if let Some(local) = context.standing.tools.local(&name) {
        let operation = local.operation.clone();
        return own(context, operation).await;
    }
    let Some(spec) = context.standing.tools.get(&name).cloned() else {
        if let Some(unavailable) = context.service.router().registry().tool_unavailability(&name) {
            return Err(Problem::unavailable(&unavailable));
        }
        if let Some(withheld) = context.standing.tools.without_adapter(&name) {
            let detail = format!("the tool '{name}' is registered and unavailable: no adapter");
            let problem = Problem::new(StatusCode::NOT_FOUND, "UNKNOWN_TOOL", detail);
            return Err(problem.hint(withheld.reason.as_str()));
        }
        let known = context.standing.tools.iter().map(|spec| spec.name.as_str());
        let meant = known
            .map(|known| (crate::near::likeness(&name, known), known))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|best| best.0 > 0.8);
        let problem = Problem::new(
            StatusCode::NOT_FOUND,
            "UNKNOWN_TOOL",
            format!("there is no tool '{name}'"),
        );
        return Err(match meant {
            Some((_, meant)) => problem.hint(format!("did you mean {meant}?")),
            None => problem,
        });
    };
    let Call { args, mode } = Call::read(&mut context).await?;
    let request = spec.request(mode, args, runs::idempotency_key(&context)?)?;
    let outcome = runs::carry_out(&mut context, request).await?;
    let status = match outcome.status {
        Status::Running => StatusCode::ACCEPTED,
        Status::Completed | Status::Failed => StatusCode::OK,
    };
    let run_id = outcome.run_id.clone();
    let retry_after = retry_after(&outcome);
    let mut response = reply::json(status, &tool_response(outcome));
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(context.memory.metered(reply::at_run(response, &run_id)))
}

/// Returns after how many seconds a call may be made that was rejected for a while: by an open circuit, for example.
fn retry_after(outcome: &Outcome) -> Option<u64> {
    let details = &outcome.results.first()?.error.as_ref()?.details;
    let rejected = details.get("called").and_then(Value::as_bool) == Some(false);
    let milliseconds = details.get("retry_after_ms").filter(|_| rejected)?.as_i64()?;
    Some(u64::try_from(milliseconds).ok()?.div_ceil(1000).max(1))
}

/// Returns the response about a run of one step.
fn tool_response(mut outcome: Outcome) -> Value {
    let mut answer = Object::new();
    answer.insert("run_id", outcome.run_id.as_str());
    answer.insert("status", outcome.status.name());
    // The output may be large, so it is moved.
    let output = outcome.results.first_mut().map(|step| match step.answer.take() {
        Some(answer) => *answer,
        None => std::mem::take(&mut step.output),
    });
    let step = outcome.results.first();
    answer.insert("simulated", step.is_some_and(|step| step.simulated));
    let output = step.zip(output);
    // A failed tool may have an output too.
    if let Some((step, output)) = output.filter(|(step, it)| step.error.is_none() || !it.is_empty())
    {
        answer.insert("output", output);
        if let Some(digest) = step.output_digest {
            answer.insert("output_digest", digest.to_json());
        }
        if !step.redacted.is_empty() {
            answer.insert("redacted", pointers_json(&step.redacted));
        }
    }
    if outcome.needs_review() {
        answer.insert("review", "required");
    }
    if let Some(waiting) = &outcome.waiting {
        answer.insert("waiting", waiting.to_json());
    }
    let of_step = step.and_then(|step| step.error.as_ref());
    let of_step = of_step.map(|error| {
        (error.kind_name(), error.code.as_str(), error.message.as_str(), error.details.clone())
    });
    let of_run = outcome
        .error
        .as_ref()
        .map(|(code, message)| ("operational", code.as_str(), message.as_str(), Object::new()));
    if let Some((kind, code, message, details)) = of_step.or(of_run) {
        let mut error = Object::new();
        error.insert("kind", kind);
        error.insert("code", code);
        error.insert("message", message);
        error.insert("details", details);
        answer.insert("error", error);
    }
    answer.into()
}

/// Calls a tool of the router itself.
async fn own(mut context: Context, name: String) -> Result<Response, Problem> {
    context.require(Scope::Admin)?;
    let Call { args, mode } = Call::read(&mut context).await?;
    if mode == Mode::DryRun {
        // What nobody would heed must not look as if it were.
        let detail = "the tools nexus-router.* are not tried: a run has its own mode, in args";
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "REQUEST_INVALID", detail);
        return Err(problem.with("pointer", "/mode"));
    }
    let output = if name == RUN {
        if args.contains_key("db_path") {
            let detail = "db_path is not taken here: this daemon has one store";
            let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "REQUEST_INVALID", detail);
            return Err(problem.with("pointer", "/args/db_path"));
        }
        let mut args = Value::Object(args);
        runs::add_key(&context, &mut args)?;
        let RunToolRequest { request, .. } = RunToolRequest::read(args)?;
        let request = request.without_interaction()?;
        runs::carry_out(&mut context, request).await?.to_json()
    } else {
        context.service.own_tool(name, args.into()).await?
    };
    let mut answer = Object::new();
    answer.insert("output", output);
    Ok(reply::json(StatusCode::OK, &answer.into()))
}
