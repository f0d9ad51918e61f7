//! [`Readouts`]: the sources whose readout delivers nothing.

use crate::{
    index::SourceIndex,
    set::SourceSet,
    wire::control::{ReadoutState, ReadoutStatus},
};

/// The sources whose readout is quiet: silent or gone. They get decisions, and their fragments are
/// used, but events expect none.
#[derive(Clone, Debug, Default)]
pub(in crate::supervisor) struct Readouts {
    quiet: SourceSet,
    gone: SourceSet,
}

impl Readouts {
    /// Returns the readouts of sources that are known to be quiet, but not whether they are gone.
    pub(super) fn quiet_at(quiet: SourceSet) -> Self {
        Self { quiet, gone: SourceSet::default() }
    }

    /// Notes the state of a source's readout; `counts` is false if events expect the source in any
    /// case. Returns true if the source was quiet and is not, or the other way round.
    pub(super) fn note(&mut self, index: SourceIndex, status: ReadoutStatus, counts: bool) -> bool {
        let is_gone = counts && status.state == ReadoutState::Gone;
        let is_quiet = is_gone || counts && status.state == ReadoutState::Silent;
        let was_quiet = self.quiet.remove(index.get());
        self.gone.remove(index.get());
        if is_quiet {
            self.quiet.insert(index.get());
        }
        if is_gone {
            self.gone.insert(index.get());
        }
        is_quiet != was_quiet
    }

    /// Returns the sources whose readout is quiet.
    pub(in crate::supervisor) fn quiet(&self) -> &SourceSet {
        &self.quiet
    }

    /// Returns true if the source's readout is quiet.
    pub(in crate::supervisor) fn is_quiet(&self, index: SourceIndex) -> bool {
        self.quiet.contains(index.get())
    }

    /// Returns true if the source's readout is gone.
    pub(in crate::supervisor) fn is_gone(&self, index: SourceIndex) -> bool {
        self.gone.contains(index.get())
    }

    /// Returns true if events expect none of the sources `up`, so that each would end at once.
    pub(in crate::supervisor) fn are_quiet(&self, up: &SourceSet, excluded: &SourceSet) -> bool {
        up.is_covered_by(&self.quiet, excluded)
    }

    /// Returns true if none of the sources `up` can deliver: the readout of each is gone, or it is
    /// excluded, or there is no source.
    #[inline]
    pub(in crate::supervisor) fn are_gone(&self, up: &SourceSet, excluded: &SourceSet) -> bool {
        up.is_covered_by(&self.gone, excluded)
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self, all: &SourceSet) {
        assert!(all.is_superset(&self.quiet) && self.quiet.is_superset(&self.gone), "{self:?}");
    }
}
