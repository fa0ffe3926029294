//! The adapter: one call is one request and, where allowed, its redirects.

use std::sync::Arc;

use nexus_router_sdk::{Adapter, AdapterError, CallContext, Capability, Object, code, redact};
use ureq::http::HeaderValue;
use ureq::http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use ureq::http::{Method, Request, Response};
use ureq::tls::TlsConfig;
use ureq::{Agent, AsSendBody, Body};
use url::Url;

use crate::config::Settings;
use crate::dial::{Dialler, Later};
use crate::failure::{self, Limit, Refusal};
use crate::grip::Grip;
use crate::reply::{self, Unread};
use crate::{query, target};

/// What the adapter can do.
pub(crate) const CAPABILITIES: &[Capability] =
    &[Capability::Apply, Capability::Timeout, Capability::External];

/// The size of either buffer of a connection.
const BUFFER: usize = 64 << 10;

/// How large the head of a response may be.
const MAX_HEAD: usize = 32 << 10;

/// A configured HTTP service.
pub struct HttpAdapter {
    adapter_id: String,
    settings: Settings,
    agent: Agent,
}

impl HttpAdapter {
    /// Makes an adapter; nothing is connected before the first call.
    pub(crate) fn new(adapter_id: Option<&str>, settings: Settings, tls: TlsConfig) -> Self {
        let adapter_id = adapter_id.filter(|id| !id.is_empty()).map_or_else(
            || format!("http:{}", target::shown_host(settings.base.host())),
            ToOwned::to_owned,
        );
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // Redirects are followed here, where hosts and headers are checked at every step.
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections(settings.pool_max_idle)
            .max_idle_connections_per_host(settings.pool_max_idle)
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            .max_response_header_size(MAX_HEAD)
            .tls_config(tls)
            .build();
        let agent = Agent::with_parts(config, Dialler::default(), Later);
        Self { adapter_id, settings, agent }
    }

    fn exchange(
        &self,
        url: Url,
        sent: Sent<'_>,
        limit: &Limit<'_>,
        grip: &Grip,
    ) -> Result<Object, AdapterError> {
        let mut hop = Hop { url, method: self.settings.http_method.clone(), at_home: true };
        let mut followed = 0;
        loop {
            let shown = target::shown(&hop.url);
            let response = self
                .send(&hop, sent, limit)
                .map_err(|error| failure::transport(&error, &shown, limit))
                .map_err(|error| failure::after_redirects(error, followed))?;
            let status = response.status();
            let reason = grip.take_reason().filter(|reason| !reason.is_empty());
            let reason = reason.map(|reason| redact::text(&reason));
            let reason = reason.as_deref().or(status.canonical_reason()).unwrap_or_default();
            // A date instead of a number would depend on the clocks of both.
            let retry_after = response.headers().get(RETRY_AFTER);
            let retry_after =
                retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            let refusal = Refusal { url: &shown, status: status.as_u16(), reason, retry_after };
            if let Some(next) = self.redirect(&hop, &response, followed, &refusal)? {
                reply::drain(response.into_body());
                followed += 1;
                hop = next;
                continue;
            }
            if status.as_u16() >= 400 {
                reply::drain(response.into_body());
                return Err(refusal.status());
            }
            let max_bytes = self.settings.max_response_bytes;
            let body =
                reply::read(response.into_body(), max_bytes).map_err(|error| match error {
                    Unread::TooLarge => failure::too_large(&shown, status.as_u16(), max_bytes),
                    Unread::Broken(error) => failure::transport(&error, &shown, limit),
                })?;
            return reply::decode(&body, &shown, status.as_u16());
        }
    }

    fn send(
        &self,
        hop: &Hop,
        sent: Sent<'_>,
        limit: &Limit<'_>,
    ) -> Result<Response<Body>, ureq::Error> {
        let mut headers =
            if hop.at_home { &self.settings.headers } else { &self.settings.foreign_headers }
                .clone();
        // The trace is nobody else's business.
        if let Some(trace) = sent.trace.filter(|_| hop.at_home) {
            headers.insert("traceparent", trace.clone());
        }
        let request = Request::builder().method(&hop.method).uri(hop.url.as_str());
        if hop.method == Method::POST {
            let mut request = request.body(sent.body)?;
            *request.headers_mut() = headers;
            self.run(request, limit)
        } else {
            headers.remove(CONTENT_TYPE);
            let mut request = request.body(())?;
            *request.headers_mut() = headers;
            self.run(request, limit)
        }
    }

    fn run(
        &self,
        request: Request<impl AsSendBody>,
        limit: &Limit<'_>,
    ) -> Result<Response<Body>, ureq::Error> {
        let left = limit.left();
        if left.is_zero() {
            return Err(ureq::Error::Timeout(ureq::Timeout::Global));
        }
        let request = self.agent.configure_request(request).timeout_global(Some(left)).build();
        self.agent.run(request)
    }

    /// Returns the next hop if the response is a redirect that may be followed.
    fn redirect(
        &self,
        from: &Hop,
        response: &Response<Body>,
        followed: usize,
        refusal: &Refusal<'_>,
    ) -> Result<Option<Hop>, AdapterError> {
        let method = match refusal.status {
            // What every client does with a POST, whatever the first two once meant.
            301..=303 => Method::GET,
            307 | 308 => from.method.clone(),
            _ => return Ok(None),
        };
        let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
        let Some(url) = target::redirected(&from.url, location) else {
            return Err(refusal.redirect("Location is not an http or https URL", None));
        };
        let Some(host) = url.host() else {
            return Err(refusal.redirect("Location has no host", None));
        };
        let shown_host = target::shown_host(&host);
        let most = self.settings.follow_redirects;
        if followed >= most {
            let why = format!("redirects followed: {followed} of {most}");
            return Err(refusal.redirect(&why, Some(&shown_host)));
        }
        if !self.settings.allows(&host) {
            return Err(failure::host_not_allowed(refusal.url, &shown_host));
        }
        if from.url.scheme() == "https" && url.scheme() == "http" {
            return Err(refusal.redirect("from https to http", Some(&shown_host)));
        }
        let at_home = from.at_home && self.settings.base.is_origin_of(&url);
        Ok(Some(Hop { url, method, at_home }))
    }
}

/// What is sent besides the headers of the configuration.
#[derive(Clone, Copy)]
struct Sent<'a> {
    body: &'a [u8],
    /// The trace that the call is a part of.
    trace: Option<&'a HeaderValue>,
}

/// One request of a call.
struct Hop {
    url: Url,
    method: Method,
    /// No redirect has led to another origin; a way back from there does not count.
    at_home: bool,
}

impl Adapter for HttpAdapter {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        "http"
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn call(
        &self,
        context: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        context.check()?;
        if context.dry_run() {
            // Not declared, so not to be expected; a request could not be taken back.
            let message = "the http adapter cannot simulate a call";
            return Err(AdapterError::operational(code::INVALID_ARGUMENT, message));
        }
        let mut url = self.settings.endpoint(tool, method)?;
        let body = if self.settings.http_method == Method::GET {
            query::add(&mut url, &args)?;
            Vec::new()
        } else {
            serde_json::to_vec(&args).map_err(|error| {
                AdapterError::bug(format!("arguments cannot be written: {error}"))
            })?
        };
        let limit = Limit::start(self.settings.timeout, &self.settings.timeout_s, context);
        let shown = target::shown(&url);
        let entered = Grip::enter();
        let grip = Arc::clone(entered.grip());
        context.on_cancel(move || grip.cut());
        let trace = context.traceparent().and_then(|text| text.parse().ok());
        let sent = Sent { body: &body, trace: trace.as_ref() };
        match self.exchange(url, sent, &limit, entered.grip()) {
            Err(_) if context.is_cancelled() => Err(failure::cancelled(&shown)),
            answer => answer,
        }
    }

    fn shutdown(&self) {
        self.agent.clone().shutdown();
    }
}
