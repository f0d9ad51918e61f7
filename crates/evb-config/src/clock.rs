//! `clock` of a source: the clock that its boards read for the timestamps of fragments.

use std::time::Duration;

use evb_core::{
    alignment::{ClockError, ClockWrap, DetectorClock},
    framing::FrameLayout,
    units::Frequency,
};
use serde::Deserialize;

use super::{
    forms::{As, EventRate, Form, Positive, Whole, wrong},
    section::Section,
};

/// The clock as the configuration gives it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "table")]
pub(super) struct GivenClock {
    /// The nominal rate of the clock's ticks.
    #[serde(with = "As::<EventRate>")]
    rate: Frequency,
    /// The number of bits of the timestamps.
    #[serde(default, with = "Whole::<1, 64>")]
    bits: Option<u8>,
    /// Instead of `bits`, the number of ticks after which the clock reads zero again, such as 3564
    /// for the bunch crossings of an orbit of the LHC.
    #[serde(default, with = "Whole::<2, { 1 << 61 }>")]
    wrap: Option<u64>,
    /// The largest deviation of a healthy timestamp from the time of its event: twice the sum of
    /// the jitter and of a tick of this clock and of the clock that counts time.
    ///
    /// Default: `"1 us"`
    #[serde(default, with = "As::<Positive<Duration>>")]
    tolerance: Option<Duration>,
    /// The largest deviation of the rate from its nominal value; `"0 ppm"` for boards on one common
    /// clock.
    ///
    /// Default: `"100 ppm"`
    #[serde(default, with = "As::<PartsPerMillion>")]
    accuracy: Option<f64>,
}

/// A relative deviation in parts per million.
pub(super) struct PartsPerMillion;

impl Form for PartsPerMillion {
    type Value = f64;
    const EXAMPLE: &'static str = "100 ppm";
    const HAS_UNIT: bool = true;

    /// Parses a number of parts per million with its unit.
    fn parse(text: &str) -> Result<f64, String> {
        let number = text.strip_suffix("ppm").and_then(|number| number.trim_end().parse().ok());
        match number.filter(|ppm| (0.0..=1e4).contains(ppm)) {
            Some(ppm) => Ok(ppm),
            None => {
                let reason = format!("`{text}` is not a deviation of 0 to 10000 ppm");
                Err(wrong(reason, "write parts per million, such as \"100 ppm\""))
            }
        }
    }
}

impl GivenClock {
    /// Returns the clock, or notes what is wrong with it. `frame` is the layout of the frames that
    /// have its readings, if a layout is declared.
    pub(super) fn checked(&self, source: &Section<'_>, frame: Option<&FrameLayout>) -> Option<DetectorClock> {
        if let Some(frame) = frame {
            let Some(field) = &frame.clock else {
                let reason = "the frame has no clock, so that its fragments have no timestamps";
                source.refuse(
                    "clock",
                    reason,
                    "add clock = { at = 8, bytes = 8 } to the frame, or remove `clock` from the source",
                );
                return None;
            };
            if let Some(bits) = self.bits.filter(|bits| *bits != field.width()) {
                let reason = format!("the clock in the frame has {} bits, and not {bits}", field.width());
                let remedy = format!("write bits = {}, or correct the frame", field.width());
                source.refuse("clock.bits", reason, remedy);
                return None;
            }
        }
        let wrap = match (self.bits, self.wrap) {
            (Some(bits), None) => ClockWrap::Bits(bits),
            (None, Some(ticks)) => ClockWrap::Ticks(ticks),
            (Some(_), Some(_)) => {
                let reason = "a clock has `bits` or `wrap`, not both".to_owned();
                source.refuse("clock.wrap", reason, "remove one of them");
                return None;
            }
            (None, None) if source.is_wrong("clock.bits") || source.is_wrong("clock.wrap") => return None,
            (None, None) => {
                let reason = "nothing says after how many ticks the clock starts again at zero".to_owned();
                source.refuse("clock", reason, "add bits = 48, or as many as the timestamps have");
                return None;
            }
        };
        let mut clock = DetectorClock::new(self.rate, wrap);
        clock.tolerance = self.tolerance.unwrap_or(clock.tolerance);
        clock.accuracy = self.accuracy.unwrap_or(clock.accuracy);
        if let Err(error) = clock.check() {
            let remedy = match error {
                ClockError::Rate => "give a `rate` in this range, for example rate = \"125 MHz\"",
                ClockError::Wrap => "give `bits` or `wrap` in this range, for example bits = 48",
                ClockError::Tolerance => "give a `tolerance` in this range, for example tolerance = \"1 us\"",
                ClockError::Accuracy => {
                    "give an `accuracy` in this range, for example accuracy = \"100 ppm\""
                }
            };
            source.refuse("clock", error.to_string(), remedy);
            return None;
        }
        Some(clock)
    }
}
