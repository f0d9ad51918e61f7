//! Who may open a lane at a builder.
//!
//! To be replaced by the builder's own machine: until it has this logic, it stands here a second time (`src/builder/accept.rs`).

use core::{mem, time::Duration};

use evb_core::{
    id::{Incarnation, Peer},
    time::Instant,
    units::Bytes,
    wire::{
        control::{Hello, Refusal, Welcome, refusal::Reason},
        datagram::Association,
    },
};

use super::{BuilderHost, Role, reading::BuilderLane};
use crate::system::{
    failure::Failure,
    greeting::{read_greeting, refused, welcomed, write_greeting},
    host::Surroundings,
    network::{ConnectionKind, EndId},
};

/// How long the other side's part of a greeting may take.
const GREETING: Duration = Duration::from_secs(5);

/// How far out of order a lane's bytes are kept over datagrams: the least that builders keep.
const WINDOW: Bytes = Bytes::kib(256);

impl BuilderHost {
    pub(super) fn next_greeting(&self) -> Option<Instant> {
        // Before there is a roster, sources are not answered.
        self.role.as_ref()?;
        self.greetings.iter().map(|(_, since)| *since + GREETING).min()
    }

    /// Answers sources that greet.
    pub(super) fn greet(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let now = around.now();
        let accepted = mem::take(&mut around.network.nodes[around.node].accepted);
        self.greetings.extend(accepted.into_iter().map(|end| (end, now)));
        let Some(role) = &mut self.role else { return Ok(()) };
        for (end, since) in mem::take(&mut self.greetings) {
            let incoming = around.network.incoming(end);
            match read_greeting::<Hello>(ConnectionKind::Lane, incoming).map_err(Failure::protocol)? {
                Some(hello) => role.answer(end, &hello, around),
                None if around.network.is_ended(end) || now.since(since) >= GREETING => {
                    around.network.close(end);
                }
                None => self.greetings.push((end, since)),
            }
        }
        Ok(())
    }
}

impl Role {
    fn answer(&mut self, end: EndId, hello: &Hello, around: &mut Surroundings<'_>) {
        let lane = self.admit(hello).and_then(|lane| {
            let incarnation = Incarnation::new(hello.incarnation);
            let is_met = self.core.meet(lane, incarnation, around.now());
            is_met
                .then_some(lane)
                .ok_or_else(|| Refusal::because(Reason::DuplicateId, "another process by now"))
        });
        match lane {
            Ok(lane) => self.welcome(lane, end, around),
            Err(refusal) => {
                around.say(|| format!("refuses a lane: {}", refusal.detail));
                write_greeting(ConnectionKind::Lane, &refused(refusal), around.network.outgoing(end));
                around.network.flush(end);
                around.network.close(end);
            }
        }
    }

    /// The lane of a source that belongs here (docs/protocol.md CONN-8, CONN-9, CONN-19).
    fn admit(&self, hello: &Hello) -> Result<usize, Refusal> {
        let because = |reason, detail: &str| Err(Refusal::because(reason, detail));
        if hello.to_peer() != Some(Peer::Builder(self.core.config().id)) {
            return because(Reason::WrongId, "another builder is wanted");
        }
        let Some(Peer::Source(source)) = hello.from_peer() else {
            return because(Reason::WrongRole, "only sources open lanes");
        };
        if hello.known_run() != Some(self.identity.run) {
            return because(Reason::Run, "another run");
        }
        if hello.known_epoch() != Some(self.identity.epoch)
            || hello.to_incarnation != self.incarnation.number()
        {
            return because(Reason::Epoch, "another life");
        }
        let lane = self.core.config().sources.binary_search(&source);
        lane.or_else(|_| Err(Refusal::because(Reason::UnknownPeer, "not in the roster")))
    }

    fn welcome(&mut self, lane: usize, end: EndId, around: &mut Surroundings<'_>) {
        let now = around.now();
        if self.lanes[lane].is_open() {
            self.drop_lane(lane, "its source connected anew", around);
        }
        let held = self.core.handle_lane_connected(lane, now);
        let mut connection = 0;
        if around.scenario.is_udp() {
            connection = 1 + around.network.below(u64::from(u32::MAX) - 1) as u32;
            let association = Association {
                epoch: self.identity.epoch,
                source: self.core.config().sources[lane],
                builder: self.core.config().id,
                connection,
            };
            let estimate = Some(2 * around.scenario.weather.latency);
            self.core.associate(lane, association, estimate, WINDOW, now);
        }
        let welcome = Welcome {
            epoch: self.identity.epoch.number(),
            run: self.identity.run.number(),
            lane: Some(held),
            connection,
            ..Welcome::default()
        };
        around.say(|| format!("opens lane {lane}: {held:?}"));
        write_greeting(ConnectionKind::Lane, &welcomed(welcome), around.network.outgoing(end));
        around.network.flush(end);
        self.lanes[lane] = BuilderLane::open(end);
        if !around.scenario.is_udp() {
            self.write_lane(lane, around);
        }
    }
}
