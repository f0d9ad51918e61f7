//! [`evb_outcome`] and [`evb_ledger`]: the end of a run, for a role and for the whole system.

use std::ffi::c_char;

use evb_rs::{ledger::RunReport, role::RunOutcome};

use crate::{structs::Sized0, text};

/// Size of the text of a verdict in bytes, with the NUL at its end.
pub const EVB_VERDICT_SIZE: usize = 512;

/// The outcome of a run according to the supervisor's ledger, as a source or builder learns it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct evb_outcome {
    /// Size of the struct, which the caller sets.
    pub struct_size: usize,
    /// The run's epoch.
    pub epoch: u64,
    /// The run's number.
    pub run: u32,
    /// 0: every event is complete and accounted for; 1: some are not, or the run failed.
    pub exit_code: u32,
    /// The outcome as a sentence.
    pub verdict: [c_char; EVB_VERDICT_SIZE],
}

// SAFETY: numbers and text may be zero, and the first field is the size.
unsafe impl Sized0 for evb_outcome {}

/// The closed ledger of a run: triggered = inhibited + complete + incomplete + lost + rejected.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct evb_ledger {
    /// Size of the struct, which the caller sets.
    pub struct_size: usize,
    /// The run's epoch.
    pub epoch: u64,
    /// Number of triggers.
    pub triggered: u64,
    /// Triggers for which no builder had a free slot.
    pub inhibited: u64,
    /// Events with a fragment of every source.
    pub complete: u64,
    /// Events without the fragments of some sources.
    pub incomplete: u64,
    /// Events that were assigned, but that no sink has accepted.
    pub lost: u64,
    /// Events that a filter rejected.
    pub rejected: u64,
    /// Payload bytes of the events that sinks accepted.
    pub payload_bytes: u64,
    /// Time from the first possible trigger until the last event was settled, in seconds.
    pub duration_s: f64,
    /// The run's number.
    pub run: u32,
    /// 0: every event is complete and accounted for; 1: some are not, or the run failed.
    pub exit_code: u32,
    /// The outcome as a sentence.
    pub verdict: [c_char; EVB_VERDICT_SIZE],
}

// SAFETY: numbers and text may be zero, and the first field is the size.
unsafe impl Sized0 for evb_ledger {}

fn verdict(words: &str) -> [c_char; EVB_VERDICT_SIZE] {
    let mut verdict = [0; EVB_VERDICT_SIZE];
    // SAFETY: the pointer comes from a whole array.
    unsafe { text::write(&raw mut verdict, words) };
    verdict
}

impl From<&RunOutcome> for evb_outcome {
    fn from(outcome: &RunOutcome) -> Self {
        Self {
            struct_size: size_of::<Self>(),
            epoch: outcome.epoch.number(),
            run: outcome.run.number(),
            exit_code: outcome.exit_code.into(),
            verdict: verdict(&outcome.verdict),
        }
    }
}

impl From<&RunReport> for evb_ledger {
    fn from(report: &RunReport) -> Self {
        let events = report.events;
        Self {
            struct_size: size_of::<Self>(),
            epoch: report.epoch,
            triggered: events.triggered,
            inhibited: events.inhibited,
            complete: events.complete,
            incomplete: events.incomplete,
            lost: events.lost,
            rejected: events.rejected,
            payload_bytes: report.bytes.payload,
            duration_s: report.duration_s,
            run: report.run,
            exit_code: report.exit_code.into(),
            verdict: verdict(&report.verdict),
        }
    }
}
