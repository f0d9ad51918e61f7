//! "Did you mean …?"

#[cfg(test)]
mod tests;

/// The candidate that is most like `given`, if one is near enough to have been meant.
///
/// Near: the candidate begins with all of `given`, or an optimal-string-alignment distance (insert, delete, replace, swap of neighbours) of at most a third of the length.
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

/// Longer words are cut: their distance is not worth a second.
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
