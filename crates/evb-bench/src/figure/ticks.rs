//! The ends, ticks and labels of an axis, computed from data.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

use super::chart::{Axis, Scale};

/// An axis ready to be drawn, with positions ([`Scale::place`]) instead of values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ticks {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Positions of the ticks that have a label.
    pub(super) labelled: Vec<f64>,
    /// Positions of the ticks without a label, between the labelled ones.
    pub(super) minor: Vec<f64>,
    scale: Scale,
    /// Number of digits after the decimal point in the labels of linear axes.
    digits: usize,
}

/// Approximate number of labels on a linear axis.
const LABELS: f64 = 5.0;

impl Ticks {
    /// Computes the ticks of an axis for these values; `None` if the axis can show none of the
    /// values and has no configured range.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Option<Self> {
        let places = |(low, high)| Some((axis.scale.place(low)?, axis.scale.place(high)?));
        let given = axis.range.and_then(places);
        let found = values.filter_map(|value| axis.scale.place(value)).fold(None, |ends, place| match ends {
            None => Some((place, place)),
            Some((low, high)) => Some((f64::min(low, place), f64::max(high, place))),
        });
        // The configured range of the axis is extended to the data, so that no data are cut off.
        let fits = |(low, high): (f64, f64)| found.is_none_or(|(least, most)| least >= low && most <= high);
        let fixed = given.is_some_and(fits);
        let (low, high) = match (given, found) {
            (Some((low, high)), Some((least, most))) => (low.min(least), high.max(most)),
            (given, found) => given.or(found)?,
        };
        Some(match axis.scale {
            Scale::Linear => Self::linear(low, high, fixed),
            Scale::Log => Self::log(low, high, fixed),
        })
    }

    fn linear(low: f64, high: f64, fixed: bool) -> Self {
        let (low, high) = if high > low {
            (low, high)
        } else {
            (low - low.abs().max(1.0) / 2.0, high + low.abs().max(1.0) / 2.0)
        };
        let step = nice_step((high - low) / LABELS);
        let (low, high) =
            if fixed { (low, high) } else { ((low / step).floor() * step, (high / step).ceil() * step) };
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        let labelled = (first..=last).map(|index| index as f64 * step).collect();
        let digits = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        Self { low, high, labelled, minor: Vec::new(), scale: Scale::Linear, digits }
    }

    fn log(low: f64, high: f64, fixed: bool) -> Self {
        let (low, high) = match fixed {
            true => (low, high.max(low + 1e-6)),
            false => (low.floor(), if high > low { high.ceil() } else { low.floor() + 1.0 }),
        };
        let inside = |place: &f64| *place >= low - 1e-9 && *place <= high + 1e-9;
        let decades: Vec<f64> =
            (low.floor() as i64..=high.ceil() as i64).map(|decade| decade as f64).collect();
        let within = |digits: &[u32]| -> Vec<f64> {
            let places = |decade: &f64| {
                digits.iter().map(|digit| decade + f64::from(*digit).log10()).collect::<Vec<_>>()
            };
            decades.iter().flat_map(places).filter(inside).collect()
        };
        // An axis of less than two decades has labels at 1, 2 and 5 times powers of ten; an axis of
        // many decades has labels only at some powers of ten.
        let labelled = match high - low {
            span if span <= 2.0 => within(&[1, 2, 5]),
            span if span <= 9.0 => within(&[1]),
            span => within(&[1])
                .into_iter()
                .filter(|place| place.round() as i64 % (span / 6.0).ceil() as i64 == 0)
                .collect(),
        };
        Self { low, high, labelled, minor: within(&[2, 3, 4, 5, 6, 7, 8, 9]), scale: Scale::Log, digits: 0 }
    }

    /// Returns the label of the tick at this position.
    pub(super) fn text(&self, place: f64) -> String {
        match self.scale {
            // Adding zero turns -0.0 into 0.0, so that no label reads "-0".
            Scale::Linear => grouped(&format!("{:.*}", self.digits, place + 0.0)),
            Scale::Log if (-3.01..5.99).contains(&place) => {
                let value = 10f64.powf(place);
                let digits = (-place.floor()).max(0.0) as usize;
                grouped(&format!("{value:.digits$}"))
            }
            Scale::Log if (place - place.round()).abs() < 1e-6 => {
                format!("10{}", superscript(place.round() as i64))
            }
            Scale::Log => {
                let decade = place.floor();
                format!("{:.0}·10{}", 10f64.powf(place - decade), superscript(decade as i64))
            }
        }
    }
}

/// The interface that the drawing library requires of an axis.
impl Ranged for Ticks {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        let part = (place - self.low) / (self.high - self.low);
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { self.minor.clone() } else { self.labelled.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

/// Returns the smallest number of the form 1, 2 or 5 times a power of ten that is at least `least`,
/// up to rounding errors.
fn nice_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    decade * steps.into_iter().find(|step| step * decade >= least * 0.999).unwrap_or(10.0)
}

/// Separates groups of three digits by thin spaces in numbers of five digits and more (ISO
/// 80000-1).
fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("\u{2212}", digits));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if digits.len() > 4 && index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text += fraction;
    }
    text
}

fn superscript(number: i64) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let of = |c: char| c.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize]);
    number.to_string().chars().map(of).collect()
}

#[cfg(test)]
mod tests;
