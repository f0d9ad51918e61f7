//! `[hooks]`: programs that run when something happens.

use std::time::Duration;

use serde::Deserialize;

use super::{
    forms::{As, Positive, seconds},
    input::check_program,
    section::Section,
};

/// Programs that run when something happens. Each gets JSON on its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HooksConfig {
    /// A program for which each run waits before it begins, with its arguments. If it exits with
    /// code 3, the run does not begin, and the last line that it wrote to standard error is the
    /// reason. If it fails in any other way, the run begins with a remark.
    ///
    /// Default: none
    pub run_starts: Option<Vec<String>>,
    /// A program that runs after the end of each run that has begun.
    ///
    /// Default: none
    pub run_ends: Option<Vec<String>>,
    /// A program that runs for each event file that is finished, on the host of its builder.
    ///
    /// Default: none
    pub file_closed: Option<Vec<String>>,
    /// A program that runs for each problem that a run has newly. A problem that comes back within
    /// a minute is not new.
    ///
    /// Default: none
    pub problem: Option<Vec<String>>,
    /// The time after which a program has failed. All its processes end then.
    ///
    /// Default: `"30 s"`
    #[serde(default = "seconds::<30>", with = "As::<Positive<Duration>>")]
    pub timeout: Duration,
}

impl Default for HooksConfig {
    /// Returns the hooks of a configuration that has none.
    fn default() -> Self {
        Self { run_starts: None, run_ends: None, file_closed: None, problem: None, timeout: seconds::<30>() }
    }
}

impl HooksConfig {
    /// Returns the hooks that have a program, with the program and its arguments.
    pub fn programs(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let Self { run_starts, run_ends, file_closed, problem, .. } = self;
        [
            ("run_starts", run_starts),
            ("run_ends", run_ends),
            ("file_closed", file_closed),
            ("problem", problem),
        ]
        .into_iter()
        .filter_map(|(hook, words)| Some((hook, words.as_deref()?)))
    }
}

pub(super) fn read(section: &Section<'_>) -> Option<HooksConfig> {
    let config: HooksConfig = section.read()?;
    for (hook, words) in config.programs() {
        check_program(section, hook, words, &format!("{hook} = [\"/opt/daq/{hook}\"]"));
    }
    section.finish(config)
}
