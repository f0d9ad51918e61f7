use std::{collections::BTreeSet, path::Path};

use super::{
    Command, Occurrence, Outcome, Refusal, State,
    State::{Configured, Failed, Paused, Running, Stopping, Unconfigured},
    Stimulus, table,
};

/// The legal commands, listed here again, so that a change of the table has to be made in both
/// places.
const LEGAL: [(State, Command, State); 10] = [
    (Unconfigured, Command::Configure, Configured),
    (Configured, Command::Configure, Configured),
    (Configured, Command::Start, Running),
    (Running, Command::Pause, Paused),
    (Paused, Command::Pause, Paused),
    (Paused, Command::Resume, Running),
    (Running, Command::Stop, Stopping),
    (Paused, Command::Stop, Stopping),
    (Configured, Command::Reset, Unconfigured),
    (Failed, Command::Reset, Unconfigured),
];

#[test]
fn every_state_takes_or_refuses_every_command() {
    let mut legal = 0;
    for state in State::ALL {
        for command in Command::ALL {
            let wanted = LEGAL.iter().find(|(from, by, _)| (*from, *by) == (state, command));
            let wanted = wanted.map(|(_, _, to)| *to);
            match (state.command(command), wanted) {
                (Ok(next), Some(wanted)) => {
                    assert_eq!(next, wanted, "{state} {command}");
                    legal += 1;
                }
                (Err(refusal), None) => {
                    let Refusal { request, refused_by, reason, remedy } = &refusal;
                    assert_eq!((request.as_str(), refused_by), (command.name(), &format!("state {state}")));
                    assert!(reason.len() > 10 && remedy.len() > 10, "{state} {command}: {refusal}");
                }
                (got, wanted) => panic!("{state} {command}: {got:?} instead of {wanted:?}"),
            }
        }
    }
    assert_eq!(legal, 10);
}

#[test]
fn occurrences_are_never_refused_and_only_change_what_they_should() {
    let changes = [
        (Configured, Occurrence::PeersReady, Configured),
        (Configured, Occurrence::Recovered, Running),
        (Running, Occurrence::PausedByItself, Paused),
        (Paused, Occurrence::ResumedByItself, Running),
        (Running, Occurrence::LastTrigger, Stopping),
        (Paused, Occurrence::LastTrigger, Stopping),
        (Running, Occurrence::Drained, Configured),
        (Paused, Occurrence::Drained, Configured),
        (Stopping, Occurrence::Drained, Configured),
        (Configured, Occurrence::Failure, Failed),
        (Running, Occurrence::Failure, Failed),
        (Paused, Occurrence::Failure, Failed),
        (Stopping, Occurrence::Failure, Failed),
    ];
    for state in State::ALL {
        for occurrence in Occurrence::ALL {
            let change = changes.iter().find(|(from, by, _)| (*from, *by) == (state, occurrence));
            let outcome = state.after(Stimulus::Occurrence(occurrence));
            match change {
                Some((_, _, to)) => assert_eq!(outcome, Outcome::Becomes(*to), "{state} {occurrence:?}"),
                None => assert_eq!(outcome, Outcome::Ignored, "{state} {occurrence:?}"),
            }
            assert_eq!(state.occur(occurrence), change.map_or(state, |(_, _, to)| *to));
        }
    }
}

#[test]
fn every_state_is_reached_and_left() {
    let mut reached = BTreeSet::from([Unconfigured]);
    loop {
        let before = reached.len();
        let next = reached.iter().flat_map(|state| Stimulus::all().map(|stimulus| state.after(stimulus)));
        let next: Vec<State> = next
            .filter_map(|out| if let Outcome::Becomes(state) = out { Some(state) } else { None })
            .collect();
        reached.extend(next);
        if reached.len() == before {
            break;
        }
    }
    assert_eq!(reached.into_iter().collect::<Vec<_>>(), State::ALL);
    // From every state, commands and occurrences lead to a running run.
    for state in State::ALL {
        let mut state = state;
        for _ in 0..4 {
            state = match state {
                Unconfigured => state.command(Command::Configure).unwrap(),
                Configured => state.command(Command::Start).unwrap(),
                Paused => state.command(Command::Resume).unwrap(),
                Failed => state.command(Command::Reset).unwrap(),
                Stopping => state.occur(Occurrence::Drained),
                Running => state,
            };
        }
        assert_eq!(state, Running);
    }
}

#[test]
fn commands_are_told_by_their_names() {
    for command in Command::ALL {
        assert_eq!(command.name().parse::<Command>().unwrap(), command);
    }
    let unknown = "abort".parse::<Command>().unwrap_err().to_string();
    assert!(unknown.contains("`abort`") && unknown.contains("reset"), "{unknown}");
}

#[test]
fn a_refusal_says_who_why_and_what_to_do() {
    let refusal = Paused.command(Command::Start).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "start refused by state Paused: the run is only paused; use resume to continue it"
    );
}

/// `docs/reference/run-control.md` contains the table that the code generates, and a diagram with
/// every state and every transition.
#[test]
fn the_documentation_has_this_table_and_draws_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/run-control.md");
    let page = std::fs::read_to_string(path).unwrap();
    let between = |begin: &str, end: &str| {
        let rest = page.split_once(begin).unwrap_or_else(|| panic!("no {begin}")).1;
        rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0.trim_matches('\n').to_owned()
    };
    let wanted = table();
    assert_eq!(between("<!-- table -->", "<!-- end of table -->"), wanted.trim_end(), "write:\n{wanted}");
    let diagram = between("```text diagram", "```");
    for state in State::ALL {
        assert!(diagram.contains(state.name()), "{state} is not drawn");
        for stimulus in Stimulus::all() {
            let changes = matches!(state.after(stimulus), Outcome::Becomes(next) if next != state);
            assert!(!changes || diagram.contains(stimulus.name()), "{} is not drawn", stimulus.name());
        }
    }
}
