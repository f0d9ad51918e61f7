//! [`Framing`]: the decoder of frames whose layout is declared.

#[cfg(test)]
pub(super) mod tests;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::{Buf as _, Bytes as Payload, BytesMut};
use evb_core::{
    fragment::{Fragment, Timestamp},
    framing::{Extent, FrameField, FrameLayout, Kept, LayoutError, Losses, Mark},
    id::EventId,
    units::Bytes,
};

use super::decode::{Decode, Decoded, Decoders, Follows};

/// Length from which a frame is not copied: it becomes the fragment together with its memory.
const NOT_COPIED: usize = 32 << 10;

/// The decoder of frames whose layout is declared.
///
/// A frame is used only if its `end` is right or, where the layout has a magic and no `end`, if the
/// next bytes begin a frame or nothing follows for a moment. So a frame that was cut short takes no
/// bytes of the next one into its event. After a mistake the decoder looks for the next magic; it
/// looks into the bytes of the wrong frame, too.
///
/// ```
/// use bytes::BytesMut;
/// use evb::{
///     input::{Decode, Decoded, Extent, Follows, FrameField, FrameLayout, Framing, Mark},
///     units::Bytes,
/// };
///
/// // The letters EV, a counter of two bytes, and always four bytes of data.
/// let mut layout = FrameLayout::new(4, Extent::Fixed(4));
/// layout.magic = Some(Mark::new(0, *b"EV"));
/// layout.counter = Some(FrameField::new(2, 2));
/// let mut framing = Framing::new(layout, Bytes::kib(4))?;
///
/// let mut bytes = BytesMut::from(&b"garbageEV\x00\x07data"[..]);
/// assert_eq!(framing.decode(&mut bytes, Follows::Bytes), Decoded::Skipped);
/// let Decoded::Fragment(fragment) = framing.decode(&mut bytes, Follows::Pause) else {
///     panic!("no frame")
/// };
/// assert_eq!((fragment.event.number(), &fragment.payload[4..]), (7, &b"data"[..]));
/// assert_eq!(framing.losses().garbage_bytes, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Framing {
    layout: Arc<FrameLayout>,
    /// Largest fragment.
    limit: u64,
    /// Number of frames without a counter, which clones share.
    arrived: Arc<AtomicU64>,
    losses: Losses,
    /// False while the next frame is looked for.
    is_in_step: bool,
    /// Number of bytes that were skipped since the last frame.
    skipped: u64,
    /// Number of bytes at the front in which no delimiter begins.
    searched: usize,
}

/// A judgement of the front of the bytes.
enum Front {
    /// A frame: its length without and with its padding.
    Whole {
        length: usize,
        padded: usize,
    },
    /// A frame of these lengths that the next bytes can confirm, up to a number of bytes.
    Unconfirmed {
        length: usize,
        padded: usize,
        needs: usize,
    },
    /// Too few bytes.
    Short(usize),
    CutShort,
    BadLength,
    BadMagic,
}

impl Framing {
    /// Creates the decoder of frames with fragments of up to `max_fragment`. Clones decode other
    /// connections of the same board: frames without a counter are numbered on.
    ///
    /// # Errors
    /// The part of the layout that cannot be.
    pub fn new(layout: FrameLayout, max_fragment: Bytes) -> Result<Self, LayoutError> {
        layout.check()?;
        Ok(Self {
            layout: Arc::new(layout),
            limit: max_fragment.count().min(u32::MAX.into()),
            arrived: Arc::default(),
            losses: Losses::default(),
            is_in_step: true,
            skipped: 0,
            searched: 0,
        })
    }

    /// Returns clones of this decoder, which has decoded nothing, for the connections of a board.
    pub fn decoders(self) -> Decoders {
        Arc::new(move || Box::new(self.clone()))
    }

    /// Begins with other bytes, which begin with a frame: those of the next datagram.
    pub(super) fn begin(&mut self) {
        (self.is_in_step, self.skipped, self.searched) = (true, 0, 0);
    }

    /// Judges the bytes at the front: a whole frame, or too few bytes, or no frame.
    fn front(&mut self, bytes: &[u8], follows: Follows) -> Front {
        let layout = &*self.layout;
        if layout.magic.as_ref().is_some_and(|magic| !magic.may_be_at(bytes)) {
            return Front::BadMagic;
        }
        let header = layout.header as usize;
        if bytes.len() < header.max(1) {
            return Front::Short(header.max(1));
        }
        if let Extent::Delimited(delimiter) = &layout.extent {
            return Self::delimited(bytes, header, delimiter, self.limit, layout.keep, &mut self.searched);
        }
        let header_and_trailer = u64::from(layout.header) + u64::from(layout.trailer);
        let stated = match layout.extent {
            Extent::Datagram => Some(bytes.len() as u64).filter(|length| *length >= header_and_trailer),
            _ => layout.length_of(bytes),
        };
        let Some(length) = stated else { return Front::BadLength };
        // The limit is for the payload, so header and trailer do not count if they are not kept.
        let not_kept = match layout.keep {
            Kept::Frame => 0,
            Kept::Payload => header_and_trailer,
        };
        if length == 0 || length - not_kept > self.limit {
            return Front::BadLength;
        }
        let length = length as usize;
        let mut padded = length.next_multiple_of(layout.align.max(1) as usize);
        // The padding of the last frame may be missing.
        if follows == Follows::End {
            padded = padded.min(bytes.len().max(length));
        }
        if bytes.len() < padded {
            return Front::Short(padded);
        }
        if !layout.end.is_empty() {
            let is_end = bytes[..length].ends_with(&layout.end);
            return if is_end { Front::Whole { length, padded } } else { Front::CutShort };
        }
        // If a magic marks each frame, the next one must begin directly behind this one.
        let Some(magic) = &layout.magic else { return Front::Whole { length, padded } };
        let next = &bytes[padded..];
        match magic.may_be_at(next) {
            false => Front::CutShort,
            true if next.len() >= magic.end() => Front::Whole { length, padded },
            true => Front::Unconfirmed { length, padded, needs: padded + magic.end() },
        }
    }

    /// Judges the bytes at the front of a frame that a delimiter ends. The search goes on from
    /// `searched`, up to which there is no delimiter.
    fn delimited(
        bytes: &[u8],
        header: usize,
        delimiter: &[u8],
        limit: u64,
        keep: Kept,
        searched: &mut usize,
    ) -> Front {
        let from = header.max(*searched);
        let stripped = if keep == Kept::Payload { header } else { 0 };
        match find(&bytes[from..], delimiter) {
            Some(place) => {
                let length = from + place + delimiter.len();
                if (length - stripped) as u64 > limit {
                    return Front::BadLength;
                }
                Front::Whole { length, padded: length }
            }
            None if (bytes.len() - stripped) as u64 > limit => Front::BadLength,
            None => {
                // The last bytes may be the first part of a delimiter.
                *searched = (bytes.len() + 1).saturating_sub(delimiter.len());
                Front::Short(bytes.len() + 1)
            }
        }
    }

    /// Takes a frame from the bytes.
    fn take(&mut self, bytes: &mut BytesMut, length: usize, padded: usize) -> Decoded {
        let layout = &*self.layout;
        let read = |field: &FrameField| field.read(bytes).unwrap_or(0);
        let event = match &layout.counter {
            Some(counter) => read(counter),
            None => self.arrived.fetch_add(1, Ordering::Relaxed),
        };
        let timestamp = Timestamp::new(layout.clock.as_ref().map_or(0, read));
        let kept = match layout.keep {
            Kept::Frame => 0..length,
            Kept::Payload => layout.header as usize..length - layout.trailer as usize,
        };
        let payload = if padded < NOT_COPIED {
            let payload = Payload::copy_from_slice(&bytes[kept]);
            bytes.advance(padded);
            payload
        } else {
            bytes.split_to(padded).freeze().slice(kept)
        };
        self.begin();
        Decoded::Fragment(Fragment::new(EventId::new(event), timestamp, payload))
    }

    /// Skips the bytes up to where the next frame may begin.
    fn skip(&mut self, bytes: &mut BytesMut, follows: Follows) -> Decoded {
        // The place where the next frame may begin: at the next magic, or behind the next
        // delimiter.
        let place = match (&self.layout.magic, &self.layout.extent) {
            (Some(magic), _) => (1..bytes.len()).find(|place| magic.may_be_at(&bytes[*place..])),
            (None, Extent::Delimited(delimiter)) => {
                // A part of a delimiter may be at the end.
                let least = delimiter.len();
                if bytes.len() < least && follows != Follows::End {
                    return Decoded::Needs(least);
                }
                let found = find(bytes, delimiter).map(|place| place + least);
                self.is_in_step = found.is_some();
                // Without a delimiter, all bytes are skipped but those that may be the first part
                // of one.
                found.or_else(|| (bytes.len() + 1).checked_sub(least).filter(|place| *place > 0))
            }
            (None, _) => None,
        };
        let place = place.unwrap_or(bytes.len());
        bytes.advance(place);
        self.searched = 0;
        self.losses.garbage_bytes += place as u64;
        self.skipped += place as u64;
        if !self.layout.can_resync() || self.skipped > self.layout.resync.count() {
            return Decoded::Lost;
        }
        Decoded::Skipped
    }
}

impl Decode for Framing {
    /// Decodes the frame at the front of `bytes`, or skips what is none.
    fn decode(&mut self, bytes: &mut BytesMut, follows: Follows) -> Decoded {
        if !self.is_in_step && self.layout.magic.is_none() && !bytes.is_empty() {
            // Nothing but a delimiter tells where the next frame begins.
            return self.skip(bytes, follows);
        }
        let front = self.front(bytes, follows);
        let losses = &mut self.losses;
        let count = match front {
            Front::Whole { length, padded } => return self.take(bytes, length, padded),
            Front::Unconfirmed { needs, .. } if follows == Follows::Bytes => return Decoded::Holds(needs),
            Front::Unconfirmed { length, padded, .. } => return self.take(bytes, length, padded),
            Front::Short(needs) if follows != Follows::End => return Decoded::Needs(needs),
            Front::Short(needs) if bytes.is_empty() => return Decoded::Needs(needs),
            Front::Short(_) | Front::CutShort => &mut losses.cut_short,
            Front::BadLength => &mut losses.bad_lengths,
            Front::BadMagic => &mut losses.bad_magics,
        };
        // What looks like a frame in garbage is none.
        if self.is_in_step {
            *count += 1;
            losses.resyncs += 1;
            self.is_in_step = false;
        }
        self.skip(bytes, follows)
    }

    fn note_gap(&mut self) {
        self.is_in_step = false;
    }

    fn losses(&self) -> Losses {
        self.losses
    }

    fn largest(&self) -> usize {
        let magic = self.layout.magic.as_ref().map_or(0, Mark::end);
        usize::try_from(self.limit + self.layout.overhead()).unwrap_or(usize::MAX).saturating_add(magic)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
