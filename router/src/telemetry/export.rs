//! Spans for a collector, over OTLP: queued within bounds, sent by a thread of their own.
//!
//! A collector that is gone costs spans, and nothing else.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderName, HeaderValue, Request, Response, Uri};
use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{
    Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider,
};

use super::{Error, Hidden, Otlp};

/// How long one attempt to send may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// So many spans may wait to be sent.
const MAX_SPANS: usize = 4096;
/// So many are sent together.
const BATCH: usize = 512;
/// How long spans wait for others.
const DELAY: Duration = Duration::from_secs(2);
/// The largest answer that is read.
const MAX_ANSWER: u64 = 64 * 1024;
/// Failures are told once in this time.
const QUIET: Duration = Duration::from_secs(60);

pub(super) fn provider(otlp: &Otlp) -> Result<SdkTracerProvider, Error> {
    let bad = |what: &str, problem: String| Error::Otlp { what: what.to_owned(), problem };
    if !(0.0..=1.0).contains(&otlp.sample_ratio) {
        let problem = "it is not between 0 and 1".to_owned();
        return Err(bad(&format!("the ratio {}", otlp.sample_ratio), problem));
    }
    let endpoint = endpoint(&otlp.endpoint)?;
    let retries = RetryPolicy::recommended()
        .with_max_retries(2)
        .with_initial_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(1));
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Client::new(&otlp.headers)?)
        .with_endpoint(endpoint)
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(TIMEOUT)
        .with_retry_policy(retries)
        .build()
        .map_err(|error| bad("its settings", error.to_string()))?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_SPANS)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
    let ratio = Sampler::TraceIdRatioBased(otlp.sample_ratio);
    let resource = Resource::builder_empty()
        .with_service_name(otlp.service_name.clone())
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(SdkTracerProvider::builder()
        .with_span_processor(processor)
        .with_sampler(Sampler::ParentBased(Box::new(ratio)))
        .with_resource(resource)
        .build())
}

/// Returns the address that spans are sent to. One without a path gets that of the protocol.
fn endpoint(text: &str) -> Result<String, Error> {
    // Not shown before it is known to hold no password.
    let bad = |what: &str, problem: &str| Error::Otlp {
        what: what.to_owned(),
        problem: problem.to_owned(),
    };
    let uri: Uri = text.parse().map_err(|_| bad("the endpoint", "it is no URL"))?;
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    if authority.contains('@') {
        return Err(bad("the endpoint", "credentials belong in a header"));
    }
    if !matches!(uri.scheme_str(), Some("http" | "https")) || authority.is_empty() {
        return Err(bad(&format!("the endpoint {text}"), "it is no http or https URL"));
    }
    Ok(match uri.path() {
        "" | "/" => format!("{}/v1/traces", text.trim_end_matches('/')),
        _ => text.to_owned(),
    })
}

/// Sends what the SDK wants to be sent. Its thread may block.
pub(super) struct Client {
    agent: ureq::Agent,
    headers: Vec<(HeaderName, HeaderValue)>,
    trouble: Mutex<Trouble>,
}

/// Failures that were not told yet.
#[derive(Default)]
struct Trouble {
    told_at: Option<Instant>,
    failures: u64,
}

impl Client {
    pub(super) fn new(headers: &[(String, Hidden)]) -> Result<Self, Error> {
        let header = |(name, value): &(String, Hidden)| {
            let bad = |problem: &str| Error::Otlp {
                what: format!("the header '{name}'"),
                problem: problem.to_owned(),
            };
            let key =
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("its name is not one"))?;
            let mut value = HeaderValue::from_str(value.reveal())
                .map_err(|_| bad("its value is no plain text"))?;
            value.set_sensitive(true);
            Ok((key, value))
        };
        // What the operator set is in the settings: no proxy of the environment, and no other host.
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("nexus-router/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let headers = headers.iter().map(header).collect::<Result<_, _>>()?;
        Ok(Self { agent, headers, trouble: Mutex::default() })
    }

    /// Sends a request, and tells when that is not possible.
    pub(super) fn attempt(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let answer = self.send(request);
        self.judge(&answer);
        answer
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (mut parts, body) = request.into_parts();
        parts.headers.extend(self.headers.iter().cloned());
        let response = self.agent.run(Request::from_parts(parts, body.to_vec()))?;
        let (parts, body) = response.into_parts();
        let body = body.into_with_config().limit(MAX_ANSWER).read_to_vec()?;
        Ok(Response::from_parts(parts, body.into()))
    }

    /// Tells of failures, but not of each.
    fn judge(&self, answer: &Result<Response<Bytes>, ureq::Error>) {
        let problem = match answer {
            Ok(response) if response.status().is_success() => {
                let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
                if trouble.told_at.take().is_some() {
                    trouble.failures = 0;
                    drop(trouble);
                    tracing::info!("the collector takes spans again");
                }
                return;
            }
            Ok(response) => format!("it answered {}", response.status()),
            Err(error) => error.to_string(),
        };
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.failures += 1;
        if trouble.told_at.is_some_and(|at| at.elapsed() < QUIET) {
            return;
        }
        trouble.told_at = Some(Instant::now());
        let failures = std::mem::take(&mut trouble.failures);
        drop(trouble);
        tracing::warn!(failures, problem, "spans cannot be sent to the collector");
    }
}

impl HttpClient for Client {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.attempt(request).map_err(Into::into) })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_without_a_path_gets_that_of_the_protocol() {
        assert_eq!(endpoint("http://localhost:4318").unwrap(), "http://localhost:4318/v1/traces");
        assert_eq!(endpoint("https://otel.example/").unwrap(), "https://otel.example/v1/traces");
        assert_eq!(endpoint("https://otel.example/in/v1").unwrap(), "https://otel.example/in/v1");
        for bad in ["", "localhost:4318", "ftp://x", "/v1/traces", "http://", "http://a b"] {
            assert_eq!(endpoint(bad).unwrap_err().code(), "OTLP_SETTINGS_INVALID", "{bad}");
        }
    }

    #[test]
    fn no_secret_is_shown() {
        let error = endpoint("http://me:hunter2@otel.example/").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
        let headers = [("authorization".to_owned(), Hidden::new("hunter2\n"))];
        let error = Client::new(&headers).unwrap_err();
        assert!(error.to_string().contains("authorization"), "{error}");
        assert!(!format!("{error} {error:?} {headers:?}").contains("hunter2"), "{error}");
    }
}
