//! [`FrameField`]: a number in the header of a frame.

/// The order of the bytes of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// The first byte is the most significant one, as in network protocols.
    #[default]
    Big,
    /// The first byte is the least significant one.
    Little,
}

/// A number in the header of a frame: some bits of a word of 1 to 8 bytes.
///
/// ```
/// use evb_core::framing::{ByteOrder, FrameField};
///
/// // 24 bits of a counter in a word of 32 bits, whose upper byte is the number of a board.
/// let counter = FrameField { low: 0, high: 23, ..FrameField::new(4, 4) };
/// assert_eq!(counter.read(&[0, 0, 0, 0, 7, 0, 1, 2]), Some(0x0102));
/// assert_eq!(counter.width(), 24);
/// // The usual mistake: the other order of bytes.
/// let counter = FrameField { order: ByteOrder::Little, ..counter };
/// assert_eq!(counter.read(&[0, 0, 0, 0, 7, 0, 1, 2]), Some(0x01_0007));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameField {
    /// Offset of the word from the start of the frame.
    pub at: u32,
    /// Number of bytes of the word: 1 to 8.
    pub bytes: u8,
    /// Order of the word's bytes.
    pub order: ByteOrder,
    /// The lowest bit of the number; bit 0 is the least significant one of the word.
    pub low: u8,
    /// The highest bit of the number.
    pub high: u8,
    /// The bits of the number that count; the others are taken as 0.
    pub mask: u64,
}

impl FrameField {
    /// Returns the field of all bits of a word.
    pub const fn new(at: u32, bytes: u8) -> Self {
        let high = bytes.saturating_mul(8).saturating_sub(1);
        Self { at, bytes, order: ByteOrder::Big, low: 0, high, mask: u64::MAX }
    }

    /// Returns the offset of the first byte behind the word.
    pub const fn end(&self) -> usize {
        self.at as usize + self.bytes as usize
    }

    /// Returns the number; `None` if the header is too short.
    pub fn read(&self, header: &[u8]) -> Option<u64> {
        let word = header.get(self.at as usize..self.end())?;
        let number = match self.order {
            ByteOrder::Big => word.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
            ByteOrder::Little => word.iter().rfold(0, |number, byte| number << 8 | u64::from(*byte)),
        };
        // The field may be a part of the word.
        Some(number >> self.low & self.bits())
    }

    /// Returns the number of bits up to the highest one that counts.
    pub const fn width(&self) -> u8 {
        (64 - self.bits().leading_zeros()) as u8
    }

    /// Returns the bits of the number that count.
    const fn bits(&self) -> u64 {
        let width = (self.high as u32).saturating_sub(self.low as u32) + 1;
        self.mask & (u64::MAX >> 64_u32.saturating_sub(width))
    }

    /// Returns the bits of the byte at that offset of the frame which belong to the field.
    pub fn bits_at(&self, offset: usize) -> u8 {
        let (at, end) = (self.at as usize, self.end());
        if !(at..end).contains(&offset) {
            return 0;
        }
        // Place of the byte in the number, counted from the lowest byte.
        let place = match self.order {
            ByteOrder::Big => end - 1 - offset,
            ByteOrder::Little => offset - at,
        };
        let bits = u128::from(self.bits()) << self.low;
        (bits >> (8 * place)) as u8
    }

    /// Returns true if the word and the bits can be.
    pub(super) fn is_possible(&self) -> bool {
        (1..=8).contains(&self.bytes) && self.low <= self.high && self.high < self.bytes * 8
    }
}
