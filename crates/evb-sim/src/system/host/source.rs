//! A source's process: readout, lanes, and the connection to the supervisor.

mod output;

use core::{ops::Range, time::Duration};
use std::collections::BTreeSet;

use bytes::BytesMut;
use evb_core::{
    id::{EventId, Peer, SourceId},
    lane::DatagramFault,
    source::{SourceConfig, SourceCore},
    time::{Instant, earlier},
    wire::{
        control::{Control, Decisions, Holdings, Ready, Roster, Verdict, control::Message},
        datagram::DatagramHeader,
        record::{COMMIT_RANGE, RecordHeader, decode_range},
    },
};
use evb_shaper::{PacedSource, Pacing};

use super::{
    Exit, Spinning, Surroundings,
    lanes::{Dialing, SourceLane, listed},
    registration::{Heard, Registered, Registration},
};
use crate::{
    stream::read_record,
    system::{
        failure::Failure,
        network::{Address, EndId},
        scenario::Pushes,
    },
    workload::Workload,
};

pub(crate) struct SourceHost {
    id: SourceId,
    registration: Registration,
    /// Until the first roster.
    registered: Option<Registered>,
    role: Option<Role>,
    spinning: Spinning,
}

/// What there is from the first roster on.
struct Role {
    core: PacedSource,
    lanes: Vec<SourceLane>,
    dialing: Dialing,
    is_ready: bool,
    /// What readout is about to push.
    readout: BTreeSet<(Instant, EventId)>,
    /// Of a readout that is asked by nobody, what it has read out or is about to.
    read_out: BTreeSet<EventId>,
    /// Of a readout that runs ahead of decisions, the next event.
    next: EventId,
}

impl SourceHost {
    pub(crate) fn new(id: SourceId, around: &Surroundings<'_>) -> Self {
        let hello = evb_core::wire::control::Hello {
            boot_id: around.boot_id.to_owned(),
            max_fragment: around.scenario.readout.size.largest().count(),
            ..evb_core::wire::control::Hello::new(Peer::Source(id), Peer::Supervisor)
        };
        let registration = Registration::new(hello, around.now());
        Self { id, registration, registered: None, role: None, spinning: Spinning::default() }
    }

    pub(crate) fn turn(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Exit>, Failure> {
        let now = around.now();
        while let Some(heard) = self.registration.poll(around)? {
            if let Some(exit) = self.hear(heard, around)? {
                self.registration.close(around);
                return Ok(Some(exit));
            }
        }
        let mut next = self.registration.next_timeout();
        if let Some(role) = &mut self.role {
            role.turn(&mut self.registration, around)?;
            role.core.invariants();
            next = earlier(next, role.next_timeout(&self.registration));
        }
        self.spinning.check(Peer::Source(self.id), next, now)?;
        around.wake_at(next);
        Ok(None)
    }

    fn hear(&mut self, heard: Heard, around: &mut Surroundings<'_>) -> Result<Option<Exit>, Failure> {
        match (heard, &mut self.role) {
            (Heard::Abandoned(why), _) => return Ok(Some(Exit::Failed(why))),
            (Heard::Registered(registered), role) => {
                around.records.counts.registrations += 1;
                around.say(|| format!("registered as {}", registered.incarnation));
                match role {
                    Some(role) => role.go_on(&registered, around),
                    None => self.registered = Some(registered),
                }
            }
            (Heard::Lost, role) => {
                around.say(|| "lost the supervisor".to_owned());
                if let Some(role) = role {
                    role.core.handle_supervisor_lost();
                }
            }
            (Heard::Message(Message::RunEnd(_)), _) => return Ok(Some(Exit::Over)),
            (Heard::Message(Message::Roster(roster)), None) => {
                self.registration.watch(around.now());
                let (Some(registered), Some(identity)) = (&self.registered, self.registration.identity())
                else {
                    return Err(Failure::protocol("a roster before a welcome"));
                };
                let dialing = Dialing { source: self.id, identity, incarnation: registered.incarnation };
                let mut role = Role::new(dialing, registered, &roster, around)?;
                role.handle_roster(&roster, around)?;
                self.role = Some(role);
            }
            (Heard::Message(_), None) => {}
            (Heard::Message(message), Some(role)) => role.handle_message(message, around)?,
        }
        Ok(None)
    }
}

impl Role {
    fn new(
        dialing: Dialing,
        registered: &Registered,
        roster: &Roster,
        around: &Surroundings<'_>,
    ) -> Result<Self, Failure> {
        let (scenario, now, told) = (around.scenario, around.now(), &registered.parameters);
        let decided = EventId::new(told.decided);
        let config = SourceConfig {
            id: dialing.source,
            max_fragment: scenario.readout.size.largest(),
            orphan_timeout: Duration::from_nanos(told.orphan_timeout_ns),
            heartbeat: Duration::from_nanos(told.heartbeat_ns),
            builders: listed(roster)?.into_iter().map(|listed| listed.builder).collect(),
            on_demand: scenario.pushes == Pushes::OnDemand,
            decided,
        };
        let core = SourceCore::new(config, now)
            .with_times(Duration::from_nanos(told.deadline_ns), scenario.queue())
            .with_reports(Duration::from_nanos(told.report_ns), now);
        let core = PacedSource::new(core, Pacing::none(scenario.cost()));
        let (lanes, readout) = (Vec::new(), BTreeSet::new());
        Ok(Self {
            core,
            lanes,
            dialing,
            is_ready: false,
            readout,
            read_out: BTreeSet::new(),
            next: decided.next(),
        })
    }

    fn turn(
        &mut self,
        registration: &mut Registration,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        let now = around.now();
        self.poll_lanes(around)?;
        self.push_due(around)?;
        if self.core.next_timeout().is_some_and(|due| due <= now) {
            self.core.handle_timeout(now);
        }
        self.drain(registration, around)?;
        if !self.is_ready && self.core.is_connected() {
            self.is_ready = true;
            registration.send(around, &Control { message: Some(Message::Ready(Ready {})) });
        }
        if registration.is_up() && self.core.finish(now) {
            let report = self.core.report(0, None);
            registration.send(around, &report);
        }
        Ok(())
    }

    fn next_timeout(&self, registration: &Registration) -> Option<Instant> {
        let lanes = self.lanes.iter().filter_map(SourceLane::next_timeout).min();
        let finish = self.core.next_finish().filter(|_| registration.is_up());
        let readout = self.readout.first().map(|(at, _)| *at);
        earlier(earlier(self.core.next_timeout(), lanes), earlier(finish, readout))
    }

    fn go_on(&mut self, registered: &Registered, around: &mut Surroundings<'_>) {
        if registered.incarnation != self.dialing.incarnation {
            self.dialing.incarnation = registered.incarnation;
            self.core.begin_anew();
            for lane in &mut self.lanes {
                lane.begin_anew(&mut self.core, around);
            }
        }
        self.core.handle_registered(around.now());
        // Said again behind the roster.
        self.is_ready = true;
    }

    fn handle_message(&mut self, message: Message, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let now = around.now();
        match message {
            Message::Decisions(decisions) => {
                self.note_decisions(&decisions, around)?;
                self.core.handle_decisions(&decisions).map_err(Failure::protocol)?;
            }
            Message::Holdings(holdings) => {
                self.note_holdings(&holdings, around)?;
                self.core.handle_holdings(&holdings).map_err(Failure::protocol)?;
            }
            Message::Heartbeat(heartbeat) => self.core.handle_heartbeat(&heartbeat, now),
            Message::Finish(_) => self.core.handle_finish(now),
            Message::Roster(roster) => self.handle_roster(&roster, around)?,
            _ => {}
        }
        Ok(())
    }

    /// Builders come and go; lanes follow.
    fn handle_roster(&mut self, roster: &Roster, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        around.say(|| format!("hears roster {}: up {:?}, {:?}", roster.version, roster.up, roster.builders));
        let listed = listed(roster)?;
        let builders: Vec<_> = listed.iter().map(|listed| (listed.builder, listed.incarnation)).collect();
        self.core.handle_roster(&builders, |_| None).map_err(Failure::protocol)?;
        for lane in &mut self.lanes {
            if builders.binary_search_by_key(&lane.builder(), |(builder, _)| *builder).is_err() {
                lane.close(&mut self.core, around);
            }
        }
        for listed in listed {
            let Some(index) = self.core.lane_index(listed.builder) else { continue };
            match self.lanes.get_mut(index) {
                Some(lane) => lane.aim(listed, &mut self.core, around),
                None => self.lanes.push(SourceLane::new(index, listed)),
            }
        }
        self.is_ready = false;
        Ok(())
    }

    /// A readout that is asked by nobody reads out what was assigned, some time later.
    fn note_decisions(&mut self, decisions: &Decisions, around: &Surroundings<'_>) -> Result<(), Failure> {
        if around.scenario.pushes != Pushes::Late {
            return Ok(());
        }
        for (first, count, verdict) in decisions.verdicts().map_err(Failure::protocol)? {
            if matches!(verdict, Verdict::Assigned(_)) {
                let events = first.number()..first.number() + u64::from(count);
                events.for_each(|event| self.want(EventId::new(event), around));
            }
        }
        Ok(())
    }

    fn note_holdings(&mut self, holdings: &Holdings, around: &Surroundings<'_>) -> Result<(), Failure> {
        if around.scenario.pushes != Pushes::Late {
            return Ok(());
        }
        for (_, events) in holdings.homes().map_err(Failure::protocol)? {
            events.for_each(|event| self.want(event, around));
        }
        Ok(())
    }

    fn want(&mut self, event: EventId, around: &Surroundings<'_>) {
        if around.scenario.pushes == Pushes::Late && !self.read_out.insert(event) {
            return;
        }
        let draw = around.workload.draw(usize::from(self.dialing.source.number()) - 1, event);
        if draw.payload.is_some() {
            self.readout.insert((around.now() + draw.delay, event));
        }
    }

    fn push_due(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        if around.scenario.pushes == Pushes::Ahead {
            // As far as its backlog lets it.
            let until = self.core.undecided().number() + around.scenario.ahead;
            self.next = self.next.max(self.core.undecided());
            while self.next.number() < until {
                self.push(self.next, around)?;
                self.next = self.next.next();
            }
        }
        while let Some((_, event)) = self.readout.pop_first_if(around.now()) {
            self.push(event, around)?;
        }
        Ok(())
    }

    fn push(&mut self, event: EventId, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let draw = around.workload.draw(usize::from(self.dialing.source.number()) - 1, event);
        let Some(payload) = draw.payload else { return Ok(()) };
        let outcome = self.core.push(Workload::fragment(event, payload), around.now());
        outcome.map_err(|error| Failure::protocol(format!("a fragment is refused: {error}")))
    }

    fn poll_lanes(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        for index in 0..self.lanes.len() {
            self.lanes[index].poll(&mut self.core, &self.dialing, around)?;
            let Some(up) = self.lanes[index].up() else { continue };
            match up.sockets {
                None => self.read_lane(index, up.end, around)?,
                Some((own, _)) => self.read_datagrams(index, own, around)?,
            }
            let silent = up.sockets.is_some() && self.core.is_silent(index, around.now());
            if silent {
                self.lanes[index].fail(&mut self.core, around, "datagrams get nowhere");
            } else if around.network.is_ended(up.end) {
                self.lanes[index].fail(&mut self.core, around, "it was closed");
            }
        }
        Ok(())
    }

    fn read_lane(&mut self, lane: usize, end: EndId, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let incoming = around.network.incoming(end);
        while let Some(record) = read_record(incoming).map_err(Failure::protocol)? {
            let outcome = match record {
                RecordHeader::Grant { end } => self.core.handle_grant(lane, end),
                RecordHeader::Commit { count, offset } => {
                    let ranges = commit_ranges(count, incoming).map_err(Failure::protocol)?;
                    self.core.handle_commit(lane, offset, &ranges, drop)
                }
                other => return Err(Failure::protocol(format!("a source was sent {other:?}"))),
            };
            outcome.map_err(|error| Failure::protocol(format!("lane {lane}: {error}")))?;
        }
        Ok(())
    }

    fn read_datagrams(
        &mut self,
        lane: usize,
        own: Address,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        let now = around.now();
        while let Some((_, datagram)) = around.network.receive(own) {
            // Damaged ones are repeated like lost ones.
            let Ok((header, body)) = DatagramHeader::open(&datagram) else { continue };
            match self.core.handle_datagram(lane, &header, body, now, drop) {
                Ok(()) | Err(DatagramFault::Stale) => {}
                Err(fault) => return Err(Failure::protocol(format!("lane {lane}: {fault}"))),
            }
        }
        Ok(())
    }
}

fn commit_ranges(count: u16, incoming: &mut BytesMut) -> Result<Vec<Range<u64>>, String> {
    let body = incoming.split_to(usize::from(count) * COMMIT_RANGE);
    let (ranges, _) = body.as_chunks::<COMMIT_RANGE>();
    ranges.iter().map(|range| decode_range(range).map_err(|error| error.to_string())).collect()
}

/// Takes what is due from a set by time.
trait PopDue {
    fn pop_first_if(&mut self, now: Instant) -> Option<(Instant, EventId)>;
}

impl PopDue for BTreeSet<(Instant, EventId)> {
    fn pop_first_if(&mut self, now: Instant) -> Option<(Instant, EventId)> {
        let (at, _) = self.first()?;
        if *at <= now { self.pop_first() } else { None }
    }
}
