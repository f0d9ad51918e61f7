//! The drawing of one chart: title, legend, axes and content.

use plotters::{
    chart::{ChartBuilder, ChartContext},
    coord::{Shift, cartesian::Cartesian2d},
    prelude::{Color as _, DrawingArea, DrawingBackend, PathElement, Polygon, RGBColor, Rectangle},
};

use super::{
    FigureError,
    chart::{Bars, Bins, Chart, Content, Curve, Scale, Stroke},
    drawing,
    lettering::{INK, Lettering, plain},
    marks::{self, Key, colour},
    ticks::Ticks,
};

type Plane<'a, B> = ChartContext<'a, B, Cartesian2d<Ticks, Ticks>>;

const MARGIN: i32 = 14;
const GRID: RGBColor = RGBColor(225, 225, 225);
/// Part of a bar group's width that the bars fill; the rest is the gap between groups.
const GROUP_FILL: f64 = 0.8;
/// Least gap between the names of two groups of bars, in pixels.
const GROUP_GAP: i32 = 8;
/// Smallest readable size of text in pixels.
const LEAST_SIZE: f64 = 8.0;

/// Draws the chart into `area`.
pub(super) fn draw<B: DrawingBackend>(
    chart: &Chart,
    area: &DrawingArea<B, Shift>,
) -> Result<(), FigureError> {
    let (width, height) = area.dim_in_pixel();
    let (width, height) = (width as i32, height as i32);
    let mut top = 4;
    if !chart.title.is_empty() {
        Lettering::CHART.write(area, &chart.title, (MARGIN + 4, top))?;
        top += 22;
    }
    let entries = entries(chart);
    if !entries.is_empty() {
        let names: Vec<String> = entries.iter().map(|(_, _, name)| name.clone()).collect();
        let room = width - 2 * MARGIN - 4;
        marks::legend(area, &entries, (MARGIN + 4, top), room)?;
        top += marks::legend_places(&names, room).1;
    }
    let (x, y) = axes(chart).ok_or_else(|| FigureError::NoData(chart.title.clone()))?;
    let plot = area.clone().shrink((0, top), (width as u32, (height - top) as u32));
    let mut plane = plane(chart, &plot, &x, &y)?;
    match &chart.content {
        Content::Curves(curves) => {
            curves
                .iter()
                .enumerate()
                .try_for_each(|(index, curve)| draw_curve(chart, &plane, &y, index, curve))?;
        }
        Content::Histogram(bins) => {
            bins.iter()
                .enumerate()
                .try_for_each(|(index, bins)| draw_bins(chart, &mut plane, &y, index, bins))?;
        }
        Content::Bars { groups, bars } => draw_bars(chart, &mut plane, &y, groups.len(), bars)?,
    }
    verticals(chart, &plane, &x, &y)
}

/// Returns the entries of the legend; none for a single series without a name.
fn entries(chart: &Chart) -> Vec<(Key, usize, String)> {
    let all: Vec<(Key, usize, String)> = match &chart.content {
        Content::Curves(curves) => {
            curves.iter().enumerate().map(|(i, c)| (Key::Stroke(c.stroke), i, c.name.clone())).collect()
        }
        Content::Histogram(bins) => {
            bins.iter().enumerate().map(|(i, b)| (Key::Filled, i, b.legend())).collect()
        }
        Content::Bars { bars, .. } => {
            bars.iter().enumerate().map(|(i, b)| (Key::Solid, i, b.name.clone())).collect()
        }
    };
    all.into_iter().filter(|(_, _, name)| !name.is_empty()).collect()
}

fn axes(chart: &Chart) -> Option<(Ticks, Ticks)> {
    let xs: Vec<f64> = match &chart.content {
        Content::Curves(curves) => {
            curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)).collect()
        }
        Content::Histogram(bins) => {
            bins.iter().flat_map(|b| [b.low, b.low + b.width * b.counts.len() as f64]).collect()
        }
        Content::Bars { groups, .. } => vec![0.0, groups.len() as f64],
    };
    let ys: Vec<f64> = match &chart.content {
        Content::Curves(curves) => curves.iter().flat_map(Curve::heights).collect(),
        Content::Histogram(bins) => bins.iter().flat_map(|b| &b.counts).map(|count| *count as f64).collect(),
        Content::Bars { bars, .. } => bars.iter().flat_map(|bars| bars.values.iter().copied()).collect(),
    };
    // On a linear y axis, histograms and bars start at zero; a logarithmic axis has no zero.
    let from_zero = !matches!(chart.content, Content::Curves(_)) && chart.y.scale == Scale::Linear;
    let ground = from_zero.then_some(0.0).filter(|_| ys.iter().any(|y| y.is_finite()));
    let x = match &chart.content {
        Content::Curves(_) => Ticks::new(&chart.x, xs.into_iter())?,
        _ => {
            let ends =
                xs.iter().copied().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
            Ticks::new(&chart.x.clone().between(ends.0, ends.1), xs.into_iter())?
        }
    };
    let mut vertical = chart.y.clone();
    if !matches!(chart.content, Content::Curves(_)) && chart.y.scale == Scale::Log && vertical.range.is_none()
    {
        // The logarithmic axis starts below the smallest value, so that the bar of this value is
        // visible.
        let (least, most) = ys
            .iter()
            .copied()
            .filter(|y| *y > 0.0 && y.is_finite())
            .fold((f64::INFINITY, 0.0), |(least, most), y| (f64::min(least, y), f64::max(most, y)));
        vertical = vertical.between(least / 2.0, 10f64.powf((most * 1.2).log10().ceil()));
    }
    Some((x, Ticks::new(&vertical, ys.into_iter().chain(ground))?))
}

fn plane<'a, B: DrawingBackend>(
    chart: &Chart,
    area: &'a DrawingArea<B, Shift>,
    x: &Ticks,
    y: &Ticks,
) -> Result<Plane<'a, B>, FigureError> {
    let groups = match &chart.content {
        Content::Bars { groups, .. } => Some(groups),
        Content::Curves(_) | Content::Histogram(_) => None,
    };
    let mut across = x.clone();
    if let Some(groups) = groups {
        across.labelled = (0..groups.len()).map(|group| group as f64 + 0.5).collect();
    }
    let widest = y.labelled.iter().map(|place| Lettering::AXIS.width(&y.text(*place))).max().unwrap_or(0);
    let (y_labels, right) = (widest + 34, MARGIN + 14);
    let room = area.dim_in_pixel().0 as i32 - MARGIN - y_labels - right;
    let mut plane = ChartBuilder::on(area)
        .margin(MARGIN)
        .margin_right(right)
        .x_label_area_size(46)
        .y_label_area_size(y_labels)
        .build_cartesian_2d(across, y.clone())
        .map_err(drawing)?;
    let x_text = |place: &f64| match groups {
        Some(groups) => plain(groups.get(place.floor() as usize).map_or("", String::as_str)),
        None => x.text(*place),
    };
    let y_text = |place: &f64| y.text(*place);
    let (x_name, y_name) = (plain(&chart.x.label), plain(&chart.y.label));
    let font = |size: f64| ("sans-serif", size * 1.24, &INK);
    let x_size = groups.map_or(Lettering::AXIS.size, |groups| group_size(groups, room));
    let mut mesh = plane.configure_mesh();
    mesh.bold_line_style(GRID)
        .light_line_style(GRID.mix(0.5))
        .axis_style(INK)
        .x_label_style(font(x_size))
        .y_label_style(font(Lettering::AXIS.size))
        .axis_desc_style(font(Lettering::AXIS.size))
        .x_desc(x_name)
        .y_desc(y_name)
        .x_label_formatter(&x_text)
        .y_label_formatter(&y_text);
    if groups.is_some() {
        mesh.disable_x_mesh();
    }
    mesh.draw().map_err(drawing)?;
    Ok(plane)
}

/// Returns the font size at which the names of all groups of bars stand beside each other in `room`
/// pixels, within readable sizes.
fn group_size(groups: &[String], room: i32) -> f64 {
    let widest = groups.iter().map(|name| Lettering::AXIS.width(name)).max().unwrap_or(0);
    let needed = f64::from(widest + GROUP_GAP) * groups.len() as f64;
    (Lettering::AXIS.size * f64::from(room) / needed).clamp(LEAST_SIZE, Lettering::AXIS.size)
}

fn draw_curve<B: DrawingBackend>(
    chart: &Chart,
    plane: &Plane<'_, B>,
    y: &Ticks,
    index: usize,
    curve: &Curve,
) -> Result<(), FigureError> {
    // Points that a logarithmic axis cannot show interrupt the line of the curve.
    let place = |point: &(f64, f64)| Some((chart.x.scale.place(point.0)?, chart.y.scale.place(point.1)?));
    let area = plane.plotting_area().strip_coord_spec();
    let (left, top) = area.get_base_pixel();
    let pixel = |point: &(f64, f64)| {
        let (x, y) = plane.plotting_area().map_coordinate(&place(point)?);
        Some((x - left, y - top))
    };
    for ((x, _), (low, high)) in curve.points.iter().zip(&curve.errors) {
        // A logarithmic axis cannot show an end at or below zero, so such a bar ends at the axis.
        let ground = if low.is_finite() { Some(y.low) } else { None };
        let ends =
            (chart.x.scale.place(*x), chart.y.scale.place(*low).or(ground), chart.y.scale.place(*high));
        if let (Some(x), Some(low), Some(high)) = ends {
            let pixel = |place| {
                let (x, y) = plane.plotting_area().map_coordinate(&(x, place));
                (x - left, y - top)
            };
            marks::error_bar(&area, index, pixel(low), pixel(high))?;
        }
    }
    let pixels: Vec<Option<(i32, i32)>> = curve.points.iter().map(pixel).collect();
    for piece in pixels.split(Option::is_none) {
        let piece: Vec<(i32, i32)> = piece.iter().flatten().copied().collect();
        match curve.stroke {
            Stroke::Points => {}
            Stroke::Dashed => marks::dashed(&area, &piece, marks::REFERENCE.stroke_width(2))?,
            Stroke::Line | Stroke::Both => {
                area.draw(&PathElement::new(piece.clone(), colour(index).stroke_width(2)))
                    .map_err(drawing)?;
            }
        }
        if matches!(curve.stroke, Stroke::Points | Stroke::Both) {
            piece.iter().try_for_each(|at| marks::mark(&area, index, *at))?;
        }
    }
    Ok(())
}

fn draw_bins<B: DrawingBackend>(
    chart: &Chart,
    plane: &mut Plane<'_, B>,
    y: &Ticks,
    index: usize,
    bins: &Bins,
) -> Result<(), FigureError> {
    let edge = |bin: usize| chart.x.scale.place(bins.low + bins.width * bin as f64).unwrap_or(f64::NAN);
    let height = |count: u64| chart.y.scale.place(count as f64).unwrap_or(y.low).max(y.low);
    let steps = bins
        .counts
        .iter()
        .enumerate()
        .flat_map(|(bin, count)| [(edge(bin), height(*count)), (edge(bin + 1), height(*count))]);
    let ends = [(edge(0), y.low), (edge(bins.counts.len()), y.low)];
    let outline: Vec<(f64, f64)> = [ends[0]].into_iter().chain(steps).chain([ends[1]]).collect();
    let fill = Polygon::new(outline.clone(), colour(index).mix(0.35).filled());
    let line = PathElement::new(outline, colour(index).stroke_width(2));
    plane.draw_series([fill]).map_err(drawing)?;
    plane.draw_series([line]).map_err(drawing)?;
    Ok(())
}

fn draw_bars<B: DrawingBackend>(
    chart: &Chart,
    plane: &mut Plane<'_, B>,
    y: &Ticks,
    groups: usize,
    bars: &[Bars],
) -> Result<(), FigureError> {
    let width = GROUP_FILL / bars.len().max(1) as f64;
    let area = plane.plotting_area().strip_coord_spec();
    let (left, top) = area.get_base_pixel();
    for (index, series) in bars.iter().enumerate() {
        for (group, value) in series.values.iter().enumerate().filter(|(group, _)| *group < groups) {
            let from = group as f64 + (1.0 - GROUP_FILL) / 2.0 + width * index as f64;
            let height = chart.y.scale.place(*value).unwrap_or(y.low).max(y.low);
            let bar = Rectangle::new([(from, y.low), (from + width * 0.92, height)], colour(index).filled());
            plane.draw_series([bar]).map_err(drawing)?;
            let text = short(*value);
            let pixel = |x: f64| plane.plotting_area().map_coordinate(&(x, height));
            let room = pixel(from + width).0 - pixel(from).0 + 4;
            if value.is_finite() && Lettering::VALUE.width(&text) <= room {
                let (x, y) = pixel(from + width * 0.46);
                Lettering::VALUE.write(&area, &text, (x - left, (y - top - 14).max(0)))?;
            }
        }
    }
    Ok(())
}

/// Formats a value with three significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100_000.0 => format!("{:.0}k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.0e}"),
    }
}

fn verticals<B: DrawingBackend>(
    chart: &Chart,
    plane: &Plane<'_, B>,
    x: &Ticks,
    y: &Ticks,
) -> Result<(), FigureError> {
    let area = plane.plotting_area().strip_coord_spec();
    let (base, width) = (area.get_base_pixel(), area.dim_in_pixel().0 as i32);
    for (index, (value, name)) in chart.verticals.iter().enumerate() {
        let Some(place) = chart.x.scale.place(*value).filter(|place| (x.low..=x.high).contains(place)) else {
            continue;
        };
        let pixel = |y: f64| {
            let (x, y) = plane.plotting_area().map_coordinate(&(place, y));
            (x - base.0, y - base.1)
        };
        let (low, high) = (pixel(y.low), pixel(y.high));
        marks::dashed(&area, &[low, high], INK.stroke_width(1))?;
        let needed = Lettering::LEGEND.width(name);
        let left = if low.0 + 6 + needed > width { low.0 - 6 - needed } else { low.0 + 6 };
        Lettering::LEGEND.write(&area, name, (left, high.1 + 2 + index as i32 * 16))?;
    }
    Ok(())
}
