//! Text in figures.

use plotters::{
    coord::Shift,
    prelude::{BLACK, DrawingArea, DrawingBackend, Text},
    style::{
        FontStyle, IntoFont as _, RGBColor, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{FigureError, drawing};

/// Colour of text that is not a title.
pub(super) const INK: RGBColor = RGBColor(51, 51, 51);

/// A kind of text.
#[derive(Clone, Copy)]
pub(super) struct Lettering {
    /// Size in pixels: the SVG's font-size.
    pub(super) size: f64,
    bold: bool,
    place: HPos,
}

impl Lettering {
    pub(super) const TITLE: Self = Self { size: 18.0, bold: true, place: HPos::Center };
    pub(super) const CHART: Self = Self { size: 15.0, bold: true, place: HPos::Left };
    pub(super) const LEGEND: Self = Self { size: 13.0, bold: false, place: HPos::Left };
    pub(super) const AXIS: Self = Self { size: 13.0, bold: false, place: HPos::Center };
    pub(super) const NOTE: Self = Self { size: 12.5, bold: false, place: HPos::Left };
    pub(super) const VALUE: Self = Self { size: 11.0, bold: false, place: HPos::Center };

    /// Returns the text style for the drawing library, which writes `size / 1.24` as the SVG's
    /// font-size.
    pub(super) fn style(self) -> TextStyle<'static> {
        let style = if self.bold { FontStyle::Bold } else { FontStyle::Normal };
        let ink = if self.bold { &BLACK } else { &INK };
        let text = TextStyle::from(("sans-serif", self.size * 1.24, style).into_font()).color(ink);
        text.pos(Pos::new(self.place, VPos::Top))
    }

    /// Writes the text with its upper edge at the position `at`.
    pub(super) fn write<B: DrawingBackend>(
        self,
        area: &DrawingArea<B, Shift>,
        text: &str,
        at: (i32, i32),
    ) -> Result<(), FigureError> {
        area.draw(&Text::new(plain(text), at, self.style())).map_err(drawing)
    }

    /// Returns the approximate width of a text in pixels; the exact width depends on the viewer's
    /// font.
    pub(super) fn width(self, text: &str) -> i32 {
        (text.chars().count() as f64 * self.size * 0.56) as i32
    }
}

/// Removes control characters, which XML 1.0 forbids.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Breaks the text between words into lines of at most `limit` characters.
pub(super) fn wrapped(text: &str, limit: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { continue };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > limit {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
