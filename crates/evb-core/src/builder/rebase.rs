//! Sources that come back as another process: their lanes begin anew.

use super::{BuilderCore, assembly::State, unaccounted::NOWHERE};
use crate::{grant::GrantPolicy, id::Incarnation, time::Instant};

impl<P: GrantPolicy> BuilderCore<P> {
    /// A source wants its lane, in that life of it. A new life's lane begins at 0; false: of a life that is over.
    /// Requirements: docs/protocol.md LANE-24.
    pub fn meet(&mut self, lane: usize, incarnation: Incarnation, now: Instant) -> bool {
        let known = self.lanes.lanes[lane].incarnation;
        if incarnation > known {
            self.rebase(lane, incarnation, now);
        }
        incarnation >= known
    }

    /// What was announced and has not arrived is announced by the new process once more, if anybody waits for it.
    fn rebase(&mut self, lane: usize, incarnation: Incarnation, now: Instant) {
        if self.is_lane_connected(lane) {
            self.handle_lane_disconnected(lane, now);
        }
        self.lanes.restart(lane, self.config.max_fragment[lane], incarnation);
        self.policy.handle_reset(lane, 0, now);
        self.unaccounted.void(lane);
        let is_expected = self.rosters.expected_now().contains(lane);
        for slot in 0..self.slots.len() {
            let assembly = &mut self.slots[slot];
            if assembly.state == State::Free {
                continue;
            }
            assembly.parts[lane].start = NOWHERE;
            if assembly.state != State::Open || !assembly.withdraw(lane, &mut self.pool) {
                continue;
            }
            if assembly.assigned.is_some() {
                if is_expected {
                    self.put_off(slot, now);
                } else {
                    self.slots[slot].given_up.insert(lane);
                }
                self.finish_if_over(slot, now);
            }
        }
        self.grants_due = true;
    }
}
