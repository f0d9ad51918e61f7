//! [`LayoutError`]: a reason why a declared layout cannot be.

use super::{Extent, FrameField, FrameLayout, MAX_FRAME_PART, MAX_MARK, Mark};
use crate::quantities::counted;

/// A reason why a declared layout cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A part of the header ends behind the header.
    #[error(
        "`{key}` ends {} after the start of the frame, but the header has {}",
        counted(*end, "byte"),
        counted(*header, "byte")
    )]
    BehindHeader {
        /// The part.
        key: &'static str,
        /// Offset of the first byte behind it.
        end: usize,
        /// Length of the header.
        header: u32,
    },
    /// Two parts of the header have a bit in common.
    #[error("`{key}` and `{other}` overlap in byte {offset} of the frame")]
    Overlap {
        /// The part that is declared later.
        key: &'static str,
        /// The part that is declared earlier.
        other: &'static str,
        /// The byte.
        offset: usize,
    },
    /// A field has no bits, or more than its word.
    #[error("`{key}` has no bits, or bits outside of its bytes")]
    Bits {
        /// The field.
        key: &'static str,
    },
    /// A mark has no bytes or too many, or its mask has another length.
    #[error("`{key}` must have 1 to {MAX_MARK} bytes, and its mask as many, not all of them 0")]
    Mark {
        /// The mark.
        key: &'static str,
    },
    /// A part of the frame is too long.
    #[error("`{key}` is more than {MAX_FRAME_PART} bytes")]
    TooLong {
        /// The part.
        key: &'static str,
    },
    /// The bytes that end a frame do not fit into the trailer.
    #[error("`end` has {}, but the trailer has {trailer}", counted(*end, "byte"))]
    EndBehindTrailer {
        /// Number of bytes that end the frame.
        end: usize,
        /// Length of the trailer.
        trailer: u32,
    },
    /// Something follows a delimiter.
    #[error("`{key}` is not possible in a frame that ends with a delimiter")]
    BehindDelimiter {
        /// The part that follows.
        key: &'static str,
    },
    /// The unit of the length is 0.
    #[error("`unit` of `length` is 0 bytes, so that every length would be 0")]
    NoUnit,
    /// Packets have no counter that tells which of them belong together.
    #[error("nothing tells which packets belong to one fragment, because the frame has no `counter`")]
    Uncounted,
    /// A frame may have no bytes.
    #[error("a frame of this layout has no bytes")]
    Empty,
}

impl LayoutError {
    /// Returns the key of the part of the layout to correct, in the table `frame` or `packets`.
    pub const fn key(&self) -> &'static str {
        match *self {
            Self::BehindHeader { key, .. }
            | Self::Overlap { key, .. }
            | Self::Bits { key }
            | Self::Mark { key }
            | Self::TooLong { key }
            | Self::BehindDelimiter { key } => key,
            Self::EndBehindTrailer { .. } => "end",
            Self::NoUnit => "length",
            Self::Uncounted => "counter",
            Self::Empty => "header",
        }
    }
}

impl FrameLayout {
    /// Checks that the parts of the layout fit together.
    ///
    /// # Errors
    /// Returns the first part that does not.
    pub fn check(&self) -> Result<(), LayoutError> {
        let lengths = [("header", self.header), ("trailer", self.trailer), ("align", self.align)];
        if let Some((key, _)) = lengths.into_iter().find(|(_, length)| *length > MAX_FRAME_PART) {
            return Err(LayoutError::TooLong { key });
        }
        if let Some(mark) = &self.magic {
            check_mark("magic", mark)?;
            self.check_end("magic", mark.end())?;
        }
        for (key, field) in self.fields() {
            if !field.is_possible() || field.width() == 0 {
                return Err(LayoutError::Bits { key });
            }
            self.check_end(key, field.end())?;
        }
        self.check_overlaps()?;
        self.check_extent()?;
        if self.packets.is_some() && self.counter.is_none() {
            return Err(LayoutError::Uncounted);
        }
        if self.end.len() > self.trailer as usize {
            return Err(LayoutError::EndBehindTrailer { end: self.end.len(), trailer: self.trailer });
        }
        Ok(())
    }

    fn check_end(&self, key: &'static str, end: usize) -> Result<(), LayoutError> {
        let header = self.header;
        if end > header as usize { Err(LayoutError::BehindHeader { key, end, header }) } else { Ok(()) }
    }

    /// Checks that the length of a frame can be found, and that nothing comes behind a delimiter.
    fn check_extent(&self) -> Result<(), LayoutError> {
        match &self.extent {
            Extent::Stated { unit: 0, .. } => Err(LayoutError::NoUnit),
            Extent::Stated { .. } => Ok(()),
            Extent::Fixed(0) if self.header + self.trailer == 0 => Err(LayoutError::Empty),
            Extent::Fixed(_) | Extent::Datagram => Ok(()),
            Extent::Delimited(delimiter) => {
                check_mark("delimiter", &Mark::new(0, delimiter.as_slice()))?;
                let behind = [("trailer", self.trailer > 0), ("align", self.align > 1)];
                match behind.into_iter().find(|(_, is_there)| *is_there) {
                    Some((key, _)) => Err(LayoutError::BehindDelimiter { key }),
                    None => Ok(()),
                }
            }
        }
    }

    /// Checks that no two parts of the header have a bit in common.
    fn check_overlaps(&self) -> Result<(), LayoutError> {
        let mut parts: Vec<(&'static str, &FrameField)> = Vec::new();
        for (key, field) in self.fields() {
            for offset in field.at as usize..field.end() {
                let bits = field.bits_at(offset);
                let other = parts.iter().find(|(_, other)| other.bits_at(offset) & bits != 0);
                let magic = self.magic.as_ref().filter(|mark| mark.bits_at(offset) & bits != 0);
                let other = magic.map(|_| "magic").or_else(|| other.map(|(other, _)| *other));
                if let Some(other) = other {
                    return Err(LayoutError::Overlap { key, other, offset });
                }
            }
            parts.push((key, field));
        }
        Ok(())
    }
}

fn check_mark(key: &'static str, mark: &Mark) -> Result<(), LayoutError> {
    let is_good = (1..=MAX_MARK).contains(&mark.value.len())
        && mark.mask.len() == mark.value.len()
        && mark.mask.iter().any(|mask| *mask != 0);
    if is_good { Ok(()) } else { Err(LayoutError::Mark { key }) }
}

impl Mark {
    /// Returns the bits of the byte at that offset of the frame which belong to the mark.
    pub fn bits_at(&self, offset: usize) -> u8 {
        let place = offset.checked_sub(self.at as usize);
        place.and_then(|place| self.mask.get(place)).copied().unwrap_or(0)
    }
}
