//! [`Flows`]: the connections and datagrams of a capture that a source uses.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use evb_core::{
    flow::FlowFilter,
    fragment::Fragment,
    framing::{Extent, FrameLayout, LayoutError, LengthCounts, Losses, OnLoss},
    time::Instant,
    units::Bytes,
};

use super::{
    connection::{Connection, Lost, Ready},
    packets::{Content, Flow, Segment},
};
use crate::input::{datagrams::Datagrams, decode::Decoders, framing::Framing};

/// Largest number of connections that are decoded at the same time; of more, the one that was
/// silent for longest is ended.
const MAX_CONNECTIONS: usize = 64;

/// Largest memory for segments behind gaps. If it is full, the largest holder gives up its gap: the
/// missing segment was not captured.
const MAX_HELD: usize = 16 << 20;

/// Largest number of flows that are counted one by one.
const MAX_FLOWS: usize = 1000;

/// Packets of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowPackets {
    /// Number of packets.
    pub packets: u64,
    /// True if the packets are used.
    pub is_used: bool,
}

/// The connections and datagrams of a capture that a source uses.
pub(super) struct Flows {
    filter: FlowFilter,
    /// Decoders of connections; `None` if frames come in datagrams only.
    decoders: Option<Decoders>,
    connections: BTreeMap<Flow, Connection>,
    /// Connections that are over, but have held bytes.
    over: VecDeque<Connection>,
    /// The connection that may have further bytes, and true if it gives up a gap.
    busy: Option<(Flow, bool)>,
    datagrams: Datagrams,
    /// Fragments of one datagram.
    out: Vec<Fragment>,
    pub(super) lost: Lost,
    pub(super) by_flow: BTreeMap<Flow, FlowPackets>,
    /// Packets that were used, other packets of flows that were not counted one by one, and packets
    /// of used flows that the capture has not whole.
    pub(super) used: u64,
    pub(super) uncounted: u64,
    pub(super) unusable: u64,
}

impl Flows {
    /// Creates flows without packets.
    fn new(filter: FlowFilter, decoders: Option<Decoders>, datagrams: Datagrams) -> Self {
        Self {
            filter,
            decoders,
            connections: BTreeMap::new(),
            over: VecDeque::new(),
            busy: None,
            datagrams,
            out: Vec::new(),
            lost: Lost::default(),
            by_flow: BTreeMap::new(),
            used: 0,
            uncounted: 0,
            unusable: 0,
        }
    }

    /// Returns the flows of a layout, by which connections are decoded if it suits a stream.
    ///
    /// # Errors
    /// The part of the layout that cannot be.
    pub(super) fn of_layout(
        filter: FlowFilter,
        layout: &FrameLayout,
        max_fragment: Bytes,
        on_loss: OnLoss,
    ) -> Result<Self, LayoutError> {
        let datagrams = Datagrams::new(layout.clone(), max_fragment, on_loss)?;
        let is_of_datagrams = layout.packets.is_some()
            || matches!(layout.extent, Extent::Datagram | Extent::Stated { counted: LengthCounts::Tail, .. });
        let framing = Framing::new(layout.clone(), max_fragment)?;
        Ok(Self::new(filter, (!is_of_datagrams).then(|| framing.decoders()), datagrams))
    }

    /// Returns what was lost in frames so far.
    pub(super) fn losses(&self) -> Losses {
        let mut losses = self.lost.losses;
        losses.add(&self.datagrams.losses());
        losses
    }

    /// Takes the content of the next packet. The driver calls [`advance`](Self::advance) until that
    /// returns false, before the next one.
    pub(super) fn take(&mut self, flow: Flow, content: Content<'_>, time: Duration, ready: &mut Ready) {
        let is_decoded = !flow.is_tcp || self.decoders.is_some();
        let is_used = is_decoded && self.filter.takes(flow.from, flow.to);
        // The packets of a limited number of flows are counted by flow.
        if self.by_flow.len() < MAX_FLOWS || self.by_flow.contains_key(&flow) {
            let count = self.by_flow.entry(flow).or_insert(FlowPackets { packets: 0, is_used });
            count.packets += 1;
        } else if !is_used {
            self.uncounted += 1;
        }
        if !is_used {
            return;
        }
        self.used += 1;
        match content {
            Content::Unusable => self.unusable += 1,
            Content::Datagram(bytes) => {
                self.datagrams.take(bytes, instant(time), &mut self.out);
                self.collect(time, ready);
            }
            Content::Segment(segment) => self.take_segment(flow, &segment, time, ready),
        }
    }

    /// Confirms the frames of connections that paused before `now`, and gives up the fragments
    /// whose datagrams have not come by then.
    pub(super) fn pause(&mut self, now: Duration, ready: &mut Ready) {
        for connection in self.connections.values_mut() {
            connection.pause(now, ready, &mut self.lost);
        }
        if self.datagrams.next_timeout().is_some_and(|due| due <= instant(now)) {
            self.datagrams.expire(instant(now), &mut self.out);
            self.collect(now, ready);
        }
    }

    fn collect(&mut self, time: Duration, ready: &mut Ready) {
        ready.extend(self.out.drain(..).map(|fragment| (time, fragment)));
    }

    /// Takes a segment of a connection. A segment that has no place in a known connection begins a
    /// new one, and the old one is over.
    fn take_segment(&mut self, flow: Flow, segment: &Segment<'_>, time: Duration, ready: &mut Ready) {
        let known = self.connections.get(&flow).and_then(|connection| connection.place(segment));
        let place = match known {
            Some(place) => place,
            None if segment.payload.is_empty() && !segment.begins => return,
            None => {
                self.over.extend(self.connections.remove(&flow));
                if self.connections.len() >= MAX_CONNECTIONS {
                    // The connection that was silent for longest makes room.
                    let silent = self.connections.iter().min_by_key(|(_, connection)| connection.time);
                    let silent = silent.map(|(flow, _)| *flow);
                    self.over.extend(silent.and_then(|flow| self.connections.remove(&flow)));
                }
                let Some(decoders) = &self.decoders else { return };
                let connection = Connection::new(segment, decoders, time);
                let Some(place) = connection.place(segment) else { return };
                self.connections.insert(flow, connection);
                place
            }
        };
        let Some(connection) = self.connections.get_mut(&flow) else { return };
        // The frames of a connection that is over come before those of its successor.
        let is_early = !self.over.is_empty();
        connection.take((place, segment, is_early), time, ready, &mut self.lost);
        self.busy = Some((flow, false));
    }

    /// Decodes bytes that could not be decoded before. Returns false if there are none.
    pub(super) fn advance(&mut self, ready: &mut Ready) -> bool {
        let (Some(decoders), lost) = (&self.decoders, &mut self.lost) else { return false };
        // Connections that are over are decoded to their end first.
        if let Some(connection) = self.over.front_mut() {
            if !connection.advance(true, decoders, ready, lost)
                && let Some(connection) = self.over.pop_front()
            {
                connection.end(ready, lost);
            }
            return true;
        }
        // Then comes the connection that got the last segment.
        let Some((flow, gives_up)) = self.busy.take() else { return false };
        if let Some(connection) = self.connections.get_mut(&flow)
            && connection.advance(gives_up, decoders, ready, lost)
        {
            self.busy = Some((flow, false));
            return true;
        }
        let held = |connection: &Connection| connection.held_memory();
        // If too many bytes wait behind gaps, the connection with most of them waits no longer.
        if self.connections.values().map(held).sum::<usize>() > MAX_HELD {
            let largest = self.connections.iter().max_by_key(|(_, connection)| held(connection));
            self.busy = largest.map(|(flow, _)| (*flow, true));
            return true;
        }
        false
    }

    /// Ends all connections at the end of the capture.
    pub(super) fn finish(&mut self, time: Duration, ready: &mut Ready) {
        self.over.extend(std::mem::take(&mut self.connections).into_values());
        self.datagrams.finish(&mut self.out);
        self.collect(time, ready);
    }
}

fn instant(time: Duration) -> Instant {
    Instant::from_nanos(time.as_nanos() as u64)
}
