//! The content of a chart: axes, curves, bins, bars.

/// The mapping of values to lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Lengths are proportional to values.
    Linear,
    /// Lengths are proportional to decimal logarithms, so that only values above zero can be shown.
    Log,
}

impl Scale {
    /// Returns the position of a value on the axis: the value itself or its decimal logarithm.
    /// `None` if the scale cannot show the value.
    pub(super) fn place(self, value: f64) -> Option<f64> {
        match self {
            Self::Linear => value.is_finite().then_some(value),
            Self::Log => (value.is_finite() && value > 0.0).then(|| value.log10()),
        }
    }
}

/// An axis: its quantity and unit, its scale, and its range.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
    pub(super) range: Option<(f64, f64)>,
}

impl Axis {
    /// Creates a linear axis. The label names quantity and unit: `Gap (ms)`.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, range: None }
    }

    /// Creates a logarithmic axis.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log, range: None }
    }

    /// Sets the range of the axis; values outside this range extend it.
    #[must_use]
    pub fn between(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }
}

/// The style of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stroke {
    Points,
    Line,
    Dashed,
    Both,
}

/// A series of points of a chart, with or without a line through them.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Low and high end of the error bar of each point, in the order of the points; points beyond
    /// the end of the list have no error bar.
    pub(super) errors: Vec<(f64, f64)>,
    pub(super) stroke: Stroke,
}

impl Curve {
    /// Creates a curve of marks without a line between them, for independent measurements.
    pub fn points(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(name, points, Stroke::Points)
    }

    /// Creates a curve without marks.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(name, points, Stroke::Line)
    }

    /// Creates a broken grey line, for a theory, a limit or a reference.
    pub fn reference(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(name, points, Stroke::Dashed)
    }

    /// Creates a curve of marks joined by a line.
    pub fn joined(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(name, points, Stroke::Both)
    }

    fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>, stroke: Stroke) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), errors: Vec::new(), stroke }
    }

    /// Adds error bars: the low and the high end of each point's y value, in the order of the
    /// points. A bar with an end that is not a number is not drawn.
    #[must_use]
    pub fn with_errors(mut self, errors: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.errors = errors.into_iter().collect();
        self
    }

    /// Returns all y values that the axis must show: those of the points and of the error bars.
    pub(super) fn heights(&self) -> impl Iterator<Item = f64> {
        let ends = self.errors.iter().flat_map(|(low, high)| [*low, *high]);
        self.points.iter().map(|point| point.1).chain(ends)
    }
}

/// A histogram with equal bins, and the number of samples outside them.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    pub(super) name: String,
    pub(super) low: f64,
    pub(super) width: f64,
    pub(super) counts: Vec<u64>,
    pub(super) beyond: u64,
}

impl Bins {
    /// Counts samples into `count` bins from `low` to `high`. Samples outside this range, and
    /// samples that are not a number, are counted separately, and the legend shows their number.
    pub fn of(name: impl Into<String>, samples: &[f64], low: f64, high: f64, count: usize) -> Self {
        let count = count.max(1);
        let width = (high - low) / count as f64;
        let mut bins = Self { name: name.into(), low, width, counts: vec![0; count], beyond: 0 };
        for sample in samples {
            let place = (sample - low) / width;
            let inside = place >= 0.0 && place < count as f64;
            match bins.counts.get_mut(place as usize).filter(|_| inside) {
                Some(bin) => *bin += 1,
                None => bins.beyond += 1,
            }
        }
        bins
    }

    /// Returns the number of samples in each bin.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the number of samples outside all bins.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    pub(super) fn legend(&self) -> String {
        match self.beyond {
            0 => self.name.clone(),
            beyond => format!("{} (+{beyond} outside)", self.name),
        }
    }
}

/// Bars of one colour in a grouped chart, with one value for each group.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
}

impl Bars {
    /// Creates bars with one value for each group, in the order of the chart's groups.
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        Self { name: name.into(), values: values.into_iter().collect() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Curves(Vec<Curve>),
    Histogram(Vec<Bins>),
    Bars { groups: Vec<String>, bars: Vec<Bars> },
}

/// A pair of axes with its content.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) content: Content,
    /// Positions on the x axis that are marked by a vertical line, with the names of the lines.
    pub(super) verticals: Vec<(f64, String)>,
}

impl Chart {
    /// Creates a chart of lines and marks.
    pub fn curves(x: Axis, y: Axis, curves: Vec<Curve>) -> Self {
        Self::new(x, y, Content::Curves(curves))
    }

    /// Creates a chart of histograms drawn over each other.
    pub fn histogram(x: Axis, y: Axis, bins: Vec<Bins>) -> Self {
        Self::new(x, y, Content::Histogram(bins))
    }

    /// Creates a chart of bars in groups; `label` names the quantity by which the groups differ.
    pub fn bars(label: impl Into<String>, groups: Vec<String>, y: Axis, bars: Vec<Bars>) -> Self {
        Self::new(Axis::linear(label), y, Content::Bars { groups, bars })
    }

    fn new(x: Axis, y: Axis, content: Content) -> Self {
        Self { title: String::new(), x, y, content, verticals: Vec::new() }
    }

    /// Sets the chart's own title, for a figure with several charts.
    #[must_use]
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Adds a thin vertical line at `x`, with its name.
    #[must_use]
    pub fn vertical(mut self, x: f64, name: impl Into<String>) -> Self {
        self.verticals.push((x, name.into()));
        self
    }
}
