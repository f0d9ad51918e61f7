//! A source's host.

mod datagrams;

use std::collections::BTreeSet;

use bytes::BufMut as _;
use evb_core::{
    id::EventId,
    index::LaneIndex,
    source::{DatagramEnd, Output},
    time::{Instant, earlier},
    units::Bytes,
    wire::control::{Message, Ready},
};
use evb_shaper::PacedSource;

use crate::{
    host::{LaneEnd, Spinning, control, lanes},
    network::{EndIndex, HostIndex, Network},
    stream::{SourceStream, read_control, write_control},
    workload::Workload,
};

#[derive(Debug)]
pub(crate) struct SourceHost {
    core: PacedSource,
    host: HostIndex,
    /// The source's number, counted from zero.
    index: usize,
    control: EndIndex,
    /// The source's lanes, one for each builder.
    lanes: Vec<LaneEnd>,
    workload: Workload,
    /// Fragments that readout is about to push.
    readout: BTreeSet<(Instant, EventId)>,
    ready: bool,
    /// Readers and writers of the lanes over streams.
    streams: Vec<SourceStream>,
    /// Ends of the lanes over datagrams.
    datagrams: Vec<DatagramEnd>,
    spinning: Spinning,
}

impl SourceHost {
    pub(crate) fn new(
        core: PacedSource,
        host: HostIndex,
        index: usize,
        control: EndIndex,
        lanes: Vec<LaneEnd>,
        workload: Workload,
    ) -> Self {
        Self {
            core,
            host,
            index,
            control,
            streams: lanes.iter().map(|_| SourceStream::default()).collect(),
            datagrams: Vec::new(),
            lanes,
            workload,
            readout: BTreeSet::new(),
            ready: false,
            spinning: Spinning::default(),
        }
    }

    pub(crate) fn core(&mut self) -> &mut PacedSource {
        &mut self.core
    }

    /// Returns the number of datagrams that repeated an announcement.
    pub(crate) fn repeated(&self) -> u64 {
        LaneIndex::all(self.lanes.len()).map(|lane| self.core.core().repeated_announcements(lane)).sum()
    }

    pub(crate) fn run(&mut self, network: &mut Network) -> Result<(), String> {
        let now = network.now();
        let readable = network.readable(self.host);
        self.read_supervisor(network, now)?;
        for lane in lanes(&readable) {
            match self.lanes[lane] {
                LaneEnd::Stream(end) => self.read_lane(lane, end, network)?,
                LaneEnd::Datagrams(socket) => self.read_datagrams(lane, socket, network, now)?,
            }
        }
        self.push_due(now)?;
        self.core.core_mut().handle_timeout(now);
        self.act(network, now)?;
        self.report(network, now);
        if cfg!(debug_assertions) {
            self.core.core().invariants();
        }
        let readout = self.readout.first().map(|(at, _)| *at);
        let next = earlier(earlier(self.core.next_timeout(), readout), self.core.core().next_finish());
        self.spinning.check(self.core.next_timeout(), now)?;
        if let Some(at) = next {
            network.wake_at(self.host, at);
        }
        Ok(())
    }

    fn read_supervisor(&mut self, network: &mut Network, now: Instant) -> Result<(), String> {
        while let Some(message) = read_control(network.incoming(self.control))? {
            match message {
                Message::Decisions(decisions) => {
                    self.core.core_mut().handle_decisions(&decisions).map_err(|error| error.to_string())?;
                }
                Message::Holdings(holdings) => {
                    self.core.core_mut().handle_holdings(&holdings).map_err(|error| error.to_string())?;
                }
                Message::Heartbeat(heartbeat) => self.core.core_mut().handle_heartbeat(&heartbeat, now),
                Message::Roster(_) if !self.ready => {
                    self.ready = true;
                    write_control(&control(Message::Ready(Ready {})), network.outgoing(self.control));
                    network.flush(self.control);
                }
                Message::Finish(_) => self.core.core_mut().handle_finish(now),
                Message::Roster(_) | Message::Stop(_) | Message::RunEnd(_) => {}
                other => return Err(format!("a source was sent {other:?}")),
            }
        }
        Ok(())
    }

    fn read_lane(&mut self, lane: LaneIndex, end: EndIndex, network: &mut Network) -> Result<(), String> {
        let reader = &mut self.streams[lane].reader;
        reader.read_target().put(network.incoming(end));
        reader.filled(self.core.core_mut(), lane).map_err(|fault| format!("lane {lane}: {fault}"))
    }

    fn push_due(&mut self, now: Instant) -> Result<(), String> {
        while let Some((at, event)) = self.readout.first().copied()
            && at <= now
        {
            self.readout.pop_first();
            if let Some(payload) = self.workload.draw(self.index, event).payload {
                let fragment = self.workload.fragment(self.index, event, payload);
                self.core.core_mut().push(fragment, now).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn act(&mut self, network: &mut Network, now: Instant) -> Result<(), String> {
        let mut announced = Vec::new();
        loop {
            while let Some(output) = self.core.core_mut().poll(now) {
                match output {
                    Output::Announce(lane) => match self.lanes[lane] {
                        LaneEnd::Stream(end) => {
                            announced.push((lane, end));
                            self.core.announce(lane, now, &mut self.streams[lane].writer.announcements);
                        }
                        LaneEnd::Datagrams(socket) => self.send_records(lane, socket, network, now),
                    },
                    Output::Wanted(event) => {
                        let delay = self.workload.draw(self.index, event).delay;
                        self.readout.insert((now + delay, event));
                        self.push_due(now)?;
                    }
                    Output::Supervisor(message) => {
                        let outgoing = network.outgoing(self.control);
                        let before = outgoing.len();
                        write_control(&message, outgoing);
                        let written = Bytes::new((outgoing.len() - before) as u64);
                        network.flush(self.control);
                        self.core.charge_link(written, now);
                    }
                }
            }
            let Some(departure) = self.core.poll_departure(now) else { break };
            match self.lanes[departure.lane] {
                LaneEnd::Stream(end) => {
                    self.streams[departure.lane].writer.send(departure.range);
                    self.flush(departure.lane, end, network)?;
                }
                LaneEnd::Datagrams(socket) => self.depart_in_segments(&departure, socket, network)?,
            }
        }
        // Announcements that did not share packets with data are sent here.
        announced.sort_unstable_by_key(|(lane, _)| *lane);
        announced.dedup();
        announced.into_iter().try_for_each(|(lane, end)| self.flush(lane, end, network))
    }

    /// Sends all that waits for a lane's stream, in one write.
    fn flush(&mut self, lane: LaneIndex, end: EndIndex, network: &mut Network) -> Result<(), String> {
        self.streams[lane].write(self.core.core(), lane, network.outgoing(end))?;
        network.flush(end);
        Ok(())
    }

    fn report(&mut self, network: &mut Network, now: Instant) {
        // The last report waits for fragments that readout is about to push.
        let is_waiting =
            !self.readout.is_empty() && self.core.core().next_finish().is_some_and(|by| now < by);
        if !is_waiting && self.core.core_mut().finish(now) {
            let message = self.core.report(network.retransmits_of(self.host), None);
            write_control(&message, network.outgoing(self.control));
            network.flush(self.control);
        }
    }
}
