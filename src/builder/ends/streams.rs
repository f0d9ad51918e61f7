//! A builder's ends of lanes over streams: a connection for each lane.

use std::{
    collections::VecDeque,
    io, mem,
    task::{Context, Poll},
};

use evb_core::{index::LaneIndex, time::Instant, wire::control::DatagramReport};
use evb_net::{
    handshake::Channel,
    lane::{BuilderEnd, Progress, ReadBuffers},
};
use evb_shaper::{ShapedBuilder, role::Greeting};

use super::{BuilderEnds, Ended};
use crate::role::Wakes;

/// Most lanes that are read before queued records are flushed. The runtime lets a task read or
/// write 128 times before other tasks have their turn, so a builder that reads from a thousand
/// lanes would otherwise never write a grant.
const LANES_PER_TURN: usize = 64;

/// The ends of all lanes, by lane index. Only those are polled whose sockets have woken the task.
pub(super) struct Streams {
    ends: Vec<Option<BuilderEnd>>,
    buffers: ReadBuffers,
    wakes: Wakes,
    /// Lanes that have just woken.
    woken: Vec<usize>,
    /// Lanes to be read, in the order in which they have woken.
    ready: VecDeque<LaneIndex>,
    flushes: Flushes,
}

/// Lanes that may have records to be flushed.
struct Flushes {
    queue: Vec<LaneIndex>,
    is_queued: Vec<bool>,
}

impl Flushes {
    fn add(&mut self, lane: LaneIndex) {
        if !mem::replace(&mut self.is_queued[lane], true) {
            self.queue.push(lane);
        }
    }
}

impl Streams {
    /// Creates the ends of `lanes` lanes, of which none is open.
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            ends: (0..lanes).map(|_| None).collect(),
            buffers: ReadBuffers::default(),
            wakes: Wakes::new(lanes),
            woken: Vec::new(),
            ready: VecDeque::new(),
            flushes: Flushes { queue: Vec::new(), is_queued: vec![false; lanes] },
        }
    }
}

impl BuilderEnds for Streams {
    fn is_open(&self, lane: LaneIndex) -> bool {
        self.ends[lane].is_some()
    }

    fn greeting(&self, _: &Channel) -> Greeting {
        Greeting::default()
    }

    fn open(&mut self, lane: LaneIndex, channel: Channel) {
        self.ends[lane] = Some(BuilderEnd::new(channel));
        // The socket wakes this task only after it has been polled once.
        self.wakes.list(lane.get());
    }

    fn close(&mut self, lane: LaneIndex) {
        if let Some(end) = self.ends[lane].take() {
            end.abort();
        }
    }

    /// Reads from the lanes that are ready, each once in its turn. Returns true if more may be
    /// there.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut ShapedBuilder,
        now: Instant,
        ended: &mut Vec<Ended>,
    ) -> io::Result<bool> {
        self.wakes.take(cx, &mut self.woken);
        self.ready.extend(self.woken.drain(..).map(LaneIndex::new));
        for _ in 0..LANES_PER_TURN {
            let Some(lane) = self.ready.pop_front() else { return Ok(false) };
            let Some(end) = &mut self.ends[lane] else { continue };
            let cx = &mut Context::from_waker(self.wakes.waker(lane.get()));
            match end.poll_read(cx, core, lane, &mut self.buffers, now) {
                Ok(Progress::More) => self.ready.push_back(lane),
                Ok(Progress::Idle | Progress::Drained) => {}
                Err(error) => ended.push((lane, error)),
            }
            // The lane may have woken because its socket takes more.
            self.flushes.add(lane);
        }
        Ok(!self.ready.is_empty())
    }

    fn read(&mut self, _: &mut ShapedBuilder, _: Instant, _: &mut Vec<Ended>) -> io::Result<bool> {
        // The timers of a stream are the kernel's.
        Ok(false)
    }

    fn write(&mut self, lane: LaneIndex, core: &mut ShapedBuilder, now: Instant) {
        if let Some(end) = &mut self.ends[lane] {
            end.write_records(core, lane, now);
            self.flushes.add(lane);
        }
    }

    /// Writes the queued records of the lanes that wait for it.
    fn poll_flush(&mut self, _: &mut Context<'_>, core: &mut ShapedBuilder, ended: &mut Vec<Ended>) {
        for lane in self.flushes.queue.drain(..) {
            self.flushes.is_queued[lane] = false;
            let Some(end) = &mut self.ends[lane] else { continue };
            let cx = &mut Context::from_waker(self.wakes.waker(lane.get()));
            if let Poll::Ready(Err(error)) = end.poll_flush(cx) {
                ended.push((lane, error));
            }
            end.take_write_sample().into_iter().for_each(|took| core.record_grant_write(took));
        }
    }

    fn report(&mut self) -> Option<DatagramReport> {
        None
    }
}
