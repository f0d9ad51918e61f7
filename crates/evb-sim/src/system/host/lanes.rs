//! [`SourceLane`]: a source's connection to one builder: dial, hold, dial again.
//!
//! To be replaced by the source's own machine: until it has this logic, it stands here a second time (`src/source/lanes.rs`).

use core::time::Duration;

use evb_core::{
    id::{BuilderId, Incarnation, Peer, SourceId},
    time::Instant,
    wire::{
        control::{Hello, HelloReply, Welcome, hello_reply::Reply},
        datagram::{Association, IPV4_UDP},
    },
};
use evb_shaper::PacedSource;

use super::{Surroundings, registration::RunIdentity};
use crate::system::{
    failure::Failure,
    greeting::{read_greeting, write_greeting},
    network::{Address, ConnectionKind, EndId, NodeIndex},
    scenario::{self, MTU},
};

/// How long a lane waits before it tries again, doubled at each failure up to the limit, until a connection has lasted that long.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LIMIT: Duration = Duration::from_secs(1);
/// How long a connection and its greeting may take.
const OPENING: Duration = Duration::from_secs(2);

/// A builder as the roster has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    pub(crate) builder: BuilderId,
    pub(crate) incarnation: Incarnation,
    pub(crate) node: NodeIndex,
}

/// What every lane's connection needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialing {
    pub(crate) source: SourceId,
    pub(crate) identity: RunIdentity,
    pub(crate) incarnation: Incarnation,
}

#[derive(Debug)]
pub(crate) struct SourceLane {
    index: usize,
    listed: Listed,
    state: State,
    wait: Duration,
}

#[derive(Debug)]
enum State {
    Dialing(EndId, Instant),
    Up(Up),
    Waiting(Instant),
    /// The builder is not in the roster.
    Over,
}

/// A connection that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Up {
    pub(crate) end: EndId,
    /// Own socket and the builder's, if datagrams carry the lane.
    pub(crate) sockets: Option<(Address, Address)>,
    since: Instant,
}

impl SourceLane {
    pub(crate) fn new(index: usize, listed: Listed) -> Self {
        Self { index, listed, state: State::Waiting(Instant::ZERO), wait: RETRY_FIRST }
    }

    pub(crate) fn builder(&self) -> BuilderId {
        self.listed.builder
    }

    pub(crate) fn up(&self) -> Option<Up> {
        match self.state {
            State::Up(up) => Some(up),
            _ => None,
        }
    }

    /// The builder stands in the roster like that: another process is another connection.
    pub(crate) fn aim(&mut self, listed: Listed, core: &mut PacedSource, around: &mut Surroundings<'_>) {
        if self.listed == listed && !matches!(self.state, State::Over) {
            return;
        }
        self.close(core, around);
        (self.listed, self.wait, self.state) = (listed, RETRY_FIRST, State::Waiting(Instant::ZERO));
    }

    /// The builder is not in the roster any more.
    pub(crate) fn close(&mut self, core: &mut PacedSource, around: &mut Surroundings<'_>) {
        self.hang_up(around);
        self.state = State::Over;
        core.handle_lane_disconnected(self.index);
    }

    /// We are another process for builders.
    pub(crate) fn begin_anew(&mut self, core: &mut PacedSource, around: &mut Surroundings<'_>) {
        if !matches!(self.state, State::Over) {
            self.close(core, around);
            self.state = State::Waiting(Instant::ZERO);
        }
    }

    /// Something is wrong with the connection.
    pub(crate) fn fail(&mut self, core: &mut PacedSource, around: &mut Surroundings<'_>, why: &str) {
        let now = around.now();
        let (lane, builder) = (self.index, self.builder());
        around.say(|| format!("lane {lane} to builder {builder} is down: {why}"));
        if self.up().is_some_and(|up| now.since(up.since) >= RETRY_LIMIT) {
            self.wait = RETRY_FIRST;
        }
        self.hang_up(around);
        core.handle_lane_disconnected(self.index);
        self.state = State::Waiting(now + self.wait);
        self.wait = (self.wait * 2).min(RETRY_LIMIT);
    }

    /// Dials, and greets.
    pub(crate) fn poll(
        &mut self,
        core: &mut PacedSource,
        dialing: &Dialing,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        let now = around.now();
        match self.state {
            State::Waiting(until) if until <= now => {
                let end = self.dial(dialing, around);
                self.state = State::Dialing(end, now);
            }
            State::Dialing(end, since) => {
                let incoming = around.network.incoming(end);
                let reply: Option<HelloReply> =
                    read_greeting(ConnectionKind::Lane, incoming).map_err(Failure::protocol)?;
                match reply.and_then(|reply| reply.reply) {
                    Some(Reply::Welcome(welcome)) => self.begin(end, &welcome, core, dialing, around)?,
                    Some(Reply::Refusal(refusal)) => self.fail(core, around, &refusal.detail),
                    None if around.network.is_ended(end) => self.fail(core, around, "it was closed"),
                    None if now.since(since) >= OPENING => self.fail(core, around, "nobody answers"),
                    None => {}
                }
            }
            State::Waiting(_) | State::Up(_) | State::Over => {}
        }
        Ok(())
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(until) => Some(until),
            State::Dialing(_, since) => Some(since + OPENING),
            State::Up(_) | State::Over => None,
        }
    }

    fn dial(&self, dialing: &Dialing, around: &mut Surroundings<'_>) -> EndId {
        let hello = Hello {
            epoch: dialing.identity.epoch.number(),
            run: dialing.identity.run.number(),
            datagrams: around.scenario.is_udp(),
            incarnation: dialing.incarnation.number(),
            to_incarnation: self.listed.incarnation.number(),
            ..Hello::new(Peer::Source(dialing.source), Peer::Builder(self.builder()))
        };
        let end = around.network.dial(around.node, self.listed.node, ConnectionKind::Lane);
        write_greeting(ConnectionKind::Lane, &hello, around.network.outgoing(end));
        around.network.flush(end);
        end
    }

    fn begin(
        &mut self,
        end: EndId,
        welcome: &Welcome,
        core: &mut PacedSource,
        dialing: &Dialing,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        let RunIdentity { run, epoch } = dialing.identity;
        let held = welcome.checked_lane(run, epoch).map_err(Failure::protocol)?;
        let outcome = core.handle_lane_connected(self.index, held.received, held.announced);
        outcome.map_err(|error| Failure::protocol(format!("lane {}: {error}", self.index)))?;
        let mut sockets = None;
        if around.scenario.is_udp() {
            let connection = welcome.checked_connection().map_err(Failure::protocol)?;
            let (source, builder) = (dialing.source, self.builder());
            let association = Association { epoch, source, builder, connection };
            let datagram = MTU as usize - IPV4_UDP;
            let estimate = Some(2 * around.scenario.weather.latency);
            core.associate(self.index, association, estimate, datagram);
            let theirs = Address::of_builder(self.listed.node);
            sockets = Some((around.network.open_socket(around.node), theirs));
        }
        around.records.counts.lanes += 1;
        let (lane, builder) = (self.index, self.builder());
        around.say(|| format!("lane {lane} to builder {builder} is up, {held:?}"));
        self.state = State::Up(Up { end, sockets, since: around.now() });
        Ok(())
    }

    fn hang_up(&self, around: &mut Surroundings<'_>) {
        match self.state {
            State::Dialing(end, _) => around.network.close(end),
            State::Up(up) => {
                around.network.close(up.end);
                if let Some((own, _)) = up.sockets {
                    around.network.close_socket(own);
                }
            }
            State::Waiting(_) | State::Over => {}
        }
    }
}

/// The builders of a roster, ascending by id.
pub(crate) fn listed(roster: &evb_core::wire::control::Roster) -> Result<Vec<Listed>, Failure> {
    let mut builders = Vec::with_capacity(roster.builders.len());
    for builder in &roster.builders {
        let node = scenario::node_of_address(&builder.listen)
            .ok_or_else(|| Failure::protocol(format!("no such address: {}", builder.listen)))?;
        let id = u16::try_from(builder.id).map_err(Failure::protocol)?;
        let incarnation = Incarnation::new(builder.incarnation);
        builders.push(Listed { builder: BuilderId::new(id), incarnation, node });
    }
    builders.sort();
    Ok(builders)
}
