//! `problem`: tells a program of each problem that is new.

use std::{collections::BTreeMap, future::Future, time::Duration};

use evb::{
    run_control::{Problem, Severity},
    supervisor::NotedProblem,
};
use evb_core::id::RunId;
use serde_json::{Value, json};
use tokio::time::{Instant, interval};

use super::{Hook, Hooks};

/// Time between two looks at the problems.
const LOOK: Duration = Duration::from_secs(2);

/// Time for which a problem must have been absent to be new.
const QUIET: Duration = Duration::from_secs(60);

/// The problems of a run at one time.
pub(crate) struct Look {
    pub(crate) run: u32,
    pub(crate) run_id: RunId,
    pub(crate) problems: Vec<Problem>,
}

/// The problems of the last minute, with the times at which they were seen, and the runs in whose
/// records they are. The texts of problems have numbers that change, so the severity, the subject
/// and the remedy tell them apart. A status lists few problems, so these are few, too.
#[derive(Default)]
struct KnownProblems(BTreeMap<(Severity, String, String), (Instant, RunId)>);

impl KnownProblems {
    /// Returns the problems that are new. `note` enters a problem in the record of the run, and
    /// returns false before there is one.
    fn take(&mut self, look: Look, now: Instant, note: impl Fn(&Problem) -> bool) -> Vec<Problem> {
        self.0.retain(|_, (seen, _)| now.duration_since(*seen) < QUIET);
        let mut is_new = |problem: &Problem| {
            let key = (problem.severity, problem.subject.clone(), problem.remedy.clone());
            let is_new = !self.0.contains_key(&key);
            let (seen, noted) = self.0.entry(key).or_insert((now, RunId::UNKNOWN));
            *seen = now;
            if *noted != look.run_id && note(problem) {
                *noted = look.run_id;
            }
            is_new
        };
        look.problems.into_iter().filter(|problem| is_new(problem)).collect()
    }
}

impl Hooks {
    /// Looks at the problems again and again, notes each new one in the record of the run, and
    /// calls `problem` for it.
    pub(crate) async fn watch<F: Future<Output = Option<Look>>>(self, look: impl Fn() -> F) {
        let (mut known, mut looks) = (KnownProblems::default(), interval(LOOK));
        loop {
            looks.tick().await;
            let Some(look) = look().await else { continue };
            let (run, run_id) = (look.run, look.run_id);
            let new = known.take(look, Instant::now(), |problem| self.note_problem(run_id, problem));
            for problem in new {
                let about = format!("run {run}: {}", problem.subject);
                self.call(Hook::Problem, run, about, input(run, run_id, &problem));
            }
        }
    }

    fn note_problem(&self, run: RunId, problem: &Problem) -> bool {
        let Problem { severity, subject, text, remedy } = problem.clone();
        let severity = if severity == Severity::Bad { "bad" } else { "warning" }.to_owned();
        let problem = NotedProblem { severity, subject, text, remedy, ..NotedProblem::default() };
        self.records().iter().any(|record| record.note_problem(run, problem.clone()))
    }
}

/// Returns what the program of a hook reads about a problem.
fn input(run: u32, run_id: RunId, problem: &Problem) -> Value {
    let Problem { severity, subject, text, remedy } = problem;
    json!({
        "run": run,
        "run_id": run_id.to_string(),
        "severity": severity,
        "subject": subject,
        "text": text,
        "remedy": remedy,
    })
}

#[cfg(test)]
mod tests;
