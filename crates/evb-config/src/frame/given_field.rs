//! The fields of a frame's header, as the configuration gives them.

use evb_core::framing::{ByteOrder, Extent, FrameField, MAX_FRAME_PART};
use serde::Deserialize;

use super::{GivenCounted, GivenOrder};
use crate::{
    forms::{As, Form, Whole, one, wrong},
    section::Section,
};

/// A number in the header.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "table")]
pub(crate) struct GivenField {
    /// The offset of the field from the start of the frame, in bytes.
    #[serde(with = "Whole::<0, { MAX_FRAME_PART as u64 }>")]
    at: u32,
    /// The number of bytes of the field.
    ///
    /// Default: 1, 2, 4 or 8, as many as `bits` needs; one of `bytes` and `bits` is required
    #[serde(default, with = "Whole::<1, 8>")]
    bytes: Option<u8>,
    /// The bits of the field that are the number, such as `"0-23"`; bit 0 is the least significant
    /// one.
    ///
    /// Default: all
    #[serde(default, with = "As::<BitRange>")]
    bits: Option<(u8, u8)>,
    /// The order of the bytes of this field.
    ///
    /// Default: that of the frame
    order: Option<GivenOrder>,
    /// The bits of the number that count, such as `0xffff`.
    ///
    /// Default: all
    #[serde(default, with = "Whole::<1, { u64::MAX }>")]
    mask: Option<u64>,
}

/// The length that a header states.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "table")]
pub(crate) struct GivenLength {
    /// The offset of the length from the start of the frame, in bytes.
    #[serde(with = "Whole::<0, { MAX_FRAME_PART as u64 }>")]
    at: u32,
    /// The number of bytes of the length.
    ///
    /// Default: 1, 2, 4 or 8, as many as `bits` needs; one of `bytes` and `bits` is required
    #[serde(default, with = "Whole::<1, 8>")]
    bytes: Option<u8>,
    /// The bits of these bytes that are the length, such as `"0-23"`; bit 0 is the least
    /// significant one.
    ///
    /// Default: all
    #[serde(default, with = "As::<BitRange>")]
    bits: Option<(u8, u8)>,
    /// The order of the bytes of the length.
    ///
    /// Default: that of the frame
    order: Option<GivenOrder>,
    /// The bits of the length that count, such as `0xffff`.
    ///
    /// Default: all
    #[serde(default, with = "Whole::<1, { u64::MAX }>")]
    mask: Option<u64>,
    /// The part of the frame that the length counts: the payload, the whole frame with header and
    /// trailer but without padding, or the rest of the frame behind the length itself.
    counts: GivenCounted,
    /// The number of bytes in a unit of the length, such as 4 for words of 32 bits.
    ///
    /// Default: 1
    #[serde(default = "one", with = "Whole::<1, 4096>")]
    unit: u32,
}

/// A range of bits of a number.
pub(crate) struct BitRange;

impl Form for BitRange {
    type Value = (u8, u8);
    const EXAMPLE: &'static str = "0-23";

    /// Parses two bits in any order, or one bit, and returns the lower and the higher one.
    fn parse(text: &str) -> Result<(u8, u8), String> {
        let (one, other) = text.split_once(['-', ':']).unwrap_or((text, text));
        let bit = |text: &str| text.trim().parse::<u8>().ok().filter(|bit| *bit < 64);
        match (bit(one), bit(other)) {
            (Some(one), Some(other)) => Ok((one.min(other), one.max(other))),
            _ => {
                let reason = format!("`{text}` is not a range of the bits 0 to 63");
                Err(wrong(reason, "write the lowest and the highest bit, as \"0-23\""))
            }
        }
    }
}

impl GivenField {
    /// Returns the field at `key`, or notes what is wrong with it.
    pub(crate) fn checked(&self, source: &Section<'_>, key: &str, order: ByteOrder) -> Option<FrameField> {
        let order = self.order.map_or(order, Into::into);
        let bits = self.bits.filter(|_| source.is_good(&format!("{key}.bits")));
        if source.is_wrong(key) || source.is_wrong(&format!("{key}.bits")) {
            return None;
        }
        let Some(bytes) = self.bytes.or_else(|| bits.map(|(_, high)| (high / 8 + 1).next_power_of_two()))
        else {
            if !source.is_wrong(&format!("{key}.bytes")) {
                let reason = "nothing tells how wide this field is";
                source.refuse(&format!("{key}.bytes"), reason, "add bytes = 2, or bits = \"0-15\"");
            }
            return None;
        };
        let mut field = FrameField { order, ..FrameField::new(self.at, bytes) };
        (field.low, field.high) = bits.unwrap_or((field.low, field.high));
        field.mask = self.mask.unwrap_or(field.mask);
        if u32::from(field.high) >= u32::from(bytes) * 8 {
            let (high, has) = (field.high, bytes * 8 - 1);
            let reason = format!("a field of {bytes} bytes has the bits 0 to {has}, and no bit {high}");
            source.refuse(&format!("{key}.bits"), reason, format!("give bits up to {has}, or more `bytes`"));
            return None;
        }
        Some(field)
    }
}

impl GivenLength {
    pub(super) fn checked(&self, source: &Section<'_>, order: ByteOrder) -> Option<Extent> {
        let Self { at, bytes, bits, order: own, mask, .. } = *self;
        let field = GivenField { at, bytes, bits, order: own, mask };
        let length = field.checked(source, "input.frame.length", order)?;
        Some(Extent::Stated { length, unit: self.unit, counted: self.counts.into() })
    }
}
