//! Entries for many ids: `ids = "1-22"`, and `{id}` or `{7100+id}` in the text of an entry.

#[cfg(test)]
mod tests;

/// The reason why a list of ids or a template cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    /// The text is not a list of ids.
    #[error("`{0}` is neither an id nor a range of ids from 0 to 65535")]
    Ids(String),
    /// An id occurs twice in the list.
    #[error("id {0} appears twice in the list, but each may appear once")]
    Twice(u16),
    /// Braces contain something other than a sum of `id` and whole numbers.
    #[error("`{{{0}}}` is not a sum of `id` and whole numbers")]
    Sum(String),
    /// An opening brace has no closing brace.
    #[error("a `{{` is not closed by a `}}`")]
    Open,
    /// The value of a sum in braces is below zero or too large.
    #[error("`{{{text}}}` is below zero or too large for id {id}")]
    Value {
        /// Text between the braces.
        text: String,
        /// Id of the entry.
        id: u16,
    },
}

/// Reads a list of ids such as `"1-22"` or `"1-4, 7, 9-12"`: each id may occur once, and the order
/// is kept.
pub(super) fn parse_ids(text: &str) -> Result<Vec<u16>, TemplateError> {
    let mut seen = vec![false; usize::from(u16::MAX) + 1];
    let mut ids = Vec::new();
    for part in text.split(',') {
        let bad = || TemplateError::Ids(part.trim().to_owned());
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u16 = first.trim().parse().map_err(|_| bad())?;
        let last: u16 = last.trim().parse().map_err(|_| bad())?;
        if first > last {
            return Err(bad());
        }
        for id in first..=last {
            if std::mem::replace(&mut seen[usize::from(id)], true) {
                return Err(TemplateError::Twice(id));
            }
            ids.push(id);
        }
    }
    Ok(ids)
}

/// Replaces every `{…}` in the text by the value of its sum for this `id`.
pub(super) fn expand(text: &str, id: u16) -> Result<String, TemplateError> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (sum, tail) = after.split_once('}').ok_or(TemplateError::Open)?;
        expanded.push_str(before);
        expanded.push_str(&evaluate(sum, id)?.to_string());
        rest = tail;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Returns the value of terms (`id` or a whole number) joined by `+` and `-`.
fn evaluate(sum: &str, id: u16) -> Result<u64, TemplateError> {
    let bad = || TemplateError::Sum(sum.to_owned());
    let out_of_range = || TemplateError::Value { text: sum.to_owned(), id };
    let mut total: i64 = 0;
    let mut rest = sum;
    let mut sign = 1;
    loop {
        let end = rest.find(['+', '-']).unwrap_or(rest.len());
        let term = match rest[..end].trim() {
            "id" => i64::from(id),
            // Only digits are allowed; `parse` alone would accept a sign too.
            digits if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().map_err(|_| bad())?,
            _ => return Err(bad()),
        };
        total = total.checked_add(sign * term).ok_or_else(out_of_range)?;
        let Some(operator) = rest[end..].chars().next() else { break };
        sign = if operator == '+' { 1 } else { -1 };
        rest = &rest[end + 1..];
    }
    u64::try_from(total).map_err(|_| out_of_range())
}
