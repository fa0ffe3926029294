//! The MCP shell: what callers find and do, in the words of the Model Context Protocol.
//!
//! It speaks both eras of the protocol, the stateless one of 2026-07-28 and the sessions before it. A
//! `Handler` answers the requests of one session, or a single request where there are none. It decides
//! nothing: a call is a run of one step, which the gate lets through and the record keeps; a task is a run
//! that somebody follows.

mod answer;
mod approval_notice;
mod approving;
mod asking;
mod call;
mod direct;
mod endpoint;
mod following;
mod handler;
mod listening;
mod offers;
mod own;
mod reading;
mod sessions;
mod stdio;
mod tasks;
mod tools;

use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use rmcp::model::{ErrorCode, ErrorData, RequestStateCodec};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;

pub use endpoint::{Endpoint, Reply};
pub use stdio::serve_stdio;

use crate::access::Bearer;
use crate::service::Service;
use crate::trace::TraceContext;

/// The first version of the protocol without sessions. Versions are dates, so they are ordered as texts.
const STATELESS: &str = "2026-07-28";
/// A request that is well formed, and not carried out all the same; `data.code` says why.
const REFUSED: ErrorCode = ErrorCode(-32000);

/// Who asks, and as a part of which trace.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Who it is, and what it may do.
    pub bearer: Bearer,
    /// The trace of the request that carries the question.
    pub trace: Option<TraceContext>,
    /// What the question takes in memory, which is kept for as long as anything of it is.
    pub held: Option<Arc<dyn std::any::Any + Send + Sync>>,
}

/// What all handlers of a daemon share.
struct Shared {
    service: Service,
    /// Keeps the states that callers carry for us from being changed on the way.
    seal: RequestStateCodec,
    followed: following::Followed,
}

/// Answers the requests of one session, or one request.
pub(crate) struct Handler {
    shared: Arc<Shared>,
    /// Who asks, where all requests come from one. Else every request says it.
    local: Option<Asker>,
    session: listening::Session,
    /// The least level of log lines that the session wants to hear.
    level: AtomicU8,
}

impl Handler {
    fn new(shared: &Arc<Shared>, local: Option<Asker>) -> Self {
        let (session, level) = (listening::Session::default(), AtomicU8::new(call::SILENT));
        Self { shared: Arc::clone(shared), local, session, level }
    }

    fn service(&self) -> &Service {
        &self.shared.service
    }

    /// Finds out who asks.
    fn asker(&self, context: &RequestContext<RoleServer>) -> Result<Asker, ErrorData> {
        let of_request = || {
            let parts = context.extensions.get::<http::request::Parts>()?;
            parts.extensions.get::<Asker>().cloned()
        };
        let asker = self.local.clone().or_else(of_request);
        let mut asker =
            asker.ok_or_else(|| ErrorData::internal_error("nobody is known to ask", None))?;
        if let Some(trace) = context.meta.get_traceparent().and_then(TraceContext::parse) {
            asker.trace = Some(trace.child());
        }
        Ok(asker)
    }
}

impl Shared {
    fn new(service: Service) -> std::io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(std::io::Error::other)?;
        let seal = RequestStateCodec::try_new(key).map_err(std::io::Error::other)?;
        Ok(Self { service, seal, followed: following::Followed::default() })
    }
}

/// Makes an error with a stable code of ours in its data, and its remedy.
fn refused(error: ErrorCode, code: &str, message: impl Into<String>) -> ErrorData {
    let remedy = crate::code::find(code).next().map(|known| known.remedy).unwrap_or_default();
    refused_with(error, code, message, remedy)
}

/// The same, with a remedy of its own.
fn refused_with(error: ErrorCode, code: &str, message: impl Into<String>, hint: &str) -> ErrorData {
    let data = json!({ "code": code, "hint": hint });
    ErrorData::new(error, message.into(), Some(data))
}
