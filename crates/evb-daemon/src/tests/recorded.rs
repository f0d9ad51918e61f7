//! Ten recorded runs, for the tests that keep what operators and programs see of a run as golden
//! files. A script drives the supervisor's state machine without clocks or sockets, and every
//! counter of a report has a number of its own. `EVB_BLESS=1 cargo test -p evb-daemon --lib
//! recorded` writes the files.

mod scripts;
mod stage;

use std::{env, fs, path::Path};

use evb::{
    role::RunOutcome,
    run_control::{State, Status},
};
use evb_core::{
    id::Peer,
    ledger::RunReport,
    supervisor::{RunState, Survey},
};
use serde_json::Value;

/// A run as its supervisor and its other processes see it.
pub(crate) struct Recorded {
    pub(crate) name: &'static str,
    /// The supervisor's view during the run.
    pub(crate) survey: Survey,
    pub(crate) state: RunState,
    /// The closed ledger.
    pub(crate) report: RunReport,
    /// The outcomes of the sources and builders that gave a final report.
    pub(crate) outcomes: Vec<(Peer, RunOutcome)>,
}

impl Recorded {
    /// Returns the status during the run, as run control would show it in its first run.
    pub(crate) fn status(&self) -> Status {
        let mut status = Status {
            state: match self.state {
                RunState::Configured | RunState::Ended => State::Configured,
                RunState::Running | RunState::Recovering => State::Running,
                RunState::Paused => State::Paused,
                RunState::Stopping => State::Stopping,
            },
            run: Some(self.survey.run),
            run_id: Some(self.survey.run_id),
            begin: self.report.begin,
            survey: Some(self.survey.clone()),
            ..Status::default()
        };
        status.totals.events = self.survey.events;
        status.totals.payload_bytes = self.survey.payload_bytes;
        let causes = self.survey.dead_time.iter();
        status.totals.dead_time = causes.map(|cause| (cause.cause.clone(), cause.inhibited)).collect();
        status
    }
}

/// Returns the recorded runs.
pub(crate) fn runs() -> Vec<Recorded> {
    scripts::all()
}

/// Returns JSON with one line for each value of the outermost object, and for each element of a
/// list of objects. Keys are sorted.
pub(crate) fn lines(json: &Value) -> String {
    let mut text = String::new();
    for (key, value) in json.as_object().expect("an object") {
        match value {
            Value::Array(list) if list.iter().any(Value::is_object) => {
                list.iter().enumerate().for_each(|(at, one)| text += &format!("{key}[{at}] {one}\n"));
            }
            Value::Object(_) if key == "survey" => {
                lines(value).lines().for_each(|line| text += &format!("{key}.{line}\n"));
            }
            value => text += &format!("{key} {value}\n"),
        }
    }
    text
}

/// Compares a rendering of all runs with the golden file of that name.
pub(crate) fn compare(file: &str, render: impl Fn(&Recorded) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/recorded").join(file);
    let made: String = runs().iter().map(|run| format!("== {}\n{}", run.name, render(run))).collect();
    if env::var_os("EVB_BLESS").is_some() {
        fs::write(&path, &made).expect("writable");
    }
    let kept = fs::read_to_string(&path).expect("the file is there");
    for (number, (kept, made)) in kept.lines().zip(made.lines()).enumerate() {
        assert_eq!(
            kept,
            made,
            "line {} of {file}: EVB_BLESS=1 cargo test -p evb-daemon recorded",
            number + 1
        );
    }
    assert_eq!(kept.lines().count(), made.lines().count(), "{file}");
}
