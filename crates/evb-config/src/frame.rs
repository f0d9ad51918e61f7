//! `frame` of an input: the layout of the frames that a board sends.

mod given_field;

use evb_core::{
    framing::{
        ByteOrder, Extent, FrameLayout, Kept, LayoutError, LengthCounts, MAX_FRAME_PART, Mark, PacketLayout,
        USUAL_RESYNC,
    },
    units::Bytes,
};
use serde::Deserialize;

use super::{
    forms::{As, Form, Positive, Quantity, Whole, one, wrong},
    section::Section,
};
#[cfg(test)]
pub(super) use given_field::BitRange;
pub(super) use given_field::{GivenField, GivenLength};

/// The key of the layout in a source.
const FRAME: &str = "input.frame";

/// The keys that tell where a payload ends.
const EXTENTS: [&str; 3] = ["input.frame.length", "input.frame.payload", "input.frame.delimiter"];

/// The layout as the configuration gives it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "table")]
pub(super) struct GivenFrame {
    /// The bytes with which each frame begins, in hexadecimal, or a table with `at`, the offset of
    /// these bytes from the start of the frame, their `value`, and a `mask` with the bits that are
    /// compared.
    ///
    /// Default: none: a frame out of step closes the connection
    magic: Option<GivenMagic>,
    /// The order of the bytes of all numbers: `"big"` begins with the most significant byte, as in
    /// network protocols, `"little"` with the least significant one.
    ///
    /// Default: `"big"`
    #[serde(default)]
    order: GivenOrder,
    /// The number of bytes before the payload.
    #[serde(with = "Whole::<0, { MAX_FRAME_PART as u64 }>")]
    header: u32,
    /// The length that the header states.
    ///
    /// Default: none; one of `length`, `payload` and `delimiter` is required
    length: Option<GivenLength>,
    /// The size of the payload, if all frames have the same.
    ///
    /// Default: none
    #[serde(default, with = "As::<Quantity<Bytes>>")]
    payload: Option<Bytes>,
    /// The bytes that end the payload, in hexadecimal, such as `"0d0a"`.
    ///
    /// Default: none
    #[serde(default, with = "As::<HexBytes>")]
    delimiter: Option<Vec<u8>>,
    /// The number of bytes behind the payload.
    ///
    /// Default: the number of bytes of `end`
    #[serde(default, with = "Whole::<0, { MAX_FRAME_PART as u64 }>")]
    trailer: Option<u32>,
    /// The bytes with which each frame ends, in hexadecimal. They show at once that a frame is
    /// whole; without them, a frame with a magic waits up to 2 ms for the next one.
    ///
    /// Default: none
    #[serde(default, with = "As::<HexBytes>")]
    end: Option<Vec<u8>>,
    /// The number of bytes to a multiple of which each frame is padded.
    ///
    /// Default: 1
    #[serde(default = "one", with = "Whole::<1, { MAX_FRAME_PART as u64 }>")]
    align: u32,
    /// The trigger counter of the board, whose bits the source's `counter` declares.
    ///
    /// Default: none: frames count in the order in which they arrive
    counter: Option<GivenField>,
    /// The reading of the board's clock, which becomes the timestamp.
    ///
    /// Default: none: the timestamp is 0
    clock: Option<GivenField>,
    /// The bytes that become the fragment: the whole frame, or its payload.
    ///
    /// Default: `"frame"`, and with `packets` the payloads of all packets
    #[serde(default)]
    keep: GivenKeep,
    /// The number of bytes that may be skipped in search of the next frame, before the connection
    /// is closed.
    ///
    /// Default: `"1 MiB"`
    #[serde(default, with = "As::<Positive<Bytes>>")]
    resync: Option<Bytes>,
}

/// The bytes by which a frame is recognised: text, or a table with their place.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(untagged))]
#[serde(rename = "text or table")]
pub(super) enum GivenMagic {
    First(#[serde(with = "As::<HexBytes>")] Vec<u8>),
    Placed(PlacedMagic),
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PlacedMagic {
    /// The offset of the bytes from the start of the frame.
    #[serde(with = "Whole::<0, { MAX_FRAME_PART as u64 }>")]
    at: u32,
    /// The bytes, in hexadecimal.
    #[serde(with = "As::<HexBytes>")]
    value: Vec<u8>,
    /// The bits of these bytes that are compared, in hexadecimal.
    ///
    /// Default: all
    #[serde(default, with = "As::<HexBytes>")]
    mask: Option<Vec<u8>>,
}

/// The order of the bytes of a number.
#[derive(Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum GivenOrder {
    #[default]
    Big,
    Little,
}

impl From<GivenOrder> for ByteOrder {
    fn from(order: GivenOrder) -> Self {
        match order {
            GivenOrder::Big => Self::Big,
            GivenOrder::Little => Self::Little,
        }
    }
}

/// The part of a frame that its length counts.
#[derive(Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum GivenCounted {
    Payload,
    Frame,
    Rest,
    Tail,
}

impl From<GivenCounted> for LengthCounts {
    fn from(counted: GivenCounted) -> Self {
        match counted {
            GivenCounted::Payload => Self::Payload,
            GivenCounted::Frame => Self::Frame,
            GivenCounted::Rest => Self::Rest,
            GivenCounted::Tail => Self::Tail,
        }
    }
}

/// The part of a frame that becomes the fragment.
#[derive(Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum GivenKeep {
    #[default]
    Frame,
    Payload,
}

/// Bytes in hexadecimal.
pub(super) struct HexBytes;

impl Form for HexBytes {
    type Value = Vec<u8>;
    const EXAMPLE: &'static str = "eb90";

    /// Parses hexadecimal digits, which may be grouped by spaces or underscores.
    fn parse(text: &str) -> Result<Vec<u8>, String> {
        let digits: String = text.trim_start_matches("0x").split([' ', '_']).collect();
        let byte = |at: usize| digits.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.filter(|bytes| is_hex && !bytes.is_empty()).ok_or_else(|| {
            let remedy = "write two hexadecimal digits for each byte, in the order in which the bytes come, as \"eb90\"";
            wrong(format_args!("`{text}` is not bytes in hexadecimal"), remedy)
        })
    }
}

impl GivenFrame {
    /// Returns the layout of the frames of a stream, or notes what is wrong with it.
    pub(super) fn checked(self, source: &Section<'_>) -> Option<FrameLayout> {
        let extent = self.extent(source, self.order.into());
        if matches!(extent, Some(Extent::Stated { counted: LengthCounts::Tail, .. })) {
            let reason = "counts = \"tail\" is for datagrams only, whose end is known";
            source.refuse("input.frame.length.counts", reason, "write counts = \"payload\" or \"rest\"");
            return None;
        }
        self.with_extent(source, extent, None)
    }

    /// Returns the layout of datagrams, or notes what is wrong with it.
    pub(super) fn checked_datagram(
        self,
        source: &Section<'_>,
        packets: Option<PacketLayout>,
    ) -> Option<FrameLayout> {
        let extent = if EXTENTS.into_iter().any(|key| source.has(key)) {
            self.extent(source, self.order.into())
        } else {
            Some(Extent::Datagram)
        };
        if packets.is_none() {
            return self.with_extent(source, extent, None);
        }
        let (frame, delimited) = ("input.frame.keep", "input.frame.delimiter");
        if source.has(frame) && matches!(self.keep, GivenKeep::Frame) {
            let reason = "with `packets`, a fragment has only the payloads of its packets";
            source.refuse(frame, reason, "write keep = \"payload\", or leave it out");
        }
        if source.has(delimited) {
            let reason = "with `packets`, each packet ends with its datagram, and not with a `delimiter`";
            source.refuse(delimited, reason, "remove `delimiter`");
            return None;
        }
        Self { keep: GivenKeep::Payload, ..self }.with_extent(source, extent, packets)
    }

    /// Returns the order of the bytes of numbers.
    pub(super) fn order(&self) -> ByteOrder {
        self.order.into()
    }

    /// Checks all keys of a frame, and returns its layout. `extent` is `None` if it was refused
    /// already.
    fn with_extent(
        self,
        source: &Section<'_>,
        extent: Option<Extent>,
        packets: Option<PacketLayout>,
    ) -> Option<FrameLayout> {
        let order = self.order.into();
        let read = |key: &str, field: Option<&GivenField>| match field {
            Some(field) => field.checked(source, key, order).map(Some),
            None => Some(None),
        };
        let counter = read("input.frame.counter", self.counter.as_ref());
        let clock = read("input.frame.clock", self.clock.as_ref());
        // All are read before the first one is given up, so that all mistakes are noted.
        let (counter, clock, extent) = (counter?, clock?, extent?);
        let end = self.end.unwrap_or_default();
        if matches!(extent, Extent::Delimited(_)) && !end.is_empty() {
            let reason = "the delimiter ends a frame already";
            source.refuse("input.frame.end", reason, "remove `end`, or `delimiter`");
            return None;
        }
        let layout = FrameLayout {
            magic: self.magic.map(|magic| match magic {
                GivenMagic::First(value) => Mark::new(0, value),
                GivenMagic::Placed(PlacedMagic { at, value, mask }) => {
                    let all = Mark::new(at, value);
                    Mark { mask: mask.unwrap_or_else(|| all.mask.clone()), ..all }
                }
            }),
            trailer: self.trailer.unwrap_or(end.len() as u32),
            end,
            align: self.align,
            counter,
            clock,
            keep: match self.keep {
                GivenKeep::Frame => Kept::Frame,
                GivenKeep::Payload => Kept::Payload,
            },
            resync: self.resync.unwrap_or(USUAL_RESYNC),
            packets,
            ..FrameLayout::new(self.header, extent)
        };
        if self.resync.is_some() && !layout.can_resync() {
            let reason = "without `magic`, nothing tells where the next frame begins";
            source.refuse("input.frame.resync", reason, "add magic = \"eb90\", or remove `resync`");
        }
        match layout.check() {
            Ok(()) => Some(layout),
            Err(error) => {
                let of_packets = ["number", "count", "last", "offset", "total"].contains(&error.key());
                let table = if of_packets { "input.packets" } else { FRAME };
                let key = format!("{table}.{}", error.key());
                source.refuse(&key, error.to_string(), remedy(&error));
                None
            }
        }
    }

    /// Returns what tells where a payload ends.
    fn extent(&self, source: &Section<'_>, order: ByteOrder) -> Option<Extent> {
        let given: Vec<&str> = EXTENTS.into_iter().filter(|key| source.has(key)).collect();
        match given[..] {
            [] => {
                let reason = "nothing tells where a frame ends";
                let remedy = "add length = { at = 2, bytes = 2, counts = \"payload\" }, payload = \"1024 B\" for frames of one size, or delimiter = \"0d0a\"";
                source.refuse(FRAME, reason, remedy);
                return None;
            }
            [_] => {}
            [first, second, ..] => {
                let name = |key: &str| key.trim_start_matches("input.frame.").to_owned();
                let reason = format!("`{}` tells already where a frame ends", name(first));
                source.refuse(second, reason, format!("remove `{}`, or `{}`", name(second), name(first)));
                return None;
            }
        }
        match (&self.length, self.payload, &self.delimiter) {
            (Some(length), ..) => length.checked(source, order),
            (_, Some(payload), _) => match u32::try_from(payload.count()) {
                Ok(payload) => Some(Extent::Fixed(payload)),
                Err(_) => {
                    let reason = format!("{payload} is more than a fragment can have, 4 GiB");
                    let remedy = "give the size of one frame's payload, below 4 GiB";
                    source.refuse("input.frame.payload", reason, remedy);
                    None
                }
            },
            (.., Some(delimiter)) => Some(Extent::Delimited(delimiter.clone())),
            // What was given is wrong, and noted.
            (None, None, None) => None,
        }
    }
}

/// Returns what to do about a layout that cannot be.
fn remedy(error: &LayoutError) -> String {
    match error {
        LayoutError::BehindHeader { key, end, .. } => {
            format!("write header = {end} or more, or correct `at` of `{key}`; offsets count from 0")
        }
        LayoutError::Overlap { key, other, .. } => {
            format!("correct `at`, `bytes` or `bits` of `{key}` or `{other}`; offsets count from 0")
        }
        LayoutError::Bits { .. } => {
            "give `bits` that the `bytes` of this field have, and a `mask` that keeps at least one of these bits".to_owned()
        }
        LayoutError::Mark { key: "magic" } => {
            "give at most 16 bytes, and a mask of as many, such as value = \"eb90\", mask = \"fff0\""
                .to_owned()
        }
        LayoutError::Mark { .. } => "give at most 16 bytes, such as \"0d0a\"".to_owned(),
        LayoutError::TooLong { .. } => format!("give at most {MAX_FRAME_PART}"),
        LayoutError::EndBehindTrailer { end, .. } => {
            format!("write trailer = {end} or more, or leave it out")
        }
        LayoutError::BehindDelimiter { key } => format!("remove `{key}`"),
        LayoutError::Uncounted => {
            "add the counter of the fragment, which all its packets have, as counter = { at = 4, bytes = 4 }"
                .to_owned()
        }
        LayoutError::NoUnit => "write unit = 1".to_owned(),
        LayoutError::Empty => "give a header, or a payload of at least 1 B".to_owned(),
    }
}
