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

/// The ends of all lanes, by lane index.
pub(super) struct Streams(Vec<Option<BuilderEnd>>);

impl Streams {
    /// Creates the ends of `lanes` lanes, of which none is open.
    pub(super) fn new(lanes: usize) -> Self {
        Self((0..lanes).map(|_| None).collect())
    }
}

impl Ends for Streams {
    fn is_open(&self, lane: LaneIndex) -> bool {
        self.0[lane].is_some()
    }

    fn greeting(&self, _: &Channel) -> Greeting {
        Greeting::default()
    }

    fn open(&mut self, lane: LaneIndex, channel: Channel) {
        self.0[lane] = Some(BuilderEnd::new(channel));
    }

    fn close(&mut self, lane: LaneIndex) {
        if let Some(end) = self.0[lane].take() {
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
        let mut more = false;
        for (lane, end) in self.0.iter_mut().enumerate() {
            let Some(end) = end else { continue };
            match end.poll_read(cx, core, LaneIndex::new(lane), now) {
                Ok(progress) => more |= progress == Progress::More,
                Err(error) => ended.push((LaneIndex::new(lane), error)),
            }
        }
        Ok(more)
    }

    fn read(&mut self, _: &mut ShapedBuilder, _: Instant, _: &mut Vec<Ended>) -> io::Result<bool> {
        // The timers of a stream are the kernel's.
        Ok(false)
    }

    fn write(&mut self, lane: LaneIndex, core: &mut ShapedBuilder, now: Instant) {
        if let Some(end) = &mut self.0[lane] {
            end.write_records(core, lane, now);
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, core: &mut ShapedBuilder, ended: &mut Vec<Ended>) {
        for (lane, end) in self.0.iter_mut().enumerate() {
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
