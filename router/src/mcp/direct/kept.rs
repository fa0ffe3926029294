//! A call that is not lost with the connection that it came by.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rmcp::model::{RequestId, ServerJsonRpcMessage};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::Direct;
use crate::mcp::sessions::Asked;
use crate::mcp::{Asker, Handler};

/// What is answered to a call.
pub(super) enum Answer {
    Message(Box<ServerJsonRpcMessage>),
    /// Who took a request back gets no answer to it.
    None,
    /// Its caller is to be asked something.
    ByLibrary(RequestId),
}

/// A call that is carried on by who waits for it, and by nobody in particular when they are gone.
pub(super) struct Kept {
    pub(super) call: Option<Pin<Box<dyn Future<Output = Answer> + Send>>>,
    /// Told when nobody waits any more; then it is only brought to its end.
    pub(super) ends_with: Option<CancellationToken>,
}

impl Kept {
    pub(super) fn begin(
        handler: Arc<Handler>,
        direct: Direct,
        mut asker: Asker,
        gone: CancellationToken,
        asked: Option<Arc<Asked>>,
    ) -> Self {
        asker.trace = direct.trace.or(asker.trace);
        let call = async move {
            let answer = handler.answer_directly(&direct, &asker, (&gone, asked.as_deref()));
            let answer = answer.await;
            // The id is in use until here.
            drop(asked);
            match (gone.is_cancelled(), answer) {
                (true, _) => Answer::None,
                (false, Some(message)) => Answer::Message(Box::new(message)),
                (false, None) => Answer::ByLibrary(direct.id),
            }
        };
        Self { call: Some(Box::pin(call)), ends_with: None }
    }
}

impl Future for Kept {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        let answer = std::task::ready!(call.as_mut().poll(context));
        self.call = None;
        Poll::Ready(answer)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // One that panicked cannot go on.
        let Some(call) = self.call.take().filter(|_| !std::thread::panicking()) else { return };
        if let Some(gone) = &self.ends_with {
            gone.cancel();
        }
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(call));
        }
    }
}
