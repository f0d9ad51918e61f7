//! A builder's ends of lanes over streams: a connection for each lane.

use std::{
    io,
    task::{Context, Poll},
};

use evb_core::{index::LaneIndex, time::Instant, wire::control::DatagramReport};
use evb_net::{
    handshake::Channel,
    lane::{BuilderEnd, Progress},
};
use evb_shaper::{ShapedBuilder, role::Greeting};

use super::{Ended, Ends};

/// Most lanes that are read before the records of all lanes are flushed. The runtime lets a task
/// read or write 128 times before other tasks have their turn, so a builder that reads from a
/// thousand lanes would otherwise never write a grant.
const LANES_PER_TURN: usize = 64;

/// The ends of all lanes, by lane index.
pub(super) struct Streams {
    ends: Vec<Option<BuilderEnd>>,
    /// Lane that is read first, so that no lane is always the last.
    first: usize,
}

impl Streams {
    /// Creates the ends of `lanes` lanes, of which none is open.
    pub(super) fn new(lanes: usize) -> Self {
        Self { ends: (0..lanes).map(|_| None).collect(), first: 0 }
    }
}

impl Ends for Streams {
    fn is_open(&self, lane: LaneIndex) -> bool {
        self.ends[lane].is_some()
    }

    fn greeting(&self, _: &Channel) -> Greeting {
        Greeting::default()
    }

    fn open(&mut self, lane: LaneIndex, channel: Channel) {
        self.ends[lane] = Some(BuilderEnd::new(channel));
    }

    fn close(&mut self, lane: LaneIndex) {
        if let Some(end) = self.ends[lane].take() {
            end.abort();
        }
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut ShapedBuilder,
        now: Instant,
        ended: &mut Vec<Ended>,
    ) -> io::Result<bool> {
        let (mut more, mut reads) = (false, 0);
        let (before, from) = self.ends.split_at_mut(self.first);
        let lanes = (self.first..).zip(from).chain((0..).zip(before));
        for (lane, end) in lanes {
            let Some(end) = end else { continue };
            let lane = LaneIndex::new(lane);
            match end.poll_read(cx, core, lane, now) {
                Ok(Progress::Idle) => continue,
                Ok(progress) => more |= progress == Progress::More,
                Err(error) => ended.push((lane, error)),
            }
            reads += 1;
            if reads == LANES_PER_TURN {
                self.first = (lane.get() + 1) % self.ends.len();
                return Ok(true);
            }
        }
        Ok(more)
    }

    fn read(&mut self, _: &mut ShapedBuilder, _: Instant, _: &mut Vec<Ended>) -> io::Result<bool> {
        // The timers of a stream are the kernel's.
        Ok(false)
    }

    fn write(&mut self, lane: LaneIndex, core: &mut ShapedBuilder, now: Instant) {
        if let Some(end) = &mut self.ends[lane] {
            end.write_records(core, lane, now);
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, core: &mut ShapedBuilder, ended: &mut Vec<Ended>) {
        for (lane, end) in self.ends.iter_mut().enumerate() {
            let Some(end) = end else { continue };
            if let Poll::Ready(Err(error)) = end.poll_flush(cx) {
                ended.push((LaneIndex::new(lane), error));
            }
            end.take_write_sample().into_iter().for_each(|took| core.record_grant_write(took));
        }
    }

    fn report(&mut self) -> Option<DatagramReport> {
        None
    }
}
