//! [`Lanes`]: the lanes of one builder, and the policy that grants on them.
// tidy: long because all inputs of the lanes stand together.

#[cfg(test)]
mod tests;

use core::{ops::Range, time::Duration};

use bytes::BytesMut;

use super::{
    BuilderCoreConfig,
    assembly::Assembly,
    delayed_lanes::DelayedLanes,
    interim::Told,
    reception::{DatagramEffect, LaneEffect, Reception},
    segments::Segments,
    slots::Slots,
};
use crate::{
    event::Event,
    grant::{Fate, GrantPolicy, LaneDemand},
    id::{Incarnation, SourceId},
    index::LaneIndex,
    lane::{ANSWER_WITHIN, DatagramFault, IncomingDatagrams, LaneError, LaneTimes},
    set::LaneSet,
    time::{Instant, earlier},
    units::Bytes,
    wire::{
        control::{LaneReport, LaneState},
        datagram::DatagramKind,
        record::{ANNOUNCEMENT, Announcement, RecordHeader, next_record},
    },
};

/// Longest time for which a commit waits for a grant to go along with. A commit only frees the
/// source's memory, and wakes the source up. A lane at full speed gets a grant more often than
/// that: every 8 ms if 32 lanes share 1 Gbit/s with 128 KiB of credit.
const COMMIT_WITHIN: Duration = Duration::from_millis(20);

/// All lanes by the indices of their sources, and the policy that grants on them.
#[derive(Debug)]
pub(super) struct Lanes<P> {
    lanes: Vec<Reception>,
    policy: P,
    /// The policy's view of each lane.
    demands: Vec<LaneDemand>,
    /// True if anything happened that may let the policy grant.
    grants_due: bool,
    /// Lanes whose records and data travel in datagrams, and which therefore have timers.
    associated: LaneSet,
    /// Lanes with something to send now.
    dirty: LaneSet,
    /// Lanes with a commit to send, which waits for a grant that it can accompany.
    commits: DelayedLanes,
    /// Lanes over datagrams with announcements to acknowledge. A grant to the lane acknowledges
    /// them, too.
    answers: DelayedLanes,
    /// Scratch memory for the ranges of a commit.
    ranges: Vec<Range<u64>>,
    /// Times measured on associations that have ended.
    past_times: LaneTimes,
    /// The lanes' counters that the supervisor knows from interim reports.
    told: Told,
}

impl<P: GrantPolicy> Lanes<P> {
    /// Returns an empty lane for each source.
    pub(super) fn new(config: &BuilderCoreConfig, policy: P) -> Self {
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
            associated: LaneSet::default(),
            dirty: LaneSet::default(),
            commits: DelayedLanes::new(COMMIT_WITHIN),
            answers: DelayedLanes::new(ANSWER_WITHIN),
            ranges: Vec::new(),
            past_times: LaneTimes::default(),
            told: Told::default(),
        }
    }

    /// Sets the size of the largest fragment of a source that has registered for the first time.
    pub(super) fn set_max_fragment(&mut self, lane: LaneIndex, max_fragment: Bytes) {
        self.lanes[lane].set_max_fragment(max_fragment);
    }

    /// Returns the lane of that index.
    pub(super) fn lane(&self, lane: LaneIndex) -> &Reception {
        &self.lanes[lane]
    }

    /// Counts a fragment whose timestamp is not that of its event.
    pub(super) fn note_disagreement(&mut self, source: SourceId, sources: &[SourceId]) {
        if let Ok(index) = sources.binary_search(&source) {
            self.lanes[index].counters_mut().disagreeing += 1;
        }
    }

    /// Counts the fragments of a complete event that lost packets.
    pub(super) fn note_lost_packets(&mut self, event: &Event, sources: &[SourceId]) {
        for fragment in event.fragments().filter(|fragment| fragment.lost_packets > 0) {
            if let Ok(index) = sources.binary_search(&fragment.source) {
                self.lanes[index].counters_mut().lossy += 1;
            }
        }
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

    /// Returns a lane that has grants but brings no data, while other lanes wait for the budget.
    pub(super) fn withholding(&self, now: Instant) -> Option<LaneIndex> {
        self.policy.withholding(&self.demands, now)
    }

    /// Returns true if no record waits to be sent to a source.
    pub(super) fn is_idle(&self) -> bool {
        self.dirty.is_empty() && self.commits.is_empty() && self.answers.is_empty()
    }

    /// Returns the time at which to call [`Self::handle_timeout`] and [`Self::poll`].
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let said = earlier(self.commits.next(), self.answers.next());
        let datagrams = self.datagrams().map(IncomingDatagrams::next_timeout);
        datagrams.fold(earlier(said, self.policy.next_timeout()), earlier)
    }

    /// Carries out the grants of the policy. Returns the next lane with records to send.
    pub(super) fn poll(&mut self, now: Instant) -> Option<LaneIndex> {
        if core::mem::take(&mut self.grants_due) {
            while let Some(grant) = self.policy.poll(&self.demands, now) {
                self.lanes[grant.lane].grant(&grant, now);
                self.refresh(grant.lane);
                self.dirty.insert(grant.lane);
            }
        }
        self.commits.take_due(now, &mut self.dirty);
        self.answers.take_due(now, &mut self.dirty);
        self.dirty.take_first()
    }

    /// Declares overdue transmissions lost, and marks the lanes on which the builder has to repeat
    /// a datagram.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.policy.handle_timeout(now);
        self.grants_due = true;
        let associated = core::mem::take(&mut self.associated);
        for lane in associated.iter() {
            let policy = &mut self.policy;
            let lost = |range, request| policy.handle_accounted(lane, range, request, Fate::Lost, now);
            let Some(is_repeat_due) = self.lanes[lane].expire(now, lost) else { continue };
            if is_repeat_due {
                self.dirty.insert(lane);
            }
            self.refresh(lane);
        }
        self.associated = associated;
    }

    /// Notes that a source connected or reconnected. Returns the lane's state.
    pub(super) fn connect(&mut self, lane: LaneIndex, now: Instant) -> LaneState {
        let state = self.lanes[lane].connect();
        self.policy.handle_reset(lane, state.received, now);
        self.refresh(lane);
        self.grants_due = true;
        self.dirty.insert(lane);
        state
    }

    /// Notes that the connection of a source is gone.
    pub(super) fn disconnect(&mut self, lane: LaneIndex, now: Instant) {
        if let Some(datagrams) = self.lanes[lane].disconnect(now) {
            self.past_times.add(&datagrams);
            self.associated.remove(lane);
        }
        self.policy.handle_gone(lane, now);
        self.refresh(lane);
        self.grants_due = true;
    }

    /// Begins a source's lane at 0, as the source has restarted.
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

    /// Makes a lane's records and data travel in datagrams.
    pub(super) fn associate(&mut self, lane: LaneIndex, datagrams: IncomingDatagrams) {
        self.lanes[lane].associate(datagrams);
        self.associated.insert(lane);
        self.refresh(lane);
    }

    /// Accepts the announcements of one ANNOUNCE record.
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

    /// Accepts the next data bytes of a lane, in order.
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

    /// Notes that the driver has read `count` bytes into the lane's [`Reception::spare_memory`].
    pub(super) fn handle_filled(&mut self, lane: LaneIndex, count: usize, slots: &mut Slots, now: Instant) {
        if let Some(progress) = self.lanes[lane].fill(count, slots) {
            self.note_progress(lane, progress, slots, now);
            self.after_data(lane, now);
        }
    }

    /// Handles datagrams of one lane. The header fields that they share are handled once for all of
    /// them.
    /// Requirements: docs/reference/protocol.md UDP-3, UDP-4.
    pub(super) fn handle_datagrams(
        &mut self,
        lane: LaneIndex,
        segments: &Segments<'_>,
        slots: &mut Slots,
        now: Instant,
    ) -> Result<(), DatagramFault> {
        if self.lanes[lane].handle_header(segments, now)? {
            // The builder now knows the source's UDP address, and sends the grants and commits that
            // waited for it.
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

    /// Appends the records that wait for the source of a lane over a stream.
    pub(super) fn write_records(&mut self, lane: LaneIndex, into: &mut BytesMut) {
        self.lanes[lane].write_records(&mut self.ranges, into);
        self.note_said(lane);
    }

    /// Appends one datagram with all records for the source of a lane over datagrams.
    pub(super) fn write_datagram(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        self.note_said(lane);
        if self.lanes[lane].write_datagram(&mut self.ranges, now, into) {
            // The datagram carries a request for lost bytes, so there is room for the next request.
            self.refresh(lane);
            // Lost bytes are requested by the policy, like new ones.
            self.grants_due |= self.demands[lane].lost.is_some();
        }
    }

    /// Lets the source forget the fragment that begins at `start`, because the supervisor's ledger
    /// has its event or no event needs the fragment.
    pub(super) fn settle(&mut self, lane: LaneIndex, start: u64) {
        self.lanes[lane].settle(start);
        self.commits.insert(lane);
    }

    /// Counts the missing fragments of an event that has ended. Bytes of unfinished fragments will
    /// be discarded when they arrive.
    pub(super) fn note_end(&mut self, event: &Assembly) {
        if let Some(arrivals) = event.completed_by() {
            let last = self.lanes[arrivals.last].counters_mut();
            last.last += 1;
            // By how much the last fragment came after the one before it.
            if arrivals.previous_at != Instant::ZERO {
                last.last_by_ns += arrivals.last_at.since(arrivals.previous_at).as_nanos() as u64;
            }
        } else {
            for source in event.missing().iter() {
                self.lanes[source].counters_mut().missing += 1;
            }
        }
        if event.has_unfinished() {
            event.unfinished().for_each(|(source, start)| self.settle(LaneIndex::new(source), start));
        }
    }

    /// Counts the fragments of an unassigned event that lost its slot.
    pub(super) fn note_eviction(&mut self, event: &Assembly) {
        for (source, start) in event.announced() {
            self.lanes[source].counters_mut().unexpected += 1;
            self.settle(LaneIndex::new(source), start);
        }
    }

    /// Returns the lanes that have changed since the last interim reports, at most
    /// [`MAX_CHANGED`](crate::wire::control::MAX_CHANGED).
    pub(super) fn changes(&mut self) -> Vec<LaneReport> {
        self.told.changes(&self.lanes)
    }

    /// Forgets which changes were reported, because reports may have been lost with the connection
    /// to the supervisor.
    pub(super) fn forget_told(&mut self) {
        self.told.forget();
    }

    /// Returns the sums of the lanes' counters for an interim report.
    pub(super) fn sum_so_far(&self) -> LaneReport {
        let mut sum = LaneReport::default();
        self.counters_so_far().for_each(|lane| sum.add(&lane));
        sum
    }

    /// Returns the lanes' counters without those of datagrams.
    fn counters_so_far(&self) -> impl Iterator<Item = LaneReport> {
        let counters = self.policy.counters();
        self.lanes.iter().enumerate().map(move |(lane, reception)| {
            let stalls = counters.stalls.get(lane).copied().unwrap_or_default();
            LaneReport { stalls, ..*reception.counters() }
        })
    }

    /// Returns the lanes' final counters.
    pub(super) fn reports(&self) -> Vec<LaneReport> {
        let mut reports: Vec<_> = self.counters_so_far().collect();
        for (report, lane) in reports.iter_mut().zip(&self.lanes) {
            lane.datagram_counters().report(report);
        }
        reports
    }

    /// Returns the times measured over all lanes and their associations. The times are not kept per
    /// lane because histograms are long, and the final reports of all builders arrive at the
    /// supervisor's switch port at the same time.
    pub(super) fn datagram_times(&self) -> LaneTimes {
        let mut times = self.past_times.clone();
        self.datagrams().for_each(|datagrams| times.add(datagrams));
        times
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        self.lanes.iter().for_each(Reception::invariants);
        assert_eq!(self.demands.len(), self.lanes.len(), "the policy has a view of each lane");
        assert!(self.dirty.iter().all(|lane| lane.get() < self.lanes.len()), "{:?}", self.dirty);
        let with_datagrams =
            LaneIndex::all(self.lanes.len()).filter(|lane| self.lanes[*lane].datagrams().is_some());
        assert_eq!(self.associated, with_datagrams.collect(), "lanes over datagrams have timers");
    }

    fn datagrams(&self) -> impl Iterator<Item = &IncomingDatagrams> {
        self.associated.iter().filter_map(|lane| self.lanes[lane].datagrams())
    }

    /// Returns the lanes over datagrams on which nothing arrives any more.
    pub(super) fn silent(&self, now: Instant) -> impl Iterator<Item = LaneIndex> {
        let is_silent = move |lane: &LaneIndex| {
            self.lanes[*lane].datagrams().is_some_and(|datagrams| datagrams.is_silent(now))
        };
        self.associated.iter().filter(is_silent)
    }

    /// Notes that the source of a lane now knows all commits and acknowledgements.
    fn note_said(&mut self, lane: LaneIndex) {
        self.commits.remove(lane);
        self.answers.remove(lane);
    }

    fn refresh(&mut self, lane: LaneIndex) {
        let demand = self.lanes[lane].demand();
        if self.demands[lane] != demand {
            self.policy.handle_demand(lane, &demand);
            self.demands[lane] = demand;
        }
    }

    /// Accepts data bytes. Call [`Self::after_data`] after the last of them.
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

    /// Acts on what arrived bytes changed in a lane: a commit becomes due, or a fragment in a slot
    /// is whole.
    fn note_progress(&mut self, lane: LaneIndex, progress: LaneEffect, slots: &mut Slots, now: Instant) {
        match progress {
            LaneEffect::Discarded => self.commits.insert(lane),
            LaneEffect::Partial => {}
            LaneEffect::Whole { slot, is_intact } => {
                // A damaged fragment is not used, so the source may delete it at once.
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

    /// Accepts data datagrams of the lane. Each lane byte is delivered once, in order
    /// (docs/reference/protocol.md UDP-11).
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
            DatagramEffect::Nowhere => return Ok(()),
            DatagramEffect::Apart => {
                return segments.apart().try_for_each(|one| self.handle_segments(lane, &one, slots, now));
            }
            DatagramEffect::Kept => {
                self.grants_due = true;
                self.refresh(lane);
                return Ok(());
            }
            DatagramEffect::Next(known) => known,
        };
        self.grants_due = true;
        for body in segments.bodies() {
            self.take_in(lane, &body[known..], slots, now)?;
            known = 0;
        }
        self.after_data(lane, now);
        // The new bytes may have filled a gap in front of bytes that arrived earlier.
        while let Some(waiting) = self.lanes[lane].lend_waiting() {
            let received = self.lanes[lane].incoming().received();
            let outcome = self.handle_data(lane, waiting.next(received), slots, now);
            self.lanes[lane].give_back(waiting);
            outcome?;
        }
        Ok(())
    }

    /// Handles the records in a datagram, which must be announcements. After a gap in the
    /// announcements, the source is told what is missing.
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
            // The next grant, or a datagram soon, acknowledges the announcements.
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
