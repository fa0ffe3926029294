//! Makes a line of every event: text for people, or one JSON object, with the fields of its spans.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::Format;
use super::pipe::Pipe;
use crate::clock::{Clock, Timestamp};
use crate::json::{self, Object, Value};
use crate::python_text::{json_escaped, visible};

/// So many characters of a field are logged.
const MAX_FIELD: usize = 8192;
/// Names that a line has already.
const OWN: [&str; 4] = ["ts", "level", "target", "message"];

/// The layer that makes lines.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) format: Format,
    pub(super) clock: Clock,
    pub(super) pipe: Pipe,
}

/// The fields of a span or an event, in their order. A field that is set again has its last value.
#[derive(Clone, Debug, Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    fn set_text(&mut self, name: &'static str, text: &str) {
        let value = match text.char_indices().nth(MAX_FIELD) {
            Some((end, _)) => format!("{}…", &text[..end]).into(),
            None => text.into(),
        };
        self.set(name, value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set_text(field.name(), &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set_text(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.name(), Value::float(value).unwrap_or_else(|| value.to_string().into()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut text = value.to_string();
        let mut source = value.source();
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        self.set_text(field.name(), &text);
    }
}

impl<S> Layer<S> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(Fields(own)) = span.extensions().get::<Fields>() {
                own.iter().for_each(|(name, value)| fields.set(name, value.clone()));
            }
        }
        event.record(&mut fields);
        let metadata = event.metadata();
        let (level, target) = (*metadata.level(), metadata.target());
        self.pipe.send(line(self.format, self.clock.now(), level, target, fields));
    }
}

/// Makes the line that tells of others that were dropped.
pub(super) fn dropped(format: Format, now: Timestamp, count: u64) -> String {
    let mut fields = Fields::default();
    fields
        .set_text("message", "log lines were dropped because they came faster than they were read");
    fields.set("dropped", count.into());
    line(format, now, Level::WARN, module_path!(), fields)
}

fn line(format: Format, now: Timestamp, level: Level, target: &str, fields: Fields) -> String {
    let (message, rest): (Vec<_>, Vec<_>) =
        fields.0.into_iter().partition(|(name, _)| *name == "message");
    let message = message.into_iter().next().map(|(_, value)| value);
    match format {
        Format::Json => {
            let mut object = Object::with_capacity(rest.len() + OWN.len());
            object.insert("ts", now.to_string());
            object.insert("level", level.as_str());
            object.insert("target", target);
            object.insert("message", message.unwrap_or_else(|| "".into()));
            for (name, value) in rest {
                // A field must not pass for what the line says by itself.
                let name = if OWN.contains(&name) { format!("{name}_") } else { name.to_owned() };
                object.insert(name, value);
            }
            json_escaped(&json::to_compact(&object.into())) + "\n"
        }
        Format::Text => {
            let mut text = format!("{now} {:>5} {target}:", level.as_str());
            if let Some(message) = message.as_ref().and_then(Value::as_str) {
                text.push_str(&format!(" {message}"));
            }
            for (name, value) in rest {
                text.push_str(&format!(" {name}={}", shown(&value)));
            }
            visible(&text) + "\n"
        }
    }
}

/// Quotes a text that could be taken for more than one field.
fn shown(value: &Value) -> String {
    match value.as_str() {
        Some(text) if is_word(text) => text.to_owned(),
        _ => json::to_compact(value),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.contains(|c: char| c.is_whitespace() || c == '"' || c == '=' || c.is_control())
}
