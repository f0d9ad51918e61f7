//! Suggestions for misspelled words ("did you mean …?").

#[cfg(test)]
mod tests;

/// Returns the candidate that is most similar to `given`; `None` if no candidate is similar enough.
///
/// A candidate is similar enough if it begins with all of `given`, or if the
/// optimal-string-alignment distance (insert, delete, replace, swap of neighbours) is at most a
/// third of the length.
pub(super) fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = shortened(given);
    let length = given.chars().count();
    let allowed = (length / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| {
            let other = shortened(candidate);
            let apart = strsim::osa_distance(&given, &other);
            (if length >= 3 && other.starts_with(&given) { apart.min(1) } else { apart }, candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns a remedy: the word that was probably meant, and `all`, a sentence that says what may be
/// written.
pub(super) fn suggestion(meant: Option<&str>, all: &str) -> String {
    meant.map_or_else(|| all.to_owned(), |meant| format!("did you mean `{meant}`? ({all})"))
}

/// Returns a remedy: the word that was probably meant, and `all`, the names of what may be written.
pub(super) fn choice(meant: Option<&str>, all: &str) -> String {
    meant.map_or_else(|| format!("write {all}"), |meant| format!("did you mean `{meant}`? ({all})"))
}

/// Length to which words are shortened; computing the distance between longer words takes too long.
const LONGEST: usize = 64;

/// Returns the beginning of a word, converted to lower case.
fn shortened(word: &str) -> String {
    word.chars().take(LONGEST).flat_map(char::to_lowercase).collect()
}
