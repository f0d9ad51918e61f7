//! Figures for papers: curves, histograms and grouped bars, drawn as SVG text.
//!
//! A [`Figure`] is 900 px wide and holds one or more [`Chart`]s, each with its axes, units and
//! legend, over notes that describe the measurement. Series differ by colour (Okabe and Ito's
//! palette, which colour-blind readers can tell apart) and by mark.
//!
//! ```
//! use evb_bench::figure::{Axis, Chart, Curve, Figure};
//!
//! let asked = [(10.0, 10.0), (100.0, 99.0)];
//! let (x, y) = (Axis::log("Asked (Mbit/s)"), Axis::log("Got (Mbit/s)"));
//! let chart = Chart::curves(x, y, vec![Curve::points("timerfd", asked)]);
//! let svg = Figure::new("Rates").with(chart).note("Loopback, one source, one builder.").svg()?;
//! assert!(svg.starts_with("<svg"));
//! # Ok::<(), evb_bench::figure::FigureError>(())
//! ```

mod chart;
mod ticks;
mod lettering;
mod marks;
mod panel;
#[cfg(test)]
mod tests;

use plotters::prelude::{DrawingArea, DrawingBackend, IntoDrawingArea as _, SVGBackend, WHITE};

pub use chart::{Axis, Bars, Bins, Chart, Curve, Scale};
use lettering::{Lettering, wrapped};

/// The reason why a figure cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FigureError {
    /// A chart has no values that can be drawn; an empty chart would look like one of zeros.
    #[error(
        "no picture was drawn, because its chart \"{0}\" has no value that its axes can show: measure more points, or leave out --svg"
    )]
    NoData(String),
    /// The drawing library returned an error.
    #[error("the picture could not be drawn: {0}; report this fault of evb-bench, and leave out --svg")]
    Drawing(String),
}

/// Width of a figure in pixels.
const WIDTH: i32 = 900;
/// Number of characters of a note that fit into one line of the figure.
const NOTE_LINE: usize = 132;
const NOTE_HEIGHT: i32 = 18;
const TITLE_HEIGHT: i32 = 38;

/// A figure: charts under a common title.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    title: String,
    charts: Vec<Chart>,
    notes: Vec<String>,
    columns: usize,
}

impl Figure {
    /// Creates an empty figure.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), charts: Vec::new(), notes: Vec::new(), columns: 1 }
    }

    /// Adds a chart, row by row from the left.
    #[must_use]
    pub fn with(mut self, chart: Chart) -> Self {
        self.charts.push(chart);
        self
    }

    /// Sets the number of charts side by side; 1 by default.
    #[must_use]
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns.max(1);
        self
    }

    /// Adds a paragraph below the charts.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Draws the figure.
    ///
    /// # Errors
    /// A chart has nothing to draw, or the drawing library fails.
    pub fn svg(&self) -> Result<String, FigureError> {
        let rows = i32::try_from(self.charts.len().div_ceil(self.columns)).unwrap_or(i32::MAX / WIDTH);
        let lines: Vec<String> = self.notes.iter().flat_map(|note| wrapped(note, NOTE_LINE)).collect();
        let row_height = if self.columns == 1 { 400 } else { 330 };
        let notes_height = lines.len() as i32 * NOTE_HEIGHT + if lines.is_empty() { 8 } else { 20 };
        let height = TITLE_HEIGHT + rows * row_height + notes_height;
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
            root.fill(&WHITE).map_err(drawing)?;
            Lettering::TITLE.write(&root, &self.title, (WIDTH / 2, 10))?;
            self.draw_charts(&root, row_height)?;
            for (index, line) in lines.iter().enumerate() {
                let y = height - notes_height + 8 + index as i32 * NOTE_HEIGHT;
                Lettering::NOTE.write(&root, line, (24, y))?;
            }
            root.present().map_err(drawing)?;
        }
        Ok(svg)
    }

    fn draw_charts<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, plotters::coord::Shift>,
        row_height: i32,
    ) -> Result<(), FigureError> {
        let columns = self.columns as i32;
        for (index, chart) in self.charts.iter().enumerate() {
            let (row, column) = (index as i32 / columns, index as i32 % columns);
            let (left, right) = (column * WIDTH / columns, (column + 1) * WIDTH / columns);
            let top = TITLE_HEIGHT + row * row_height;
            let area = root.clone().shrink((left, top), ((right - left) as u32, row_height as u32));
            panel::draw(chart, &area)?;
        }
        Ok(())
    }
}

/// Converts an error of the drawing library. The library's error types differ by backend, so that
/// only their texts are kept.
fn drawing<E: std::error::Error + Send + Sync>(
    error: plotters::drawing::DrawingAreaErrorKind<E>,
) -> FigureError {
    FigureError::Drawing(error.to_string())
}
