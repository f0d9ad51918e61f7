//! [`Held`]: outputs that may not leave before the journal has the entries that they depend on.

use std::collections::VecDeque;

use super::SupervisorOutput;
use crate::id::Peer;

/// Outputs in order, each with the number of entries that it depends on; `None` for outputs of this
/// turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(VecDeque<(Option<u64>, SupervisorOutput)>);

impl Held {
    /// Adds an output of this turn.
    pub(super) fn push(&mut self, output: SupervisorOutput) {
        self.0.push_back((None, output));
    }

    /// Ends the turn: all its outputs depend on the first `entries` entries.
    pub(super) fn seal(&mut self, entries: u64) {
        let of_turn = self.0.iter_mut().rev().map_while(|(on, _)| on.is_none().then_some(on));
        of_turn.for_each(|on| *on = Some(entries));
    }

    /// Takes the next output whose entries are all written.
    pub(super) fn pop(&mut self, written: u64) -> Option<SupervisorOutput> {
        let is_free = |(on, _): &mut (Option<u64>, SupervisorOutput)| on.is_some_and(|on| on <= written);
        self.0.pop_front_if(is_free).map(|(_, output)| output)
    }

    /// Makes all outputs independent of the journal.
    pub(super) fn free(&mut self) {
        self.0.iter_mut().for_each(|(on, _)| *on = Some(0));
    }

    /// Takes out the confirmations for operators.
    pub(super) fn take_confirmed(&mut self) -> Vec<SupervisorOutput> {
        let is_confirmed = |output: &SupervisorOutput| matches!(output, SupervisorOutput::Confirmed(_));
        if !self.0.iter().any(|(_, output)| is_confirmed(output)) {
            return Vec::new();
        }
        let (confirmed, left) =
            core::mem::take(&mut self.0).into_iter().partition::<VecDeque<_>, _>(|(_, o)| is_confirmed(o));
        self.0 = left;
        confirmed.into_iter().map(|(_, output)| output).collect()
    }

    /// Forgets a peer that waits to be connected.
    pub(super) fn drop_peer(&mut self, peer: Peer) {
        self.0.retain(|(_, output)| *output != SupervisorOutput::Connect(peer));
    }
}
