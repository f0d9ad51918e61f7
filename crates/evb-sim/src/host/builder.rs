//! A builder's host, and the checks of the builder at every step.

mod datagrams;

use core::time::Duration;
use std::collections::VecDeque;

use bytes::Buf as _;
use evb_core::{
    builder::{DatagramEnds, Output, Standing, StreamReader},
    event::Event,
    grant::GrantPolicy as _,
    id::SourceId,
    index::{BuilderIndex, LaneIndex},
    set::SourceSet,
    time::{Instant, earlier},
    units::Bytes,
    wire::control::Message,
};
use evb_shaper::ShapedBuilder;

use crate::{
    host::{LaneEnd, Spinning, lanes},
    ledger::Ledger,
    network::{EndIndex, HostIndex, Network, SocketIndex},
    stream::{read_control, write_control},
};

#[derive(Debug)]
pub(crate) struct BuilderHost {
    core: ShapedBuilder,
    host: HostIndex,
    index: BuilderIndex,
    control: EndIndex,
    /// The builder's lanes, one for each source.
    lanes: Vec<Reading>,
    datagrams: DatagramEnds<SocketIndex>,
    /// Events that the sink is writing, and the times at which it finishes them.
    sink: VecDeque<(Instant, Event)>,
    sink_time: Duration,
    /// The largest number of bytes that may be outstanding.
    budget: Bytes,
    outstanding_peak: Bytes,
    spinning: Spinning,
}

/// The reading state of a lane.
#[derive(Debug)]
struct Reading {
    end: LaneEnd,
    reader: StreamReader,
}

impl BuilderHost {
    pub(crate) fn new(
        core: ShapedBuilder,
        (host, index): (HostIndex, BuilderIndex),
        control: EndIndex,
        lanes: &[LaneEnd],
        sink_time: Duration,
        budget: Bytes,
    ) -> Self {
        let lanes = lanes.iter().map(|end| Reading { end: *end, reader: StreamReader::default() }).collect();
        let (outstanding_peak, datagrams) = (Bytes::ZERO, DatagramEnds::new(core.config().sources.clone()));
        Self {
            core,
            datagrams,
            host,
            index,
            control,
            lanes,
            sink: VecDeque::new(),
            sink_time,
            budget,
            outstanding_peak,
            spinning: Spinning::default(),
        }
    }

    pub(crate) fn core(&mut self) -> &mut ShapedBuilder {
        &mut self.core
    }

    /// Returns the largest number of buffer bytes that were outstanding at once.
    pub(crate) fn outstanding_peak(&self) -> Bytes {
        self.outstanding_peak
    }

    pub(crate) fn run(&mut self, network: &mut Network, ledger: &mut Ledger) -> Result<(), String> {
        let now = network.now();
        let readable = network.readable(self.host);
        let finish = self.read_supervisor(network, now)?;
        for lane in lanes(&readable) {
            let outcome = match self.lanes[lane].end {
                LaneEnd::Stream(end) => self.read_lane(lane, end, network, now),
                LaneEnd::Datagrams(socket) => self.read_datagrams(socket, network, now),
            };
            outcome.map_err(|problem| format!("lane {lane}: {problem}"))?;
        }
        while let Some((_, event)) = self.sink.pop_front_if(|(until, _)| *until <= now) {
            self.core.handle_written(event, now);
        }
        self.core.handle_timeout(now);
        self.act(network, ledger, now)?;
        self.check()?;
        if cfg!(debug_assertions) {
            self.core.invariants();
        }
        if finish {
            write_control(&self.core.report(), network.outgoing(self.control));
            network.flush(self.control);
        }
        self.spinning.check(self.core.next_timeout(), now)?;
        let sink = self.sink.front().map(|(until, _)| *until);
        if let Some(at) = earlier(self.core.next_timeout(), sink) {
            network.wake_at(self.host, at);
        }
        Ok(())
    }

    /// Reads the supervisor's messages, and returns true if the run is over.
    fn read_supervisor(&mut self, network: &mut Network, now: Instant) -> Result<bool, String> {
        let mut finish = false;
        while let Some(message) = read_control(network.incoming(self.control))? {
            match message {
                Message::Assignments(assignments) => {
                    self.core.handle_assignments(&assignments, now).map_err(|error| error.to_string())?;
                }
                Message::Roster(roster) => {
                    let (up, awaited) = (self.indices(&roster.up), self.indices(&roster.awaited));
                    self.core.set_standing(Standing {
                        quiet: self.indices(&roster.quiet),
                        excluded: self.indices(&roster.excluded),
                        released: self.indices(&roster.released),
                        expendable: self.indices(&roster.expendable),
                        sporadic: self.indices(&roster.sporadic),
                        sporadic_wait: Duration::from_nanos(roster.sporadic_wait_ns),
                    });
                    self.core.handle_roster(roster.version, up, awaited, now);
                }
                Message::Accounted(accounted) => {
                    self.core.handle_accounted(&accounted).map_err(|error| error.to_string())?;
                }
                Message::Heartbeat(heartbeat) => self.core.handle_heartbeat(&heartbeat, now),
                Message::Finish(_) => finish = true,
                Message::Stop(_) | Message::RunEnd(_) => {}
                other => return Err(format!("a builder was sent {other:?}")),
            }
        }
        Ok(finish)
    }

    fn indices(&self, ids: &[u32]) -> SourceSet {
        let sources = &self.core.config().sources;
        let ids = ids.iter().filter_map(|id| u16::try_from(*id).ok().map(SourceId::new));
        ids.filter_map(|id| sources.binary_search(&id).ok()).collect()
    }

    fn read_lane(
        &mut self,
        lane: LaneIndex,
        end: EndIndex,
        network: &mut Network,
        now: Instant,
    ) -> Result<(), String> {
        let (reader, incoming) = (&mut self.lanes[lane].reader, network.incoming(end));
        while incoming.has_remaining() {
            let filled = reader.read_target(&mut self.core, lane).read_from(incoming);
            reader.filled(&mut self.core, lane, filled, now).map_err(|fault| fault.to_string())?;
        }
        Ok(())
    }

    fn act(&mut self, network: &mut Network, ledger: &mut Ledger, now: Instant) -> Result<(), String> {
        while let Some(output) = self.core.poll(now) {
            match output {
                Output::Event(event) => {
                    ledger.handle_event(&event, self.index, now)?;
                    if self.sink_time.is_zero() {
                        self.core.handle_written(event, now);
                    } else {
                        let begins = self.sink.back().map_or(now, |(until, _)| *until);
                        self.sink.push_back((begins + self.sink_time, event));
                    }
                }
                Output::Lane(lane) => match self.lanes[lane].end {
                    LaneEnd::Stream(end) => {
                        self.core.write_records(lane, network.outgoing(end));
                        network.flush(end);
                    }
                    LaneEnd::Datagrams(_) => self.send_records(lane, network, now),
                },
                Output::Supervisor(message) => {
                    write_control(&message, network.outgoing(self.control));
                    network.flush(self.control);
                }
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        let outstanding = self.core.policy().outstanding();
        self.outstanding_peak = self.outstanding_peak.max(outstanding);
        if outstanding > self.budget {
            return Err(format!("{outstanding} are outstanding; the budget is {}", self.budget));
        }
        let (used, slots) = (self.core.slots_used(), self.core.config().slots);
        if used > slots {
            return Err(format!("{used} of {slots} slots are used"));
        }
        Ok(())
    }
}
