//! [`Datagrams`]: the decoder of the datagrams of a board, whose layout is declared.

mod reassembly;
#[cfg(test)]
mod tests;

use bytes::BytesMut;
use evb_core::{
    fragment::Fragment,
    framing::{FrameLayout, LayoutError, Losses, OnLoss},
    time::Instant,
    units::Bytes,
};

use self::reassembly::Reassembly;
use super::{
    decode::{Decode as _, Decoded, Follows},
    framing::Framing,
};

/// The decoder of the datagrams of a board, whose layout is declared. A datagram has whole frames
/// or, if the layout says so, a packet of a fragment.
///
/// Packets may come in any order. A fragment is passed on when all its packets and all earlier
/// fragments are there. It is given up when no packet has come for 100 ms, or when packets of 16
/// later fragments have come. What becomes of it then is declared ([`OnLoss`]).
///
/// ```
/// use evb::{
///     input::{Datagrams, Extent, FrameField, FrameLayout, Kept, LastPacket, OnLoss, PacketLayout},
///     time::Instant,
///     units::Bytes,
/// };
///
/// // One byte of a counter, the number of the packet, and the number of packets.
/// let mut layout = FrameLayout::new(3, Extent::Datagram);
/// layout.keep = Kept::Payload;
/// layout.counter = Some(FrameField::new(0, 1));
/// layout.packets = Some(PacketLayout::Numbered {
///     number: FrameField::new(1, 1),
///     first: 0,
///     end: LastPacket::Count(FrameField::new(2, 1)),
/// });
/// let mut datagrams = Datagrams::new(layout, Bytes::kib(4), OnLoss::Drop)?;
///
/// let (now, mut fragments) = (Instant::ZERO, Vec::new());
/// datagrams.take(b"\x07\x01\x02data", now, &mut fragments);
/// assert!(fragments.is_empty());
/// datagrams.take(b"\x07\x00\x02more ", now, &mut fragments);
/// assert_eq!((fragments[0].event.number(), &fragments[0].payload[..]), (7, &b"more data"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Datagrams(DatagramContent);

#[derive(Debug)]
enum DatagramContent {
    /// Whole frames, and memory for a datagram.
    Frames(Framing, BytesMut),
    Packets(Box<Reassembly>),
}

impl Datagrams {
    /// Creates the decoder of datagrams with fragments of up to `max_fragment`.
    ///
    /// # Errors
    /// The part of the layout that cannot be.
    pub fn new(layout: FrameLayout, max_fragment: Bytes, on_loss: OnLoss) -> Result<Self, LayoutError> {
        Ok(Self(match layout.packets {
            Some(_) => DatagramContent::Packets(Reassembly::new(layout, max_fragment, on_loss)?.into()),
            None => DatagramContent::Frames(Framing::new(layout, max_fragment)?, BytesMut::new()),
        }))
    }

    /// Takes a datagram, and appends the fragments that are ready. The event id of a fragment is
    /// the board's counter. A fragment without payload that has lost packets stands for one that
    /// is dropped.
    pub fn take(&mut self, datagram: &[u8], now: Instant, out: &mut Vec<Fragment>) {
        let (framing, bytes) = match &mut self.0 {
            DatagramContent::Packets(packets) => return packets.take(datagram, now, out),
            DatagramContent::Frames(framing, bytes) => (framing, bytes),
        };
        framing.begin();
        bytes.extend_from_slice(datagram);
        loop {
            match framing.decode(bytes, Follows::End) {
                Decoded::Fragment(fragment) => out.push(fragment),
                Decoded::Skipped => {}
                Decoded::Needs(_) | Decoded::Holds(_) | Decoded::Lost => break,
            }
        }
        bytes.clear();
    }

    /// Gives up the fragments whose packets have not come in time.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<Fragment>) {
        if let DatagramContent::Packets(packets) = &mut self.0 {
            packets.expire(now, out);
        }
    }

    /// Returns the time at which to call [`Self::expire`] if no datagram comes before.
    pub fn next_timeout(&self) -> Option<Instant> {
        match &self.0 {
            DatagramContent::Packets(packets) => packets.next_timeout(),
            DatagramContent::Frames(..) => None,
        }
    }

    /// Gives up all fragments that lack packets, at the end.
    pub fn finish(&mut self, out: &mut Vec<Fragment>) {
        if let DatagramContent::Packets(packets) = &mut self.0 {
            packets.finish(out);
        }
    }

    /// Forgets all packets, because a run begins, and returns the number of their fragments.
    pub fn begin(&mut self) -> u64 {
        match &mut self.0 {
            DatagramContent::Packets(packets) => packets.begin(),
            DatagramContent::Frames(..) => 0,
        }
    }

    /// Returns what the decoder could not use so far.
    pub fn losses(&self) -> Losses {
        match &self.0 {
            DatagramContent::Packets(packets) => packets.losses(),
            DatagramContent::Frames(framing, _) => framing.losses(),
        }
    }
}
