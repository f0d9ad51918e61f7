//! Counts and measured quantities in a form for people.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::units::{Bytes, Rate};

/// Advice for an operator when a peer has broken the protocol.
pub const SAME_RELEASE: &str =
    "install the same release of evb on all hosts; if it is the same already, report a fault of evb";

/// Returns a count with its noun: `1 source`, `3 sources`.
///
/// ```
/// use evb_core::quantities::counted;
///
/// assert_eq!(counted(1_u32, "source"), "1 source");
/// assert_eq!(counted(3_u64, "TCP retransmit"), "3 TCP retransmits");
/// ```
pub fn counted(count: impl TryInto<u64> + core::fmt::Display + Copy, noun: &str) -> String {
    let is_one = count.try_into().is_ok_and(|count| count == 1);
    format!("{count} {noun}{}", if is_one { "" } else { "s" })
}

/// Returns what a text for operators says, and its remedy, which stands behind the first semicolon
/// if the text has one.
///
/// ```
/// use evb_core::quantities::split_remedy;
///
/// let text = "the disk is full; make room";
/// assert_eq!(split_remedy(text), ("the disk is full", Some("make room")));
/// assert_eq!(split_remedy("the disk is full"), ("the disk is full", None));
/// ```
pub fn split_remedy(text: &str) -> (&str, Option<&str>) {
    text.split_once("; ").map_or((text, None), |(reason, remedy)| (reason, Some(remedy)))
}

/// Returns a number with three digits: `0.45`, `12.3`, `131`, `9876`.
///
/// ```
/// use evb_core::quantities::digits;
///
/// assert_eq!([0.447, 12.34, 131.07, 9876.6].map(digits), ["0.447", "12.3", "131", "9877"]);
/// ```
pub fn digits(value: f64) -> String {
    let places = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.places$}")
}

/// Returns a measured number of bytes with three digits, in decimal units: `320 MB`.
pub fn size(bytes: Bytes) -> String {
    scaled(bytes.count() as f64, "B")
}

/// Returns a measured rate with three digits: `437 Mbit/s`.
pub fn rate(rate: Rate) -> String {
    scaled(rate.bits_per_second() as f64, "bit/s")
}

/// Returns a measured time with three digits: `63 µs`, `1.60 ms`, `5.86 s`.
pub fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 0.9995 => format!("{} s", digits(seconds.max(1.0))),
        seconds if seconds >= 0.999_5e-3 => format!("{} ms", digits((seconds * 1e3).max(1.0))),
        seconds => format!("{:.0} µs", seconds * 1e6),
    }
}

/// Returns a value with three digits and the decimal prefix of its unit: `1.25 Gbit/s`.
fn scaled(value: f64, unit: &str) -> String {
    for (step, prefix) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        // From here on, three digits round up to the next prefix.
        if value >= 0.9995 * step {
            return format!("{} {prefix}{unit}", digits((value / step).max(1.0)));
        }
    }
    format!("{value:.0} {unit}")
}
