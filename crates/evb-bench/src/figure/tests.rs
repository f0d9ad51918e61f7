use super::{Axis, Bars, Bins, Chart, Curve, Figure, FigureError};

/// Returns all texts of the figure, and the number of each element; panics unless it is well-formed
/// XML.
fn read(svg: &str) -> (Vec<String>, std::collections::BTreeMap<String, usize>) {
    let document = roxmltree::Document::parse(svg).unwrap_or_else(|error| panic!("{error}\n{svg}"));
    let mut counts = std::collections::BTreeMap::new();
    let mut texts = Vec::new();
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        *counts.entry(node.tag_name().name().to_owned()).or_insert(0) += 1;
        if node.tag_name().name() == "text" {
            texts.push(node.text().unwrap_or_default().trim().to_owned());
        }
    }
    (texts, counts)
}

fn axes() -> (Axis, Axis) {
    (Axis::log("Asked (Mbit/s)"), Axis::log("Got (Mbit/s)"))
}

#[test]
fn curves_have_a_mark_for_every_point_and_a_legend() {
    let points = (0..7).map(|i| (10f64.powi(i), 10f64.powi(i)));
    let (x, y) = axes();
    let chart = Chart::curves(
        x,
        y,
        vec![Curve::points("timerfd", points), Curve::reference("asked", [(1.0, 1.0), (1e6, 1e6)])],
    );
    let svg = Figure::new("Rates").with(chart).note("A < B & \"C\"").svg().expect("drawn");
    let (texts, counts) = read(&svg);
    for text in ["Rates", "timerfd", "asked", "Asked (Mbit/s)", "Got (Mbit/s)", "10⁶", "A < B & \"C\""] {
        assert!(texts.iter().any(|found| found == text), "{text:?} is not in {texts:?}");
    }
    // The seven points of the curve and the legend's entry are circles.
    assert_eq!(counts["circle"], 8);
    assert!(svg.contains("width=\"900\""));
}

#[test]
fn marks_stand_where_the_values_are() {
    let chart = Chart::curves(
        Axis::linear("x (m)").between(0.0, 10.0),
        Axis::linear("y (m)").between(0.0, 10.0),
        vec![Curve::points("", [(0.0, 0.0), (5.0, 5.0), (10.0, 10.0)])],
    );
    let svg = Figure::new("").with(chart).svg().expect("drawn");
    let document = roxmltree::Document::parse(&svg).expect("well-formed");
    let at: Vec<(f64, f64)> = document
        .descendants()
        .filter(|node| node.has_tag_name("circle"))
        .map(|node| {
            let number =
                |name: &str| node.attribute(name).and_then(|text| text.parse().ok()).expect("a number");
            (number("cx"), number("cy"))
        })
        .collect();
    let [low, middle, high] = at.as_slice() else { panic!("{at:?}") };
    assert!(low.0 < middle.0 && middle.0 < high.0 && low.1 > middle.1 && middle.1 > high.1, "{at:?}");
    assert!((middle.0 * 2.0 - low.0 - high.0).abs() <= 2.0, "the middle value is not drawn half way: {at:?}");
    assert!(high.0 <= 900.0 && high.1 >= 0.0, "{at:?}");
}

#[test]
fn error_bars_reach_from_the_low_to_the_high_end() {
    let (x, y) = (Axis::linear("x (m)").between(0.0, 10.0), Axis::linear("y (m)").between(0.0, 10.0));
    let curve = Curve::points("", [(2.0, 5.0), (5.0, 5.0), (8.0, 5.0)]);
    let errors = [(4.0, 7.0), (f64::NAN, f64::NAN)];
    let chart = Chart::curves(x, y, vec![curve.with_errors(errors)]);
    let svg = Figure::new("").with(chart).svg().expect("drawn");
    let document = roxmltree::Document::parse(&svg).expect("well-formed");
    let number = |node: &roxmltree::Node<'_, '_>, name: &str| {
        node.attribute(name).and_then(|text| text.parse::<f64>().ok()).expect("a number")
    };
    let marks: Vec<(f64, f64)> = document
        .descendants()
        .filter(|node| node.has_tag_name("circle"))
        .map(|node| (number(&node, "cx"), number(&node, "cy")))
        .collect();
    // Lines of the bars have the colour of the first series; those of axes and grid are grey.
    let bars: Vec<Vec<(f64, f64)>> = document
        .descendants()
        .filter(|node| node.has_tag_name("polyline") && node.attribute("stroke") == Some("#0072B2"))
        .map(|node| {
            let pairs = node.attribute("points").unwrap_or_default().split_whitespace();
            pairs
                .filter_map(|pair| pair.split_once(','))
                .filter_map(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?)))
                .collect()
        })
        .collect();
    let [upright, low, high] = bars.as_slice() else { panic!("{bars:?}") };
    assert_eq!(upright[0].0, marks[0].0, "the bar is not at its mark");
    // The mark divides the bar 1 to 2, because the ends are 1 below and 2 above it.
    let (below, above) = (upright[0].1 - marks[0].1, marks[0].1 - upright[1].1);
    assert!(below > 10.0 && (above / below - 2.0).abs() < 0.1, "{below} below, {above} above");
    assert!(low[1].0 - low[0].0 > 4.0 && high[1].0 - high[0].0 > 4.0, "{bars:?}");
}

#[test]
fn an_axis_shows_whole_error_bars() {
    let curve = Curve::points("", [(1.0, 50.0)]).with_errors([(-100.0, 900.0)]);
    let chart = Chart::curves(Axis::linear("x"), Axis::log("y"), vec![curve]);
    let (texts, _) = read(&Figure::new("").with(chart).svg().expect("drawn"));
    assert!(texts.iter().any(|text| text == "1000"), "{texts:?}");
}

#[test]
fn bins_count_every_sample() {
    let bins = Bins::of("before", &[-0.1, 0.0, 0.5, 0.99, 1.0, 9.9, 10.0, f64::NAN], 0.0, 10.0, 10);
    assert_eq!(bins.counts(), [3, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(bins.beyond(), 3);
    let chart = Chart::histogram(
        Axis::linear("Gap (ms)"),
        Axis::linear("Gaps"),
        vec![bins.clone(), Bins { name: "after".into(), ..bins }],
    )
    .vertical(5.0, "nominal");
    let (texts, counts) = read(&Figure::new("Gaps").with(chart).svg().expect("drawn"));
    assert!(texts.iter().any(|text| text == "before (+3 outside)"), "{texts:?}");
    assert!(texts.iter().any(|text| text == "nominal"), "{texts:?}");
    assert_eq!(counts["polygon"], 2);
}

#[test]
fn bars_name_their_groups_and_values() {
    let groups = ["4", "8"].map(str::to_owned).to_vec();
    let bars = vec![Bars::new("credit", [0.0, 0.0]), Bars::new("none", [1234.0, 56.7])];
    let chart = Chart::bars("Sources", groups, Axis::log("Drops"), bars).titled("Drops");
    let (texts, _) =
        read(&Figure::new("Modes").columns(2).with(chart.clone()).with(chart).svg().expect("drawn"));
    for text in ["Sources", "4", "8", "credit", "none", "1234", "56.7", "0"] {
        assert!(
            texts.iter().filter(|found| *found == text).count() >= 2,
            "{text:?} is not twice in {texts:?}"
        );
    }
}

#[test]
fn names_of_many_groups_stand_beside_each_other() {
    let chart = |count: usize| {
        let groups: Vec<String> = (0..count).map(|group| format!("group {group}")).collect();
        Chart::bars("", groups, Axis::linear("Rate"), vec![Bars::new("x", vec![1.0; count])])
    };
    // Returns the positions and font sizes of the groups' names in half the width of a page.
    let names = |count: usize| -> Vec<(f64, f64)> {
        let svg = Figure::new("").columns(2).with(chart(count)).with(chart(1)).svg().expect("drawn");
        let document = roxmltree::Document::parse(&svg).expect("XML");
        let number = |node: &roxmltree::Node<'_, '_>, name: &str| {
            node.attribute(name).and_then(|value| value.parse::<f64>().ok()).expect("a number")
        };
        let is_name =
            |node: &roxmltree::Node<'_, '_>| node.text().is_some_and(|text| text.trim().starts_with("group"));
        let found = document.descendants().filter(is_name).filter(roxmltree::Node::is_element);
        found.take(count).map(|node| (number(&node, "x"), number(&node, "font-size"))).collect()
    };
    let few = names(3);
    assert!((few[0].1 - 13.0).abs() < 0.5, "{few:?}");
    let many = names(8);
    let (step, size) = (many[1].0 - many[0].0, many[0].1);
    // A character is about 0.56 times as wide as the font is high.
    assert!(step > 7.0 * 0.56 * size, "{step} pixels for a name of size {size}");
}

#[test]
fn nothing_to_draw_is_an_error() {
    let (x, y) = axes();
    let chart = Chart::curves(x, y, vec![Curve::line("zeros", [(0.0, 0.0)])]).titled("Empty");
    assert_eq!(Figure::new("").with(chart).svg(), Err(FigureError::NoData("Empty".into())));
}

#[test]
fn control_characters_do_not_break_the_file() {
    let (x, y) = axes();
    let chart = Chart::curves(x, y, vec![Curve::line("a\u{1}b", [(1.0, 1.0), (2.0, 3.0)])]);
    read(&Figure::new("t\u{0}").with(chart).note("n\u{8}").svg().expect("drawn"));
}
