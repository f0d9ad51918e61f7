//! [`Held`]: what may not leave before the journal has what it depends on.

use std::collections::VecDeque;

use evb_core::{id::Peer, ledger::RunReport, supervisor::Recipients, wire::control::Control};
use evb_net::control::ControlLink;

/// What the driver does when the journal permits it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are messages, and boxed each would cost an allocation")]
pub(super) enum Act {
    /// Sends a message.
    Send(Recipients, Control),
    /// Connects a peer that was let in: its welcome is the first that it hears.
    Connect(Peer, Box<ControlLink>),
    /// Ends the run.
    End(Box<RunReport>),
}

/// Acts in their order, each with how many entries it depends on; `None`: those of this turn.
#[derive(Debug, Default)]
pub(super) struct Held(VecDeque<(Option<u64>, Act)>);

impl Held {
    /// Adds an act of this turn.
    pub(super) fn push(&mut self, act: Act) {
        self.0.push_back((None, act));
    }

    /// Ends the turn: all its acts depend on so many entries.
    pub(super) fn seal(&mut self, entries: u64) {
        self.0
            .iter_mut()
            .rev()
            .map_while(|(on, _)| on.is_none().then_some(on))
            .for_each(|on| *on = Some(entries));
    }

    /// The next act that depends on no more than so many entries.
    pub(super) fn pop(&mut self, written: u64) -> Option<Act> {
        let is_free = |(on, _): &mut (Option<u64>, Act)| on.is_some_and(|on| on <= written);
        self.0.pop_front_if(is_free).map(|(_, act)| act)
    }

    /// Lets all of it depend on nothing.
    pub(super) fn free(&mut self) {
        self.0.iter_mut().for_each(|(on, _)| *on = Some(0));
    }

    /// Closes a connection that waits here.
    pub(super) fn drop_link(&mut self, peer: Peer) {
        self.0.retain(|(_, act)| !matches!(act, Act::Connect(of, _) if *of == peer));
    }
}
