//! A source's host.

use core::ops::Range;
use std::{collections::BTreeSet, io::IoSlice};

use bytes::BytesMut;
use evb_core::{
    id::EventId,
    source::Output,
    time::{Instant, earlier},
    units::Bytes,
    wire::{
        control::{Ready, control::Message},
        record::{COMMIT_RANGE, RecordHeader, decode_range},
    },
};
use evb_shaper::{Departure, PacedSource};

use crate::{
    host::control,
    network::{EndIndex, HostIndex, Network},
    stream::{read_control, read_record, write_control},
    workload::Workload,
};

/// What is said to the supervisor is of the second class of [`crate::Scenario::link`].
const CONTROL: usize = 1;

/// How long a source waits for the last commits before it reports: they are on their way when the run is over.
const LAST_COMMITS: core::time::Duration = core::time::Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct SourceHost {
    core: PacedSource,
    host: HostIndex,
    /// Counts from zero.
    index: usize,
    control: EndIndex,
    /// One per builder.
    lanes: Vec<EndIndex>,
    workload: Workload,
    /// What readout is about to push.
    readout: BTreeSet<(Instant, EventId)>,
    ready: bool,
    report_by: Option<Instant>,
}

impl SourceHost {
    pub(crate) fn new(
        core: PacedSource,
        host: HostIndex,
        index: usize,
        control: EndIndex,
        lanes: Vec<EndIndex>,
        workload: Workload,
    ) -> Self {
        let readout = BTreeSet::new();
        Self { core, host, index, control, lanes, workload, readout, ready: false, report_by: None }
    }

    pub(crate) fn core(&mut self) -> &mut PacedSource {
        &mut self.core
    }

    pub(crate) fn run(&mut self, network: &mut Network) -> Result<(), String> {
        let now = network.now();
        self.read_supervisor(network, now)?;
        for lane in 0..self.lanes.len() {
            self.read_lane(lane, network)?;
        }
        self.push_due(now)?;
        self.core.handle_timeout(now);
        self.act(network, now)?;
        self.report(network, now);
        let readout = self.readout.first().map(|(at, _)| *at);
        let next = earlier(earlier(self.core.next_timeout(), readout), self.report_by);
        if let Some(at) = next {
            network.wake_at(self.host, at);
        }
        Ok(())
    }

    fn read_supervisor(&mut self, network: &mut Network, now: Instant) -> Result<(), String> {
        while let Some(message) = read_control(network.incoming(self.control))? {
            match message {
                Message::Decisions(decisions) => {
                    self.core.handle_decisions(&decisions).map_err(|error| error.to_string())?;
                }
                Message::Heartbeat(heartbeat) => self.core.handle_heartbeat(&heartbeat, now),
                Message::Roster(_) if !self.ready => {
                    self.ready = true;
                    write_control(&control(Message::Ready(Ready {})), network.outgoing(self.control));
                    network.flush(self.control);
                }
                Message::Finish(_) => self.report_by = Some(now + LAST_COMMITS),
                Message::Roster(_) | Message::Stop(_) | Message::RunEnd(_) => {}
                other => return Err(format!("a source was sent {other:?}")),
            }
        }
        Ok(())
    }

    fn read_lane(&mut self, lane: usize, network: &mut Network) -> Result<(), String> {
        let incoming = network.incoming(self.lanes[lane]);
        while let Some(record) = read_record(incoming)? {
            let outcome = match record {
                RecordHeader::Grant { end } => self.core.handle_grant(lane, end),
                RecordHeader::Commit { count, offset } => {
                    let ranges = commit_ranges(count, incoming)?;
                    self.core.handle_commit(lane, offset, &ranges, drop)
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
                self.core.push(fragment, now).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn act(&mut self, network: &mut Network, now: Instant) -> Result<(), String> {
        loop {
            while let Some(output) = self.core.poll(now) {
                match output {
                    Output::Announce(lane) => {
                        self.core.announce(lane, network.outgoing(self.lanes[lane]));
                    }
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
                        self.core.charge(CONTROL, written, now);
                    }
                }
            }
            let Some(Departure { lane, range, .. }) = self.core.poll_departure(now) else { break };
            self.depart(lane, range, network)?;
        }
        // Announcements that found no data to share packets with.
        self.lanes.iter().for_each(|end| network.flush(*end));
        Ok(())
    }

    /// One data record, in one piece: header and payload leave together.
    fn depart(&self, lane: usize, range: Range<u64>, network: &mut Network) -> Result<(), String> {
        let (end, offset) = (self.lanes[lane], range.start);
        let length = u32::try_from(range.end - range.start).map_err(|_| "a departure of 4 GiB".to_owned())?;
        let outgoing = network.outgoing(end);
        outgoing.extend_from_slice(&RecordHeader::Data { length, offset }.encode());
        let mut at = range.start;
        while at < range.end {
            let mut slices = Vec::<IoSlice<'_>>::with_capacity(64);
            let covered = self.core.gather(lane, at..range.end, &mut slices);
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
        let over = self.core.uncommitted() == 0 && self.readout.is_empty();
        if self.report_by.is_some_and(|by| over || by <= now) {
            self.report_by = None;
            let message = self.core.report(network.retransmits_of(self.host));
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
