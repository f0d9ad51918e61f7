//! A record of the log, for assertions.

use std::{
    fmt::{Debug, Write as _},
    sync::{Mutex, OnceLock},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

static LINES: OnceLock<Mutex<Vec<String>>> = OnceLock::new();

/// Starts to keep the warnings and errors of this process.
pub(crate) fn keep() {
    if LINES.set(Mutex::default()).is_ok() {
        tracing::subscriber::set_global_default(Keeper).expect("nobody else listens");
    }
}

/// Returns the lines kept so far that contain all of the given texts.
pub(crate) fn lines(texts: &[&str]) -> Vec<String> {
    let lines = LINES.get().expect("`keep` was called").lock().expect("no writer panics");
    lines.iter().filter(|line| texts.iter().all(|text| line.contains(text))).cloned().collect()
}

struct Keeper;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        if let Some(lines) = LINES.get() {
            lines.lock().expect("no writer panics").push(line.0);
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
