//! Lists of roles as text for people.

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

/// Formats roles as a line of text: `supervisor, builder 2, sources 1-4`.
pub fn roles_in_words(roles: &[Peer]) -> String {
    let (mut builders, mut sources) = (Vec::new(), Vec::new());
    let mut words = Vec::new();
    for role in roles {
        match role {
            Peer::Supervisor => words.push(role.to_string()),
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

#[cfg(test)]
mod tests;
