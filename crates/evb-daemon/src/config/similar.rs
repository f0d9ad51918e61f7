//! Suggestions for misspelled words ("did you mean …?").

#[cfg(test)]
mod tests;

/// Returns the candidate that is most like `given`, if one is near enough to have been meant.
///
/// A candidate is near if it begins with all of `given`, or if the optimal-string-alignment
/// distance (insert, delete, replace, swap of neighbours) is at most a third of the length.
pub(super) fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given: Vec<char> = given.chars().take(LONGEST).flat_map(char::to_lowercase).collect();
    let allowed = (given.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| {
            let apart = distance(&given, candidate);
            (if given.len() >= 3 && begins_with(candidate, &given) { apart.min(1) } else { apart }, candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Length at which words are cut, because the distance of longer ones takes too long to compute.
const LONGEST: usize = 64;

fn begins_with(candidate: &str, start: &[char]) -> bool {
    candidate.chars().flat_map(char::to_lowercase).take(start.len()).eq(start.iter().copied())
}

fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().take(LONGEST).flat_map(char::to_lowercase).collect();
    let width = b.len() + 1;
    let mut before = vec![0; width];
    let mut above: Vec<usize> = (0..width).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; width];
        for j in 1..width {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = above;
        above = row;
    }
    above[b.len()]
}
