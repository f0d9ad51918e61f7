//! The table of run control in Markdown, for the documentation.

use core::fmt::Write as _;

use super::{Outcome, State, Stimulus};

/// Returns the whole table in Markdown: a row for each command and occurrence, a column for each
/// state, and the refusals with their remedies below.
pub fn table() -> String {
    let mut text = "| |".to_owned();
    let mut rule = "\n|---|".to_owned();
    for state in State::ALL {
        let _ = write!(text, " {state} |");
        rule += "---|";
    }
    text += &rule;
    let mut notes: Vec<(&str, &str)> = Vec::new();
    for stimulus in Stimulus::all() {
        let _ = match stimulus {
            Stimulus::Command(command) => write!(text, "\n| `{command}` |"),
            Stimulus::Occurrence(occurrence) => write!(text, "\n| *{}* |", occurrence.name()),
        };
        for state in State::ALL {
            let _ = match state.after(stimulus) {
                Outcome::Becomes(next) => write!(text, " **{next}** |"),
                Outcome::Ignored => write!(text, " · |"),
                Outcome::Refused { reason, remedy } => {
                    let known = notes.iter().position(|note| *note == (reason, remedy));
                    let number = known.unwrap_or(notes.len()) + 1;
                    if known.is_none() {
                        notes.push((reason, remedy));
                    }
                    write!(text, " refused ({number}) |")
                }
            };
        }
    }
    text.push('\n');
    for (number, (reason, remedy)) in notes.iter().enumerate() {
        let _ = write!(text, "\n{}. {reason} — {remedy}.", number + 1);
    }
    text.push('\n');
    text
}
