//! [`NotedProblem`]: a problem of a run, and when it was first seen.

use evb_core::time::Utc;
use serde::{Deserialize, Serialize};

use super::RunRecord;

/// Most different problems in a record.
const MAX_PROBLEMS: usize = 200;

/// A problem of a run: as the status shows it, or in a sentence of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NotedProblem {
    /// Time at which the problem was first seen.
    pub first: Utc,
    /// Number of times that the problem came: after it has been absent for a minute, it is new.
    pub count: u64,
    /// `bad`: data are lost or missing, or will be; or `warning`.
    pub severity: String,
    /// The source, builder or other part that the problem concerns.
    pub subject: String,
    /// Description of the problem when it was first seen.
    pub text: String,
    /// Advice on how to solve the problem; empty if the text has it.
    pub remedy: String,
}

impl NotedProblem {
    /// Returns true if the problems are the same. The texts of problems have numbers that change,
    /// so severity, subject and remedy tell them apart.
    fn is(&self, other: &Self) -> bool {
        self.severity == other.severity
            && self.subject == other.subject
            && self.remedy == other.remedy
            && (!self.remedy.is_empty() || self.text == other.text)
    }
}

impl RunRecord {
    /// Notes a problem that is new.
    pub(in crate::supervisor) fn note_problem(&mut self, problem: NotedProblem) {
        let has_room = self.noted_problems.len() < MAX_PROBLEMS;
        match self.noted_problems.iter_mut().find(|known| known.is(&problem)) {
            Some(known) => known.count += 1,
            None if has_room => self.noted_problems.push(NotedProblem { count: 1, ..problem }),
            None => self.problems_left_out += 1,
        }
    }

    /// Notes the sentences of the supervisor about problems that are new.
    pub(in crate::supervisor) fn note_sentences(&mut self, sentences: &[String], first: Utc) {
        for text in sentences {
            if self.noted_problems.iter().all(|known| known.text != *text) {
                let (severity, subject) = ("bad".to_owned(), "the run".to_owned());
                let (text, remedy) = (text.clone(), String::new());
                self.note_problem(NotedProblem { first, count: 1, severity, subject, text, remedy });
            }
        }
    }
}
