//! [`FrameLayout`]: what the configuration declares about the frames in which a board sends its
//! fragments.

mod field;
mod layout_error;
mod losses;
mod packets;
#[cfg(test)]
mod tests;

pub use field::{ByteOrder, FrameField};
pub use layout_error::LayoutError;
pub use losses::Losses;
pub use packets::{LastPacket, MAX_OPEN_FRAGMENTS, MAX_PACKETS, OnLoss, PacketLayout};

use crate::units::Bytes;

/// Largest number of bytes of a header, of a trailer and of the alignment.
pub const MAX_FRAME_PART: u32 = 4096;

/// Largest number of bytes that mark the beginning or the end of a frame.
pub const MAX_MARK: usize = 16;

/// Bytes that may be skipped in search of a frame, unless another number is declared.
pub const USUAL_RESYNC: Bytes = Bytes::mib(1);

/// The layout of a board's frames: header, payload, trailer and padding, in this order.
///
/// ```
/// use evb_core::framing::{LengthCounts, Extent, FrameField, FrameLayout, Mark};
///
/// // Two bytes of magic, the length of the payload, and 16 bits of a trigger counter.
/// let mut layout = FrameLayout::new(6, Extent::Stated {
///     length: FrameField::new(2, 2),
///     unit: 1,
///     counted: LengthCounts::Payload,
/// });
/// layout.magic = Some(Mark::new(0, [0xeb, 0x90]));
/// layout.counter = Some(FrameField::new(4, 2));
/// assert_eq!(layout.check(), Ok(()));
/// assert_eq!(layout.length_of(&[0xeb, 0x90, 0x00, 0x05, 0, 1]), Some(11));
///
/// // A header that ends before its counter.
/// layout.header = 5;
/// assert!(layout.check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    /// Bytes by which a frame is recognised; `None`: the board sends none.
    pub magic: Option<Mark>,
    /// Number of bytes before the payload.
    pub header: u32,
    /// Rule by which the payload ends.
    pub extent: Extent,
    /// Number of bytes after the payload.
    pub trailer: u32,
    /// The last bytes of the trailer, if they are always the same; otherwise empty.
    pub end: Vec<u8>,
    /// The length of each frame is rounded up to a multiple of this number of bytes.
    pub align: u32,
    /// The trigger counter; `None`: frames come in the order of triggers.
    pub counter: Option<FrameField>,
    /// The reading of the board's clock; `None`: the board sends none.
    pub clock: Option<FrameField>,
    /// Part of the frame that becomes the fragment.
    pub keep: Kept,
    /// Number of bytes that may be skipped in search of a frame.
    pub resync: Bytes,
    /// The fields by which packets are put together; `None`: a packet has whole frames.
    pub packets: Option<PacketLayout>,
}

/// Bytes by which a frame is recognised.
///
/// ```
/// use evb_core::framing::Mark;
///
/// // The lower half of the second byte is a version, which is not compared.
/// let mark = Mark { mask: vec![0xff, 0xf0], ..Mark::new(0, [0xeb, 0x90]) };
/// assert!(mark.may_be_at(&[0xeb, 0x93, 7]) && !mark.may_be_at(&[0xeb, 0xa3]));
/// // The usual mistake: bytes that have not arrived do not contradict.
/// assert!(mark.may_be_at(&[0xeb]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Offset of the first of them from the start of the frame.
    pub at: u32,
    /// The bytes.
    pub value: Vec<u8>,
    /// The bits of each byte that are compared.
    pub mask: Vec<u8>,
}

impl Mark {
    /// Returns the mark of these bytes at that offset.
    pub fn new(at: u32, value: impl Into<Vec<u8>>) -> Self {
        let value = value.into();
        Self { at, mask: vec![0xff; value.len()], value }
    }

    /// Returns the offset of the first byte behind the mark.
    pub fn end(&self) -> usize {
        self.at as usize + self.value.len()
    }

    /// Returns true if a frame that begins with `bytes` has the mark, as far as the bytes tell.
    pub fn may_be_at(&self, bytes: &[u8]) -> bool {
        let rest = bytes.get(self.at as usize..).unwrap_or_default();
        let pairs = self.value.iter().zip(&self.mask);
        rest.iter().zip(pairs).all(|(byte, (value, mask))| (byte ^ value) & mask == 0)
    }
}

/// The rule by which the payload of a frame ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All payloads have this number of bytes.
    Fixed(u32),
    /// The header states a length.
    Stated {
        /// The length, in units.
        length: FrameField,
        /// Number of bytes in a unit.
        unit: u32,
        /// The part of the frame that the length counts.
        counted: LengthCounts,
    },
    /// The payload ends with these bytes, which are a part of it.
    Delimited(Vec<u8>),
    /// The payload ends with the datagram, before the trailer.
    Datagram,
}

/// The part of a frame that its length counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthCounts {
    /// The payload.
    Payload,
    /// Header, payload and trailer.
    Frame,
    /// Everything behind the length itself, up to the end of the trailer.
    Rest,
    /// The payload, which is at the end of a datagram; other bytes may be before it.
    Tail,
}

/// The part of a frame that becomes a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Header, payload and trailer.
    Frame,
    /// The payload.
    Payload,
}

impl FrameLayout {
    /// Returns the layout of frames with a header of that many bytes, and nothing else.
    pub fn new(header: u32, extent: Extent) -> Self {
        Self {
            magic: None,
            header,
            extent,
            trailer: 0,
            end: Vec::new(),
            align: 1,
            counter: None,
            clock: None,
            keep: Kept::Frame,
            resync: USUAL_RESYNC,
            packets: None,
        }
    }

    /// Returns true if lost frames are found: by the bytes that begin them, or that end them.
    pub fn can_resync(&self) -> bool {
        self.magic.is_some() || matches!(self.extent, Extent::Delimited(_))
    }

    /// Returns the number of bytes from the start of the frame to the end of its trailer, as the
    /// header states it; `None` if no frame has the stated length, or if a delimiter or the
    /// datagram ends it.
    /// `header` has the bytes of the header.
    pub fn length_of(&self, header: &[u8]) -> Option<u64> {
        let parts = u64::from(self.header) + u64::from(self.trailer);
        let length = match &self.extent {
            Extent::Fixed(payload) => parts + u64::from(*payload),
            Extent::Stated { length, unit, counted } => {
                let stated = length.read(header)?.checked_mul(u64::from(*unit))?;
                let before = match counted {
                    LengthCounts::Payload | LengthCounts::Tail => parts,
                    LengthCounts::Frame => 0,
                    LengthCounts::Rest => length.end() as u64,
                };
                stated.checked_add(before)?
            }
            Extent::Delimited(_) | Extent::Datagram => return None,
        };
        (length >= parts).then_some(length)
    }

    /// Returns the largest number of bytes that a frame has beside its payload.
    pub fn overhead(&self) -> u64 {
        u64::from(self.header) + u64::from(self.trailer) + u64::from(self.align)
    }

    /// Returns the declared fields with their keys, in the order of their declaration.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &FrameField)> {
        let length = match &self.extent {
            Extent::Stated { length, .. } => Some(length),
            Extent::Fixed(_) | Extent::Delimited(_) | Extent::Datagram => None,
        };
        let fields = [("length", length), ("counter", self.counter.as_ref()), ("clock", self.clock.as_ref())];
        let present = fields.into_iter().filter_map(|(key, field)| Some((key, field?)));
        present.chain(self.packets.iter().flat_map(PacketLayout::fields))
    }
}
