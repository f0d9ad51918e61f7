//! [`StageTimes`]: durations of a role's stages between a grant and its data, as the role's driver
//! samples them.

use crate::{times::Times, wire::control::GrantStages};

/// Durations measured by the clock of the role's host.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageTimes {
    /// Time from the kernel's receipt to the role's read: of grants at a source, of data at a
    /// builder.
    pub(crate) wake: Times,
    /// At a source, time from the read of a grant to the end of the write of its first data; at a
    /// builder, time from a grant to the end of its write.
    pub(crate) write: Times,
}

impl StageTimes {
    /// Returns the times in the form of the final report.
    pub(crate) fn report(&self) -> Option<Box<GrantStages>> {
        Some(Box::new(GrantStages { wake_us: self.wake.pairs(), write_us: self.write.pairs() }))
    }
}
