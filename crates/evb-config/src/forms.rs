//! The forms that values of the file have, beside plain text, `true` and `false`. A field of a
//! struct that serde reads names its form: `#[serde(with = "As::<Quantity<Bytes>>")]`.

use std::{fmt, marker::PhantomData, net::IpAddr, path::PathBuf, time::Duration};

use evb_core::{
    id::{EventId, RunNumber, SourceId},
    quantities::split_remedy,
    units::{Bytes, Frequency, Rate, UnitError, parse_duration},
};
use serde::{
    Deserializer,
    de::{self, Unexpected, Visitor},
};

use super::{
    endpoint::{self, Endpoint},
    similar::{choice, nearest, suggestion},
};

/// Stands for the name of the key in the messages of forms.
pub(super) const KEY: &str = "\u{1a}";
/// Separates the reason from the remedy in the messages of forms.
pub(super) const BREAK: char = '\u{1f}';

/// Joins a reason and a remedy.
pub(super) fn wrong(reason: impl fmt::Display, remedy: impl fmt::Display) -> String {
    format!("{reason}{BREAK}{remedy}")
}

/// A form of text.
pub(super) trait Form {
    /// The meaning of the text.
    type Value;
    /// A text of this form.
    const EXAMPLE: &'static str;
    /// True if the text is a number with a unit.
    const HAS_UNIT: bool = false;

    /// Reads a text of this form. An error has a reason and a remedy ([`wrong`]).
    fn parse(text: &str) -> Result<Self::Value, String>;

    /// Returns what to write if the value is no text.
    fn hint() -> String {
        format!("for example {KEY} = \"{}\"", Self::EXAMPLE)
    }
}

/// Reads values of a form for serde.
pub(super) struct As<F>(PhantomData<F>);

impl<F: Form> As<F> {
    pub(super) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: From<F::Value>,
    {
        deserializer.deserialize_str(Self(PhantomData)).map(T::from)
    }
}

impl<F: Form> Visitor<'_> for As<F> {
    type Value = F::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wrong("text", format_args!("write {}", F::hint())))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<F::Value, E> {
        F::parse(text).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<F::Value, E> {
        if !F::HAS_UNIT {
            return Err(E::invalid_type(Unexpected::Float(number), &self));
        }
        let reason = format!("`{KEY}` is a bare number: it needs a unit");
        Err(E::custom(wrong(reason, format_args!("write {}", F::hint()))))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<F::Value, E> {
        self.visit_f64(number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<F::Value, E> {
        self.visit_f64(number as f64)
    }

    /// Returns a stand-in for a value that is wrong or missing.
    fn visit_unit<E: de::Error>(self) -> Result<F::Value, E> {
        F::parse(F::EXAMPLE).map_err(E::custom)
    }
}

/// A quantity whose text has a unit.
pub(super) trait Unit: Default + PartialEq {
    const EXAMPLE: &'static str;
    const NAME: &'static str;

    fn parse(text: &str) -> Result<Self, UnitError>;
}

impl Unit for Bytes {
    const EXAMPLE: &'static str = "64 KiB";
    const NAME: &'static str = "size";

    fn parse(text: &str) -> Result<Self, UnitError> {
        text.parse()
    }
}

impl Unit for Duration {
    const EXAMPLE: &'static str = "2 s";
    const NAME: &'static str = "time";

    fn parse(text: &str) -> Result<Self, UnitError> {
        parse_duration(text)
    }
}

/// A number with a unit.
pub(super) struct Quantity<T>(PhantomData<T>);

impl<T: Unit> Form for Quantity<T> {
    type Value = T;
    const EXAMPLE: &'static str = T::EXAMPLE;
    const HAS_UNIT: bool = true;

    fn parse(text: &str) -> Result<T, String> {
        T::parse(text).map_err(|error| explain(&error))
    }
}

/// A number above zero with a unit.
pub(super) struct Positive<T>(PhantomData<T>);

impl<T: Unit> Form for Positive<T> {
    type Value = T;
    const EXAMPLE: &'static str = T::EXAMPLE;
    const HAS_UNIT: bool = true;

    /// Parses a quantity that is not zero.
    fn parse(text: &str) -> Result<T, String> {
        let quantity = Quantity::parse(text)?;
        if quantity == T::default() {
            let remedy = format!("give a {} above zero", T::NAME);
            return Err(wrong(format_args!("`{KEY}` is zero"), remedy));
        }
        Ok(quantity)
    }
}

/// A data rate.
pub(super) struct DataRate;

impl Form for DataRate {
    type Value = Rate;
    const EXAMPLE: &'static str = "1 Gbit/s";
    const HAS_UNIT: bool = true;

    fn parse(text: &str) -> Result<Rate, String> {
        text.parse().map_err(|error| explain(&error))
    }
}

/// A number of events per second.
pub(super) struct EventRate;

impl Form for EventRate {
    type Value = Frequency;
    const EXAMPLE: &'static str = "2 kHz";
    const HAS_UNIT: bool = true;

    /// Parses a frequency of at most 1 GHz.
    fn parse(text: &str) -> Result<Frequency, String> {
        let rate: Frequency = text.parse().map_err(|error| explain(&error))?;
        if rate.hertz() > 1e9 {
            let reason = format!("{rate} is more than the highest rate, 1 GHz");
            return Err(wrong(reason, "give a rate of at most 1 GHz"));
        }
        Ok(rate)
    }
}

/// Returns the reason and the remedy that the message of a unit error contains.
fn explain(error: &UnitError) -> String {
    let text = error.to_string();
    let (reason, remedy) = split_remedy(&text);
    let remedy = remedy.unwrap_or("give a number and a unit");
    let meant = match error {
        UnitError::UnknownUnit { unit, units, .. } => meant_unit(unit, units),
        _ => None,
    };
    wrong(reason, suggestion(meant, remedy))
}

/// Returns the unit that was probably meant. In `Gb/s`, a small b stands for bits, although `GB/s`
/// is more similar.
fn meant_unit<'a>(unit: &str, units: &'a str) -> Option<&'a str> {
    let bits = unit.replace("b/s", "bit/s").replace("bps", "bit/s");
    let in_bits = units.split(", ").find(|known| *known == bits);
    in_bits.or_else(|| nearest(unit, units.split(", ")))
}

/// An address at which a role listens.
pub(super) struct Address;

impl Form for Address {
    type Value = Endpoint;
    const EXAMPLE: &'static str = "127.0.0.1:7000";

    fn parse(text: &str) -> Result<Endpoint, String> {
        let remedy = "write \"host:port\", as \"127.0.0.1:7000\", \"daq1:7000\" or \"[::1]:7000\"";
        text.parse().map_err(|error| wrong(format_args!("`{text}` is not an address: {error}"), remedy))
    }
}

/// A host name or address, without a port.
pub(super) struct Host;

impl Form for Host {
    type Value = String;
    const EXAMPLE: &'static str = "127.0.0.1";

    /// Parses a name or an address, which may stand in brackets.
    fn parse(text: &str) -> Result<String, String> {
        let bare = text.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(text);
        if !endpoint::is_host(bare) {
            let reason = format!("`{text}` is neither a host name nor an address");
            return Err(wrong(reason, "write a name or an IPv4 or IPv6 address, without a port"));
        }
        Ok(bare.to_owned())
    }
}

/// An IP address of the host on which the role runs. Names are refused, because a name may have
/// several addresses, and may resolve to different addresses on different hosts.
pub(super) struct LocalAddress;

impl Form for LocalAddress {
    type Value = String;
    const EXAMPLE: &'static str = Host::EXAMPLE;

    /// Parses an address; names are refused.
    fn parse(text: &str) -> Result<String, String> {
        let host = Host::parse(text)?;
        if host.parse::<IpAddr>().is_err() {
            let reason = format!("`{host}` is not an IP address");
            return Err(wrong(reason, "write the IPv4 or IPv6 address to send from, without a port"));
        }
        Ok(host)
    }
}

/// The path of a file or a directory.
pub(super) struct FilePath;

impl Form for FilePath {
    type Value = PathBuf;
    const EXAMPLE: &'static str = "out";

    fn parse(text: &str) -> Result<PathBuf, String> {
        if text.is_empty() || text.contains('\0') {
            let remedy = "write a path; a relative one starts at the current directory";
            return Err(wrong(format_args!("`{KEY}` is empty, or has a NUL character"), remedy));
        }
        Ok(text.into())
    }

    fn hint() -> String {
        format!("{KEY} = \"PATH\"")
    }
}

/// A type with a word for each of its values.
pub(super) trait Words: Copy + 'static {
    /// Returns all words with their values.
    fn words() -> Vec<(&'static str, Self)>;
}

/// One of the words of a type.
pub(super) struct Word<T>(PhantomData<T>);

impl<T: Words> Form for Word<T> {
    type Value = T;
    // Where a word is required, the field is an enum that serde derives.
    const EXAMPLE: &'static str = "";

    fn parse(text: &str) -> Result<T, String> {
        let found = T::words().into_iter().find(|(word, _)| *word == text);
        let (_, value) = found.ok_or_else(|| unknown_word(text, &words::<T>()))?;
        Ok(value)
    }

    fn hint() -> String {
        one_of(&words::<T>())
    }
}

/// Returns the words of a type.
pub(super) fn words<T: Words>() -> Vec<&'static str> {
    T::words().into_iter().map(|(word, _)| word).collect()
}

/// Returns what to write where one of several words belongs.
pub(super) fn one_of(words: &[&str]) -> String {
    format!("one of {}", words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", "))
}

/// Returns reason and remedy for a text that is none of several words.
pub(super) fn unknown_word(text: &str, words: &[&str]) -> String {
    let all = one_of(words);
    let remedy = choice(nearest(text, words.iter().copied()), &all);
    wrong(format_args!("`{KEY}` cannot be `{text}`"), remedy)
}

/// A whole number in a range.
pub(super) struct Whole<const LEAST: u64, const MOST: u64>;

impl<const LEAST: u64, const MOST: u64> Whole<LEAST, MOST> {
    pub(super) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: Number,
    {
        deserializer.deserialize_u64(Self).map(T::of)
    }

    fn remedy() -> String {
        format!("give a whole number from {LEAST} to {MOST}, without quotes")
    }
}

impl<const LEAST: u64, const MOST: u64> Visitor<'_> for Whole<LEAST, MOST> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wrong("a whole number", Self::remedy()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        if (LEAST..=MOST).contains(&number) { Ok(number) } else { self.visit_i64(-1) }
    }

    /// Refuses a number that is negative or too large.
    fn visit_i64<E: de::Error>(self, _number: i64) -> Result<u64, E> {
        let reason = format!("this is not a possible value of `{KEY}`");
        Err(E::custom(wrong(reason, Self::remedy())))
    }

    /// Returns a stand-in for a value that is wrong or missing.
    fn visit_unit<E: de::Error>(self) -> Result<u64, E> {
        Ok(LEAST)
    }
}

/// A type of whole numbers into which the range of the key fits.
pub(super) trait Number {
    fn of(number: u64) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(impl Number for $type {
            fn of(number: u64) -> Self {
                number as Self
            }
        })*
    };
}

numbers!(u8 u16 u32 u64 usize);

impl Number for Bytes {
    fn of(number: u64) -> Self {
        Self::new(number)
    }
}

impl Number for RunNumber {
    fn of(number: u64) -> Self {
        Self::new(u32::of(number))
    }
}

impl Number for SourceId {
    fn of(number: u64) -> Self {
        Self::new(u16::of(number))
    }
}

impl Number for EventId {
    fn of(number: u64) -> Self {
        Self::new(number)
    }
}

impl<T: Number> Number for Option<T> {
    fn of(number: u64) -> Self {
        Some(T::of(number))
    }
}

// Defaults that several keys have.

pub(super) fn one<T: Number>() -> T {
    T::of(1)
}

pub(super) fn yes() -> bool {
    true
}

pub(super) fn seconds<const COUNT: u64>() -> Duration {
    Duration::from_secs(COUNT)
}
