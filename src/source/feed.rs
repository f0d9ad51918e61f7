//! [`Feed`]: the origin of a source's fragments, which readout pushes or makes on demand.

use std::task::{Context, Poll};

use evb_core::time::Instant;
use evb_shaper::role::SourceRole;

use super::{
    Readout,
    input::{Outlet, Pushed},
};

/// Number of bytes that readout makes in one turn; more would delay heartbeats and grants.
const TURN: usize = 4 << 20;

/// Cost of making a fragment besides its bytes, as the number of bytes that could be made in the
/// same time.
const FRAGMENT_COST: usize = 1 << 10;

/// Number of fragments taken from the channel at once.
const BATCH: usize = 256;

/// The origin of a source's fragments: pushed by the program or made by a [`Readout`].
pub(super) struct Feed {
    outlet: Outlet,
    pushed: Vec<Pushed>,
    readout: Option<Box<dyn Readout>>,
}

impl Feed {
    pub(super) fn new(outlet: Outlet, readout: Option<Box<dyn Readout>>) -> Self {
        Self { outlet, pushed: Vec::with_capacity(BATCH), readout }
    }

    /// Takes the fragments that readout pushes. Returns true if more fragments may be waiting.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, role: &mut SourceRole, now: Instant) -> bool {
        let mut count = 0;
        if let Poll::Ready(received) = self.outlet.fragments.poll_recv_many(cx, &mut self.pushed, BATCH) {
            count = received;
        }
        for pushed in self.pushed.drain(..) {
            for fragment in self.outlet.take(pushed) {
                // `push` has checked its fragment, but a permit has not. The source's state machine
                // counts the fragments that it refuses.
                if let Err(error) = role.push(fragment, now) {
                    tracing::error!(%error, "the source refused a fragment of its readout");
                }
            }
        }
        count == BATCH
    }

    /// Lets readout make one turn's share of the wanted fragments. Returns true if readout made a
    /// fragment.
    pub(super) fn make_wanted(&mut self, role: &mut SourceRole, now: Instant) -> bool {
        let Some(readout) = &mut self.readout else { return false };
        let mut made = 0;
        while made < TURN
            && let Some(event) = role.take_wanted()
        {
            let Some(fragment) = readout.fragment(event) else { continue };
            made += fragment.payload.len() + FRAGMENT_COST;
            if let Err(error) = role.push(fragment, now) {
                tracing::error!(%error, "the source refused a fragment that its readout made");
            }
        }
        made > 0
    }

    /// Tells the callers of `push` which events are decided, and how much room the backlog has.
    pub(super) fn update(&mut self, role: &SourceRole) {
        let core = role.core();
        self.outlet.update(core.undecided(), core.backlog(), core.backlog_fragments());
    }
}
