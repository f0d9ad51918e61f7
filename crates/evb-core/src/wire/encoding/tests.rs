use std::collections::BTreeSet;

use super::{
    super::{
        control::{self, Control, Hello, Message, Ready, RunEnd},
        journal::{self, Entry, What},
    },
    *,
};

/// A declared type with its fields or variants, each as name, type, and number.
pub(crate) type Declared = (&'static str, &'static [(&'static str, &'static str, u32)]);

/// Returns the declarations as one line per field: `Hello.role: Role = 1`. The fields of a choice
/// are listed as fields of the message that contains it.
fn declared(messages: &[Declared], choices: &[Declared], enumerations: &[Declared]) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (name, fields) in messages {
        for (field, kind, number) in *fields {
            let kind = kind.replace(' ', "");
            let chosen = choices.iter().find(|(choice, _)| kind == format!("Option<{choice}>"));
            let Some((_, variants)) = chosen else {
                let part = kind.strip_prefix("Option<").and_then(|kind| kind.strip_suffix('>'));
                let kind = part.unwrap_or(&kind).replace("Box<", "").replace("control::", "");
                lines.insert(format!("{name}.{field}: {} = {number}", kind.trim_end_matches('>')));
                continue;
            };
            assert_eq!(*number, 0);
            lines.extend(variants.iter().map(|(variant, kind, number)| {
                format!("{name}.{}: {kind} = {number}", variant.to_lowercase())
            }));
        }
    }
    for (name, variants) in enumerations {
        lines.extend(
            variants
                .iter()
                .map(|(variant, _, number)| format!("{name}.{} = {number}", variant.to_lowercase())),
        );
    }
    lines
}

/// Returns the declarations in a `.proto` file, in the same form as [`declared`].
fn specified(proto: &str) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    let mut open: Vec<(&str, &str)> = Vec::new();
    for line in proto.lines() {
        let words: Vec<&str> = line.split("//").next().unwrap_or_default().split_whitespace().collect();
        let within = |kind: &str| open.iter().rev().find(|(open, _)| *open == kind).map(|(_, name)| *name);
        match words.as_slice() {
            [kind @ ("message" | "enum" | "oneof"), name, "{"] => open.push((kind, name)),
            ["}"] => _ = open.pop(),
            [name, "=", number] if open.last().is_some_and(|(kind, _)| *kind == "enum") => {
                let of = within("enum").expect("an enumeration is open");
                let name = name.to_lowercase().replace('_', "");
                let name = name.strip_prefix(&of.to_lowercase()).expect("variants begin with its name");
                lines.insert(format!("{of}.{name} = {}", number.trim_end_matches(';')));
            }
            [repeated @ .., kind, name, "=", number] if !open.is_empty() => {
                let kind = kind.rsplit('.').next().unwrap_or(kind);
                let kind = match kind {
                    "uint32" => "u32",
                    "uint64" => "u64",
                    "double" => "f64",
                    "string" => "String",
                    "bytes" => "RunId",
                    kind => kind,
                };
                let kind = if repeated == ["repeated"] { format!("Vec<{kind}") } else { kind.to_owned() };
                let in_choice = open.last().is_some_and(|(kind, _)| *kind == "oneof");
                let name = if in_choice { name.replace('_', "") } else { (*name).to_owned() };
                let of = within("message").expect("a message is open");
                lines.insert(format!("{of}.{name}: {kind} = {}", number.trim_end_matches(';')));
            }
            _ => {}
        }
    }
    lines
}

#[test]
fn the_declarations_are_those_of_the_specification() {
    let control =
        declared(&[control::MESSAGES, control::REPORTS].concat(), control::CHOICES, control::ENUMERATIONS);
    assert_eq!(control, specified(include_str!("../../../proto/control.proto")));
    assert!(control.len() > 150, "{}", control.len());
    let journal = declared(journal::MESSAGES, journal::CHOICES, journal::ENUMERATIONS);
    assert_eq!(journal, specified(include_str!("../../../proto/journal.proto")));
    assert!(journal.len() > 80, "{}", journal.len());
}

#[test]
fn what_is_unknown_is_passed_over() {
    // The bytes contain role 9, which is unknown, and an unknown field 100 with two bytes.
    let hello = Hello::decode(&[8, 9, 16, 7, 0xa2, 6, 2, 1, 2]).unwrap();
    assert_eq!(hello, Hello { id: 7, ..Hello::default() });
    assert_eq!(Control::decode(&[0xa2, 6, 2, 1, 2]), Ok(Control::default()));
}

#[test]
fn what_comes_twice_is_merged_and_the_last_choice_holds() {
    let run_end = |exit_code, verdict: &str| RunEnd { exit_code, verdict: verdict.to_owned() };
    let say = |message| Control { message: Some(message) }.encode_to_vec();
    let twice = [say(Message::RunEnd(run_end(3, ""))), say(Message::RunEnd(run_end(0, "good")))].concat();
    assert_eq!(Control::decode(&twice), Ok(Control { message: Some(Message::RunEnd(run_end(3, "good"))) }));
    let ready = [twice, say(Message::Ready(Ready {}))].concat();
    assert_eq!(Control::decode(&ready), Ok(Control { message: Some(Message::Ready(Ready {})) }));
    let error = Control::decode(&ready[..3]).unwrap_err().to_string();
    assert!(error.contains("Control.message"), "{error}");
}

#[test]
fn a_choice_is_there_though_it_is_zero() {
    for what in [What::Epoch(0), What::Paused(false), What::Rate(0.0), What::Stopping(String::new())] {
        let entry = Entry { at_ns: 0, what: Some(what) };
        let bytes = entry.encode_to_vec();
        assert_eq!((bytes.len(), Entry::decode(&bytes)), (entry.encoded_len(), Ok(entry)));
        assert!(bytes.len() > 1);
    }
}
