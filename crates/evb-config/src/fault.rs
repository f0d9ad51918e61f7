//! `fault` of a generator: a fault of a board that a source imitates.

use std::fmt;

use evb_core::id::EventId;
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use super::{
    forms::{KEY, Whole, wrong},
    section::Section,
};

/// A fault that a generator makes on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlantedFault {
    /// Number of triggers that the board missed; negative: of those that it had twice. From
    /// [`Self::at`] on, the fragment of event *n* is that of event *n* + `slip`.
    pub slip: i8,
    /// First event with a wrong fragment.
    pub at: EventId,
}

/// The fault as the configuration gives it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "table")]
pub(super) struct GivenFault {
    /// The number of triggers that the board misses, 1 to 16, or as a negative number, the number
    /// of those that it has twice. The source delivers the content and the timestamp of event *n* +
    /// `slip` as those of event *n*. Builders do not check the content of such a source, because
    /// they could not check that of a board either.
    #[serde(with = "Slip")]
    slip: i8,
    /// The first event with a wrong fragment.
    #[serde(with = "Whole::<1, { u64::MAX }>")]
    at: EventId,
}

impl GivenFault {
    /// Returns the fault, and notes what is wrong with it.
    pub(super) fn checked(&self, source: &Section<'_>) -> PlantedFault {
        let Self { slip, at } = *self;
        if at.number().checked_add_signed(slip.into()).is_none_or(|event| event == 0) {
            let other = i128::from(at.number()) + i128::from(slip);
            let reason = format!(
                "with slip = {slip}, the fragment of event {at} would be that of event {other}, which does not exist"
            );
            let first = 1 + u64::from(slip.unsigned_abs());
            source.refuse("input.fault.at", reason, format!("write at = {first}, or a later event"));
        }
        if !source.has("clock") {
            let reason = "without a `clock` of this source, nothing shows the fault";
            source.refuse(
                "input.fault",
                reason,
                "add clock = { rate = \"125 MHz\", bits = 48 } to the source",
            );
        }
        PlantedFault { slip, at }
    }
}

/// The largest slip that the alignment guard names.
const MOST: i64 = 16;

/// A number of events that is not zero, in both directions.
pub(super) struct Slip;

impl Slip {
    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i8, D::Error> {
        deserializer.deserialize_u64(Self)
    }

    fn remedy() -> String {
        format!("give a whole number from -{MOST} to {MOST}, but not 0, without quotes")
    }
}

impl Visitor<'_> for Slip {
    type Value = i8;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wrong("a whole number", Self::remedy()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<i8, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<i8, E> {
        if number == 0 || !(-MOST..=MOST).contains(&number) {
            let reason = format!("this is not a possible value of `{KEY}`");
            return Err(E::custom(wrong(reason, Self::remedy())));
        }
        Ok(number as i8)
    }

    /// Returns a stand-in for a value that is wrong or missing.
    fn visit_unit<E: de::Error>(self) -> Result<i8, E> {
        Ok(1)
    }
}
