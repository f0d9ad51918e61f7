//! [`Repeats`]: joins equal warnings, so that one fault that many roles see takes few lines.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    io::Write,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use evb_config::Plain;
use evb_core::quantities::{counted, time};
use tracing::Level;
use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime as _, SystemTime},
};

/// Time after the first of equal warnings for which others are held back.
const FIRST: Duration = Duration::from_secs(1);

/// Interval between lines about warnings that go on.
const EACH: Duration = Duration::from_secs(10);

/// Most warnings that are compared. Further ones are written as they come.
const TEXTS: usize = 1024;

/// Most roles that one line names.
const NAMED: usize = 10;

/// A log line before it is written.
pub(super) struct LogLine {
    pub(super) level: Level,
    /// The role that writes the line.
    pub(super) who: Option<String>,
    pub(super) text: String,
    /// Number of lines like this one that a limit suppressed before it.
    pub(super) unsaid: u64,
}

/// The writer of log lines. The first of equal warnings is written at once. Those that follow
/// within a second, and then within every ten seconds, are written as one line, which names the
/// roles that gave the warning.
#[derive(Clone)]
pub(super) struct Repeats(Arc<SharedRepeats>);

struct SharedRepeats {
    book: Mutex<Book>,
    /// Wakes the thread that writes what was held back.
    held: Condvar,
}

struct Book {
    out: Box<dyn Write + Send>,
    has_colours: bool,
    texts: HashMap<String, HeldWarnings>,
    has_thread: bool,
}

/// Warnings with one text that were held back.
struct HeldWarnings {
    since: Instant,
    until: Instant,
    count: u64,
    who: Vec<String>,
}

impl Repeats {
    pub(super) fn new(out: impl Write + Send + 'static, has_colours: bool) -> Self {
        let (out, texts) = (Box::new(out), HashMap::new());
        let book = Mutex::new(Book { out, has_colours, texts, has_thread: false });
        Self(Arc::new(SharedRepeats { book, held: Condvar::new() }))
    }

    /// Writes a line, or holds it back if it repeats a warning.
    pub(super) fn add(&self, line: LogLine, now: Instant) {
        let mut book = self.0.book();
        book.write_due(now);
        if line.level == Level::WARN && book.holds(&line, now) {
            if !std::mem::replace(&mut book.has_thread, true) {
                let shared = Arc::clone(&self.0);
                let started =
                    thread::Builder::new().name("log".to_owned()).spawn(move || shared.write_held());
                // Without the thread, what is held back is written before the next line.
                book.has_thread = started.is_ok();
            }
            return self.0.held.notify_one();
        }
        let more = match line.unsaid {
            0 => String::new(),
            1 => "; one more line like this since the last one".to_owned(),
            unsaid => format!("; {unsaid} more lines like this since the last one"),
        };
        let who = line.who.map_or_else(String::new, |who| format!("{who}: "));
        book.write(line.level, &format!("{who}{}{more}", line.text));
    }

    /// Writes all that is held back.
    pub(super) fn finish(&self) {
        let mut book = self.0.book();
        let texts = std::mem::take(&mut book.texts);
        texts.iter().for_each(|(text, held)| book.write_held(text, held, Instant::now()));
    }
}

impl SharedRepeats {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is held back, when it is time, for as long as the process lives.
    fn write_held(&self) {
        let mut book = self.book();
        loop {
            let now = Instant::now();
            book.write_due(now);
            let next = book.texts.values().map(|held| held.until).min();
            let wait = next.map_or(EACH, |until| until.saturating_duration_since(now));
            book = self.held.wait_timeout(book, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Book {
    /// Returns true if the line repeats a warning, and counts it. A new warning is remembered.
    fn holds(&mut self, line: &LogLine, now: Instant) -> bool {
        if let Some(held) = self.texts.get_mut(&line.text) {
            held.count += 1 + line.unsaid;
            held.who.extend(line.who.clone().filter(|who| !held.who.contains(who)));
            return true;
        }
        if self.texts.len() < TEXTS {
            let held = HeldWarnings { since: now, until: now + FIRST, count: 0, who: Vec::new() };
            self.texts.insert(line.text.clone(), held);
        }
        false
    }

    /// Writes the repeated warnings whose time has come. A warning that came again is held back
    /// once more.
    fn write_due(&mut self, now: Instant) {
        let due = |held: &HeldWarnings| held.until <= now;
        let texts: Vec<String> =
            self.texts.iter().filter(|(_, held)| due(held)).map(|(text, _)| text.clone()).collect();
        for text in texts {
            let Some(held) = self.texts.remove(&text) else { continue };
            if held.count > 0 {
                self.write_held(&text, &held, now);
                let next = HeldWarnings { since: now, until: now + EACH, count: 0, who: Vec::new() };
                self.texts.insert(text, next);
            }
        }
    }

    /// Writes how often a warning has come again, and from whom.
    fn write_held(&mut self, text: &str, held: &HeldWarnings, now: Instant) {
        if held.count == 0 {
            return;
        }
        let mut who = held.who.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        if held.who.len() > NAMED {
            who += &format!(" and {} more", held.who.len() - NAMED);
        }
        if !who.is_empty() {
            who += ": ";
        }
        let (times, span) = (counted(held.count, "time"), time(now - held.since));
        self.write(Level::WARN, &format!("{who}{text} (again {times} in {span})"));
    }

    fn write(&mut self, level: Level, text: &str) {
        // A log that cannot be written has no other place to say so.
        let _ = self.out.write_all(&rendered(level, text, self.has_colours));
    }
}

/// Returns a line as bytes, with the time in front. Control characters in the text have no effect
/// on a terminal.
fn rendered(level: Level, text: &str, has_colours: bool) -> Vec<u8> {
    let mut time = String::new();
    // Writing to strings and vectors cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let colour = match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        _ => 34,
    };
    let level = format!("{level:>5}");
    let level = if has_colours { format!("\u{1b}[{colour}m{level}\u{1b}[0m") } else { level };
    let mut line = Plain(format!("{time} {level} ").into_bytes());
    let _ = line.write_all(text.as_bytes());
    line.0.push(b'\n');
    line.0
}
