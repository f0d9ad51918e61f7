//! `counter` of a source: the trigger counter that its boards send in place of event ids.

use std::fmt;

use evb_core::{
    alignment::{CounterError, CounterStart, TriggerCounter},
    framing::FrameField,
};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use super::{
    forms::{KEY, Whole, one, wrong},
    input::Input,
    section::Section,
};

/// The counter as the configuration gives it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "table")]
pub(super) struct GivenCounter {
    /// The number of bits of the counter.
    #[serde(with = "Whole::<8, 64>")]
    bits: u8,
    /// The value of the counter for event 1; `"any"` for boards that are not reset before each run:
    /// the first fragment of a run is event 1.
    ///
    /// Default: 1
    #[serde(default)]
    first: FirstValue,
    /// The number by which the counter grows from one trigger to the next.
    ///
    /// Default: 1
    #[serde(default = "one", with = "Whole::<1, { u64::MAX >> 9 }>")]
    step: u64,
}

/// The value of the counter for event 1.
pub(super) struct FirstValue(CounterStart);

impl Default for FirstValue {
    fn default() -> Self {
        Self(TriggerCounter::new(64).first)
    }
}

/// The word for a counter that starts with any value.
pub(super) const ANY: &str = "any";

impl<'de> Deserialize<'de> for FirstValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FirstValueVisitor).map(Self)
    }
}

const REMEDY: &str = "write a number without quotes, such as first = 0, or first = \"any\"";

struct FirstValueVisitor;

impl Visitor<'_> for FirstValueVisitor {
    type Value = CounterStart;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wrong("a whole number", REMEDY))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<CounterStart, E> {
        Ok(CounterStart::At(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<CounterStart, E> {
        let reason = format!("this is not a possible value of `{KEY}`");
        u64::try_from(number).map(CounterStart::At).map_err(|_| E::custom(wrong(reason, REMEDY)))
    }

    /// Reads a word, or the number that a text with `{id}` has become.
    fn visit_str<E: de::Error>(self, word: &str) -> Result<CounterStart, E> {
        if word == ANY {
            return Ok(CounterStart::Any);
        }
        let reason = || format!("`{word}` is neither a number nor \"any\"");
        word.parse().map(CounterStart::At).map_err(|_| E::custom(wrong(reason(), REMEDY)))
    }
}

/// Returns the counter of a source, after checks: that of its frames has as many bits. Frames
/// without a counter count in the order in which they arrive, from event 1.
pub(super) fn checked(
    given: Option<&GivenCounter>,
    source: &Section<'_>,
    input: &Input,
) -> Option<TriggerCounter> {
    let described = given.and_then(|given| given.checked(source, input));
    let Some(frame) = input.frame() else { return described };
    let bits = frame.counter.as_ref().map(FrameField::width);
    match (bits, given) {
        (Some(bits @ ..8), _) => {
            let reason = format!("{bits} bits are too few for a trigger counter");
            source.refuse(
                "input.frame.counter",
                reason,
                "give a field of 8 to 64 bits, or remove it and `counter` from the source",
            );
            None
        }
        (Some(bits), Some(given)) if given.bits != bits => {
            let reason =
                format!("the counter in the frame has {bits} bits, and `bits` of the source differs");
            source.refuse("counter.bits", reason, format!("write bits = {bits}, or correct the frame"));
            None
        }
        (None, Some(_)) => {
            let reason =
                "the frame has no counter, so there is none that `counter` of the source could describe";
            let remedy =
                "add counter = { at = 4, bytes = 4 } to the frame, or remove `counter` from the source";
            source.refuse("counter", reason, remedy);
            None
        }
        (Some(bits @ 8..64), None) if !source.has("counter") => {
            let reason = format!("nothing tells how the {bits} bits of the frame's counter count events");
            let remedy = format!(
                "add counter = {{ bits = {bits}, first = 0 }} to the source, where `first` is the counter's value at the first trigger"
            );
            source.refuse("input.frame.counter", reason, remedy);
            None
        }
        (None, None) => Some(TriggerCounter { first: CounterStart::Any, ..TriggerCounter::new(64) }),
        _ => described,
    }
}

impl GivenCounter {
    /// Returns the counter, or notes what is wrong with it.
    fn checked(&self, source: &Section<'_>, input: &Input) -> Option<TriggerCounter> {
        let made = match input {
            Input::Tcp { .. } | Input::Unix { .. } | Input::Board { .. } | Input::Capture { .. } => None,
            Input::Generator { .. } => Some("a generator makes"),
            Input::Replay { .. } => Some("a replay gives"),
        };
        if let Some(made) = made {
            let reason =
                format!("{made} the fragments of the events that evb names, so there is no counter to read");
            source.refuse("counter", reason, "remove `counter`, which is for front ends");
            return None;
        }
        let counter = TriggerCounter { bits: self.bits, first: self.first.0, step: self.step };
        let Err(error) = counter.check() else { return Some(counter) };
        let most = u64::MAX >> (64 - u32::from(self.bits.clamp(8, 64)));
        let (key, remedy) = match error {
            CounterError::Bits => ("counter.bits", "give bits = 8 to 64".to_owned()),
            CounterError::First => ("counter.first", format!("give first = 0 to {most}, or more bits")),
            CounterError::Step => (
                "counter.step",
                match most / 255 {
                    1 => "give step = 1, or more bits".to_owned(),
                    largest => format!("give step = 1 to {largest}, or more bits"),
                },
            ),
        };
        source.refuse(key, error.to_string(), remedy);
        None
    }
}
