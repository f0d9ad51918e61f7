//! The problems of a configuration, shown in the form of compiler messages: file, line, key,
//! reason, remedy.

use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

#[cfg(test)]
mod tests;

/// The severity of a problem: it prevents the start of a run, or it is a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// The run starts, but the problem is shown to the user.
    Warning,
}

/// One problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Severity: the problem prevents the start of a run, or it is a warning.
    pub severity: Severity,
    /// Path of the key, such as `supervisor.slots`; empty if the problem concerns no key.
    pub key: String,
    /// Byte offsets of the problem in the text.
    pub span: Range<usize>,
    /// Description of what is wrong.
    pub reason: String,
    /// Advice for the user.
    pub remedy: String,
}

/// The text that a configuration was read from. `Origin` maps key paths and offsets to lines.
#[derive(Clone, Debug)]
pub struct Origin {
    file: Arc<str>,
    text: Arc<str>,
    keys: BTreeMap<String, Range<usize>>,
}

/// Returns the name under which [`Origin`] stores the position of a key of one `[[source]]` or
/// `[[builder]]` entry.
pub(super) fn place_of(key: &str, id: u16) -> String {
    format!("{key}#{id}")
}

impl Origin {
    pub(super) fn new(file: &str, text: &str, keys: BTreeMap<String, Range<usize>>) -> Self {
        Self { file: file.into(), text: text.into(), keys }
    }

    /// Returns the name of the file as the user gave it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the whole text.
    pub fn text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// Returns the position of `key` in the text. If the key is absent, returns the position of the
    /// nearest enclosing section, or the start of the file.
    pub fn span(&self, key: &str) -> Range<usize> {
        let mut path = key;
        loop {
            if let Some(span) = self.keys.get(path) {
                return span.clone();
            }
            match path.rsplit_once('.') {
                Some((section, _)) => path = section,
                None => return 0..0,
            }
        }
    }

    /// Returns the position of `key` in the entry with this id. If no position was stored for the
    /// entry, returns that of `key` in any entry.
    pub fn span_of(&self, key: &str, id: Option<u16>) -> Range<usize> {
        let placed = id.and_then(|id| self.keys.get(&place_of(key, id)));
        placed.cloned().unwrap_or_else(|| self.span(key))
    }

    /// Returns the line (from 1) and column (in characters, from 1) of an offset.
    pub fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..self.boundary(offset)];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
    }

    /// Returns the nearest offset at or before this one at which a character begins, and which is
    /// not behind the last line that has text.
    fn boundary(&self, offset: usize) -> usize {
        self.text.floor_char_boundary(offset.min(self.text.trim_end().len()))
    }
}

/// All problems of one configuration, sorted: errors first, then by line.
#[derive(Clone, Debug)]
pub struct Problems {
    origin: Origin,
    list: Vec<Problem>,
}

impl Problems {
    /// Creates the list of problems of the configuration with the text `origin`.
    pub fn new(origin: Origin, mut list: Vec<Problem>) -> Self {
        list.sort_by_key(|problem| (problem.severity, problem.span.start));
        list.dedup();
        Self { origin, list }
    }

    /// Returns these problems together with others of the same configuration.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self::new(self.origin, [self.list, others.list].concat())
    }

    /// Returns the problems, sorted: errors first, then by line.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// Returns the line number of a problem, counted from 1.
    pub fn line_of(&self, problem: &Problem) -> usize {
        self.origin.line_and_column(problem.span.start).0
    }

    /// Returns true if a problem is an error, so that the configuration must be refused.
    pub fn are_fatal(&self) -> bool {
        self.list.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Returns true if the list has no problems.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { file, text, .. } = &self.origin;
        for problem in &self.list {
            let level = match problem.severity {
                Severity::Error => Level::ERROR,
                Severity::Warning => Level::WARNING,
            };
            let span = self.origin.boundary(problem.span.start)..self.origin.boundary(problem.span.end);
            let snippet =
                Snippet::source(&**text).path(&**file).annotation(AnnotationKind::Primary.span(span));
            let mut group = level.primary_title(&problem.reason).element(snippet);
            if !problem.key.is_empty() {
                group = group.element(Level::NOTE.with_name("key").message(&problem.key));
            }
            let group = group.element(Level::HELP.message(&problem.remedy));
            writeln!(f, "{}\n", Renderer::plain().render(&[group]))?;
        }
        let count = |severity| self.list.iter().filter(|problem| problem.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        let meaning = match errors {
            0 => "warnings alone do not keep evb from starting",
            _ => "evb does not start until every error is corrected",
        };
        write!(f, "{file}: {errors} error(s), {warnings} warning(s); {meaning}")
    }
}

impl std::error::Error for Problems {}
