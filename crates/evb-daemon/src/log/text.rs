//! [`Text`]: log lines for people, with a time, a level and a sentence.

#[cfg(test)]
mod tests;

use std::{
    fmt::{Debug, Write as _},
    time::Instant,
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

use super::repeats::{LogLine, Repeats};

/// A layer that writes each event as a line. At INFO, WARN and ERROR, a message of evb is a whole
/// sentence, so the line has neither fields nor a target. The line begins with the role that wrote
/// it, which the field `who` of a span names.
pub(super) struct Text {
    repeats: Repeats,
}

/// Name of the role that writes the lines within a span.
struct Who(String);

impl Text {
    pub(super) fn new(repeats: Repeats) -> Self {
        Self { repeats }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Text {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut said = Said::default();
        attributes.record(&mut said);
        if let (Some(who), Some(span)) = (said.who, context.span(id)) {
            span.extensions_mut().insert(Who(who));
        }
    }

    /// Adds the line of an event to the log, with the role that its spans name.
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        let of_span = |span: tracing_subscriber::registry::SpanRef<'_, S>| {
            span.extensions().get::<Who>().map(|who| who.0.clone())
        };
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        let is_detail = level > Level::INFO;
        let mut text = if is_detail { format!("{target}: {}", said.message) } else { said.message };
        // Other libraries say in fields what evb says in sentences.
        if is_detail || !target.starts_with("evb") {
            text += &said.fields;
        }
        let who = context.event_scope(event).and_then(|mut scope| scope.find_map(of_span));
        self.repeats.add(LogLine { level, who, text, unsaid: said.unsaid }, Instant::now());
    }
}

/// The message and fields of an event.
#[derive(Default)]
struct Said {
    message: String,
    who: Option<String>,
    unsaid: u64,
    fields: String,
}

impl Visit for Said {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "unsaid" => self.unsaid = value,
            _ => self.record_debug(field, &value),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "who" => self.who = Some(value.to_owned()),
            _ => self.record_debug(field, &value),
        }
    }

    /// Notes a field as text, unless it has a place of its own.
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "who" => {
                self.who = Some(format!("{value:?}"));
                Ok(())
            }
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
