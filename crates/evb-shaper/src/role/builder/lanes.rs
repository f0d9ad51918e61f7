//! The connections of a builder's lanes: who is let in, and who is dropped.

use core::{fmt::Display, time::Duration};

use evb_core::{
    id::Incarnation,
    index::LaneIndex,
    set::{LaneSet, SourceSet},
    time::Instant,
    wire::{
        control::{Hello, Reason, Refusal, Welcome},
        datagram::Association,
    },
};

use super::BuilderRole;

/// A lane's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneState {
    Closed,
    /// Its source is being told what we hold.
    Answering,
    Open,
}

/// Facts about a greeting beside its `Hello`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greeting {
    /// A number that tells its association from others, where lanes go by datagrams.
    pub connection: u32,
    /// A round trip to the source, if one is known.
    pub round_trip: Option<Duration>,
}

/// A source that is admitted.
#[derive(Debug)]
pub struct Admitted {
    /// Lane of the source. A connection that it has already, or an answer on its way, must be
    /// dropped for the new one.
    pub lane: LaneIndex,
    /// The answer; [`BuilderRole::handle_lane_up`] when it has left.
    pub welcome: Welcome,
}

impl BuilderRole {
    /// Handles the greeting of a source that wants to open a lane.
    ///
    /// # Errors
    /// [`Refusal`], for the peer and for the log.
    pub fn handle_hello(
        &mut self,
        hello: &Hello,
        greeting: Greeting,
        now: Instant,
    ) -> Result<Admitted, Refusal> {
        let lane = LaneIndex::new(self.admission.check(hello, self.plan.sources())?);
        let source = self.plan.sources()[lane];
        if !self.core.meet(lane, Incarnation::new(hello.incarnation), now) {
            let detail = format!("a newer process has taken over the role of source {source}");
            return Err(Refusal::because(Reason::DuplicateId, detail));
        }
        // A source has one connection: if it makes another, the one that we know is dead.
        self.end_lane(lane, &"its source opened a new connection", now);
        self.closing.remove(lane);
        let held = self.core.handle_lane_connected(lane, now);
        let identity = self.admission.identity;
        let mut connection = 0;
        if self.admission.datagrams {
            let (epoch, builder) = (identity.epoch, self.admission.builder);
            connection = greeting.connection;
            let association = Association { epoch, source, builder, connection };
            self.core.associate(lane, association, greeting.round_trip, self.window, now);
        }
        self.lanes[lane] = LaneState::Answering;
        let welcome = Welcome {
            epoch: identity.epoch.number(),
            run: identity.run.number(),
            lane: Some(held),
            connection,
            ..Welcome::default()
        };
        Ok(Admitted { lane, welcome })
    }

    /// Opens a lane after its source has been told.
    pub fn handle_lane_up(&mut self, lane: LaneIndex) {
        if self.lanes[lane] == LaneState::Answering {
            self.lanes[lane] = LaneState::Open;
            if self.withheld.remove(lane) {
                self.opened.insert(lane);
            }
        }
    }

    /// Notes that a lane's connection is gone, or that its source went away before it was answered:
    /// the driver has dropped it.
    pub fn handle_lane_down(&mut self, lane: LaneIndex, cause: &dyn Display, now: Instant) {
        self.end_lane(lane, cause, now);
    }

    /// Drops the lanes of sources that are down: a few frozen ones whose connections live would
    /// hold the whole budget by their grants. When they wake, they connect again
    /// (docs/reference/protocol.md LANE-23).
    pub(super) fn drop_lanes_but(&mut self, up: SourceSet, now: Instant) {
        for lane in LaneIndex::all(self.lanes.len()).filter(|lane| !up.contains(lane.get())) {
            if self.lanes[lane] != LaneState::Closed {
                self.drop_lane(lane, &"its source is down", now);
            }
        }
    }

    /// Drops lanes on which nothing comes, and others wait for that.
    pub(super) fn drop_idle_lanes(&mut self, now: Instant) {
        let silent: LaneSet = self.core.silent_lanes(now).collect();
        for lane in silent.iter() {
            self.drop_lane(lane, &SILENT, now);
        }
        while let Some(lane) = self.core.withholding_lane(now) {
            self.drop_lane(lane, &WITHHOLDING, now);
        }
    }

    /// Returns true if a lane's records may be written.
    pub(super) fn takes_records(&self, lane: LaneIndex) -> bool {
        match self.lanes[lane] {
            LaneState::Open => true,
            // Timers of datagrams count on being served.
            LaneState::Answering => self.admission.datagrams,
            LaneState::Closed => false,
        }
    }

    /// Keeps in mind that a lane has records, if it is about to open.
    pub(super) fn withhold(&mut self, lane: LaneIndex) {
        if self.lanes[lane] == LaneState::Answering {
            self.withheld.insert(lane);
        }
    }

    /// Has a lane's connection dropped, as far as the driver is concerned.
    pub(super) fn close(&mut self, lane: LaneIndex) {
        if self.lanes[lane] != LaneState::Closed {
            self.lanes[lane] = LaneState::Closed;
            self.forget_records(lane);
            self.closing.insert(lane);
        }
    }

    fn forget_records(&mut self, lane: LaneIndex) {
        self.withheld.remove(lane);
        self.opened.remove(lane);
    }

    fn drop_lane(&mut self, lane: LaneIndex, cause: &dyn Display, now: Instant) {
        if self.lanes[lane] == LaneState::Closed {
            // What it holds is let go in any case.
            self.core.handle_lane_disconnected(lane, now);
            return;
        }
        self.closing.insert(lane);
        self.end_lane(lane, cause, now);
    }

    fn end_lane(&mut self, lane: LaneIndex, cause: &dyn Display, now: Instant) {
        let state = core::mem::replace(&mut self.lanes[lane], LaneState::Closed);
        if state == LaneState::Closed {
            return;
        }
        let is_ending = self.finish.is_some() || self.attendance.has_reported() || self.attendance.is_over();
        if state == LaneState::Open
            && !is_ending
            && let Some(unsaid) = self.lines.next(now)
        {
            let source = self.plan.sources()[lane];
            tracing::warn!(source_id = source.number(), reason = %cause, unsaid, "lane is down");
        }
        self.forget_records(lane);
        self.core.handle_lane_disconnected(lane, now);
    }
}

const SILENT: &str = "no datagram gets through any more, though the TCP connection is alive; the lane connects again and looks for another path";

const WITHHOLDING: &str =
    "the source was granted bytes but sends none, while other sources wait for the budget that it holds";
