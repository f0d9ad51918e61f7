//! [`Lanes`]: the lanes of one builder, and who of their sources may send when.

#[cfg(test)]
mod tests;

use core::{ops::Range, time::Duration};

use bytes::BytesMut;

use super::{
    BuilderConfig,
    assembly::Assembly,
    later::Later,
    reception::{Placed, Progress, Reception},
    segments::Segments,
    slots::Slots,
};
use crate::{
    grant::{Fate, GrantPolicy, LaneDemand},
    id::{Incarnation, SourceId},
    index::LaneIndex,
    lane::{ANSWER_WITHIN, DatagramFault, IncomingDatagrams, LaneError, LaneTimes},
    set::LaneSet,
    time::{Instant, earlier},
    wire::{
        control::{LaneReport, LaneState},
        datagram::DatagramKind,
        record::{ANNOUNCEMENT, Announcement, RecordHeader, next_record},
    },
};

/// How long a commit may wait for a grant to go along with: it only lets the source's memory go, and wakes it up. Lanes at
/// full speed are granted more often: 32 of them by 1 Gbit/s, through 128 KiB, every 8 ms.
const COMMIT_WITHIN: Duration = Duration::from_millis(20);

/// The lanes by the indices of their sources, and the policy that grants on them.
#[derive(Debug)]
pub(super) struct Lanes<P> {
    lanes: Vec<Reception>,
    policy: P,
    /// What the policy sees of each lane.
    demands: Vec<LaneDemand>,
    /// Whether anything happened that may let the policy grant.
    grants_due: bool,
    /// Lanes with something to send now.
    dirty: LaneSet,
    /// Lanes with a commit to send, unless a grant takes it along.
    commits: Later,
    /// Lanes over datagrams with announcements to acknowledge, in the same way.
    answers: Later,
    /// Memory for the ranges of a commit.
    ranges: Vec<Range<u64>>,
    /// How long things took on associations that are gone.
    past_times: LaneTimes,
}

impl<P: GrantPolicy> Lanes<P> {
    /// A lane for each source, with nothing on it.
    pub(super) fn new(config: &BuilderConfig, policy: P) -> Self {
        let lane = |index, source: &SourceId, max_fragment| {
            let counters = LaneReport { source: source.number().into(), ..LaneReport::default() };
            Reception::new(index, max_fragment, counters)
        };
        let sources = config.sources.iter().zip(&config.max_fragment).enumerate();
        let lanes: Vec<_> =
            sources.map(|(index, (source, max))| lane(LaneIndex::new(index), source, *max)).collect();
        Self {
            demands: lanes.iter().map(Reception::demand).collect(),
            lanes,
            policy,
            grants_due: false,
            dirty: LaneSet::default(),
            commits: Later::new(COMMIT_WITHIN),
            answers: Later::new(ANSWER_WITHIN),
            ranges: Vec::new(),
            past_times: LaneTimes::default(),
        }
    }

    /// Returns one lane.
    pub(super) fn lane(&self, lane: LaneIndex) -> &Reception {
        &self.lanes[lane]
    }

    /// Returns all lanes, by the indices of their sources.
    pub(super) fn iter(&self) -> core::slice::Iter<'_, Reception> {
        self.lanes.iter()
    }

    #[cfg(test)]
    pub(super) fn demands(&self) -> &[LaneDemand] {
        &self.demands
    }

    pub(super) fn policy(&self) -> &P {
        &self.policy
    }

    /// Returns a lane whose source holds what the others wait for.
    pub(super) fn withholding(&self, now: Instant) -> Option<LaneIndex> {
        self.policy.withholding(&self.demands, now)
    }

    /// Whether all sources are told all there is.
    pub(super) fn is_idle(&self) -> bool {
        self.dirty.is_empty() && self.commits.is_empty() && self.answers.is_empty()
    }

    /// Returns when to call [`Self::handle_timeout`] or [`Self::poll`].
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let said = earlier(self.commits.next(), self.answers.next());
        let datagrams = self.datagrams().map(IncomingDatagrams::next_timeout);
        datagrams.fold(earlier(said, self.policy.next_timeout()), earlier)
    }

    /// Grants what the policy permits; returns the next lane with records to send.
    pub(super) fn poll(&mut self, now: Instant) -> Option<LaneIndex> {
        if core::mem::take(&mut self.grants_due) {
            while let Some(grant) = self.policy.poll(&self.demands, now) {
                self.lanes[grant.lane].grant(&grant, now);
                self.refresh(grant.lane);
                self.dirty.insert(grant.lane);
            }
        }
        let due = self.commits.take_due(now).union(&self.answers.take_due(now));
        self.dirty = self.dirty.union(&due);
        let lane = self.dirty.iter().next()?;
        self.dirty.remove(lane);
        Some(lane)
    }

    /// Time passed: what is lost on the way, and has to be said again.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.policy.handle_timeout(now);
        self.grants_due = true;
        for lane in LaneIndex::all(self.lanes.len()) {
            let policy = &mut self.policy;
            let lost = |range, request| policy.handle_accounted(lane, range, request, Fate::Lost, now);
            let Some(is_repeat_due) = self.lanes[lane].expire(now, lost) else { continue };
            if is_repeat_due {
                self.dirty.insert(lane);
            }
            self.refresh(lane);
        }
    }

    /// A source connected, or connected anew.
    pub(super) fn connect(&mut self, lane: LaneIndex, now: Instant) -> LaneState {
        let state = self.lanes[lane].connect();
        self.policy.handle_reset(lane, state.received, now);
        self.refresh(lane);
        self.grants_due = true;
        self.dirty.insert(lane);
        state
    }

    /// A source's connection is gone.
    pub(super) fn disconnect(&mut self, lane: LaneIndex, now: Instant) {
        if let Some(datagrams) = self.lanes[lane].disconnect(now) {
            self.past_times.add(&datagrams);
        }
        self.policy.handle_gone(lane, now);
        self.refresh(lane);
        self.grants_due = true;
    }

    /// The source is another process: its lane begins at 0.
    pub(super) fn restart(&mut self, lane: LaneIndex, incarnation: Incarnation, now: Instant) {
        if self.lanes[lane].incoming().is_connected() {
            self.disconnect(lane, now);
        }
        self.lanes[lane].restart(incarnation);
        self.dirty.remove(lane);
        self.note_said(lane);
        self.refresh(lane);
        self.policy.handle_reset(lane, 0, now);
        self.grants_due = true;
    }

    /// The lane's records and bytes come and go by datagrams.
    pub(super) fn associate(&mut self, lane: LaneIndex, datagrams: IncomingDatagrams) {
        self.lanes[lane].associate(datagrams);
        self.refresh(lane);
    }

    /// Announcements of one record came.
    pub(super) fn handle_announcements(
        &mut self,
        lane: LaneIndex,
        offset: u64,
        announcements: impl Iterator<Item = Announcement>,
        slots: &mut Slots,
        now: Instant,
    ) -> Result<(), LaneError> {
        self.grants_due = true;
        self.lanes[lane].announce(offset, announcements, slots, now)?;
        self.refresh(lane);
        Ok(())
    }

    /// Data bytes came, in order.
    pub(super) fn handle_data(
        &mut self,
        lane: LaneIndex,
        bytes: &[u8],
        slots: &mut Slots,
        now: Instant,
    ) -> Result<(), LaneError> {
        self.take_in(lane, bytes, slots, now)?;
        self.after_data(lane, now);
        Ok(())
    }

    /// `count` bytes were read into the lane's [`Reception::spare_memory`].
    pub(super) fn handle_filled(&mut self, lane: LaneIndex, count: usize, slots: &mut Slots, now: Instant) {
        if let Some(progress) = self.lanes[lane].fill(count, slots) {
            self.note_progress(lane, progress, slots, now);
            self.after_data(lane, now);
        }
    }

    /// Datagrams came. All but their bytes is dealt with once for all of them.
    /// Requirements: docs/reference/protocol.md UDP-3, UDP-4.
    pub(super) fn handle_datagrams(
        &mut self,
        lane: LaneIndex,
        segments: &Segments<'_>,
        slots: &mut Slots,
        now: Instant,
    ) -> Result<(), DatagramFault> {
        if self.lanes[lane].handle_header(segments, now)? {
            // What is granted, and what was committed before, it hears now.
            self.refresh(lane);
            self.dirty.insert(lane);
            self.grants_due = true;
        }
        match segments.header().kind {
            DatagramKind::Data if segments.length() == 0 => Err(DatagramFault::Empty),
            DatagramKind::Data => Ok(self.handle_segments(lane, segments, slots, now)?),
            DatagramKind::Records => {
                segments.bodies().iter().try_for_each(|body| self.handle_records(lane, body, slots, now))
            }
            DatagramKind::Probe => Ok(()),
            DatagramKind::ProbeReply => Err(DatagramFault::WrongDirection),
        }
    }

    /// Appends what the source is to hear on a stream.
    pub(super) fn write_records(&mut self, lane: LaneIndex, into: &mut BytesMut) {
        self.lanes[lane].write_records(&mut self.ranges, into);
        self.note_said(lane);
    }

    /// Appends the datagram that the source is to get.
    pub(super) fn write_datagram(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        self.note_said(lane);
        if self.lanes[lane].write_datagram(&mut self.ranges, now, into) {
            // There is room for more requests.
            self.refresh(lane);
            self.grants_due |= self.demands[lane].lost.is_some();
        }
    }

    /// The ledger has the fragment that begins at `start`, or nobody wants it: the source may forget it.
    pub(super) fn settle(&mut self, lane: LaneIndex, start: u64) {
        self.lanes[lane].settle(start);
        self.commits.insert(lane);
    }

    /// An event is over. What was announced and is not here: the bytes will be discarded when they come.
    pub(super) fn note_end(&mut self, event: &Assembly) {
        for source in event.missing().iter() {
            self.lanes[source].counters_mut().missing += 1;
        }
        if let Some(arrivals) = event.completed_by() {
            let last = self.lanes[arrivals.last].counters_mut();
            last.last += 1;
            if arrivals.previous_at != Instant::ZERO {
                last.last_by_ns += arrivals.last_at.since(arrivals.previous_at).as_nanos() as u64;
            }
        }
        event.unfinished().for_each(|(source, start)| self.settle(LaneIndex::new(source), start));
    }

    /// An event that nobody assigned lost its slot.
    pub(super) fn note_eviction(&mut self, event: &Assembly) {
        for (source, start) in event.announced() {
            self.lanes[source].counters_mut().unexpected += 1;
            self.settle(LaneIndex::new(source), start);
        }
    }

    /// Returns what was counted, without what is said at the end only.
    pub(super) fn reports_so_far(&self) -> Vec<LaneReport> {
        let mut reports: Vec<_> = self.lanes.iter().map(|lane| *lane.counters()).collect();
        for (report, stalls) in reports.iter_mut().zip(&self.policy.counters().stalls) {
            report.stalls = *stalls;
        }
        reports
    }

    /// Returns what was counted.
    pub(super) fn reports(&self) -> Vec<LaneReport> {
        let mut reports = self.reports_so_far();
        for (report, lane) in reports.iter_mut().zip(&self.lanes) {
            lane.datagram_counters().report(report);
        }
        reports
    }

    /// Returns how long things took, over all lanes and their associations. Not of each lane: reports of all builders meet
    /// in the supervisor's port, and histograms are long.
    pub(super) fn datagram_times(&self) -> LaneTimes {
        let mut times = self.past_times.clone();
        self.datagrams().for_each(|datagrams| times.add(datagrams));
        times
    }

    /// Checks what always holds.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub(super) fn invariants(&self) {
        self.lanes.iter().for_each(Reception::invariants);
        assert_eq!(self.demands.len(), self.lanes.len(), "the policy sees each lane");
        assert!(self.dirty.iter().all(|lane| lane.get() < self.lanes.len()), "{:?}", self.dirty);
    }

    fn datagrams(&self) -> impl Iterator<Item = &IncomingDatagrams> {
        self.lanes.iter().filter_map(Reception::datagrams)
    }

    /// That lane's source is told all there is.
    fn note_said(&mut self, lane: LaneIndex) {
        self.commits.remove(lane);
        self.answers.remove(lane);
    }

    fn refresh(&mut self, lane: LaneIndex) {
        self.demands[lane] = self.lanes[lane].demand();
    }

    /// Data bytes; [`Self::after_data`] when there are no more for now.
    fn take_in(
        &mut self,
        lane: LaneIndex,
        mut bytes: &[u8],
        slots: &mut Slots,
        now: Instant,
    ) -> Result<(), LaneError> {
        while !bytes.is_empty() {
            let (taken, progress) = self.lanes[lane].take(bytes, slots)?;
            self.note_progress(lane, progress, slots, now);
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    fn note_progress(&mut self, lane: LaneIndex, progress: Progress, slots: &mut Slots, now: Instant) {
        match progress {
            Progress::Discarded => self.commits.insert(lane),
            Progress::Partial => {}
            Progress::Whole { slot, is_intact } => {
                if !is_intact {
                    self.commits.insert(lane);
                }
                slots.conclude(slot, lane.get(), is_intact, now, |ended| self.note_end(ended));
            }
        }
    }

    fn after_data(&mut self, lane: LaneIndex, now: Instant) {
        let received = self.lanes[lane].note_received();
        self.policy.handle_received(lane, received, now);
        self.refresh(lane);
        self.grants_due = true;
    }

    /// A permitted range of the lane came. Each of its bytes is delivered once, in order (docs/reference/protocol.md
    /// UDP-11).
    fn handle_segments(
        &mut self,
        lane: LaneIndex,
        segments: &Segments<'_>,
        slots: &mut Slots,
        now: Instant,
    ) -> Result<(), LaneError> {
        let policy = &mut self.policy;
        let arrived = |part, request| policy.handle_accounted(lane, part, request, Fate::Arrived, now);
        let mut known = match self.lanes[lane].place(segments, now, arrived)? {
            Placed::Nowhere => return Ok(()),
            Placed::Apart => {
                return segments.apart().try_for_each(|one| self.handle_segments(lane, &one, slots, now));
            }
            Placed::Kept => {
                self.grants_due = true;
                self.refresh(lane);
                return Ok(());
            }
            Placed::Next(known) => known,
        };
        self.grants_due = true;
        for body in segments.bodies() {
            self.take_in(lane, &body[known..], slots, now)?;
            known = 0;
        }
        self.after_data(lane, now);
        // What had to wait for bytes in front of it.
        while let Some(waiting) = self.lanes[lane].lend_waiting() {
            let received = self.lanes[lane].incoming().received();
            let outcome = self.handle_data(lane, waiting.next(received), slots, now);
            self.lanes[lane].give_back(waiting);
            outcome?;
        }
        Ok(())
    }

    fn handle_records(
        &mut self,
        lane: LaneIndex,
        mut body: &[u8],
        slots: &mut Slots,
        now: Instant,
    ) -> Result<(), DatagramFault> {
        while let Some((record, items)) = next_record(&mut body)? {
            let RecordHeader::Announce { offset, .. } = record else {
                return Err(DatagramFault::WrongDirection);
            };
            // To be acknowledged, with a grant or soon.
            self.answers.insert(lane);
            let items = items.as_chunks::<ANNOUNCEMENT>().0.iter().map(Announcement::decode);
            match self.handle_announcements(lane, offset, items, slots, now) {
                Ok(()) => {}
                Err(LaneError::AnnouncementGap { .. }) => {
                    self.lanes[lane].note_gap();
                    self.dirty.insert(lane);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
