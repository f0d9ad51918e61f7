//! Charts of a run as inline SVG.

use super::grouped;

/// Width of a drawing.
const WIDTH: f64 = 680.0;

/// Height of a chart.
const HEIGHT: f64 = 120.0;

/// Width of the labels of the vertical axis.
const LEFT: f64 = 56.0;

/// Height of the title.
const TOP: f64 = 20.0;

/// Height of the labels of the horizontal axis.
const BOTTOM: f64 = 20.0;

/// Returns a bar whose parts have the lengths of their counts; `whole` has the full length.
pub(super) fn bar(parts: &[(u64, &str)], whole: u64) -> String {
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} 14\" role=\"img\"><rect class=\"empty\" width=\"{WIDTH}\" height=\"14\"/>"
    );
    let mut x = 0.0;
    for (count, colour) in parts {
        let width = WIDTH * (*count as f64) / (whole.max(1) as f64);
        svg += &format!("<rect class=\"{colour}\" x=\"{x:.2}\" width=\"{width:.2}\" height=\"14\"/>");
        x += width;
    }
    svg + "</svg>\n"
}

/// Returns a chart of a quantity that is constant between two times: begin and end in seconds, and
/// the value.
pub(super) fn steps(title: &str, steps: &[(f64, f64, f64)], colour: &str) -> String {
    let top = round_up(steps.iter().map(|(_, _, value)| *value).fold(0.0, f64::max));
    let end = steps.last().map_or(1.0, |(_, to, _)| *to);
    let begin = steps.first().map_or(0.0, |(from, _, _)| *from);
    // Places in the chart, whose vertical axis points down.
    let x = |at: f64| LEFT + (WIDTH - LEFT - 8.0) * (at - begin) / (end - begin);
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top;
    let mut line = String::new();
    for (from, to, value) in steps {
        line += &format!("{:.1},{:.1} {:.1},{1:.1} ", x(*from), y(*value), x(*to));
    }
    let base = y(0.0);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><text x=\"0\" y=\"12\" class=\"t\">{title}</text>"
    );
    for part in [0.0, 0.5, 1.0] {
        let (value, y) = (label(top * part), y(top * part));
        svg +=
            &format!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>", x(end));
        svg += &format!("<text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{value}</text>", LEFT - 6.0, y + 4.0);
    }
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let at = begin + (end - begin) * part;
        // The first label begins at its mark, the last one ends there, and the others are centred.
        let anchor = ["start", "middle", "end"][usize::from(part > 0.0) + usize::from(part == 1.0)];
        svg += &format!(
            "<text text-anchor=\"{anchor}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x(at),
            HEIGHT - 4.0,
            duration(at, end)
        );
    }
    svg + &format!(
        "<polygon class=\"{colour} area\" points=\"{:.1},{base:.1} {line}{:.1},{base:.1}\"/><polyline class=\"{colour} line\" points=\"{line}\"/></svg>\n",
        x(begin),
        x(end)
    )
}

/// Returns the next number above that is 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|top| *top >= value).unwrap_or(value)
}

fn label(value: f64) -> String {
    if value >= 10.0 || value == value.trunc() {
        grouped(value.round() as u64)
    } else {
        format!("{value:.2}")
    }
}

/// Returns a time of the run in the unit that suits its whole length.
fn duration(at: f64, whole: f64) -> String {
    match whole {
        ..20.0 => format!("{at:.1} s"),
        20.0..180.0 => format!("{at:.0} s"),
        180.0..10_800.0 => format!("{:.1} min", at / 60.0),
        _ => format!("{:.1} h", at / 3600.0),
    }
}
