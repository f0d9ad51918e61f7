//! [`HookCall`]: a call of a program of `[hooks]`, and how it ended.

use std::{collections::BTreeMap, fmt};

use evb_core::time::Utc;
use serde::{Deserialize, Serialize};

use super::RunRecord;

/// Most calls in a record, besides their numbers.
const MAX_CALLS: usize = 100;

/// The end of a call of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallEnd {
    /// The program exited with code 0.
    Succeeded,
    /// The program failed at each attempt.
    #[default]
    Failed,
    /// The program refused the beginning of the run.
    Vetoed,
    /// The program was not called, or stopped before its end.
    Dropped,
}

impl fmt::Display for CallEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Vetoed => "refused the run",
            Self::Dropped => "was dropped",
        })
    }
}

/// A call of a program by the supervisor's process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookCall {
    /// The key of the hook, such as `run_starts`.
    pub hook: String,
    /// The program, without its arguments.
    pub program: String,
    /// Time of the end of the call.
    pub at: Utc,
    /// The end of the call.
    pub outcome: CallEnd,
    /// Reason of a veto or a failure; else empty.
    pub text: String,
}

/// Numbers of calls by their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookCounts {
    /// Calls whose program succeeded.
    pub succeeded: u64,
    /// Calls whose program failed at each attempt.
    pub failed: u64,
    /// Calls whose program refused the beginning of the run.
    pub vetoed: u64,
    /// Calls that were given up.
    pub dropped: u64,
}

/// The calls of hooks for a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedHooks {
    /// Numbers of calls, by hook.
    pub counts: BTreeMap<String, HookCounts>,
    /// The first calls, without the successes of `file_closed`.
    pub calls: Vec<HookCall>,
}

impl RunRecord {
    /// Notes a call of a program.
    pub(in crate::supervisor) fn note_call(&mut self, call: HookCall) {
        let RecordedHooks { counts, calls } = &mut self.hooks;
        let counts = counts.entry(call.hook.clone()).or_default();
        *match call.outcome {
            CallEnd::Succeeded => &mut counts.succeeded,
            CallEnd::Failed => &mut counts.failed,
            CallEnd::Vetoed => &mut counts.vetoed,
            CallEnd::Dropped => &mut counts.dropped,
        } += 1;
        let is_usual = call.hook == "file_closed" && call.outcome == CallEnd::Succeeded;
        // The end of the run always has room.
        if !is_usual && (calls.len() < MAX_CALLS || call.hook == "run_ends") {
            calls.push(call);
        }
    }
}
