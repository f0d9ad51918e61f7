//! Lists of roles as text for people, and the order of names.

use evb_core::id::Peer;

/// Joins ids into ranges: `1-4, 7`.
pub fn ranges(ids: impl Iterator<Item = u16>) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for id in ids {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(id) => *last = id,
            _ => runs.push((id, id)),
        }
    }
    let run = |(first, last): &(u16, u16)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

/// Formats roles as a line of text: `the supervisor, builder 2, sources 1-4`.
pub fn roles_in_words(roles: &[Peer]) -> String {
    let (mut builders, mut sources) = (Vec::new(), Vec::new());
    let mut words = Vec::new();
    for role in roles {
        match role {
            Peer::Supervisor => words.push("the supervisor".to_owned()),
            Peer::Builder(id) => builders.push(id.number()),
            Peer::Source(id) => sources.push(id.number()),
        }
    }
    for (kind, ids) in [("builder", builders), ("source", sources)] {
        match ids.len() {
            0 => {}
            1 => words.push(format!("{kind} {}", ids[0])),
            _ => words.push(format!("{kind}s {}", ranges(ids.into_iter()))),
        }
    }
    words.join(", ")
}

/// Returns a key that sorts names as people count: `b2` before `b10`.
pub(crate) fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts: Vec<(String, u64)> = vec![(String::new(), 0)];
    let mut in_number = false;
    for letter in name.chars() {
        match letter.to_digit(10) {
            Some(digit) => {
                if let Some((_, number)) = parts.last_mut() {
                    *number = number.saturating_mul(10).saturating_add(digit.into());
                }
                in_number = true;
            }
            None => {
                if in_number {
                    parts.push((String::new(), 0));
                    in_number = false;
                }
                if let Some((text, _)) = parts.last_mut() {
                    text.push(letter);
                }
            }
        }
    }
    parts.push((name.to_owned(), 0));
    parts
}

#[cfg(test)]
mod tests;
