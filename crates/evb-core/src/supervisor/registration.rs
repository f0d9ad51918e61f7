//! Who may take part, and what everybody is told about it.

use std::collections::BTreeSet;

use super::{
    Phase, Recipients, SupervisorCore,
    incarnation::goes_on,
    journal::What,
    seats::{Connection, Leaving},
    words::short,
};
use crate::{
    id::{BuilderId, Peer, SourceId},
    time::Instant,
    trigger::Trigger,
    undo,
    wire::{
        control::{
            BuilderAddress, Finish, Hello, Refusal, Role, Roster, RunParameters, Stop, Welcome,
            control::Message, refusal::Reason,
        },
        journal::{Registered, Started},
    },
};

/// Why a run cannot begin now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// These have not registered.
    #[error("not registered: {}", names(.0))]
    Missing(Vec<Peer>),
    /// These are not connected to all builders yet.
    #[error("not connected to all builders yet: {}", names(.0))]
    Unconnected(Vec<Peer>),
    /// It has begun, or is over.
    #[error("the run has begun already")]
    Begun,
}

fn names(peers: &[Peer]) -> String {
    peers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The longest `host:port` that is passed on.
pub(super) const MAX_LISTEN: usize = 300;

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
        let incarnation = match peer {
            Peer::Source(id) => self.register_source(id, hello, connection, now)?,
            Peer::Builder(id) => self.register_builder(id, hello, connection, now)?,
            Peer::Supervisor => return Err(Refusal::because(Reason::WrongRole, "a run has one supervisor")),
        };
        tracing::info!(%peer, incarnation, software = %short(&hello.software), "registered");
        self.journal_registration(peer, now);
        if self.roster_version > 0 || self.everybody_is_here() {
            self.publish_roster(now);
        }
        self.tell_newcomer(peer, now);
        let nanos = |duration: core::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let parameters = RunParameters {
            slots: self.plan.slots,
            deadline_ns: nanos(self.plan.deadline),
            orphan_timeout_ns: nanos(self.plan.orphan_timeout),
            heartbeat_ns: nanos(self.plan.heartbeat),
            decided: self.outbox.decided(),
            shared_clock: connection.shared_clock,
            lease_ns: nanos(self.plan.lease),
            patience_ns: nanos(self.plan.patience),
            report_ns: nanos(self.plan.report_period),
        };
        Ok(Welcome {
            epoch: self.plan.epoch.number(),
            run: self.plan.run.number(),
            parameters: Some(parameters),
            incarnation,
            ..Welcome::default()
        })
    }

    /// A source says that its lanes to all builders of the roster are connected (docs/protocol.md RUN-4).
    pub(super) fn handle_ready(&mut self, id: SourceId, now: Instant) {
        let Some(index) = self.source_index(id) else { return };
        self.sources[index].ready = true;
        self.sources[index].reaches_all = true;
        match self.phase {
            Phase::Gathering { .. } => self.start_if_ready(now),
            _ => self.raise(index, now),
        }
        self.check_joining(now);
        self.check_recovered(now);
    }

    pub(super) fn source_index(&self, id: SourceId) -> Option<usize> {
        self.sources.binary_search_by_key(&id, |seat| seat.id).ok()
    }

    pub(super) fn builder_index(&self, id: BuilderId) -> Option<usize> {
        self.builders.iter().position(|seat| seat.id == id)
    }

    /// A new roster version for everybody, behind all decisions of the old one (docs/protocol.md RUN-2).
    pub(super) fn publish_roster(&mut self, now: Instant) {
        self.close_batches();
        self.roster_version += 1;
        if matches!(self.phase, Phase::Gathering { .. }) {
            let here = self.sources.iter().enumerate().filter(|(_, seat)| seat.connection.is_some());
            self.up = here.map(|(index, _)| index).collect();
        }
        self.remember_expected();
        self.journal_roster(now);
        let gathering = matches!(self.phase, Phase::Gathering { .. });
        let number = |index: usize| u32::from(self.sources[index].id.number());
        let roster = Roster {
            version: self.roster_version,
            sources: (0..self.sources.len()).map(number).collect(),
            up: self.up.iter().map(number).collect(),
            builders: self
                .builders
                .iter()
                .filter(|seat| if gathering { seat.connection.is_some() } else { seat.is_alive() })
                .map(|seat| BuilderAddress {
                    id: seat.id.number().into(),
                    listen: seat.listen.clone(),
                    incarnation: seat.incarnation,
                })
                .collect(),
            max_fragment: self.sources.iter().map(|seat| seat.max_fragment).collect(),
            incarnations: self.sources.iter().map(|seat| seat.incarnation).collect(),
            awaited: self.awaited.iter().map(number).collect(),
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
        let open = match self.phase {
            Phase::Gathering { .. } | Phase::Running { .. } | Phase::Recovering { .. } => true,
            // What is under way may need whoever comes, if it has begun at all.
            Phase::Draining { .. } => self.tally.started.is_some(),
            Phase::Reporting { .. } => self.knows(peer, hello),
            Phase::Ended => false,
        };
        if !open {
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
    ) -> Result<u32, Refusal> {
        let index = self.source_index(id).ok_or_else(|| self.unknown(Peer::Source(id)))?;
        let seat = &self.sources[index];
        let goes_on = goes_on(hello, seat.incarnation);
        if !goes_on {
            self.check_not_live(Peer::Source(id), seat.connection, now)?;
        }
        // Connected once more: what the old connection was told is not known, so the new one begins below.
        if !(goes_on && matches!(self.phase, Phase::Recovering { .. })) {
            self.lower(index, "it registered anew", now);
        }
        let decided = self.outbox.decided();
        let seat = &mut self.sources[index];
        seat.connection = Some(connection);
        seat.shared_clock = connection.shared_clock;
        seat.ready = false;
        seat.told = decided;
        seat.max_fragment = hello.max_fragment;
        if !goes_on {
            seat.incarnation += 1;
            (seat.report, seat.latest) = (None, None);
        }
        Ok(seat.incarnation)
    }

    /// Requirements: docs/protocol.md CONN-14, CONN-15, CONN-17.
    fn register_builder(
        &mut self,
        id: BuilderId,
        hello: &Hello,
        connection: Connection,
        now: Instant,
    ) -> Result<u32, Refusal> {
        let index = self.builder_index(id).ok_or_else(|| self.unknown(Peer::Builder(id)))?;
        let seat = &self.builders[index];
        if !seat.is_member() {
            return Err(self.unknown(Peer::Builder(id)));
        }
        let goes_on = goes_on(hello, seat.incarnation) && !seat.over && !seat.barred;
        if !goes_on {
            self.check_not_live(Peer::Builder(id), seat.connection, now)?;
            self.check_lease_over(index, now)?;
        }
        if hello.listen.is_empty() || hello.listen.len() > MAX_LISTEN {
            let detail = format!("builder {id} must say at which host:port sources reach it");
            return Err(Refusal::because(Reason::Configuration, detail));
        }
        let gathering = matches!(self.phase, Phase::Gathering { .. });
        let seat = &mut self.builders[index];
        seat.connection = Some(connection);
        seat.shared_clock = connection.shared_clock;
        seat.listen.clone_from(&hello.listen);
        seat.suspended = false;
        if !goes_on {
            seat.begin_incarnation();
        }
        if seat.leaving == Leaving::Finishing && !undo::is_undone(undo::Fix::C33dca9c) {
            // Whether it heard that it is to report, or its report came, nobody knows.
            seat.leaving = Leaving::Asked;
        }
        let incarnation = seat.incarnation;
        if goes_on {
            self.offer_slots(index, now);
        } else if gathering {
            // Lanes to it are to be connected first, by everybody.
            self.sources.iter_mut().for_each(|seat| seat.ready = false);
        } else {
            self.begin_joining(index, now);
        }
        Ok(incarnation)
    }

    /// What a peer is told behind the roster, when it comes while the run goes on (docs/protocol.md RUN-21, RUN-22).
    fn tell_newcomer(&mut self, peer: Peer, now: Instant) {
        if !self.is_under_way_or_reporting() {
            return;
        }
        match peer {
            Peer::Source(id) => {
                let index = self.source_index(id);
                self.send_holdings(index.into_iter().collect());
            }
            Peer::Builder(id) => {
                if let Some(index) = self.builder_index(id) {
                    self.send_again(index, 0);
                }
            }
            Peer::Supervisor => {}
        }
        let to = match peer {
            Peer::Source(id) => Recipients::Source(id),
            Peer::Builder(id) => Recipients::Builder(id),
            Peer::Supervisor => return,
        };
        if matches!(self.phase, Phase::Draining { .. } | Phase::Reporting { .. }) {
            self.send(to, Message::Stop(Stop { cause: "the run takes no more triggers".to_owned() }));
        }
        if matches!(self.phase, Phase::Reporting { .. }) {
            self.send(to, Message::Finish(Finish {}));
        }
        self.check_recovered(now);
    }

    /// Whether that process has taken part before, and may go on.
    fn knows(&self, peer: Peer, hello: &Hello) -> bool {
        match peer {
            Peer::Source(id) => {
                self.source_index(id).is_some_and(|index| goes_on(hello, self.sources[index].incarnation))
            }
            Peer::Builder(id) => self.builder_index(id).is_some_and(|index| {
                let seat = &self.builders[index];
                goes_on(hello, seat.incarnation) && !seat.over && !seat.barred
            }),
            Peer::Supervisor => false,
        }
    }

    /// A builder's predecessor may still write under its lease.
    fn check_lease_over(&self, index: usize, now: Instant) -> Result<(), Refusal> {
        let seat = &self.builders[index];
        if !seat.is_alive() || matches!(self.phase, Phase::Gathering { .. }) {
            return Ok(());
        }
        let left = self.two_leases().saturating_sub(now.since(seat.last_heard)).as_secs_f64();
        let detail = format!(
            "another process of builder {} was here and may still write, for at most {left:.1} s; try again then",
            seat.id
        );
        Err(Refusal::because(Reason::DuplicateId, detail))
    }

    fn journal_registration(&mut self, peer: Peer, now: Instant) {
        let mut what = Registered::default();
        match peer {
            Peer::Source(id) => {
                let Some(index) = self.source_index(id) else { return };
                let seat = &self.sources[index];
                what.set_role(Role::Source);
                (what.id, what.incarnation) = (id.number().into(), seat.incarnation);
                what.max_fragment = seat.max_fragment;
            }
            Peer::Builder(id) => {
                let Some(index) = self.builder_index(id) else { return };
                let seat = &self.builders[index];
                what.set_role(Role::Builder);
                (what.id, what.incarnation) = (id.number().into(), seat.incarnation);
                what.listen.clone_from(&seat.listen);
            }
            Peer::Supervisor => return,
        }
        self.journal(What::Registered(what), now);
    }

    /// Keeps what outstanding events are expected to have, and nothing else.
    pub(super) fn remember_expected(&mut self) {
        let used: BTreeSet<u32> = self.outstanding.iter().map(|place| place.version).collect();
        self.expected.retain(|version, _| used.contains(version));
        self.expected.insert(self.roster_version, self.up.union(&self.awaited));
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
            super::words::role(peer),
            known.join(", ")
        );
        Refusal::because(Reason::UnknownPeer, detail)
    }

    fn shares_clock(&self, boot_id: &str) -> bool {
        !boot_id.is_empty() && boot_id == self.plan.boot_id
    }

    fn everybody_is_here(&self) -> bool {
        self.sources.iter().all(|seat| seat.connection.is_some())
            && self.builders.iter().all(|seat| seat.connection.is_some() || !seat.is_member())
    }

    /// Whether every peer is registered and all lanes are connected.
    pub(super) fn is_ready(&self) -> bool {
        self.everybody_is_here() && self.sources.iter().all(super::seats::SourceSeat::is_ready)
    }

    /// Lets a run begin that its plan holds back.
    ///
    /// # Errors
    /// [`NotReady`]: somebody is missing, or it has begun.
    pub fn begin(&mut self, now: Instant) -> Result<(), NotReady> {
        if !matches!(self.phase, Phase::Gathering { .. }) {
            return Err(NotReady::Begun);
        }
        let missing = self.absent();
        if !missing.is_empty() {
            return Err(NotReady::Missing(missing));
        }
        let waiting = self.unconnected();
        if !waiting.is_empty() {
            return Err(NotReady::Unconnected(waiting));
        }
        self.plan.hold = false;
        self.start_if_ready(now);
        Ok(())
    }

    fn start_if_ready(&mut self, now: Instant) {
        if self.plan.hold || !self.is_ready() {
            return;
        }
        tracing::info!(run = %self.plan.run, sources = self.sources.len(), builders = self.builders.len(), "running");
        self.phase = Phase::Running { until: self.plan.duration.map(|duration| now + duration) };
        self.tally.started = Some(now);
        self.journal(What::Started(Started {}), now);
        self.hear_everybody(now);
        self.trigger = Trigger::new(self.plan.trigger, self.seed, now);
        self.slots.open();
        for index in 0..self.builders.len() {
            self.offer_slots(index, now);
        }
    }
}
