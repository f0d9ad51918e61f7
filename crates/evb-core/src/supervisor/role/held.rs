//! [`HeldOutputs`]: outputs that have to wait until the journal entries that they depend on are
//! written.

use std::collections::VecDeque;

use super::SupervisorOutput;
use crate::id::Peer;

/// Outputs in order, each with the number of journal entries that must be written before; `None`
/// for outputs of the present turn.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldOutputs(VecDeque<(Option<u64>, SupervisorOutput)>);

impl HeldOutputs {
    /// Adds an output of the present turn.
    pub(super) fn push(&mut self, output: SupervisorOutput) {
        self.0.push_back((None, output));
    }

    /// Ends the turn. All outputs of the turn depend on the first `entries` journal entries.
    pub(super) fn seal(&mut self, entries: u64) {
        let of_turn = self.0.iter_mut().rev().map_while(|(on, _)| on.is_none().then_some(on));
        of_turn.for_each(|on| *on = Some(entries));
    }

    /// Removes and returns the next output if all entries that it depends on are written.
    pub(super) fn pop(&mut self, written: u64) -> Option<SupervisorOutput> {
        let is_free = |(on, _): &mut (Option<u64>, SupervisorOutput)| on.is_some_and(|on| on <= written);
        self.0.pop_front_if(is_free).map(|(_, output)| output)
    }

    /// Releases all outputs, because no journal is kept any more.
    pub(super) fn free(&mut self) {
        self.0.iter_mut().for_each(|(on, _)| *on = Some(0));
    }

    /// Removes and returns the confirmations for operators.
    pub(super) fn take_confirmed(&mut self) -> Vec<SupervisorOutput> {
        let is_confirmed = |output: &SupervisorOutput| matches!(output, SupervisorOutput::Confirmed(_));
        if !self.0.iter().any(|(_, output)| is_confirmed(output)) {
            return Vec::new();
        }
        let (confirmed, left) = core::mem::take(&mut self.0)
            .into_iter()
            .partition::<VecDeque<_>, _>(|(_, output)| is_confirmed(output));
        self.0 = left;
        confirmed.into_iter().map(|(_, output)| output).collect()
    }

    /// Removes the output that would connect this peer.
    pub(super) fn drop_peer(&mut self, peer: Peer) {
        self.0.retain(|(_, output)| *output != SupervisorOutput::Connect(peer));
    }
}
