//! [`PacketLayout`]: the fields by which the packets of a fragment are put together.

use super::FrameField;

/// Most packets of a fragment.
pub const MAX_PACKETS: u32 = 1 << 14;

/// Most fragments of a source that wait for packets at the same time.
pub const MAX_OPEN_FRAGMENTS: usize = 16;

/// The fields by which the packets of a fragment are put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketLayout {
    /// The packets of a fragment are numbered.
    Numbered {
        /// The number of a packet.
        number: FrameField,
        /// The number of the first packet.
        first: u64,
        /// The end of the fragment.
        end: LastPacket,
    },
    /// Each packet states where its payload belongs.
    Placed {
        /// The offset of the packet's payload in the fragment.
        offset: FrameField,
        /// The length of the fragment.
        total: FrameField,
    },
}

/// The way in which numbered packets show the end of their fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastPacket {
    /// All fragments have this number of packets.
    Fixed(u32),
    /// Each packet states the number of packets.
    Count(FrameField),
    /// A field of the last packet is not 0; in all others it is.
    Mark(FrameField),
}

/// The fate of a fragment of which packets were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// It is dropped: its event names the source as missing.
    #[default]
    Drop,
    /// Zeros take the place of the lost packets.
    Fill,
    /// It has the payloads that came, without gaps.
    KeepShort,
}

impl PacketLayout {
    /// Returns the fields with their keys, in the order of their declaration.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &FrameField)> {
        let fields = match self {
            Self::Numbered { number, end: LastPacket::Fixed(_), .. } => [Some(("number", number)), None],
            Self::Numbered { number, end: LastPacket::Count(count), .. } => {
                [Some(("number", number)), Some(("count", count))]
            }
            Self::Numbered { number, end: LastPacket::Mark(last), .. } => {
                [Some(("number", number)), Some(("last", last))]
            }
            Self::Placed { offset, total } => [Some(("offset", offset)), Some(("total", total))],
        };
        fields.into_iter().flatten()
    }

    /// Returns the place of a packet in its fragment, and the end of the fragment if the packet
    /// shows it: both are numbers of packets from 0, or bytes. `None`: no fragment has such a
    /// packet.
    pub fn place(&self, header: &[u8]) -> Option<(u64, Option<u64>)> {
        let (place, end) = match self {
            Self::Placed { offset, total } => (offset.read(header)?, Some(total.read(header)?)),
            Self::Numbered { number, first, end } => {
                let most = u64::from(MAX_PACKETS);
                let place = number.read(header)?.checked_sub(*first).filter(|place| *place < most)?;
                let end = match end {
                    LastPacket::Fixed(count) => Some(u64::from(*count)),
                    LastPacket::Count(count) => Some(count.read(header)?),
                    LastPacket::Mark(last) => (last.read(header)? != 0).then_some(place + 1),
                };
                // An end that is too large makes the whole result `None`.
                (place, Some(end).filter(|end| end.is_none_or(|end| end <= most))?)
            }
        };
        // An empty fragment has one packet, at its end.
        let is_inside = end.is_none_or(|end| place < end || (place, end) == (0, 0));
        is_inside.then_some((place, end))
    }
}
