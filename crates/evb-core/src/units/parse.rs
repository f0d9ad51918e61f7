//! Parsing of quantities with units.

use core::{str::FromStr, time::Duration};

use super::{Bytes, Frequency, Rate};

/// Reason for which a text is not a quantity, with the text and a correct example.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The number has no unit.
    #[error("`{given}` has no unit; write for example {example}")]
    Bare {
        /// Text that was given.
        given: String,
        /// Example of a correct text.
        example: &'static str,
    },
    /// The unit is not one of the units of the expected quantity.
    #[error("`{unit}` is not a unit of {quantity}; write one of: {units}")]
    UnknownUnit {
        /// Unit in the text.
        unit: String,
        /// Name of the expected quantity.
        quantity: &'static str,
        /// Units of the expected quantity.
        units: String,
    },
    /// The number is missing, negative, not finite, too large, or a fraction of a byte.
    #[error("`{given}` is not a {quantity}{}; write for example {example}", or_out_of_range(given, quantity))]
    NotANumber {
        /// Text that was given.
        given: String,
        /// Name of the expected quantity.
        quantity: &'static str,
        /// Example of a correct text.
        example: &'static str,
    },
}

/// Returns the range of a quantity, for a text that has a number.
fn or_out_of_range(given: &str, quantity: &str) -> &'static str {
    if !given.contains(|c: char| c.is_ascii_digit()) {
        return "";
    }
    match quantity {
        "size" => " from 0 to 18000000 TB in whole bytes",
        "data rate" => " from 1 bit/s to 18000000 Tbit/s",
        "frequency" => " above 0 Hz and up to 18000000000 GHz",
        _ => " from 0 to 208000 d",
    }
}

struct Quantity {
    name: &'static str,
    example: &'static str,
    units: &'static [(&'static str, f64)],
}

const BYTES: Quantity = Quantity {
    name: "size",
    example: "\"128 KiB\"",
    units: &[
        ("B", 1.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
    ],
};

const RATE: Quantity = Quantity {
    name: "data rate",
    example: "\"1 Gbit/s\"",
    units: &[
        ("bit/s", 1.0),
        ("kbit/s", 1e3),
        ("Mbit/s", 1e6),
        ("Gbit/s", 1e9),
        ("Tbit/s", 1e12),
        ("B/s", 8.0),
        ("kB/s", 8e3),
        ("MB/s", 8e6),
        ("GB/s", 8e9),
        ("KiB/s", 8192.0),
        ("MiB/s", 8_388_608.0),
        ("GiB/s", 8_589_934_592.0),
    ],
};

const FREQUENCY: Quantity = Quantity {
    name: "frequency",
    example: "\"2 kHz\"",
    units: &[("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9), ("mHz", 1e-3)],
};

const DURATION: Quantity = Quantity {
    name: "time",
    example: "\"2 s\"",
    units: &[
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("min", 60e9),
        ("h", 3600e9),
        ("d", 86_400e9),
    ],
};

impl Quantity {
    /// Reads a number with its unit, and returns the value in the base unit of the quantity.
    fn read(&self, text: &str) -> Result<f64, UnitError> {
        let text = text.trim();
        let split = text
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '+' | '-')))
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let number: f64 = number.replace('_', "").parse().map_err(|_| self.not_a_number(text))?;
        let unit = unit.trim();
        if unit.is_empty() {
            return Err(UnitError::Bare { given: text.to_owned(), example: self.example });
        }
        let Some((_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(UnitError::UnknownUnit {
                unit: unit.to_owned(),
                quantity: self.name,
                units: self.units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
            });
        };
        let value = number * factor;
        if value.is_finite() && (0.0..1.8e19).contains(&value) {
            Ok(value)
        } else {
            Err(self.not_a_number(text))
        }
    }

    fn not_a_number(&self, text: &str) -> UnitError {
        UnitError::NotANumber { given: text.to_owned(), quantity: self.name, example: self.example }
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = BYTES.read(text)?;
        // A fraction of a byte is an error, unless it comes from a fraction of a larger unit, such
        // as 0.3 KiB.
        let number = text.trim_end().strip_suffix('B').map(str::trim_end);
        let is_in_bytes = number.is_some_and(|number| number.ends_with(|c: char| !c.is_alphabetic()));
        if bytes.fract() != 0.0 && (is_in_bytes || bytes < 1.0) {
            return Err(BYTES.not_a_number(text));
        }
        Ok(Self(bytes.round() as u64))
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bits = RATE.read(text)?;
        if bits < 1.0 {
            return Err(RATE.not_a_number(text));
        }
        Ok(Self(bits.round() as u64))
    }
}

impl FromStr for Frequency {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let hertz = FREQUENCY.read(text)?;
        Self::from_hertz(hertz).ok_or_else(|| FREQUENCY.not_a_number(text))
    }
}

/// Reads a duration such as `"2 s"` or `"50 ms"`.
///
/// ```
/// use evb_core::units::parse_duration;
///
/// assert_eq!(parse_duration("50 ms").map(|time| time.as_micros()), Ok(50_000));
/// assert!(parse_duration("50").is_err(), "a number without a unit is refused");
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    DURATION.read(text).map(|nanos| Duration::from_nanos(nanos.round() as u64))
}
