//! What is wrong with a configuration, shown as a compiler would: file, line, key, reason, remedy.

use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};

#[cfg(test)]
mod tests;

/// Whether a problem stops the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// It starts, and the user should know.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether it stops the start.
    pub severity: Severity,
    /// The key's path, such as `supervisor.slots`; empty where no key is concerned.
    pub key: String,
    /// Where in the text: byte offsets.
    pub span: Range<usize>,
    /// What is wrong.
    pub reason: String,
    /// What would do.
    pub remedy: String,
}

/// The text that a configuration was read from: it turns key paths and offsets into lines.
#[derive(Clone, Debug)]
pub struct Origin {
    file: Arc<str>,
    text: Arc<str>,
    keys: BTreeMap<String, Range<usize>>,
}

/// Under what name the place of one entry's key is kept.
pub(super) fn place_of(key: &str, id: u16) -> String {
    format!("{key}#{id}")
}

impl Origin {
    pub(super) fn new(file: &str, text: &str, keys: BTreeMap<String, Range<usize>>) -> Self {
        Self { file: file.into(), text: text.into(), keys }
    }

    /// The file's name, as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where `key` (or the nearest section above it) stands; the file's start where it does not.
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

    /// The same for an entry of which there are many, by its id, where reading kept its place.
    pub fn span_of(&self, key: &str, id: Option<u16>) -> Range<usize> {
        let placed = id.and_then(|id| self.keys.get(&place_of(key, id)));
        placed.cloned().unwrap_or_else(|| self.span(key))
    }

    /// The line (from 1) and column (in characters, from 1) of an offset.
    pub fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..self.boundary(offset)];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
    }

    fn boundary(&self, offset: usize) -> usize {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }

    /// The line around `span`, and what underlines it.
    fn excerpt(&self, span: &Range<usize>) -> (String, String) {
        let start = self.boundary(span.start);
        let end = self.boundary(span.end).max(start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |length| start + length);
        let marked = self.text[start..end.min(line_end)].trim_end().chars().count();
        let before = self.text[line_start..start].chars();
        let shift = before.clone().count().saturating_sub(CLIP / 2);
        // Control characters of a foreign file must not reach the terminal.
        let shown = |c: char| if c == '\t' || !c.is_control() { c } else { '·' };
        let line = self.text[line_start..line_end].trim_end();
        let line: String = line.chars().skip(shift).take(CLIP).map(shown).collect();
        let blank: String = before.skip(shift).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        (line, blank + &"^".repeat(marked.clamp(1, CLIP / 2)))
    }
}

/// How much of a long line is shown.
const CLIP: usize = 160;

/// Everything that is wrong with one configuration, in the order of its lines.
#[derive(Clone, Debug)]
pub struct Problems {
    origin: Origin,
    list: Vec<Problem>,
}

impl Problems {
    /// The problems of the configuration that came from `origin`.
    pub fn new(origin: Origin, mut list: Vec<Problem>) -> Self {
        list.sort_by_key(|problem| (problem.severity, problem.span.start));
        list.dedup();
        Self { origin, list }
    }

    /// Each of them: errors first, then by line.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// The line that a problem is on, from 1.
    pub fn line_of(&self, problem: &Problem) -> usize {
        self.origin.line_and_column(problem.span.start).0
    }

    /// Whether the configuration must be refused.
    pub fn are_fatal(&self) -> bool {
        self.list.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.list {
            let (line, column) = self.origin.line_and_column(problem.span.start);
            let (text, marks) = self.origin.excerpt(&problem.span);
            let margin = " ".repeat(line.to_string().len());
            let severity = match problem.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            writeln!(f, "{severity}: {}", problem.reason)?;
            writeln!(f, "{margin}--> {}:{line}:{column}", self.origin.file)?;
            writeln!(f, "{margin} |")?;
            writeln!(f, "{line} | {text}")?;
            writeln!(f, "{margin} | {marks}")?;
            if !problem.key.is_empty() {
                writeln!(f, "{margin} = key: {}", problem.key)?;
            }
            writeln!(f, "{margin} = help: {}\n", problem.remedy)?;
        }
        let count = |severity| self.list.iter().filter(|problem| problem.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        write!(f, "{}: {errors} error(s), {warnings} warning(s)", self.origin.file)
    }
}

impl std::error::Error for Problems {}
