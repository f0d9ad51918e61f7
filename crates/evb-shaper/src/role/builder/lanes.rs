//! The connections of a builder's lanes: which sources are admitted, and which lanes are dropped.

use core::{fmt::Display, time::Duration};

use evb_core::{
    id::{Incarnation, Peer},
    index::LaneIndex,
    set::{LaneSet, SourceSet},
    time::Instant,
    wire::{
        control::{Hello, Reason, Refusal, Welcome},
        datagram::Association,
    },
};

use super::BuilderRole;
use crate::role::with_advice;

/// State of a lane's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneState {
    Closed,
    /// The answer to the source's greeting, which tells it the bytes received so far, is being
    /// sent.
    Answering,
    Open,
}

/// Facts about a greeting that are not in its `Hello` message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greeting {
    /// A number that distinguishes the lane's new datagram association from earlier ones; unused if
    /// lanes do not use datagrams.
    pub connection: u32,
    /// A measured round-trip time to the source, if one is known.
    pub round_trip: Option<Duration>,
}

/// The admission of a source to its lane.
#[derive(Debug)]
pub struct Admitted {
    /// Lane of the source. The driver must drop an earlier connection of this lane, and an earlier
    /// answer that has not left yet.
    pub lane: LaneIndex,
    /// The answer to the source. The driver calls [`BuilderRole::handle_lane_up`] once the answer
    /// has been sent.
    pub welcome: Welcome,
}

impl BuilderRole {
    /// Handles the greeting of a source that wants to open a lane.
    ///
    /// # Errors
    /// Returns [`Refusal`] if the source is not admitted; it goes to the source and to the log.
    pub fn handle_hello(
        &mut self,
        hello: &Hello,
        greeting: Greeting,
        now: Instant,
    ) -> Result<Admitted, Refusal> {
        let lane = LaneIndex::new(self.admission.check(hello, self.plan.sources())?);
        let source = self.plan.sources()[lane];
        if !self.core.meet(lane, Incarnation::new(hello.incarnation), now) {
            let detail = format!("a newer process of source {source} is connected: end the older one");
            return Err(Refusal::because(Reason::DuplicateId, detail));
        }
        // A source has only one connection: if it opens another, the previous one is dead.
        self.end_lane(lane, &"its source opened a new one, which takes its place", now);
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
            run_id: identity.id,
            epoch: identity.epoch.number(),
            lane: Some(held),
            connection,
            ..Welcome::default()
        };
        Ok(Admitted { lane, welcome })
    }

    /// Opens a lane after the answer to the source's greeting has been sent.
    pub fn handle_lane_up(&mut self, lane: LaneIndex) {
        if self.lanes[lane] == LaneState::Answering {
            self.lanes[lane] = LaneState::Open;
            // Records that waited for the answer can be sent now.
            if self.withheld.remove(lane) {
                self.opened.insert(lane);
            }
        }
    }

    /// Notes that the driver has dropped a lane's connection: it was lost, or its source
    /// disconnected before it was answered.
    pub fn handle_lane_down(&mut self, lane: LaneIndex, cause: &dyn Display, now: Instant) {
        self.end_lane(lane, cause, now);
    }

    /// Drops the lanes of sources that were up and are down now. The connection of a frozen source
    /// stays open, and if its lane were kept, a few frozen sources could hold the whole budget with
    /// their grants. When a frozen source resumes, it connects again (docs/reference/protocol.md
    /// LANE-23). A lane of a source that was down before is new: the roster that has its source up
    /// is on its way.
    pub(super) fn drop_lanes_but(&mut self, up: SourceSet, now: Instant) {
        let before = core::mem::replace(&mut self.up, up);
        let gone: LaneSet = before.iter_without(&self.up).map(LaneIndex::new).collect();
        for lane in gone.iter() {
            if self.lanes[lane] != LaneState::Closed {
                self.drop_lane(lane, &"the supervisor counts that source as down", now);
            }
        }
    }

    /// Drops lanes on which no datagram arrives any more, and stalled lanes that hold budget for
    /// which other lanes wait.
    pub(super) fn drop_idle_lanes(&mut self, now: Instant) {
        let silent: LaneSet = self.core.silent_lanes(now).collect();
        for lane in silent.iter() {
            self.drop_lane(lane, &SILENT, now);
        }
        while let Some(lane) = self.core.withholding_lane(now) {
            self.drop_lane(lane, &WITHHOLDING, now);
        }
    }

    /// Returns the source of a lane, with its name if that is known.
    pub fn named(&self, lane: LaneIndex) -> String {
        self.attendance.named(Peer::Source(self.plan.sources()[lane]))
    }

    /// Returns true if records may be sent on a lane.
    pub(super) fn takes_records(&self, lane: LaneIndex) -> bool {
        match self.lanes[lane] {
            LaneState::Open => true,
            // With datagrams, records are sent even before the answer has left, because the timers
            // of the lane require it.
            LaneState::Answering => self.admission.datagrams,
            LaneState::Closed => false,
        }
    }

    /// Remembers that a lane has records to send, if it is about to open.
    pub(super) fn withhold(&mut self, lane: LaneIndex) {
        if self.lanes[lane] == LaneState::Answering {
            self.withheld.insert(lane);
        }
    }

    /// Lets the driver drop a lane's connection, without telling the state machine of the lanes.
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

    /// Closes a lane for a fault of the source, and drops its connection.
    fn drop_lane(&mut self, lane: LaneIndex, cause: &dyn Display, now: Instant) {
        if self.lanes[lane] == LaneState::Closed {
            // A closed lane may still hold part of the budget, which is released here.
            self.core.handle_lane_disconnected(lane, now);
            return;
        }
        self.closing.insert(lane);
        self.end_lane(lane, cause, now);
    }

    /// Marks a lane as closed. The log has this only if the run goes on, and not too often.
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
            let named = self.named(lane);
            let source_id = self.plan.sources()[lane].number();
            let (cause, advice) = with_advice(cause, &named);
            tracing::warn!(
                source_id,
                unsaid,
                "the connection (lane) from {named} is down, and {named} connects again by itself while it is running: {cause}{advice}"
            );
        }
        self.forget_records(lane);
        self.core.handle_lane_disconnected(lane, now);
    }
}

const SILENT: &str = "no UDP packet gets through any more, though the TCP connection is alive; look at switches and firewalls on the way";

const WITHHOLDING: &str = "it was asked for data but sends none, while other sources wait for their turn";
