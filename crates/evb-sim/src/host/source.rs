//! A source's host.

mod datagrams;

use core::ops::Range;
use std::{collections::BTreeSet, io::IoSlice};

use bytes::BytesMut;
use evb_core::{
    id::EventId,
    index::LaneIndex,
    source::Output,
    time::{Instant, earlier},
    units::Bytes,
    wire::{
        control::{Message, Ready},
        record::{COMMIT_RANGE, RECORD_HEADER, RecordHeader, decode_range},
    },
};
use evb_shaper::PacedSource;

use crate::{
    host::{LaneEnd, Spinning, control, lanes},
    network::{EndIndex, HostIndex, Network},
    stream::{read_control, read_record, write_control},
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
    /// For each lane over datagrams, the end offset of the announced bytes, counted independently
    /// of the state machine.
    announced: Vec<u64>,
    repeated: u64,
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
            announced: vec![0; lanes.len()],
            lanes,
            workload,
            readout: BTreeSet::new(),
            ready: false,
            repeated: 0,
            spinning: Spinning::default(),
        }
    }

    pub(crate) fn core(&mut self) -> &mut PacedSource {
        &mut self.core
    }

    /// Returns the number of datagrams that repeated an announcement.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
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
        let incoming = network.incoming(end);
        while let Some(record) = read_record(incoming)? {
            let outcome = match record {
                RecordHeader::Grant { end } => self.core.core_mut().handle_grant(lane, end),
                RecordHeader::Commit { count, offset } => {
                    let ranges = commit_ranges(count, incoming)?;
                    self.core.core_mut().handle_commit(lane, offset, &ranges)
                }
                other => return Err(format!("a source was sent {other:?}")),
            };
            outcome.map_err(|error| format!("lane {lane}: {error}"))?;
        }
        Ok(())
    }

    fn push_due(&mut self, now: Instant) -> Result<(), String> {
        while let Some((at, event)) = self.readout.first().copied()
            && at <= now
        {
            self.readout.pop_first();
            if let Some(payload) = self.workload.draw(self.index, event).payload {
                let fragment = Workload::fragment(event, payload);
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
                            self.core.announce(lane, now, network.outgoing(end));
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
                LaneEnd::Stream(end) => self.depart(departure.lane, end, departure.range, network)?,
                LaneEnd::Datagrams(socket) => self.depart_in_segments(&departure, socket, network)?,
            }
        }
        // Announcements that did not share packets with data are sent here.
        announced.sort_unstable_by_key(|(lane, _)| *lane);
        announced.dedup();
        announced.into_iter().for_each(|(_, end)| network.flush(end));
        Ok(())
    }

    /// Sends one data record, header and payload together in one write.
    fn depart(
        &self,
        lane: LaneIndex,
        end: EndIndex,
        range: Range<u64>,
        network: &mut Network,
    ) -> Result<(), String> {
        let offset = range.start;
        let length = u32::try_from(range.end - range.start).map_err(|_| "a departure of 4 GiB".to_owned())?;
        let outgoing = network.outgoing(end);
        outgoing.reserve(RECORD_HEADER + length as usize);
        outgoing.extend_from_slice(&RecordHeader::Data { length, offset }.encode());
        let mut at = range.start;
        while at < range.end {
            let mut slices = Vec::<IoSlice<'_>>::with_capacity(64);
            let covered = self.core.core().gather(lane, at..range.end, &mut slices);
            if covered == 0 {
                return Err(format!("lane {lane} has no bytes at {at}, within {range:?} to be sent"));
            }
            slices.iter().for_each(|slice| outgoing.extend_from_slice(slice));
            at += covered;
        }
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

fn commit_ranges(count: u16, incoming: &mut BytesMut) -> Result<Vec<Range<u64>>, String> {
    let body = incoming.split_to(usize::from(count) * COMMIT_RANGE);
    let (ranges, _) = body.as_chunks::<COMMIT_RANGE>();
    ranges.iter().map(|range| decode_range(range).map_err(|error| error.to_string())).collect()
}
