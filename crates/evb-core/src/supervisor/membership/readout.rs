//! The part of [`Membership`] for readouts that fall silent, leave and come back.

use super::Membership;
use crate::{
    id::Peer,
    index::SourceIndex,
    supervisor::SourceLoss,
    wire::control::{ReadoutState, ReadoutStatus},
};

impl Membership<'_> {
    /// Forgets what is known of a source's readout, when the source registers: it says again if its
    /// readout is quiet. A supervisor that continues a run may know that from the journal.
    pub(in crate::supervisor) fn forget_readout(&mut self, index: SourceIndex) {
        let was_quiet = self.roster.set_readout(index, ReadoutStatus::default(), false);
        if was_quiet && self.roster.is_up(index) {
            self.roster.set_awaited(index, false);
        }
    }

    /// Stores what a source says about its readout. From the next roster version on, events do not
    /// expect a source whose readout is silent or gone, unless the run waits for every source.
    /// Before the run begins, a readout may come and go.
    pub(in crate::supervisor) fn handle_readout(&mut self, index: SourceIndex, status: ReadoutStatus) {
        let counts = self.phase.is_under_way();
        let changes = self.roster.set_readout(index, status, counts);
        if !changes {
            return;
        }
        let source = self.roster.source(index).id;
        let named = self.plan.named(Peer::Source(source));
        let is_quiet = self.roster.readouts().is_quiet(index);
        match (is_quiet, status.state) {
            (false, _) => tracing::info!(%source, "the readout of {named} delivers again"),
            (true, ReadoutState::Gone) => {
                tracing::warn!(%source, "{named} has no readout: its front ends have closed their connections");
            }
            (true, _) => {
                tracing::warn!(%source, "{named} has no readout: it delivers nothing for events that wait")
            }
        }
        let waits = self.plan.on_source_loss == SourceLoss::Wait && !self.phase.is_draining();
        self.roster.set_awaited(index, is_quiet && waits);
        self.due.roster = true;
    }
}
