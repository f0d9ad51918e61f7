//! [`PeerAdmission`]: the check of peers that want to take part in a run. A refusal does not change
//! any state.

use super::{
    RunPlan,
    peer_names::{ranges, role},
    phase::Phase,
    roster::{Roster, Seat},
    seats::{BuilderSeat, Connection, staying},
};
use crate::{
    id::Peer,
    time::Instant,
    wire::control::{Hello, Reason, Refusal, is_address},
};

/// State of the run on which the admission of a peer depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAdmission<'a> {
    pub(super) plan: &'a RunPlan,
    pub(super) roster: &'a Roster,
    pub(super) phase: Phase,
    /// True once triggers may have been taken.
    pub(super) started: bool,
}

impl PeerAdmission<'_> {
    /// Returns the peer and its seat if the peer may take part, or may say why it cannot.
    ///
    /// # Errors
    /// Returns the refusal to send to the peer, with a reason for people.
    pub(super) fn check(&self, hello: &Hello, now: Instant) -> Result<(Peer, Seat), Refusal> {
        let peer = self.check_identity(hello)?;
        match (peer, self.roster.seat(peer)) {
            (Peer::Supervisor, _) => Err(Refusal::because(
                Reason::WrongRole,
                "a run has only one supervisor, and this process is it: end one of the two",
            )),
            (_, None) => Err(self.unknown(peer)),
            (_, Some(Seat::Source(index))) => {
                let seat = self.roster.source(index);
                if !seat.goes_on(hello) {
                    self.check_not_live(peer, seat.connection, now)?;
                }
                Ok((peer, Seat::Source(index)))
            }
            (_, Some(Seat::Builder(index))) => {
                let seat = self.roster.builder(index);
                self.check_builder(peer, seat, hello, now)?;
                Ok((peer, Seat::Builder(index)))
            }
        }
    }

    /// Checks that the hello names a role, is meant for this supervisor and run, and comes while
    /// the run takes peers.
    /// Requirements: docs/reference/protocol.md CONN-8, CONN-9, CONN-15.
    fn check_identity(&self, hello: &Hello) -> Result<Peer, Refusal> {
        let Some(peer) = hello.from_peer() else {
            return Err(Refusal::because(
                Reason::Malformed,
                "its first message does not say which role it is: install the same release of evb on both hosts",
            ));
        };
        if hello.to_peer() != Some(Peer::Supervisor) {
            return Err(Refusal::because(
                Reason::WrongRole,
                format!(
                    "this is the supervisor, but {} wants another role: check the addresses in the configuration",
                    self.plan.named(peer)
                ),
            ));
        }
        let (run, run_id) = (self.plan.run, self.plan.run_id);
        if let Some(theirs) = hello.known_run().filter(|theirs| *theirs != run_id) {
            let (ours, theirs, named) = (run_id.short(), theirs.short(), self.plan.named(peer));
            let detail = format!(
                "this supervisor leads run {run} ({ours}), but {named} belongs to the run {theirs}: restart {named}"
            );
            return Err(Refusal::because(Reason::Run, detail));
        }
        let open = match self.phase {
            Phase::Gathering { .. }
            | Phase::Beginning { .. }
            | Phase::Running { .. }
            | Phase::Recovering { .. } => true,
            // In a run that has begun, outstanding events may need any peer that registers.
            Phase::Draining { .. } => self.started,
            Phase::Reporting { .. } => self.knows(peer, hello),
            Phase::Ended => false,
        };
        if !open {
            let detail = format!("run {run} is over: start {} again for the next one", self.plan.named(peer));
            return Err(Refusal::because(Reason::RunOver, detail));
        }
        Ok(peer)
    }

    /// Returns true if that process has taken part in the run before, and may continue.
    fn knows(&self, peer: Peer, hello: &Hello) -> bool {
        self.roster.seat(peer).is_some_and(|seat| match seat {
            Seat::Source(index) => self.roster.source(index).goes_on(hello),
            Seat::Builder(index) => self.roster.builder(index).goes_on(hello),
        })
    }

    /// Refuses a builder that was removed, or of which another process may still take part.
    /// Requirements: docs/reference/protocol.md CONN-14, CONN-15, CONN-17, CONN-21.
    fn check_builder(
        &self,
        peer: Peer,
        seat: &BuilderSeat,
        hello: &Hello,
        now: Instant,
    ) -> Result<(), Refusal> {
        if !seat.is_member() {
            let (run, id) = (self.plan.run, seat.id);
            let detail = format!(
                "{} was removed from run {run}; `evbd ctl add-builder {id}` adds it again",
                self.plan.named(peer)
            );
            return Err(Refusal::because(Reason::UnknownPeer, detail));
        }
        if !seat.goes_on(hello) {
            self.check_not_live(peer, seat.connection, now)?;
        }
        if !hello.unable.is_empty() {
            // This process writes no events, and may have no address at which to be reached.
            return Ok(());
        }
        if !seat.goes_on(hello) {
            self.check_lease_over(seat, now)?;
        }
        if !is_address(&hello.listen) {
            let named = self.plan.named(peer);
            let detail = format!(
                "{named} does not state the host:port at which sources reach it: correct its `listen`"
            );
            return Err(Refusal::because(Reason::Configuration, detail));
        }
        Ok(())
    }

    /// Refuses a peer of which another process is connected and speaks.
    /// Requirements: docs/reference/protocol.md CONN-10.
    fn check_not_live(
        &self,
        peer: Peer,
        connection: Option<Connection>,
        now: Instant,
    ) -> Result<(), Refusal> {
        let waiting = self.phase.is_gathering();
        let down_after = match peer {
            Peer::Source(_) => self.plan.source_down_after(),
            _ => self.plan.down_after,
        };
        let speaks = |live: Connection| now.since(live.last_heard) < down_after;
        if connection.is_some_and(|connection| waiting || speaks(connection)) {
            let named = self.plan.named(peer);
            let detail = format!(
                "{named} takes part already: a process that was started again registers by itself in some seconds, else give each source and builder its own id, and start each once"
            );
            return Err(Refusal::because(Reason::DuplicateId, detail));
        }
        Ok(())
    }

    /// Refuses a builder while an earlier process of the same builder may still write events under
    /// its lease.
    fn check_lease_over(&self, seat: &BuilderSeat, now: Instant) -> Result<(), Refusal> {
        if !seat.is_alive() || self.phase.is_gathering() {
            return Ok(());
        }
        let left = self.plan.two_leases().saturating_sub(now.since(seat.last_heard)).as_secs_f64();
        let detail = format!(
            "another process of builder {} took part before and may still write events, for at most {left:.1} s; the new one registers by itself after that",
            seat.id
        );
        Err(Refusal::because(Reason::DuplicateId, detail))
    }

    /// Returns the refusal of a peer that the plan does not name, with the ids that it names.
    fn unknown(&self, peer: Peer) -> Refusal {
        let mut known: Vec<u16> = match peer {
            Peer::Builder(_) => staying(self.roster.builders().iter()).iter().map(|id| id.number()).collect(),
            _ => self.roster.sources().iter().map(|seat| seat.id.number()).collect(),
        };
        known.sort_unstable();
        let detail = format!(
            "{peer} is not configured for run {}, which has {}s {}: correct its id, or use the same configuration on all hosts",
            self.plan.run,
            role(peer),
            ranges(known)
        );
        Refusal::because(Reason::UnknownPeer, detail)
    }
}
