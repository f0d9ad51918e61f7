//! KM3NeT L1 timeslices: reads the files of the telescope's data acquisition, and turns a built
//! event back into its timeslice.
//!
//! `examples/data/README.md` describes the file format. All fields are little-endian and packed.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, ops::Range};

use bytes::{Buf, BufMut};
use evb_core::{event::Event, fragment::Timestamp, id::EventId};

/// Size of a timeslice's header: length, type, version, common header, number of frames.
pub(super) const SLICE_HEAD: usize = 34;
/// Size of a frame's header: length, type, common header, module id.
const FRAME_HEAD: usize = 32;
/// Size of the common header, which each frame repeats from its timeslice: detector, run, frame
/// index, UTC seconds, 16-ns ticks.
const COMMON: usize = 20;
const SLICE_TYPE: i32 = 1003;
const SLICE_VERSION: u16 = 1;
const FRAME_TYPE: i32 = 101;
/// Ticks of 16 ns in a second.
const TICKS: u64 = 62_500_000;

/// Reason for which events could not reproduce a file of timeslices byte for byte. Timeslices and
/// frames are numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Km3netFlaw {
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The length field of a timeslice does not fit the file.
    #[error(
        "timeslice {slice} at byte {offset} says that it has {stated} B, but the file has {available} B from there on"
    )]
    SliceLength {
        /// The timeslice's number.
        slice: usize,
        /// Offset of the timeslice in the file.
        offset: usize,
        /// Length that the timeslice's length field states.
        stated: i32,
        /// Number of bytes from the timeslice's offset to the end of the file.
        available: usize,
    },
    /// A timeslice is of an unknown type or version.
    #[error(
        "timeslice {slice} is of type {kind}, version {version}, but evb reads only L1 timeslices (1003, version 1)"
    )]
    SliceKind {
        /// The timeslice's number.
        slice: usize,
        /// Type of the timeslice.
        kind: i32,
        /// Version of the timeslice.
        version: u16,
    },
    /// A frame contradicts the header of its timeslice.
    #[error("frame {frame} of timeslice {slice} is wrong: {what}")]
    Frame {
        /// The timeslice's number.
        slice: usize,
        /// The frame's number within the timeslice.
        frame: usize,
        /// Description of the problem.
        what: &'static str,
    },
    /// The timeslice's modules are in another order than in earlier timeslices, so no order of
    /// sources reproduces the file.
    #[error(
        "in timeslice {slice}, module {module} is out of order: the modules must have the order of the earlier timeslices"
    )]
    Order {
        /// The timeslice's number.
        slice: usize,
        /// The module's id.
        module: u32,
    },
}

/// The timeslices of a file. The position of a module is its rank in the order of first appearance.
///
/// ```
/// use evb::input::km3net::Timeslices;
///
/// let bytes = std::fs::read("examples/data/km3net_l1_timeslices.dat")?;
/// let slices = Timeslices::parse(&bytes)?;
/// // Each module becomes a source, and each timeslice an event.
/// assert_eq!((slices.modules().len(), slices.len()), (15, 10));
/// assert_eq!(slices.frames(0).count(), slices.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Timeslices<'f> {
    bytes: &'f [u8],
    slices: Vec<Slice>,
    modules: Vec<u32>,
}

#[derive(Debug)]
struct Slice {
    range: Range<usize>,
    timestamp: Timestamp,
    /// Position of each module and the byte range of its frame; ascending by position.
    frames: Vec<(usize, Range<usize>)>,
}

impl<'f> Timeslices<'f> {
    /// Finds the timeslices and frames in a file's content, and checks every length field.
    ///
    /// # Errors
    /// The first flaw in the content.
    pub fn parse(bytes: &'f [u8]) -> Result<Self, Km3netFlaw> {
        let mut slices = Vec::new();
        let mut positions = BTreeMap::new();
        let mut offset = 0;
        while offset < bytes.len() {
            let slice = parse_slice(bytes, offset, slices.len() + 1, &mut positions)?;
            offset = slice.range.end;
            slices.push(slice);
        }
        if slices.is_empty() {
            return Err(Km3netFlaw::Empty);
        }
        let mut modules = vec![0; positions.len()];
        positions.into_iter().for_each(|(module, position)| modules[position] = module);
        Ok(Self { bytes, slices, modules })
    }

    /// Returns the number of timeslices, which is at least one.
    #[allow(clippy::len_without_is_empty)] // a file of timeslices is never empty
    pub fn len(&self) -> usize {
        self.slices.len()
    }

    /// Returns the ids of the modules, by position.
    pub fn modules(&self) -> &[u32] {
        &self.modules
    }

    /// Returns the bytes of a timeslice, counted from 0; `None` if the file has no such timeslice.
    pub fn slice(&self, slice: usize) -> Option<&'f [u8]> {
        Some(&self.bytes[self.slices.get(slice)?.range.clone()])
    }

    /// Returns the number, from 0, of the timeslice that a replay turns into that event. After the
    /// last timeslice, a replay continues with the first.
    pub fn place_of(&self, event: EventId) -> usize {
        (event.number().saturating_sub(1) % self.slices.len() as u64) as usize
    }

    /// Returns the bytes that an event of a replay must reproduce.
    pub fn of_event(&self, event: EventId) -> &'f [u8] {
        &self.bytes[self.slices[self.place_of(event)].range.clone()]
    }

    /// Returns the frames of the module at that position, one for each timeslice. The frame is
    /// empty if the timeslice has no frame of this module.
    pub fn frames(&self, position: usize) -> impl Iterator<Item = (Timestamp, &'f [u8])> + '_ {
        self.slices.iter().map(move |slice| {
            let found = slice.frames.iter().find(|(of, _)| *of == position);
            (slice.timestamp, found.map_or(&[][..], |(_, range)| &self.bytes[range.clone()]))
        })
    }
}

/// Returns the length of the timeslice at the start of `bytes`, by its first field; `None` if no
/// timeslice has that length.
pub(super) fn first_length(bytes: &[u8]) -> Option<usize> {
    let stated = i32::from_le_bytes(*bytes.first_chunk()?);
    usize::try_from(stated).ok().filter(|length| *length >= SLICE_HEAD)
}

/// Parses the timeslice that begins at `offset`. `positions` gives each module the position of its
/// source, in the order in which modules are seen first.
fn parse_slice(
    bytes: &[u8],
    offset: usize,
    number: usize,
    positions: &mut BTreeMap<u32, usize>,
) -> Result<Slice, Km3netFlaw> {
    let rest = &bytes[offset..];
    let stated = rest.first_chunk().map_or(0, |length| i32::from_le_bytes(*length));
    let length = first_length(rest).filter(|length| *length <= rest.len());
    let wrong = Km3netFlaw::SliceLength { slice: number, offset, stated, available: rest.len() };
    let length = length.ok_or(wrong)?;
    // The length comes first; every frame repeats the common part of the header.
    let (mut head, common) = (&rest[4..SLICE_HEAD], &rest[10..10 + COMMON]);
    let (kind, version) = (head.get_i32_le(), head.get_u16_le());
    if kind != SLICE_TYPE || version != SLICE_VERSION {
        return Err(Km3netFlaw::SliceKind { slice: number, kind, version });
    }
    // These bytes are part of `common`, with which the header of each frame is compared below.
    head.advance(12);
    let (seconds, ticks) = (head.get_u32_le(), head.get_u32_le());
    let timestamp = Timestamp::new(u64::from(seconds) * TICKS + u64::from(ticks));
    let (count, end) = (head.get_i32_le(), offset + length);

    let flaw = |frame, what| Err(Km3netFlaw::Frame { slice: number, frame, what });
    let mut frames: Vec<(usize, Range<usize>)> = Vec::new();
    let mut begin = offset + SLICE_HEAD;
    while begin < end {
        let frame = frames.len() + 1;
        let (length, module) = match parse_frame(&bytes[begin..end], common) {
            Ok(found) => found,
            Err(what) => return flaw(frame, what),
        };
        let next = positions.len();
        let position = *positions.entry(module).or_insert(next);
        // All timeslices must have the modules in the same order.
        if frames.last().is_some_and(|(last, _)| position <= *last) {
            return Err(Km3netFlaw::Order { slice: number, module });
        }
        frames.push((position, begin..begin + length));
        begin += length;
    }
    if frames.is_empty() {
        return flaw(1, "the timeslice has no frames, so no source has data");
    }
    if usize::try_from(count) != Ok(frames.len()) {
        return flaw(
            frames.len(),
            "it is the last one, but the timeslice's header says another number of frames",
        );
    }
    Ok(Slice { range: offset..end, timestamp, frames })
}

/// Returns length and module of the frame at the start of `bytes`, which must repeat the `common`
/// header.
fn parse_frame(bytes: &[u8], common: &[u8]) -> Result<(usize, u32), &'static str> {
    let Some(mut head) = bytes.get(..FRAME_HEAD) else { return Err("it is cut short") };
    let length = usize::try_from(head.get_i32_le()).map_err(|_| "its length is negative")?;
    if !(FRAME_HEAD..=bytes.len()).contains(&length) {
        return Err("its length does not fit into the timeslice");
    }
    if head.get_i32_le() != FRAME_TYPE {
        return Err("its type is not 101");
    }
    if head[..COMMON] != *common {
        return Err("its header differs from the timeslice's");
    }
    head.advance(COMMON);
    Ok((length, head.get_u32_le()))
}

/// Error: the event holds no KM3NeT frame, so it is not a timeslice.
///
/// ```
/// use evb::{
///     input::km3net::{NoFrame, rebuild_timeslice},
///     prelude::*,
/// };
///
/// // An event of another detector.
/// let mut event = Event::default();
/// event.add(SourceId::new(1), Timestamp::new(0), "no frame".into());
/// assert_eq!(rebuild_timeslice(&event), Err(NoFrame));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the event holds no KM3NeT frame, so it has no timeslice; give an event whose sources replay a KM3NeT file"
)]
pub struct NoFrame;

/// Rebuilds the timeslice of an event whose fragments are its frames: a header, made from the
/// common header that each frame repeats, and then the frames in the order of the sources. If this
/// is the order of the modules, the result equals the timeslice in the file. An empty fragment
/// stands for a module without a frame in this timeslice.
///
/// # Errors
/// [`NoFrame`]: the fragments hold no frame.
pub fn rebuild_timeslice(event: &Event) -> Result<Vec<u8>, NoFrame> {
    let frames = || event.fragments().map(|fragment| fragment.payload).filter(|frame| !frame.is_empty());
    let common = frames().next().and_then(|frame| frame.get(8..8 + COMMON)).ok_or(NoFrame)?;
    let length = SLICE_HEAD + event.payload_size().as_usize();
    let mut slice = Vec::with_capacity(length);
    slice.put_i32_le(length as i32);
    slice.put_i32_le(SLICE_TYPE);
    slice.put_u16_le(SLICE_VERSION);
    slice.put_slice(common);
    slice.put_i32_le(frames().count() as i32);
    frames().for_each(|frame| slice.put_slice(frame));
    Ok(slice)
}
