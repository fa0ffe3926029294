//! Logs and traces of the daemon: what is written to standard error, and what a collector gets.

mod error;
mod export;
mod level;
mod lines;
mod pipe;
mod settings;

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState,
    TracerProvider as _,
};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer as _, Registry, reload};

pub use error::Error;

use crate::clock::Clock;
use crate::trace::TraceContext;
use lines::Lines;
use pipe::Writer;

/// How long the last lines, and then the last spans, may take at the end.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether spans go to a collector. Without that, nobody needs their context.
static EXPORTING: AtomicBool = AtomicBool::new(false);

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// A text that is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Takes a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, for the one who needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// A collector of traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Otlp {
    /// Its URL; without a path, `/v1/traces` is appended.
    pub endpoint: String,
    /// What this daemon is called there.
    pub service_name: String,
    /// Which part of the traces that begin here is recorded: from 0 to 1.
    pub sample_ratio: f64,
    /// Headers of every request, such as `authorization`.
    pub headers: Vec<(String, Hidden)>,
}

/// What is logged, how, and where traces go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// What is logged: a level, or levels for parts: `info,nexus_router::store=debug`.
    pub level: String,
    /// The form of the lines.
    pub format: Format,
    /// The collector, if there is one.
    pub otlp: Option<Otlp>,
}

/// Logs and traces that were set up. When this goes, what waits is written and sent, within a few seconds.
pub struct Telemetry {
    filter: reload::Handle<Targets, Registry>,
    level: Mutex<String>,
    spans: Option<SdkTracerProvider>,
    patience: Duration,
    // Goes last: the others may have something to say.
    _lines: Writer,
}

/// Sets up logs, to standard error, and traces for the whole process.
///
/// # Errors
/// When a setting cannot be used, there is no thread, or logs were set up before.
pub fn start(settings: &Settings) -> Result<Telemetry, Error> {
    let (telemetry, subscriber) = build(settings, Box::new(std::io::stderr()), PATIENCE)?;
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|_| Error::Start("they were set up before".to_owned()))?;
    Ok(telemetry)
}

fn build(
    settings: &Settings,
    sink: Box<dyn Write + Send>,
    patience: Duration,
) -> Result<(Telemetry, Box<dyn Subscriber + Send + Sync>), Error> {
    let (format, clock) = (settings.format, Clock::System);
    let (filter, handle) = reload::Layer::new(level::parse(&settings.level)?);
    let spans = settings.otlp.as_ref().map(export::provider).transpose()?;
    let told = move |count| lines::dropped(format, clock.now(), count);
    let (pipe, writer) = pipe::start(sink, told, patience)?;
    // What is exported does not depend on what is logged.
    let exported = Targets::new().with_target(env!("CARGO_CRATE_NAME"), LevelFilter::INFO);
    let lines =
        tracing_subscriber::registry().with(Lines { format, clock, pipe }.with_filter(filter));
    let subscriber: Box<dyn Subscriber + Send + Sync> = match &spans {
        // A layer that is not there would be taken for one that may want everything: no line or span of a library that
        // nobody wants could be passed over at once.
        None => Box::new(lines),
        Some(provider) => {
            EXPORTING.store(true, Ordering::Release);
            let traces = tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("nexus-router"))
                .with_location(false)
                .with_threads(false)
                .with_tracked_inactivity(false)
                .with_context_activation(false)
                .with_filter(exported);
            Box::new(lines.with(traces))
        }
    };
    let level = Mutex::new(settings.level.clone());
    let telemetry = Telemetry { filter: handle, level, spans, patience, _lines: writer };
    Ok((telemetry, subscriber))
}

impl Telemetry {
    /// Changes what is logged, from now on.
    ///
    /// # Errors
    /// When the text says no level. Then nothing is changed.
    pub fn set_level(&self, level: &str) -> Result<(), Error> {
        let targets = level::parse(level)?;
        let mut current = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        self.filter.reload(targets).map_err(|error| Error::Start(error.to_string()))?;
        level.clone_into(&mut current);
        Ok(())
    }

    /// Says whether a text could be given to [`set_level`](Self::set_level).
    ///
    /// # Errors
    /// When it could not.
    pub fn check_level(&self, level: &str) -> Result<(), Error> {
        level::parse(level).map(drop)
    }

    /// Returns what is logged.
    #[must_use]
    pub fn level(&self) -> String {
        self.level.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(spans) = &self.spans
            && let Err(error) = spans.shutdown_with_timeout(self.patience)
        {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("level", &self.level()).finish_non_exhaustive()
    }
}

/// Says whether spans go to a collector.
#[must_use]
pub fn is_exporting() -> bool {
    EXPORTING.load(Ordering::Acquire)
}

/// Makes a span of the work for a caller. A collector gets it always; the log has it from level debug on,
/// because a span costs more than what it adds to the few lines of other levels.
macro_rules! work_span {
    ($($fields:tt)*) => {
        if $crate::telemetry::is_exporting() {
            tracing::info_span!($($fields)*)
        } else {
            tracing::debug_span!($($fields)*)
        }
    };
}
pub(crate) use work_span;

/// Makes a span a part of a caller's trace. Only before the span is entered; nothing without a collector.
pub fn adopt(span: &Span, context: &TraceContext) {
    if !is_exporting() {
        return;
    }
    let remote = SpanContext::new(
        TraceId::from_bytes(context.trace_id),
        SpanId::from_bytes(context.span_id),
        TraceFlags::new(context.flags),
        true,
        TraceState::default(),
    );
    // A span that is not recorded has no place in a trace.
    drop(span.set_parent(Context::new().with_remote_span_context(remote)));
}

/// Gives an exported span the error status, with a stable code as its description.
pub fn mark_failed(span: &Span, code: &str) {
    if is_exporting() {
        span.set_status(Status::error(code.to_owned()));
    }
}

/// Gives the span of the present run the error status, if the run has an exported span.
pub(crate) fn mark_run_failed(reason: &str) {
    if is_exporting() {
        let span = Span::current();
        if span.metadata().is_some_and(|span| span.name() == "run") {
            mark_failed(&span, reason);
        }
    }
}

/// Returns the place of a span in its trace, for those who are called from it. There is none without a
/// collector.
#[must_use]
pub fn current(span: &Span) -> Option<TraceContext> {
    if !is_exporting() {
        return None;
    }
    let context = span.context();
    let place = context.span().span_context().clone();
    place.is_valid().then(|| TraceContext {
        trace_id: place.trace_id().to_bytes(),
        span_id: place.span_id().to_bytes(),
        flags: place.trace_flags().to_u8(),
    })
}

#[cfg(test)]
mod tests;
