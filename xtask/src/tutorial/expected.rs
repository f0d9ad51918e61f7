//! [`missing`]: the comparison of what a page promises with what a command printed.

#[cfg(test)]
mod tests;

/// Units that figures have; they change with the figure.
const UNITS: [&str; 15] = [
    "ns", "µs", "ms", "s", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "bit/s", "kbit/s", "Mbit/s", "Gbit/s",
];

/// Returns the first line of `expected` that `output` lacks; `None` if it has all of them, in their
/// order. Further lines may stand between them.
///
/// Words are compared. Figures and their units may differ, and `…` stands for anything.
pub(crate) fn missing<'a>(expected: &'a [String], output: &str) -> Option<&'a str> {
    let mut lines = output.lines();
    expected.iter().map(String::as_str).find(|line| !lines.any(|got| is_like(line, got)))
}

fn is_like(expected: &str, got: &str) -> bool {
    let mut got = got.split_whitespace();
    let mut after_figure = false;
    for word in expected.split_whitespace() {
        if word == "…" {
            return true;
        }
        let Some(other) = got.next() else { return false };
        let is_figure = has_digit(word);
        let fits = match (is_figure, after_figure && is_unit(word)) {
            (true, _) => has_digit(other),
            (false, true) => is_unit(other),
            (false, false) => word == other,
        };
        if !fits {
            return false;
        }
        after_figure = is_figure;
    }
    got.next().is_none()
}

fn has_digit(word: &str) -> bool {
    word.chars().any(|c| c.is_ascii_digit())
}

fn is_unit(word: &str) -> bool {
    UNITS.contains(&word.trim_end_matches([',', ')', ';']))
}
