//! The protocol over HTTP: sessions of the older era, each of one caller, and requests that stand alone.

mod message;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use rmcp::model::ErrorCode;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use self::message::{Meaning, Message};
use super::direct::{self, Direct, Era};
use super::sessions::{self, HANDSHAKE, Open, Place, Refused, Sessions};
use super::{Asker, Handler, Shared};
use crate::service::Service;

/// What a caller gets.
pub type Reply = Response<BoxBody<Bytes, Infallible>>;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// How often it is seen whether the last call is over when the daemon stops.
const PAUSE: Duration = Duration::from_millis(50);

/// The library's side of it.
type Protocol = StreamableHttpService<Handler, LocalSessionManager>;

/// The protocol over HTTP.
pub struct Endpoint {
    service: Service,
    /// Answers what the library is not needed for.
    handler: Arc<Handler>,
    protocol: Protocol,
    sessions: Arc<Sessions>,
}

impl Endpoint {
    /// Makes the endpoint of a daemon.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn new(service: &Service) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(service.clone())?);
        let mut settings = SessionConfig::default();
        settings.keep_alive = None;
        // With less room, calls and answers of one session wait for each other.
        settings.channel_capacity = 4 * 1024;
        settings.init_timeout = Some(HANDSHAKE);
        let mut manager = LocalSessionManager::default();
        manager.session_config = settings;
        let manager = Arc::new(manager);
        let stop = CancellationToken::new();
        // Hosts and origins are looked at before, for all routes alike, and so is the size of a body.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_json_response(true)
            .with_max_request_body_bytes(usize::MAX)
            .with_cancellation_token(stop.clone());
        let handler = Arc::new(Handler::new(&shared, None));
        let handlers = move || Ok(Handler::new(&shared, None));
        let protocol = StreamableHttpService::new(handlers, Arc::clone(&manager), config);
        let sessions = Arc::new(Sessions::default());
        let counted = Arc::downgrade(&sessions);
        service.count_sessions_by(move || counted.upgrade().map_or(0, |open| open.count()));
        drop(tokio::spawn(sessions::reap(service.clone(), Arc::downgrade(&sessions), manager)));
        drop(tokio::spawn(end(service.clone(), stop)));
        Ok(Self { service: service.clone(), handler, protocol, sessions })
    }

    /// Answers a request of somebody who is known.
    pub async fn answer(&self, mut request: Request<Bytes>, asker: Asker) -> Reply {
        let direct = match request.method() {
            &Method::POST => {
                Direct::read(request.headers(), request.body(), || self.service.standing())
            }
            _ => None,
        };
        let direct = match direct {
            Some(direct) if direct.era == Era::Stateless => {
                return direct::answer_alone(Arc::clone(&self.handler), direct, asker).await;
            }
            of_session => of_session,
        };
        let (message, asked) = match &direct {
            Some(direct) => (Meaning::Other, Some(direct.id.clone())),
            None if request.method() == Method::POST => match Message::read(request.body()) {
                Ok(message) => (message.meaning(), message.asked()),
                Err((code, message)) => return error(code, message),
            },
            None => (Meaning::Other, None),
        };
        if message == Meaning::Standalone {
            // What stands alone belongs to no session, whichever it names.
            request.headers_mut().remove(SESSION);
        }
        let session = request.headers().get(SESSION).and_then(|id| id.to_str().ok());
        let session = session.map(str::to_owned);
        let mut open = match &session {
            Some(id) => match self.sessions.begin(id, &asker.bearer.caller, asked) {
                Err(Refused::Unknown) => {
                    return plain(StatusCode::NOT_FOUND, "there is no such session");
                }
                Err(Refused::Busy) => {
                    return overloaded("as many requests of the session are under way as may be");
                }
                Err(Refused::Twice) => {
                    let text = "another request of this id is under way";
                    return error(ErrorCode::INVALID_REQUEST, text);
                }
                Ok(open) => Some(open),
            },
            None => None,
        };
        let reply = match (direct, &open) {
            (Some(direct), Some(Open { asked: Some(asked), quiet: true, .. })) => {
                let (handler, asked) = (Arc::clone(&self.handler), Arc::clone(asked));
                direct::answer_in_session(handler, direct, asker.clone(), asked).await
            }
            _ => None,
        };
        let reply = match reply {
            Some(reply) => {
                // The id is free, or the call goes on and keeps it.
                if let Some(open) = &mut open {
                    open.asked = None;
                }
                reply
            }
            // It is large, and most calls do without it.
            None => Box::pin(self.pass_on(request, asker, message, session, open.as_ref())).await,
        };
        match open {
            Some(open) => reply.map(|body| sessions::held(body, open)),
            None => reply,
        }
    }

    /// Has the library answer.
    async fn pass_on(
        &self,
        request: Request<Bytes>,
        asker: Asker,
        message: Meaning,
        session: Option<String>,
        open: Option<&Open>,
    ) -> Reply {
        match (&message, &session) {
            (Meaning::SetsLevel, Some(id)) => self.sessions.hears(id),
            (Meaning::Cancels(asked), Some(id)) => self.sessions.cancel(id, asked),
            _ => {}
        }
        let place = match message {
            Meaning::Initialize if open.is_none() => {
                let limit = self.service.standing().mcp.sessions;
                let Some(place) = self.sessions.reserve(&asker.bearer.caller, limit) else {
                    return overloaded("as many sessions are open as may be");
                };
                Some(place)
            }
            _ => None,
        };
        let ends = request.method() == Method::DELETE;
        let mut request = request.map(Full::new);
        request.extensions_mut().insert(asker);
        if let Some(asked) = open.and_then(|open| open.asked.as_ref()) {
            // It goes along: the id is in use until the request is done.
            request.extensions_mut().insert(Arc::clone(asked));
        }
        let mut protocol = self.protocol.clone();
        let mut reply = match place {
            Some(place) => return begin(protocol, request, place).await,
            None => protocol.call(request).await.unwrap_or_else(|never| match never {}),
        };
        if let (true, StatusCode::ACCEPTED, Some(id)) = (ends, reply.status(), &session) {
            self.sessions.remove(id);
            // It is done already; clients take 202 for a failure.
            *reply.status_mut() = StatusCode::NO_CONTENT;
        }
        if let (Meaning::Initialized, StatusCode::ACCEPTED, Some(id)) =
            (&message, reply.status(), &session)
        {
            self.sessions.ready(id);
        }
        reply
    }
}

/// Begins a session. Its client may be gone before it is made; it is counted all the same, until silence ends it.
async fn begin(mut protocol: Protocol, request: Request<Full<Bytes>>, place: Place) -> Reply {
    let made = tokio::spawn(async move {
        let reply = protocol.call(request).await.unwrap_or_else(|never| match never {});
        if let Some(id) = reply.headers().get(SESSION).and_then(|id| id.to_str().ok()) {
            place.take(id);
        }
        reply
    });
    made.await.unwrap_or_else(|_| {
        plain(StatusCode::INTERNAL_SERVER_ERROR, "the session could not be made")
    })
}

/// Answers what is no message.
fn error(code: ErrorCode, message: &'static str) -> Reply {
    let error = serde_json::json!({ "code": code.0, "message": message });
    error_reply(StatusCode::BAD_REQUEST, &error)
}

/// Refuses a request for which there is no room at present.
fn overloaded(message: &'static str) -> Reply {
    let data = serde_json::json!({ "code": "OVERLOADED", "hint": "send the request again later" });
    let error = serde_json::json!({ "code": super::REFUSED.0, "message": message, "data": data });
    let mut reply = error_reply(StatusCode::SERVICE_UNAVAILABLE, &error);
    reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}

fn error_reply(status: StatusCode, error: &serde_json::Value) -> Reply {
    let text = serde_json::json!({ "jsonrpc": "2.0", "error": error }).to_string();
    let mut reply = Response::new(BoxBody::new(Full::new(Bytes::from(text))));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// Ends streams that wait for nothing when the daemon stops, and leaves calls their time.
async fn end(service: Service, stop: CancellationToken) {
    service.draining().await;
    while service.router().runs_in_flight() > 0 {
        tokio::time::sleep(PAUSE).await;
    }
    stop.cancel();
}

fn plain(status: StatusCode, text: &'static str) -> Reply {
    let mut reply = Response::new(BoxBody::new(Full::new(Bytes::from_static(text.as_bytes()))));
    *reply.status_mut() = status;
    reply
}
