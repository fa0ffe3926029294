//! Calls that want an answer and nothing else, made where they arrive.
//!
//! The library serves every request with tasks and channels of its own, which cost more than most calls. A call
//! that hears nothing meanwhile, cannot be asked anything, and is written just as the protocol wants needs none of
//! them. **Whatever is not plainly such a call is left to the library**, above all whatever is wrong with it: the
//! library knows how to refuse it.

mod kept;
mod message;
mod reply;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use rmcp::model::{
    CallToolResponse, ErrorData, JsonObject, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use tokio_util::sync::CancellationToken;

use super::answer::{self, Gave};
use super::asking::Bound;
use super::call::{Calling, Came, Following, Wait};
use super::endpoint::Reply;
use super::sessions::Asked;
use super::{Asker, Handler};
use crate::json::Object;
use crate::service::Standing;
use crate::trace::TraceContext;
use kept::{Answer, Kept};
use reply::{later, nothing, whole};

/// For so long a session waits for its answer before it is given a stream on which the answer will come.
const SOON: Duration = Duration::from_millis(200);

/// How a call is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// It belongs to a session.
    Sessions,
    /// It stands alone.
    Stateless,
}

/// A call that can be made where it arrived.
pub(super) struct Direct {
    pub(super) id: RequestId,
    pub(super) era: Era,
    name: String,
    arguments: Option<JsonObject>,
    key: Option<String>,
    trace: Option<TraceContext>,
    /// The tools by which it was found to be one.
    standing: Arc<Standing>,
}

impl Direct {
    /// Reads a request, if it is such a call.
    pub(super) fn read(
        headers: &HeaderMap,
        body: &[u8],
        standing: impl FnOnce() -> Arc<Standing>,
    ) -> Option<Self> {
        let message::Call { id, era, name, arguments, key, trace } =
            message::Call::read(headers, body)?;
        let standing = standing();
        let tool = &standing.tools.get(&name)?.definition;
        let quiet = !tool.interactive && !tool.long && !tool.repeats_in_headers;
        // In a session the library keeps an answer for a client that lost its connection. What has no effects can be
        // called again instead.
        let fits = quiet && (era == Era::Stateless || !tool.external);
        fits.then_some(Self { id, era, name, arguments, key, trace, standing })
    }
}

impl Handler {
    /// Makes a call, and returns the answer. There is none if the caller of a session is asked something: that needs
    /// the library.
    pub(super) async fn answer_directly(
        &self,
        direct: &Direct,
        asker: &Asker,
        (gone, asked): (&CancellationToken, Option<&Asked>),
    ) -> Option<ServerJsonRpcMessage> {
        let id = direct.id.clone();
        match self.call_directly(direct, asker, (gone, asked)).await {
            Ok(None) => None,
            Ok(Some(response)) => {
                let mut result = ServerResult::from(response);
                if direct.era == Era::Sessions {
                    result.strip_result_type_for_legacy_peer();
                }
                Some(JsonRpcMessage::response(result, id))
            }
            Err(error) => Some(JsonRpcMessage::error(error, Some(id))),
        }
    }

    async fn call_directly(
        &self,
        direct: &Direct,
        asker: &Asker,
        (gone, asked): (&CancellationToken, Option<&Asked>),
    ) -> Result<Option<CallToolResponse>, ErrorData> {
        let name = direct.name.as_str();
        let Some(spec) = direct.standing.tools.get(name) else { return Ok(None) };
        let args = || direct.arguments.as_ref().map(Object::from).unwrap_or_default();
        let calling = Calling {
            goal: &format!("call {name}"),
            act: spec.act(),
            timeout: spec.timeout,
            args: args(),
            interaction: None,
            key: direct.key.as_deref(),
            following: Following::Never,
        };
        let wait = Wait::silently(gone, asked);
        let Came::Over(outcome) = self.make(&wait, asker, calling).await? else {
            return Err(ErrorData::internal_error("this cannot be followed as a task", None));
        };
        let gave = match answer::read(&outcome)? {
            Gave::Output(output) => Ok(output),
            Gave::Failure(failure) => Err(failure),
            Gave::Questions(questions) if direct.era == Era::Stateless => {
                let bound = Bound { asker, method: "tools/call", name, args: &args() };
                return Ok(Some(self.ask_back(&bound, questions).into()));
            }
            Gave::Questions(_) => return Ok(None),
        };
        let result = answer::result(&outcome, spec.definition.content, gave)?;
        Ok(Some(result.into()))
    }
}

/// Answers a call that stands alone. It ends when its caller is gone.
pub(super) async fn answer_alone(handler: Arc<Handler>, direct: Direct, asker: Asker) -> Reply {
    let gone = CancellationToken::new();
    let mut call = Kept::begin(handler, direct, asker, gone.clone(), None);
    call.ends_with = Some(gone);
    match call.await {
        Answer::Message(message) => whole(&message),
        Answer::None | Answer::ByLibrary(_) => nothing(),
    }
}

/// Answers a call of a session, or returns none if it needs the library after all. It goes on when its caller is gone,
/// until the session is.
pub(super) async fn answer_in_session(
    handler: Arc<Handler>,
    direct: Direct,
    asker: Asker,
    asked: Arc<Asked>,
) -> Option<Reply> {
    let (gone, kept) = (asked.gone.clone(), Some(Arc::clone(&asked)));
    let mut call = Kept::begin(handler, direct, asker, gone, kept);
    match tokio::time::timeout(SOON, &mut call).await {
        Ok(Answer::Message(message)) => Some(whole(&message)),
        Ok(Answer::None) => Some(nothing()),
        Ok(Answer::ByLibrary(_)) => None,
        Err(_) => {
            let notices = asked.open_stream();
            drop(asked);
            Some(later(call, notices))
        }
    }
}
