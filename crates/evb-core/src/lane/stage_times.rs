//! [`StageTimes`]: a role's part of the way from a grant to its data, as its driver samples it.

use crate::{times::Times, wire::control::GrantStages};

/// Durations by the role's own clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageTimes {
    /// From the kernel's receipt to the read: of a grant at a source, of what comes at a builder.
    pub(crate) wake: Times,
    /// At a source from the read of a grant to the end of the write of its first data, at a builder from a grant to the end of
    /// its write.
    pub(crate) write: Times,
}

impl StageTimes {
    /// As the final report has them.
    pub(crate) fn report(&self) -> Option<Box<GrantStages>> {
        Some(Box::new(GrantStages { wake_us: self.wake.pairs(), write_us: self.write.pairs() }))
    }
}
