//! [`CarriedFrames`]: the frames that are under way in the network.

use bytes::Bytes as Payload;
use evb_core::units::Bytes;

use super::{EndIndex, HostIndex, SocketIndex, datagrams};
use crate::transport::TcpSegment;

/// A frame that is under way, with what switches need to forward it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameTicket {
    index: u32,
    /// The host that the frame is sent to.
    host: u32,
    /// L2 bytes.
    bytes: u32,
    pub(super) is_datagram: bool,
}

impl FrameTicket {
    /// Returns the host that the frame is sent to.
    pub(super) fn host(self) -> HostIndex {
        self.host as HostIndex
    }

    /// Returns the L2 bytes of the frame.
    pub(super) fn bytes(self) -> Bytes {
        Bytes::new(self.bytes.into())
    }
}

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
    fn bytes(&self) -> Bytes {
        match self {
            Self::Segment(_, segment) => segment.frame(),
            Self::Datagram(_, datagram) => datagrams::frame(datagram),
        }
    }
}

/// The frames under way. Steps and queues hold tickets, so that they stay small.
#[derive(Debug, Default)]
pub(super) struct CarriedFrames {
    slots: Vec<Option<CarriedFrame>>,
    free: Vec<u32>,
}

impl CarriedFrames {
    /// Keeps a frame for the given host, and returns its ticket.
    pub(super) fn insert(&mut self, frame: CarriedFrame, host: HostIndex) -> FrameTicket {
        let bytes = frame.bytes().count() as u32;
        let is_datagram = matches!(frame, CarriedFrame::Datagram(..));
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(frame);
                index
            }
            None => {
                self.slots.push(Some(frame));
                (self.slots.len() - 1) as u32
            }
        };
        FrameTicket { index, host: host as u32, bytes, is_datagram }
    }

    /// Returns a frame that is under way.
    pub(super) fn get(&self, ticket: FrameTicket) -> Option<&CarriedFrame> {
        self.slots[ticket.index as usize].as_ref()
    }

    /// Returns a frame that is under way, to be changed.
    pub(super) fn get_mut(&mut self, ticket: FrameTicket) -> Option<&mut CarriedFrame> {
        self.slots[ticket.index as usize].as_mut()
    }

    /// Removes a frame that has arrived or is lost.
    pub(super) fn remove(&mut self, ticket: FrameTicket) -> Option<CarriedFrame> {
        let packet = self.slots[ticket.index as usize].take();
        if packet.is_some() {
            self.free.push(ticket.index);
        }
        packet
    }
}
