//! Colours and shapes of marks, by which the series of a chart differ.

use plotters::{
    coord::Shift,
    prelude::{
        Circle, Color as _, DrawingArea, DrawingBackend, PathElement, Polygon, RGBColor, Rectangle,
        ShapeStyle,
    },
};

use super::{FigureError, chart::Stroke, drawing, lettering::Lettering};

/// Colours of series, from the palette of Okabe and Ito, "Color Universal Design" (2008), without
/// its yellow, which is too faint on white. People with any common colour blindness can tell these
/// colours apart. Grey comes last, for the ninth series and beyond.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(120, 120, 120),
];

/// Colour of reference curves, such as theory and limits.
pub(super) const REFERENCE: RGBColor = RGBColor(110, 110, 110);

/// Returns the colour of the series with this index.
pub(super) fn colour(index: usize) -> RGBColor {
    COLOURS[index.min(COLOURS.len() - 1)]
}

/// Draws a mark with the colour and shape of the series `index`; sizes are in pixels.
pub(super) fn mark<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    index: usize,
    (x, y): (i32, i32),
) -> Result<(), FigureError> {
    let (filled, hollow) = (colour(index).filled(), colour(index).stroke_width(2));
    match index % 5 {
        0 => area.draw(&Circle::new((x, y), 4, filled)),
        1 => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], filled)),
        2 => area.draw(&Polygon::new(vec![(x, y - 5), (x + 5, y + 4), (x - 5, y + 4)], filled)),
        3 => area.draw(&Circle::new((x, y), 4, hollow)),
        _ => area.draw(&Polygon::new(vec![(x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y)], filled)),
    }
    .map_err(drawing)
}

/// Draws the error bar of a point between two pixels above each other, with a short line across
/// each end.
pub(super) fn error_bar<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    index: usize,
    low: (i32, i32),
    high: (i32, i32),
) -> Result<(), FigureError> {
    let across = |(x, y): (i32, i32)| vec![(x - 4, y), (x + 4, y)];
    for line in [vec![low, high], across(low), across(high)] {
        area.draw(&PathElement::new(line, colour(index).stroke_width(1))).map_err(drawing)?;
    }
    Ok(())
}

/// Draws a dashed line through points given in pixels.
pub(super) fn dashed<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    points: &[(i32, i32)],
    style: ShapeStyle,
) -> Result<(), FigureError> {
    const PERIOD: f64 = 10.0;
    const DASH: f64 = 6.0;
    // Length of the current dash-and-gap period that is drawn already.
    let mut phase = 0.0;
    for pair in points.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let length = dx.hypot(dy);
        let at = |way: f64| {
            let part = if length > 0.0 { way / length } else { 0.0 };
            (from.0 + (dx * part).round() as i32, from.1 + (dy * part).round() as i32)
        };
        let mut way = 0.0;
        while way < length {
            let (end, draw) =
                if phase < DASH { (way + DASH - phase, true) } else { (way + PERIOD - phase, false) };
            let end = end.min(length);
            if draw {
                area.draw(&PathElement::new(vec![at(way), at(end)], style)).map_err(drawing)?;
            }
            phase = (phase + end - way) % PERIOD;
            // Each step advances by at least 1e-6 pixels, so that a rounding error cannot make the
            // loop endless.
            way = end.max(way + 1e-6);
        }
    }
    Ok(())
}

/// The symbol of a series in a legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Stroke(Stroke),
    Filled,
    Solid,
}

const KEY: i32 = 24;
const BETWEEN: i32 = 18;
const LINE: i32 = 20;

/// Places the legend's entries in lines of at most `width` pixels; returns the left edge and the
/// line of each entry, and the height of the legend.
pub(super) fn legend_places(names: &[String], width: i32) -> (Vec<(i32, i32)>, i32) {
    let (mut x, mut line) = (0, 0);
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        let needed = KEY + 6 + Lettering::LEGEND.width(name);
        if x > 0 && x + needed > width {
            (x, line) = (0, line + 1);
        }
        places.push((x, line));
        x += needed + BETWEEN;
    }
    (places, (line + 1) * LINE)
}

/// Draws a legend with its top left corner at `at`.
pub(super) fn legend<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    entries: &[(Key, usize, String)],
    at: (i32, i32),
    width: i32,
) -> Result<(), FigureError> {
    let names: Vec<String> = entries.iter().map(|(_, _, name)| name.clone()).collect();
    let (places, _) = legend_places(&names, width);
    for ((key, index, name), (x, line)) in entries.iter().zip(places) {
        let (left, top) = (at.0 + x, at.1 + line * LINE);
        let (middle, right) = (top + LINE / 2 - 2, left + KEY);
        let ends = [(left, middle), (right, middle)];
        match key {
            Key::Filled => {
                let corners = [(left + 6, middle - 6), (right - 4, middle + 6)];
                area.draw(&Rectangle::new(corners, colour(*index).mix(0.35).filled())).map_err(drawing)?;
                area.draw(&Rectangle::new(corners, colour(*index).stroke_width(2))).map_err(drawing)?;
            }
            Key::Solid => {
                let corners = [(left + 6, middle - 6), (right - 4, middle + 6)];
                area.draw(&Rectangle::new(corners, colour(*index).filled())).map_err(drawing)?;
            }
            Key::Stroke(Stroke::Dashed) => dashed(area, &ends, REFERENCE.stroke_width(2))?,
            Key::Stroke(stroke) => {
                if *stroke != Stroke::Points {
                    let path = PathElement::new(ends.to_vec(), colour(*index).stroke_width(2));
                    area.draw(&path).map_err(drawing)?;
                }
                if *stroke != Stroke::Line {
                    mark(area, *index, ((left + right) / 2, middle))?;
                }
            }
        }
        Lettering::LEGEND.write(area, name, (right + 6, top))?;
    }
    Ok(())
}
