//! One live connection to a server: how it is made, what the server offers, and one request over it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nexus_router_sdk::{AdapterError, CallContext, Level, Object};
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, CustomRequest, Implementation,
    ProtocolVersion, RequestMetaObject, ServerCapabilities,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, PeerRequestOptions,
    RequestHandle, RunningService,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{ClientHandler, RoleClient, ServiceError};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::{Place, Protocol, Settings};
use crate::ending::Ending;
use crate::failure::{self, Failure};
use crate::http::{Failed, Http};
use crate::stdio::Stdio;
use crate::wire::{Answer, MAX_MESSAGE, Pending, Wire};

/// How long a server may take to be told that a call is over.
const TELLING: Duration = Duration::from_secs(5);

/// How long the end of a connection may take.
const CLOSING: Duration = Duration::from_secs(3);

/// Requests that are made to an endpoint at once.
const AT_ONCE: usize = 1024;

/// What is denied is most likely not granted.
const RUNNABLE: &str = "; in a worker, only programs run that its grants name under 'run'";

/// A connection. It is over when its wire is.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    wire: Arc<Wire>,
    modern: bool,
    offers: ServerCapabilities,
    closed: CancellationToken,
}

/// What the server learns of this side.
#[derive(Clone)]
struct Face(ClientConfig);

impl ClientHandler for Face {
    fn get_info(&self) -> ClientConfig {
        self.0.clone()
    }
}

impl Face {
    fn new(version: ProtocolVersion) -> Self {
        let this = Implementation::new("nexus-router", env!("CARGO_PKG_VERSION"));
        // Nothing can be asked of this side between calls, so it says that it can do nothing.
        let config = ClientConfig::new(ClientCapabilities::default(), this);
        Self(config.with_protocol_version(version))
    }
}

impl Connection {
    /// Connects, in the way of the given protocol.
    pub(crate) async fn make(
        settings: &Settings,
        protocol: &Protocol,
        wire: Arc<Wire>,
    ) -> Result<Arc<Self>, Failure> {
        let newest = ProtocolVersion::LATEST_WITH_INITIALIZE;
        let (mode, version) = match protocol {
            Protocol::Auto => {
                let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
                (ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }, newest)
            }
            Protocol::Modern => {
                let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
                (ClientLifecycleMode::Discover { preferred_versions }, newest)
            }
            Protocol::Legacy(version) => {
                let known =
                    ProtocolVersion::KNOWN_VERSIONS.iter().find(|it| it.as_str() == version);
                (ClientLifecycleMode::Initialize, known.cloned().unwrap_or(newest))
            }
        };
        let face = Face::new(version);
        let made = async {
            match &settings.place {
                Place::Program(program) => {
                    let transport = Stdio::start(program, Arc::clone(&wire)).map_err(|error| {
                        let program = failure::short(&program.program, 200);
                        let hint = match error.kind() {
                            io::ErrorKind::PermissionDenied => RUNNABLE,
                            _ => "",
                        };
                        Failure::unreached(&format!("cannot run {program}: {error}{hint}"))
                    })?;
                    face.serve_with_lifecycle(transport, mode).await.map_err(|e| unmade(e, &wire))
                }
                Place::Endpoint(endpoint) => {
                    let http = Http::new(endpoint, settings.timeout, Arc::clone(&wire))?;
                    let transport = StreamableHttpClientTransport::with_client(http, carriage());
                    face.serve_with_lifecycle(transport, mode).await.map_err(|e| unmade(e, &wire))
                }
            }
        };
        let service = match timeout(settings.timeout, made).await {
            Ok(made) => made?,
            Err(_) => return Err(Failure::not_up(settings.timeout)),
        };
        Self::kept(service, wire)
    }

    fn kept(
        service: RunningService<RoleClient, Face>,
        wire: Arc<Wire>,
    ) -> Result<Arc<Self>, Failure> {
        let peer = service.peer().clone();
        let info = peer.peer_info().ok_or_else(|| Failure::lost("it did not introduce itself"))?;
        let connection = Arc::new(Self {
            peer,
            modern: !info.protocol_version.has_initialize(),
            offers: info.capabilities.clone(),
            wire: Arc::clone(&wire),
            closed: CancellationToken::new(),
        });
        let version = info.protocol_version.as_str();
        wire.log().tell(Level::Debug, &format!("connected to the MCP server, version {version}"));
        let closed = connection.closed.clone();
        tokio::spawn(attend(service, wire, closed));
        Ok(connection)
    }

    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// Says whether the version is one without a handshake.
    pub(crate) fn is_modern(&self) -> bool {
        self.modern
    }

    pub(crate) fn offers(&self) -> &ServerCapabilities {
        &self.offers
    }

    /// Ends the connection, and waits until nothing of it is left.
    pub(crate) async fn close(&self) {
        self.wire.end(Failure::lost("the adapter was shut down"));
        self.closed.cancelled().await;
    }

    /// Makes a request and returns its result as it came. If the call ends before, the server is told.
    pub(crate) async fn request(
        &self,
        question: Question<'_>,
        ending: &Ending,
    ) -> Result<Object, Failure> {
        let Question { method, params, context, kind } = question;
        let pending = Pending::new(context.cloned(), method == "tools/list");
        let mut request = CustomRequest::new(method, Some(Value::Object(params)));
        request.extensions.insert(Arc::clone(&pending));
        let options = PeerRequestOptions::no_options().with_meta(self.meta(context));
        let sent =
            self.peer.send_cancellable_request(ClientRequest::CustomRequest(request), options);
        let mut handle = sent.await.map_err(|_| Failure { sent: false, ..self.wire.why() })?;
        let over = tokio::select! {
            biased;
            answer = &mut handle.rx => Ok(answer.unwrap_or(Err(ServiceError::TransportClosed))),
            error = ending.reached() => Err(Failure::answered(error)),
            why = self.wire.ended() => Err(why),
        };
        self.wire.forget(&pending);
        match (over, pending.take()) {
            (_, Some(Answer::Result(Value::Object(result)))) => Ok(result),
            (_, Some(Answer::Result(_))) => {
                Err(Failure::malformed("has a result that is no object"))
            }
            (_, Some(Answer::Error(Value::Object(error)))) => {
                Err(Failure::answered(failure::upstream(&error, kind)))
            }
            (_, Some(Answer::Error(_))) => {
                Err(Failure::malformed("has an error that is no object"))
            }
            (_, Some(Answer::Failed(failure))) => {
                if failure.renew {
                    self.wire.retire(failure.clone());
                }
                Err(failure)
            }
            (Ok(answer), None) => {
                let failure = self.unanswered(answer.err());
                Err(Failure { sent: pending.was_sent(), ..failure })
            }
            (Err(failure), None) => {
                if !self.wire.is_over() {
                    self.tell_over(handle, &failure.error);
                }
                Err(Failure { sent: pending.was_sent(), ..failure })
            }
        }
    }

    /// Says why a request came to its end without an answer.
    fn unanswered(&self, error: Option<ServiceError>) -> Failure {
        if self.wire.is_over() {
            return self.wire.why();
        }
        match error {
            Some(ServiceError::McpError(error)) => {
                Failure::answered(failure::upstream(&members(json!(error)), "answer"))
            }
            Some(ServiceError::TransportSend(error)) => {
                let failure = Failure::lost(&error.error.to_string());
                self.wire.end(failure.clone());
                failure
            }
            // It is the stream of one answer that broke, of many.
            _ => Failure { renew: false, ..Failure::lost("the answer broke off") },
        }
    }

    /// Tells the server that nobody waits any more. One that does not even listen is left.
    fn tell_over(&self, handle: RequestHandle<RoleClient>, error: &AdapterError) {
        let (reason, wire) = (error.message.clone(), Arc::clone(&self.wire));
        tokio::spawn(async move {
            if timeout(TELLING, handle.cancel(Some(reason))).await.is_err() {
                wire.end(Failure::lost("it takes no messages"));
            }
        });
    }

    /// Makes what goes along with a request: the trace, and what the caller can be asked.
    fn meta(&self, context: Option<&CallContext>) -> RequestMetaObject {
        let mut meta = RequestMetaObject::new();
        let Some(context) = context else { return meta };
        if let Some(trace) = context.traceparent() {
            meta.set_traceparent(trace);
        }
        if self.modern {
            let mut abilities = Object::new();
            for name in ["elicitation", "sampling", "roots"] {
                if let Some(ability) = context.client_capability(name) {
                    abilities.insert(name.to_owned(), ability.clone());
                }
            }
            meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), abilities.into());
            if self.offers.logging.is_some() {
                meta.insert("io.modelcontextprotocol/logLevel".to_owned(), "info".into());
            }
        }
        meta
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.wire.end(Failure::lost("nobody needs it"));
    }
}

/// One request.
pub(crate) struct Question<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: Object,
    /// The call that it is made for.
    pub(crate) context: Option<&'a CallContext>,
    /// What it is about, for errors.
    pub(crate) kind: &'static str,
}

/// Keeps a connection until it is over, and clears up after it.
async fn attend(
    mut service: RunningService<RoleClient, Face>,
    wire: Arc<Wire>,
    closed: CancellationToken,
) {
    let why = wire.ended().await;
    wire.log().tell(Level::Debug, &why.error.message);
    drop(service.close_with_timeout(CLOSING).await);
    closed.cancel();
}

/// Sets how requests to an endpoint are carried.
fn carriage() -> StreamableHttpClientTransportConfig {
    let mut backoff = ExponentialBackoff::default();
    backoff.base_duration = Duration::from_millis(200);
    backoff.max_delay = Some(Duration::from_secs(2));
    // Then the stream is given up, and the calls that wait for it are told so.
    backoff.max_times = Some(3);
    let mut config = StreamableHttpClientTransportConfig::with_uri("mcp")
        .max_concurrent_requests(AT_ONCE)
        .max_sse_event_size(MAX_MESSAGE)
        .control_request_timeout(TELLING)
        // A new session is a new connection, whose lists are compared with those of the last one.
        .reinit_on_expired_session(false);
    config.retry_config = Arc::new(backoff);
    config
}

/// Says why a connection could not be made.
fn unmade(error: ClientInitializeError, wire: &Wire) -> Failure {
    if wire.is_over() {
        return wire.why();
    }
    match error {
        ClientInitializeError::TransportError { error, context } => {
            match error.error.downcast::<StreamableHttpError<Failed>>() {
                Ok(error) => match *error {
                    StreamableHttpError::Client(Failed(failure)) => failure,
                    other => Failure::lost(&other.to_string()),
                },
                Err(error) => Failure::lost(&format!("{context}: {error}")),
            }
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => unmade(*fallback, wire),
        ClientInitializeError::JsonRpcError(error) => {
            let error = failure::upstream(&members(json!(error)), "version");
            Failure { renew: true, ..Failure::answered(error) }
        }
        other => Failure::lost(&failure::short(&other.to_string(), 300)),
    }
}

fn members(value: Value) -> Object {
    match value {
        Value::Object(members) => members,
        _ => Object::new(),
    }
}
