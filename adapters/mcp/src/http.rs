//! The transport of a server that is an endpoint: requests of streamable HTTP, each answered by one message
//! or by a stream of them. Nothing is followed elsewhere, no proxy is asked and nothing is unpacked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::{Value, json};
use sse_stream::{Sse, SseStream};

use crate::config::Endpoint;
use crate::failure::Failure;
use crate::log::Pace;
use crate::sse::Bounded;
use crate::wire::{MAX_MESSAGE, Wire, lock};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How long a connection is kept that nobody uses: shorter than most servers do, so that a request does not
/// meet one that the server closes at the same moment.
const IDLE: Duration = Duration::from_secs(4);

/// How much of a refusal is read.
const MAX_REFUSAL: usize = 64 << 10;

type Connector = HttpsConnector<HttpConnector>;
type Fault = StreamableHttpError<Failed>;

/// A failure, as an error that passes through the library.
#[derive(Debug)]
pub(crate) struct Failed(pub(crate) Failure);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.error.message)
    }
}

impl std::error::Error for Failed {}

/// Sends requests to one endpoint.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client<Connector, Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    wire: Arc<Wire>,
    /// Streams that may be taken up again; a server that closes each at once is asked once a second.
    streams: Arc<Mutex<Pace>>,
}

impl Http {
    /// Makes it; nothing is connected before the first request.
    pub(crate) fn new(
        endpoint: &Endpoint,
        timeout: Duration,
        wire: Arc<Wire>,
    ) -> Result<Self, Failure> {
        let uri = endpoint.url.as_str().parse().map_err(|_| Failure::unreached("no such URL"))?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(timeout));
        let provider = rustls::crypto::ring::default_provider();
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(provider)
            .map_err(|error| Failure::unreached(&error.to_string()))?
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            // That is one whose connection turned out to be closed before anything of it was sent. One that
            // failed half-way is not repeated: the server may have acted on it.
            .retry_canceled_requests(true)
            .build(connector);
        let streams = Arc::new(Mutex::new(Pace::new(10.0, 1.0)));
        Ok(Self { client, uri, headers: endpoint.headers.clone(), wire, streams })
    }

    async fn request(
        &self,
        method: Method,
        body: Vec<u8>,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
        accept: &'static str,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().extend(headers);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        if request.method() == Method::POST {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        if let Some(session) = session.and_then(|session| session.parse().ok()) {
            request.headers_mut().insert(SESSION, session);
        }
        self.client.request(request).await.map_err(|error| {
            let cause = chain(&error);
            if error.is_connect() {
                return Failure::unreached(&cause);
            }
            // It is one connection of the network that broke, of many.
            Failure { renew: false, ..Failure::lost(&cause) }
        })
    }

    /// Makes messages of a stream.
    fn events(&self, body: Incoming, most: usize) -> BoxStream<'static, Result<Sse, SseError>> {
        let wire = Arc::clone(&self.wire);
        let bounded = Bounded::new(body.into_data_stream(), most);
        SseStream::from_bytes_stream(bounded)
            .map(move |event| match event {
                Ok(event) => Ok(seen(&wire, event)),
                Err(error) => {
                    if Bounded::<()>::is_too_large(&error) {
                        // A stream that is taken up again would bring the same event again.
                        wire.end(Failure::too_large(most));
                    }
                    Err(error)
                }
            })
            .boxed()
    }

    /// Reads an answer that is one message.
    async fn single(
        &self,
        response: Response<Incoming>,
        session: Option<String>,
        asked: bool,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = read(response, MAX_MESSAGE).await?;
        let message = serde_json::from_slice::<Value>(&body).ok();
        let message = message.and_then(|message| self.wire.incoming(message));
        let message = message.and_then(|message| serde_json::from_value(message).ok());
        match message {
            Some(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            None if asked => Err(Failure::malformed("is not a message of MCP")),
            // Some answer a notification with words.
            None => Ok(StreamableHttpPostResponse::Accepted),
        }
    }

    /// Makes what can be made of an answer that is not a success.
    async fn refused(
        &self,
        response: Response<Incoming>,
        message: &ClientJsonRpcMessage,
        in_session: bool,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        let body = read(response, MAX_REFUSAL).await.unwrap_or_default();
        let text = String::from_utf8_lossy(&body).into_owned();
        let refusal = Failure::status(status.as_u16(), &text);
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(refusal);
        }
        let error = serde_json::from_slice::<Value>(&body).ok().and_then(|mut body| {
            let error = body.get_mut("error").map(Value::take);
            error.filter(Value::is_object)
        });
        let ClientJsonRpcMessage::Request(request) = message else { return Err(refusal) };
        let discovers = matches!(request.request, ClientRequest::DiscoverRequest(_));
        if in_session && is_client(status) && text.to_ascii_lowercase().contains("session") {
            let forgotten = Failure::forgotten();
            return Err(Failure {
                sent: !is_unseen(status, &body, &json!(request.id)),
                ..forgotten
            });
        }
        // Who does not know the question is of an earlier era; the library goes on from there.
        let error = match error {
            Some(error) => error,
            None if discovers && is_client(status) => {
                json!(ErrorData::invalid_request(format!("HTTP {status}"), None))
            }
            None => return Err(refusal),
        };
        // Refusals of a layer before the server name no request, or another.
        let answer = json!({ "jsonrpc": "2.0", "id": request.id, "error": error });
        let answer = self.wire.incoming(answer).unwrap_or_default();
        let answer: ServerJsonRpcMessage = serde_json::from_value(answer).map_err(|_| refusal)?;
        Ok(StreamableHttpPostResponse::Json(answer, None))
    }

    async fn post(
        &self,
        message: &ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = serde_json::to_vec(message)
            .map_err(|error| Failure::malformed(&format!("has no question: {error}")))?;
        let accept = "application/json, text/event-stream";
        let response =
            self.request(Method::POST, body, session.as_deref(), headers, accept).await?;
        let status = response.status();
        let asked = matches!(message, ClientJsonRpcMessage::Request(_));
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(Failure::forgotten());
        }
        if !status.is_success() {
            return self.refused(response, message, session.is_some()).await;
        }
        let session = response.headers().get(SESSION);
        let session = session.and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
        if is_of(&response, EVENTS) {
            let events = self.events(response.into_body(), most);
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        if is_of(&response, JSON) || !asked {
            return self.single(response, session, asked).await;
        }
        Err(Failure::malformed("is neither JSON nor a stream of events"))
    }
}

impl StreamableHttpClient for Http {
    type Error = Failed;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        self.post_message_with_max_sse_event_size(uri, message, session, auth, headers, MAX_MESSAGE)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let pending = self.wire.outgoing(&message);
        if let Some(pending) = &pending {
            pending.mark_sent();
        }
        let answer = self.post(&message, session, headers, most).await;
        answer.map_err(|failure| {
            if let Some(pending) = &pending {
                pending.fail(failure.clone());
            }
            StreamableHttpError::Client(Failed(failure))
        })
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Fault> {
        let response =
            self.request(Method::DELETE, Vec::new(), Some(&session), headers, JSON).await;
        response.map(drop).map_err(|failure| StreamableHttpError::Client(Failed(failure)))
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Fault> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session,
            last_event,
            auth,
            headers,
            MAX_MESSAGE,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Fault> {
        let granted = lock(&self.streams).take();
        if !granted {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if let Some(last) = last_event.and_then(|last| last.parse().ok()) {
            headers.insert(LAST_EVENT, last);
        }
        let fault = |failure| StreamableHttpError::Client(Failed(failure));
        let response = self
            .request(Method::GET, Vec::new(), session.as_deref(), headers, EVENTS)
            .await
            .map_err(fault)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST if session.is_some() => {
                // Nobody listens for this session any more; the next call finds another one.
                self.wire.retire(Failure::forgotten());
                Err(fault(Failure::forgotten()))
            }
            status if !status.is_success() => Err(fault(Failure::status(status.as_u16(), ""))),
            _ if !is_of(&response, EVENTS) => Err(StreamableHttpError::ServerDoesNotSupportSse),
            _ => Ok(self.events(response.into_body(), most)),
        }
    }
}

/// Sees the message of an event, and leaves in it what the library is to see.
fn seen(wire: &Wire, mut event: Sse) -> Sse {
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    if let Some(data) = event.data.take_if(|data| is_message && !data.trim().is_empty()) {
        match serde_json::from_str::<Value>(&data) {
            Ok(message) => event.data = wire.incoming(message).map(|message| message.to_string()),
            Err(_) => wire.junk(data.as_bytes()),
        }
    }
    event
}

async fn read(response: Response<Incoming>, most: usize) -> Result<Bytes, Failure> {
    match Limited::new(response.into_body(), most).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Failure { renew: false, ..Failure::too_large(most) })
        }
        Err(error) => Err(Failure { renew: false, ..Failure::lost(&error.to_string()) }),
    }
}

fn is_of(response: &Response<Incoming>, kind: &str) -> bool {
    let given = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    given.get(..kind.len()).is_some_and(|given| given.eq_ignore_ascii_case(kind.as_bytes()))
}

fn is_client(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE)
}

/// Says whether a refusal that speaks of a session means that the request was certainly not carried out; only
/// then may it be made again. The protocol has 404 for a session that is over, which is seen before. Servers
/// that answer 400 instead do so before they look at the request: with an error of the transport that does not
/// name it. Any other text may come from the middle of the work, about a session of another kind.
fn is_unseen(status: StatusCode, body: &[u8], id: &Value) -> bool {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return false };
    let code = body["error"]["code"].as_i64();
    let of_transport = code.is_some_and(|code| code == -32600 || (-32099..=-32000).contains(&code));
    status == StatusCode::BAD_REQUEST && of_transport && body["id"] != *id
}

/// What is denied is most likely not granted, and names that are not are never found.
const REACHABLE: &str =
    "; in a worker, only places are reached that its grants name under 'connect'";

/// Returns what an error says, and what the errors behind it say.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut hint = "";
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        let denied = cause.downcast_ref().is_some_and(|cause: &std::io::Error| {
            cause.kind() == std::io::ErrorKind::PermissionDenied
        });
        if denied || cause.to_string().starts_with("dns error") {
            hint = REACHABLE;
        }
        source = cause.source();
    }
    text + hint
}
