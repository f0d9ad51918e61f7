//! Who may take part, and what everybody is told about it.

use super::{Phase, Recipients, SupervisorCore, seats::Connection, short};
use crate::{
    id::{BuilderId, Peer, SourceId},
    time::Instant,
    trigger::Trigger,
    wire::control::{
        BuilderAddress, Hello, Refusal, Roster, RunParameters, Welcome, control::Message, refusal::Reason,
    },
};

/// The longest `host:port` that is passed on.
const MAX_LISTEN: usize = 300;

impl SupervisorCore {
    /// A peer wants to take part. On success the driver connects it before it polls on; a connection that the peer had
    /// before is closed without further notice.
    ///
    /// # Errors
    /// The refusal to be sent, with a reason for people.
    pub fn register(&mut self, hello: &Hello, now: Instant) -> Result<Welcome, Refusal> {
        let peer = self.check_identity(hello)?;
        let connection =
            Connection { last_heard: now, echo: None, shared_clock: self.shares_clock(&hello.boot_id) };
        match peer {
            Peer::Source(id) => self.register_source(id, hello, connection, now)?,
            Peer::Builder(id) => self.register_builder(id, hello, connection, now)?,
            Peer::Supervisor => return Err(Refusal::because(Reason::WrongRole, "a run has one supervisor")),
        }
        tracing::info!(%peer, software = %short(&hello.software), "registered");
        if self.roster_version > 0 || self.everybody_is_here() {
            self.publish_roster();
        }
        let nanos = |duration: core::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let parameters = RunParameters {
            slots: self.plan.slots,
            deadline_ns: nanos(self.plan.deadline),
            orphan_timeout_ns: nanos(self.plan.orphan_timeout),
            heartbeat_ns: nanos(self.plan.heartbeat),
            decided: self.outbox.decided(),
            shared_clock: connection.shared_clock,
        };
        Ok(Welcome {
            epoch: self.plan.epoch.number(),
            run: self.plan.run.number(),
            parameters: Some(parameters),
            ..Welcome::default()
        })
    }

    /// A source says that its lanes to all builders of the roster are connected (docs/protocol.md RUN-4).
    pub(super) fn handle_ready(&mut self, id: SourceId, now: Instant) {
        let Some(index) = self.source_index(id) else { return };
        self.sources[index].ready = true;
        match self.phase {
            Phase::Gathering { .. } => self.start_if_ready(now),
            _ => self.raise(index, now),
        }
    }

    pub(super) fn source_index(&self, id: SourceId) -> Option<usize> {
        self.sources.binary_search_by_key(&id, |seat| seat.id).ok()
    }

    pub(super) fn builder_index(&self, id: BuilderId) -> Option<usize> {
        self.builders.binary_search_by_key(&id, |seat| seat.id).ok()
    }

    /// A new roster version for everybody, behind all decisions of the old one (docs/protocol.md RUN-2).
    pub(super) fn publish_roster(&mut self) {
        self.close_batches();
        self.roster_version += 1;
        if matches!(self.phase, Phase::Gathering { .. }) {
            let here = self.sources.iter().enumerate().filter(|(_, seat)| seat.connection.is_some());
            self.up = here.map(|(index, _)| index).collect();
        }
        let number = |index: usize| u32::from(self.sources[index].id.number());
        let roster = Roster {
            version: self.roster_version,
            sources: (0..self.sources.len()).map(number).collect(),
            up: self.up.iter().map(number).collect(),
            builders: self
                .builders
                .iter()
                .filter(|seat| seat.connection.is_some())
                .map(|seat| BuilderAddress { id: seat.id.number().into(), listen: seat.listen.clone() })
                .collect(),
            max_fragment: self.sources.iter().map(|seat| seat.max_fragment).collect(),
        };
        self.send(Recipients::Everyone, Message::Roster(roster));
    }

    /// Requirements: docs/protocol.md CONN-8, CONN-9, CONN-15.
    fn check_identity(&self, hello: &Hello) -> Result<Peer, Refusal> {
        let Some(peer) = hello.from_peer() else {
            return Err(Refusal::because(Reason::Malformed, "the hello does not say who it is from"));
        };
        if hello.to_peer() != Some(Peer::Supervisor) {
            return Err(Refusal::because(
                Reason::WrongRole,
                "this is the supervisor; check the address that you connect to",
            ));
        }
        let (run, epoch) = (self.plan.run, self.plan.epoch);
        if let Some(theirs) = hello.known_run().filter(|theirs| *theirs != run) {
            let detail =
                format!("this supervisor leads run {run}, {peer} belongs to run {theirs}: restart it");
            return Err(Refusal::because(Reason::Run, detail));
        }
        if hello.known_epoch().is_some_and(|theirs| theirs != epoch) {
            let detail = format!("the supervisor of run {run} was started anew: restart {peer}");
            return Err(Refusal::because(Reason::Epoch, detail));
        }
        if !matches!(self.phase, Phase::Gathering { .. } | Phase::Running { .. }) {
            let detail = format!("run {run} is over; {peer} can take part in the next one");
            return Err(Refusal::because(Reason::RunOver, detail));
        }
        Ok(peer)
    }

    fn register_source(
        &mut self,
        id: SourceId,
        hello: &Hello,
        connection: Connection,
        now: Instant,
    ) -> Result<(), Refusal> {
        let index = self.source_index(id).ok_or_else(|| self.unknown(Peer::Source(id)))?;
        self.check_not_live(Peer::Source(id), self.sources[index].connection, now)?;
        // Connected once more: what the old connection was told is not known, so the new one begins below.
        self.lower(index, "it registered anew", now);
        let decided = self.outbox.decided();
        let seat = &mut self.sources[index];
        seat.connection = Some(connection);
        seat.shared_clock = connection.shared_clock;
        seat.ready = false;
        seat.told = decided;
        seat.max_fragment = hello.max_fragment;
        Ok(())
    }

    /// Requirements: docs/protocol.md CONN-14, CONN-15.
    fn register_builder(
        &mut self,
        id: BuilderId,
        hello: &Hello,
        connection: Connection,
        now: Instant,
    ) -> Result<(), Refusal> {
        let index = self.builder_index(id).ok_or_else(|| self.unknown(Peer::Builder(id)))?;
        self.check_not_live(Peer::Builder(id), self.builders[index].connection, now)?;
        if self.is_running() {
            let detail = format!(
                "builder {id} left run {}, and its events are accounted as lost; it can take part in the next one",
                self.plan.run
            );
            return Err(Refusal::because(Reason::Run, detail));
        }
        if hello.listen.is_empty() || hello.listen.len() > MAX_LISTEN {
            let detail = format!("builder {id} must say at which host:port sources reach it");
            return Err(Refusal::because(Reason::Configuration, detail));
        }
        let seat = &mut self.builders[index];
        seat.connection = Some(connection);
        seat.shared_clock = connection.shared_clock;
        seat.listen.clone_from(&hello.listen);
        // Lanes to it are to be connected first, by everybody.
        self.sources.iter_mut().for_each(|seat| seat.ready = false);
        Ok(())
    }

    /// Requirements: docs/protocol.md CONN-10.
    fn check_not_live(
        &self,
        peer: Peer,
        connection: Option<Connection>,
        now: Instant,
    ) -> Result<(), Refusal> {
        let waiting = matches!(self.phase, Phase::Gathering { .. });
        let speaks = |live: Connection| now.since(live.last_heard) < self.plan.down_after;
        if connection.is_some_and(|connection| waiting || speaks(connection)) {
            let detail =
                format!("{peer} takes part already; is one id configured twice, or one role started twice?");
            return Err(Refusal::because(Reason::DuplicateId, detail));
        }
        Ok(())
    }

    fn unknown(&self, peer: Peer) -> Refusal {
        let known: Vec<String> = match peer {
            Peer::Builder(_) => self.builders.iter().map(|seat| seat.id.to_string()).collect(),
            _ => self.sources.iter().map(|seat| seat.id.to_string()).collect(),
        };
        let detail = format!(
            "{peer} is not configured for run {}, which has {}s {}",
            self.plan.run,
            super::role(peer),
            known.join(", ")
        );
        Refusal::because(Reason::UnknownPeer, detail)
    }

    fn shares_clock(&self, boot_id: &str) -> bool {
        !boot_id.is_empty() && boot_id == self.plan.boot_id
    }

    fn everybody_is_here(&self) -> bool {
        self.sources.iter().all(|seat| seat.connection.is_some())
            && self.builders.iter().all(|seat| seat.connection.is_some())
    }

    fn start_if_ready(&mut self, now: Instant) {
        if !self.everybody_is_here() || !self.sources.iter().all(super::seats::SourceSeat::is_ready) {
            return;
        }
        tracing::info!(run = %self.plan.run, sources = self.sources.len(), builders = self.builders.len(), "running");
        self.phase = Phase::Running { until: self.plan.duration.map(|duration| now + duration) };
        self.tally.started = Some(now);
        self.hear_everybody(now);
        self.trigger = Trigger::new(self.plan.trigger, self.seed, now);
        for index in 0..self.builders.len() {
            self.offer_slots(index, now);
        }
    }
}
