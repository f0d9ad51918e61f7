//! The alignment guard: machines that watch, while a run goes on, whether the fragments of an event
//! belong together.
//!
//! evb builds by the trigger numbers that boards give. A board that misses one trigger gives wrong
//! numbers from then on, and no count or checksum shows it. The timestamps show it: the clocks of
//! two boards run at nearly constant rates, so the time of a fragment follows from the time of any
//! other fragment of its event. The work is divided:
//!
//! | where | machine | does |
//! |---|---|---|
//! | source | [`ReadingRing`] | keeps the timestamps of the last 240 events |
//! | builder | [`Guard`] | compares the timestamps of each event, and reports doubts |
//! | supervisor | [`Inquiry`] | finds out from the rings what happened to a doubted source |
//!
//! A [`StreamGuard`] does all of it over the files of a run (`evbd verify --align`).
//!
//! A [`Widener`] makes event ids of the short trigger counters that boards send. Sources use it.
//!
//! In a healthy run, the machines send nothing. All of them have constant memory and allocate
//! nothing per event; they accept arbitrary ticks, counters and orders.
//!
//! A *relation* is what connects a clock with the *lead*, the clock that counts time for a guard. A
//! *residual* is how far a reading lies from what its relation predicts.

#[cfg(test)]
mod tests;

pub mod counter;
pub mod widening;
pub mod clock;
pub mod scale;
pub mod relation;
pub mod ring;
mod track;
pub mod survey;
pub mod guard;
pub mod explanation;
pub mod gathered;
mod case;
pub mod inquiry;
pub mod episode;
pub mod report;
pub mod stream_guard;

pub use crate::event::Alignment;
pub use clock::{ClockError, ClockWrap, DetectorClock};
pub use counter::{CounterError, CounterStart, TriggerCounter};
pub use episode::Episode;
pub use explanation::Explanation;
pub use gathered::Gathered;
pub use guard::{Guard, Observation};
pub use inquiry::{Finding, Inquiry, Start, start};
pub use report::{GuardedClocks, clock_of, message_of, readings_message, readings_of, survey_of};
pub use ring::ReadingRing;
pub use stream_guard::{Agreement, StreamFindings, StreamGuard};
pub use survey::{Doubt, Survey};
pub use widening::{Misfit, Widened, Widener};
