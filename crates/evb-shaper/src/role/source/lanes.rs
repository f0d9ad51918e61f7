//! [`LaneConnections`]: the connections of a source's lanes.

use core::fmt::Display;

use evb_core::{
    id::{BuilderId, Incarnation},
    index::LaneIndex,
    session::{LaneDialing, Lines},
    set::LaneSet,
    time::{Instant, earlier},
};

use crate::role::with_advice;

/// The connections of a source's lanes, by lane index.
#[derive(Debug, Default)]
pub(super) struct LaneConnections {
    lanes: Vec<(BuilderId, LaneDialing)>,
    /// Lanes whose connections must be dropped.
    closing: LaneSet,
    /// Lanes that wait for the next attempt to connect.
    due: LaneSet,
    /// Limit on log lines about lost lanes, so that builders whose addresses lead nowhere do not
    /// fill the log.
    lines: Lines,
}

impl LaneConnections {
    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Returns the builder of a lane, and its address.
    pub(super) fn peer(&self, lane: LaneIndex) -> (BuilderId, &str) {
        let (builder, dialing) = &self.lanes[lane];
        (*builder, dialing.address())
    }

    /// Logs that a lane to the named builder is down, if the limit of log lines permits.
    pub(super) fn log_down(&mut self, lane: LaneIndex, named: &str, cause: &dyn Display, now: Instant) {
        if let Some(unsaid) = self.lines.next(now) {
            let (builder, address) = self.peer(lane);
            let (cause, advice) = with_advice(cause, named);
            tracing::warn!(
                builder = builder.number(),
                address,
                unsaid,
                "the connection (lane) to {named} at {address} is down, but this source keeps its fragments and connects again by itself: {cause}{advice}"
            );
        }
    }

    /// Returns the incarnation of the builder to which a lane must connect.
    pub(super) fn incarnation(&self, lane: LaneIndex) -> Incarnation {
        self.lanes[lane].1.incarnation()
    }

    pub(super) fn is_up(&self, lane: LaneIndex) -> bool {
        self.lanes.get(lane.get()).is_some_and(|(_, dialing)| dialing.is_up())
    }

    /// Adds the lane to a builder that is new in the roster.
    pub(super) fn add(
        &mut self,
        builder: BuilderId,
        incarnation: Incarnation,
        address: String,
        now: Instant,
    ) {
        self.due.insert(LaneIndex::new(self.lanes.len()));
        self.lanes.push((builder, LaneDialing::new(incarnation, address, now)));
    }

    /// Applies the entry of a lane's builder in a new roster; returns true if the lane must connect
    /// again.
    pub(super) fn aim(
        &mut self,
        lane: LaneIndex,
        incarnation: Incarnation,
        address: &str,
        now: Instant,
    ) -> bool {
        let dialing = &mut self.lanes[lane].1;
        let was_under_way = dialing.is_under_way();
        let is_over = dialing.aim(incarnation, address, now);
        if is_over {
            self.due.insert(lane);
            self.close_if(was_under_way, lane);
        }
        is_over
    }

    /// Ends the lanes of builders that are no longer in the roster; calls `over` for each such
    /// lane.
    pub(super) fn retain(&mut self, is_listed: impl Fn(BuilderId) -> bool, mut over: impl FnMut(LaneIndex)) {
        for lane in LaneIndex::all(self.lanes.len()) {
            let (builder, dialing) = &mut self.lanes[lane];
            if !is_listed(*builder) {
                let was_under_way = dialing.is_under_way();
                dialing.end();
                self.due.remove(lane);
                self.close_if(was_under_way, lane);
                over(lane);
            }
        }
    }

    /// Drops the connections of all lanes and connects again, because the source has a new
    /// incarnation.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        for lane in LaneIndex::all(self.lanes.len()) {
            let dialing = &mut self.lanes[lane].1;
            let was_under_way = dialing.is_under_way();
            if dialing.begin_anew(now) {
                self.due.insert(lane);
                self.close_if(was_under_way, lane);
            }
        }
    }

    /// Notes that a lane's connection is established. Returns false if no attempt to connect was
    /// under way.
    pub(super) fn handle_connected(&mut self, lane: LaneIndex, now: Instant) -> bool {
        self.lanes.get_mut(lane.get()).is_some_and(|(_, dialing)| dialing.handle_connected(now))
    }

    /// Notes that a lane's connection was lost or could not be made. Returns false if the lane had
    /// no connection and no attempt under way.
    pub(super) fn handle_failed(&mut self, lane: LaneIndex, now: Instant) -> bool {
        let has_failed =
            self.lanes.get_mut(lane.get()).is_some_and(|(_, dialing)| dialing.handle_failed(now));
        if has_failed {
            self.due.insert(lane);
        }
        has_failed
    }

    /// Lets the driver drop a lane's connection.
    pub(super) fn close(&mut self, lane: LaneIndex) {
        self.closing.insert(lane);
    }

    /// Removes and returns the next lane whose connection the driver must drop.
    pub(super) fn take_closing(&mut self) -> Option<LaneIndex> {
        let lane = self.closing.iter().next()?;
        self.closing.remove(lane);
        Some(lane)
    }

    /// Removes and returns the next lane that is due for an attempt to connect.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<LaneIndex> {
        let lane = self.due.iter().find(|lane| self.lanes[*lane].1.take_due(now))?;
        self.due.remove(lane);
        Some(lane)
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.due.iter().map(|lane| self.lanes[lane].1.next_timeout()).fold(None, earlier)
    }

    fn close_if(&mut self, was_under_way: bool, lane: LaneIndex) {
        if was_under_way {
            self.closing.insert(lane);
        }
    }
}
