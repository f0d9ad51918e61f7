//! [`SourceLoss`] and [`FirstReadouts`]: the rules for sources and readouts that are away.

/// Rule for events that are triggered while a source is away.
///
/// ```
/// use evb_core::{id::*, supervisor::*};
///
/// let (sources, builders) = ([1, 2].map(SourceId::new).to_vec(), vec![BuilderId::new(1)]);
/// let mut plan = RunPlan::new(RunNumber::new(1), Epoch::new(1), sources, builders);
/// plan.on_source_loss = SourceLoss::Wait; // an event without the tracker is of no value
/// assert_ne!(plan.on_source_loss, SourceLoss::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceLoss {
    /// Events do not wait for the source; without its fragment, they are incomplete.
    #[default]
    Incomplete,
    /// Events wait until the source is back.
    Wait,
}

/// Rule for the start of a run while sources have no readout yet: of the front ends that should be
/// connected, none is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstReadouts {
    /// The run begins, and its report remarks on these sources.
    #[default]
    Warn,
    /// A run that begins by itself waits for a readout of each source, for at most `start_timeout`.
    Await,
    /// A run that waits for an operator does not begin; another one waits.
    Refuse,
}
