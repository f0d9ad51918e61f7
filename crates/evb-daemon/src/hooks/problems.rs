//! `problem`: tells a program of each problem that is new.

use std::{collections::BTreeMap, future::Future, time::Duration};

use evb::run_control::{Problem, Severity};
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

/// The problems of the last minute. The texts of problems have numbers that change, so the
/// severity, the subject and the remedy tell them apart. A status lists few problems, so these are
/// few, too.
#[derive(Default)]
struct KnownProblems(BTreeMap<(Severity, String, String), Instant>);

impl KnownProblems {
    /// Returns the problems that are new.
    fn take(&mut self, problems: Vec<Problem>, now: Instant) -> Vec<Problem> {
        self.0.retain(|_, seen| now.duration_since(*seen) < QUIET);
        let mut is_new = |problem: &Problem| {
            let key = (problem.severity, problem.subject.clone(), problem.remedy.clone());
            self.0.insert(key, now).is_none()
        };
        problems.into_iter().filter(|problem| is_new(problem)).collect()
    }
}

impl Hooks {
    /// Looks at the problems again and again, and calls `problem` for each new one.
    pub(crate) async fn watch<F: Future<Output = Option<Look>>>(self, look: impl Fn() -> F) {
        let (mut known, mut looks) = (KnownProblems::default(), interval(LOOK));
        loop {
            looks.tick().await;
            if self.configured(Hook::Problem).is_none() {
                continue;
            }
            let Some(Look { run, run_id, problems }) = look().await else { continue };
            for problem in known.take(problems, Instant::now()) {
                let about = format!("run {run}: {}", problem.subject);
                self.call(Hook::Problem, run, about, input(run, run_id, &problem));
            }
        }
    }
}

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
