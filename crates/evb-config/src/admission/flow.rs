//! Data rates in line bytes, and their parts of links.

use evb_core::units::{Bytes, Rate};
use evb_shaper::cost::PacketCost;

/// Converts lane bytes to line bytes for full packets. Small fragments share packets, so that the
/// result is the smallest possible number of line bytes.
pub(super) fn on_line(bytes: Bytes, cost: &PacketCost) -> Bytes {
    Bytes::new((bytes.count() as f64 * cost.line_factor()).ceil() as u64)
}

pub(super) fn flow(events_per_second: Option<f64>, bytes: Option<Bytes>) -> Option<Rate> {
    let bits = events_per_second? * bytes?.count() as f64 * 8.0;
    Some(Rate::from_bits_per_second(bits.round() as u64))
}

pub(super) fn utilisation(load: Option<Rate>, link: Option<Rate>) -> Option<f64> {
    Some(load?.bits_per_second() as f64 / link?.bits_per_second() as f64)
}
