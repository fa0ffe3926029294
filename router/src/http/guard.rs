//! Lets a request through to its handler: host, origin, token, scope, rate, query and body, in this order.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode, request};
use tracing::Instrument as _;

use super::body::{BodyLimits, BufferedBody, CallerMemory};
use super::count::Count;
use super::problem::Problem;
use super::routes::{Access, Payload, ROUTES, Route};
use super::{Peer, cors};
use crate::access::{Bearer, Denial, Scope};
use crate::json::Value;
use crate::mcp::Endpoint;
use crate::offload::{self, Load, MovableWork};
use crate::service::{ConnectionHandle, Service, Standing};
use crate::share::FairPermit;
use crate::telemetry::{self, work_span};
use crate::trace::TraceContext;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What requests are answered with.
#[derive(Clone)]
struct Means {
    service: Service,
    mcp: Arc<Endpoint>,
}

/// A request that may be answered.
pub(super) struct Context {
    pub(super) service: Service,
    pub(super) mcp: Arc<Endpoint>,
    pub(super) standing: Arc<Standing>,
    pub(super) bearer: Bearer,
    pub(super) trace: Option<TraceContext>,
    pub(super) headers: HeaderMap,
    pub(super) body: BufferedBody,
    pub(super) memory: CallerMemory,
    route: &'static Route,
    method: http::Method,
    peer: Option<Peer>,
    params: Vec<(String, String)>,
    query: Vec<(String, String)>,
}

impl Context {
    /// Returns a part of the path.
    pub(super) fn param(&self, name: &str) -> &str {
        let found = self.params.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Returns whether the answer goes without its body.
    pub(super) fn is_head(&self) -> bool {
        self.method == http::Method::HEAD
    }

    /// Returns a value of the query.
    pub(super) fn query(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns a header, if it is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Asks for a scope that depends on what the request says.
    pub(super) fn require(&self, scope: Scope) -> Result<(), Problem> {
        self.bearer.require(scope).map_err(|denial| {
            let (what, from) = (what(self.route), from(self.peer));
            self.service.refused(&denial, &what, &from, Some(&self.bearer.caller.name));
            Problem::from(&denial)
        })
    }

    /// Answers with what may wait for a disk or a child, on a thread that may wait.
    pub(super) async fn blocking(
        self,
        question: impl FnOnce(&Self) -> Result<Response, Problem> + Send + 'static,
    ) -> Result<Response, Problem> {
        let memory = self.memory.clone();
        let (answer, turn) = self.ask_in_turn(question).await;
        // The turn is kept until the answer is counted: so many are in memory besides those that are.
        let answer = answer.map(|response| memory.metered(response));
        drop(turn);
        answer
    }

    /// Asks something that may wait for a disk or a child, on a thread that may wait.
    pub(super) async fn ask<T: Send + 'static>(
        self,
        question: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.ask_in_turn(question).await.0
    }

    /// As [`ask`](Self::ask), and returns the request with the answer.
    pub(super) async fn ask_with<T: Send + 'static>(
        self,
        question: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(Self, T), Problem> {
        let span = tracing::Span::current();
        let turn = self.service.turn(Some(&self.bearer.caller)).await;
        let asked = move || {
            let answer = span.in_scope(|| question(&self));
            drop(turn);
            answer.map(|answer| (self, answer))
        };
        let asked = tokio::task::spawn_blocking(asked).await;
        asked.unwrap_or_else(|error| Err(mistake(&error)))
    }

    async fn ask_in_turn<T: Send + 'static>(
        self,
        question: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> (Result<T, Problem>, Option<FairPermit>) {
        let span = tracing::Span::current();
        let turn = self.service.turn(Some(&self.bearer.caller)).await;
        // The turn goes along: the work goes on when whoever asked is gone.
        let asked = move || (span.in_scope(|| question(&self)), Some(turn));
        let asked = tokio::task::spawn_blocking(asked).await;
        asked.unwrap_or_else(|error| (Err(mistake(&error)), None))
    }

    /// Reads the JSON in the body; a large one on a thread that may be busy for a while.
    pub(super) async fn json(&mut self) -> Result<Value, Problem> {
        if self.body.bytes.len() < LARGE {
            return self.memory.parse(&mut self.body);
        }
        let (memory, mut body) = (self.memory.clone(), std::mem::take(&mut self.body));
        let turn = self.service.turn(Some(&self.bearer.caller)).await;
        let parsed = tokio::task::spawn_blocking(move || (memory.parse(&mut body), body, turn));
        match parsed.await {
            Ok((parsed, body, _)) => {
                self.body = body;
                parsed
            }
            Err(error) => Err(mistake(&error)),
        }
    }
}

/// A text of this length takes about as long to read as a request may keep others waiting.
const LARGE: usize = 256 * 1024;

pub(super) fn mistake(error: &tokio::task::JoinError) -> Problem {
    // The process ends, and what was not begun by then never will be.
    if error.is_cancelled() {
        return Problem::draining();
    }
    tracing::error!(%error, "a request panicked");
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    Problem::new(status, "ROUTER_FAILED", "the router made a mistake")
}

/// Makes the service that answers requests, from the table of routes.
pub(super) fn app(service: &Service) -> std::io::Result<Router> {
    let mcp = Arc::new(Endpoint::new(service)?);
    let mut paths: Vec<(&'static str, MethodRouter)> = Vec::new();
    for route in ROUTES {
        let means = Means { service: service.clone(), mcp: Arc::clone(&mcp) };
        let handler = move |request: Request| answer(means.clone(), route, request);
        let filter = MethodFilter::try_from(route.method()).unwrap_or(MethodFilter::GET);
        match paths.iter_mut().find(|(path, _)| *path == route.path) {
            Some((_, methods)) => *methods = std::mem::take(methods).on(filter, handler),
            None => paths.push((route.path, on(filter, handler))),
        }
    }
    let mut app = Router::new();
    for (path, methods) in paths {
        app = app.route(path, methods);
    }
    let (absent, barred) = (service.clone(), service.clone());
    let app = app
        .fallback(move |request: Request| {
            let detail = format!("there is no {} {}", request.method(), request.uri().path());
            let problem = Problem::new(StatusCode::NOT_FOUND, "NO_SUCH_ROUTE", detail);
            let count = Count::astray(&absent, request.method());
            let answer = no_route(&absent, &request, problem).into_response();
            count.answered(answer.status());
            std::future::ready(answer)
        })
        .method_not_allowed_fallback(move |request: Request| {
            let count = Count::astray(&barred, request.method());
            let answer = cors::preflight(&barred, &request).unwrap_or_else(|| {
                let detail = format!("{} does not take {}", request.uri().path(), request.method());
                let status = StatusCode::METHOD_NOT_ALLOWED;
                let problem = Problem::new(status, "METHOD_NOT_ALLOWED", detail);
                no_route(&barred, &request, problem).into_response()
            });
            count.answered(answer.status());
            std::future::ready(answer)
        });
    Ok(app)
}

/// Tells that there is no such route, but not to pages that a browser was tricked into.
fn no_route(service: &Service, request: &Request, problem: Problem) -> Problem {
    let peer = request.extensions().get::<Peer>();
    let tls = peer.is_some_and(|peer| peer.tls);
    let Err(refused) = service.standing().guard.check_headers(request.headers(), tls) else {
        return problem;
    };
    let (denial, from) = (Denial::from(refused), from(peer.copied()));
    service.refused(&denial, "no route", &from, None);
    Problem::from(&denial)
}

/// Answers a request of a route, and tells that it did.
async fn answer(means: Means, route: &'static Route, request: Request) -> Response {
    let service = means.service.clone();
    let count = Count::begin(&service, route.path, route.method);
    let peer = request.extensions().get::<Peer>().copied();
    let origin = cors::origin(&service, request.headers(), peer);
    let incoming = request.headers().get(&TRACEPARENT).and_then(|value| value.to_str().ok());
    let incoming = incoming.and_then(TraceContext::parse);
    let span =
        work_span!("request", otel.kind = "server", route = route.path, method = route.method);
    if let Some(incoming) = &incoming {
        telemetry::adopt(&span, incoming);
    }
    // The span that is exported, or a link of our own in the chain of the caller.
    let trace = telemetry::current(&span).or_else(|| incoming.map(|incoming| incoming.child()));
    let answered = admit(&means, route, request, trace);
    let answered = async {
        let context = answered.await?;
        let is_large = context.body.bytes.len() >= offload::LARGE;
        let load = if is_large { Load::Heavy } else { Load::Light };
        let answer = MovableWork::new((route.handler)(context), load).await;
        answer.unwrap_or_else(|error| Err(mistake(&error)))
    };
    let mut response = match answered.instrument(span).await {
        Ok(response) => response,
        Err(problem) => {
            if let Some(code) = problem.refusal() {
                service.metrics().refused(code);
            }
            match service.app().secrets() {
                Ok(secrets) if problem.is_large() => {
                    let shown = tokio::task::spawn_blocking(move || problem.without(&secrets));
                    shown.await.unwrap_or_else(|error| mistake(&error)).into_response()
                }
                Ok(secrets) => problem.without(&secrets).into_response(),
                Err(_) => problem.into_response(),
            }
        }
    };
    if let Some(trace) = trace
        && let Ok(value) = HeaderValue::from_str(&trace.to_string())
    {
        response.headers_mut().insert(TRACEPARENT, value);
    }
    if let Some(origin) = origin {
        cors::open(&mut response, origin);
    }
    count.answered(response.status());
    response
}

async fn admit(
    means: &Means,
    route: &'static Route,
    request: Request,
    trace: Option<TraceContext>,
) -> Result<Context, Problem> {
    let Means { service, mcp } = means;
    let standing = service.standing();
    let (mut parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>().copied();
    let bearer = identify(service, &standing, route, &parts, peer).map_err(|(denial, name)| {
        service.refused(&denial, &what(route), &from(peer), name.as_deref());
        Problem::from(&denial)
    })?;
    if route.access != Access::Public
        && let Some(connection) = parts.extensions.get::<ConnectionHandle>()
    {
        let limit = standing.server.token_connections();
        service.authenticated(limit, connection, &bearer.caller)?;
    }
    let query = query(route, parts.uri.query().unwrap_or_default())?;
    let params = match RawPathParams::from_request_parts(&mut parts, &()).await {
        Ok(params) => {
            params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        }
        Err(_) => return Err(Problem::query("the path is not UTF-8")),
    };
    let limit = match route.payload {
        Payload::None => 0,
        Payload::Json(_) | Payload::Message => standing.server.body_bytes,
        Payload::Bundle => standing.server.bundle_bytes,
    };
    let declared =
        parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let memory = CallerMemory::new(service.memory(), &bearer.caller);
    let body = match limit {
        // A body that nobody reads is not kept.
        0 => BufferedBody::default(),
        limit => memory.read(body, declared, BodyLimits::of(&standing.server, limit)).await?,
    };
    let (service, headers, mcp) = (service.clone(), parts.headers, Arc::clone(mcp));
    Ok(Context {
        service,
        mcp,
        standing,
        bearer,
        trace,
        headers,
        body,
        memory,
        route,
        method: parts.method,
        peer,
        params,
        query,
    })
}

/// Returns what was asked for, as it is recorded.
fn what(route: &Route) -> String {
    format!("{} {}", route.method, route.path)
}

/// Returns the address that a request came from.
fn from(peer: Option<Peer>) -> String {
    peer.map_or_else(String::new, |peer| peer.address.ip().to_string())
}

/// Finds out who asks, and whether they may. Who is refused is named as far as is known.
fn identify(
    service: &Service,
    standing: &Standing,
    route: &Route,
    parts: &request::Parts,
    peer: Option<Peer>,
) -> Result<Bearer, (Denial, Option<String>)> {
    let anonymous = |denial: Denial| (denial, None);
    let peer = peer.ok_or_else(|| anonymous(Denial::TokenMissing))?;
    let guarded = standing.guard.check_headers(&parts.headers, peer.tls);
    guarded.map_err(|refused| anonymous(refused.into()))?;
    let needed = match route.access {
        // Nobody looks at who asks for what is public.
        Access::Public => return Ok(Bearer::local_with(Scope::Read)),
        Access::Scope(scope) => scope,
    };
    let bearer = if peer.tokens {
        let mut presented = parts.headers.get_all(AUTHORIZATION).iter();
        let (first, more) = (presented.next(), presented.next().is_some());
        // Of two that are shown, nobody knows which is meant.
        let presented = first.filter(|_| !more).and_then(|value| value.to_str().ok());
        let presented = presented.and_then(bearer_token);
        let bearer = service.identify(standing, presented);
        let bearer =
            bearer.map_err(|denial| anonymous(service.stranger(denial, peer.address.ip())))?;
        let counted = service.count(standing, &bearer.caller);
        counted.map_err(|denial| (denial, Some(bearer.caller.name.clone())))?;
        bearer
    } else {
        Bearer::local()
    };
    match bearer.require(needed) {
        Ok(()) => Ok(bearer),
        Err(denial) => Err((denial, Some(bearer.caller.name.clone()))),
    }
}

fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn query(route: &Route, text: &str) -> Result<Vec<(String, String)>, Problem> {
    let mut query: Vec<(String, String)> = Vec::new();
    for (key, value) in form_urlencoded::parse(text.as_bytes()) {
        if !route.query.iter().any(|known| known.name == key) {
            let known: Vec<&str> = route.query.iter().map(|known| known.name).collect();
            let hint = match known[..] {
                [] => "this route takes no query".to_owned(),
                _ => format!("this route takes {}", known.join(", ")),
            };
            return Err(Problem::query(format!("unknown query parameter {key:?}")).hint(hint));
        }
        if query.iter().any(|(known, _)| *known == key) {
            return Err(Problem::query(format!("the query parameter {key} stands twice")));
        }
        query.push((key.into_owned(), value.into_owned()));
    }
    Ok(query)
}
