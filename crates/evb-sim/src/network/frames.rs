//! [`CarriedFrames`]: the frames that are under way in the network.

use bytes::Bytes as Payload;
use evb_core::units::Bytes;

use super::{EndIndex, SocketIndex, datagrams};
use crate::transport::TcpSegment;

/// Index of a frame that is under way.
pub(super) type FrameIndex = u32;

/// A frame on its way through the network.
#[derive(Debug)]
pub(super) enum CarriedFrame {
    /// A TCP segment on its way to the given end of a stream.
    Segment(EndIndex, TcpSegment),
    /// A datagram on its way to the given socket.
    Datagram(SocketIndex, Payload),
}

impl CarriedFrame {
    /// Returns the L2 bytes of the frame.
    pub(super) fn frame(&self) -> Bytes {
        match self {
            Self::Segment(_, segment) => segment.frame(),
            Self::Datagram(_, datagram) => datagrams::frame(datagram),
        }
    }
}

/// The frames under way. Steps and queues hold indices, so that they stay small.
#[derive(Debug, Default)]
pub(super) struct CarriedFrames {
    slots: Vec<Option<CarriedFrame>>,
    free: Vec<FrameIndex>,
}

impl CarriedFrames {
    /// Keeps a frame, and returns its index.
    pub(super) fn insert(&mut self, packet: CarriedFrame) -> FrameIndex {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(packet);
                index
            }
            None => {
                self.slots.push(Some(packet));
                (self.slots.len() - 1) as FrameIndex
            }
        }
    }

    /// Returns a frame that is under way.
    pub(super) fn get(&self, index: FrameIndex) -> Option<&CarriedFrame> {
        self.slots[index as usize].as_ref()
    }

    /// Returns a frame that is under way, to be changed.
    pub(super) fn get_mut(&mut self, index: FrameIndex) -> Option<&mut CarriedFrame> {
        self.slots[index as usize].as_mut()
    }

    /// Removes a frame that has arrived or is lost.
    pub(super) fn remove(&mut self, index: FrameIndex) -> Option<CarriedFrame> {
        let packet = self.slots[index as usize].take();
        if packet.is_some() {
            self.free.push(index);
        }
        packet
    }
}
