//! Random schedules of sloppy front ends, each a run: leftovers of the last run before, at and
//! after the start, omitted and repeated fragments, connections that are cut, pauses, and a death.
//! `EVB_EDGE_SCHEDULES` sets their number; without it, a few are run.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, thread,
    time::Duration,
};

use evb_core::rng::Rng;
use serde_json::Value;

use crate::{
    front_end::FrontEnd,
    system::{EVENTS, System, fragment},
};

/// Number of schedules without `EVB_EDGE_SCHEDULES`.
const FEW: u64 = 12;
/// Pause from which on events may have been closed without the fragments behind it.
const LONG: u64 = 400;

/// An action of a board within its run.
#[derive(Clone, Debug)]
enum Action {
    Send {
        run: u64,
        event: u64,
    },
    /// Sends a part of a fragment, closes the connection, and connects again.
    Cut {
        event: u64,
    },
    Sleep {
        millis: u64,
    },
}

/// The schedule of a board.
#[derive(Clone, Debug)]
struct Board {
    source: u16,
    protocol: u8,
    /// Events of the last run that are sent before the start, and when evbd is asked to start.
    before: Vec<u64>,
    at: Vec<u64>,
    actions: Vec<Action>,
    /// True if the board is dead at the end of its actions.
    dies: bool,
}

impl Board {
    fn random(source: u16, run: u64, rng: &mut Rng) -> Self {
        let some = |rng: &mut Rng, most: u64| -> Vec<u64> {
            let events: BTreeSet<u64> = (0..rng.below(most)).map(|_| 1 + rng.below(EVENTS - 1)).collect();
            events.into_iter().collect()
        };
        let (before, at, after) = (some(rng, 20), some(rng, 20), some(rng, 8));
        let omitted = if rng.below(3) == 0 { some(rng, 5) } else { Vec::new() };
        let events = (1..EVENTS).filter(|event| !omitted.contains(event));
        let mut actions: Vec<Action> = events.map(|event| Action::Send { run, event }).collect();
        actions.extend(after.iter().map(|event| Action::Send { run: run - 1, event: *event }));
        actions.extend(some(rng, 10).iter().map(|event| Action::Send { run, event: *event }));
        // Neighbours change places; leftovers and repeats come anywhere.
        for index in 0..actions.len() {
            let is_late = index as u64 >= EVENTS - 1 - omitted.len() as u64;
            let other = if is_late {
                rng.below(index as u64 + 1) as usize
            } else {
                index.saturating_sub(rng.below(4) as usize)
            };
            actions.swap(index, other);
        }
        for _ in 0..rng.below(3) {
            actions.insert(
                rng.below(actions.len() as u64) as usize,
                Action::Cut { event: 1 + rng.below(EVENTS) },
            );
        }
        if rng.below(3) == 0 {
            let millis = if rng.below(4) == 0 { 1300 } else { rng.below(100) };
            actions.insert(rng.below(actions.len() as u64) as usize, Action::Sleep { millis });
        }
        let dies = source == 1 && rng.below(8) == 0;
        if dies {
            actions.truncate(rng.below(actions.len() as u64) as usize);
        } else {
            // The run does not end before all has arrived.
            actions.push(Action::Send { run, event: EVENTS });
        }
        Self { source, protocol: 1 + rng.below(2) as u8, before, at, actions, dies }
    }

    fn connect(&self, system: &System) -> FrontEnd {
        let mut front_end = system.connect(self.source);
        if self.protocol == 2 {
            // Boards of the second source want to know what is accepted.
            front_end.greet("board", (self.source - 1) as u8);
        }
        front_end
    }

    /// Sends what is left of the last run.
    fn leave(&self, front_end: &mut FrontEnd, events: &[u64], run: u64) {
        events.iter().for_each(|event| front_end.send(&fragment(self.source, run - 1, *event)));
    }

    /// Carries out the actions of the run on a connection that is open. `last` is the id of the
    /// last run. Returns the id of this one, if evb told it. The run may end without a slow board.
    fn play(&self, system: &System, mut front_end: FrontEnd, run: u64, last: [u8; 16]) -> Option<[u8; 16]> {
        let id = (self.protocol == 2).then(|| front_end.wait_for_start());
        let mut stated = None;
        for action in &self.actions {
            let goes_on = match action {
                Action::Sleep { millis } => {
                    thread::sleep(Duration::from_millis(*millis));
                    true
                }
                Action::Cut { event } => {
                    state(&mut front_end, id, &mut stated);
                    let goes_on = front_end.try_send(&fragment(self.source, run, *event)[..22]);
                    if goes_on {
                        (front_end, stated) = (self.connect(system), None);
                        // A closed connection loses what was sent if a message was not read.
                        if id.is_some() {
                            front_end.message();
                        }
                    }
                    goes_on
                }
                Action::Send { run: of, event } => {
                    state(&mut front_end, id.map(|id| if *of == run { id } else { last }), &mut stated);
                    front_end.try_send(&fragment(self.source, *of, *event))
                }
            };
            if !goes_on {
                assert!(self.is_slow(), "evb has closed the connection of {self:?}");
                return id;
            }
        }
        if !self.dies {
            // The connection stays open until the end of the run.
            front_end.finish();
        }
        id
    }

    /// Returns the events of which fragments of a run are sent, one entry for each fragment.
    fn sent(&self, run: u64) -> Vec<u64> {
        let of_run = |action: &Action| match action {
            Action::Send { run: of, event } if *of == run => Some(*event),
            _ => None,
        };
        self.actions.iter().filter_map(of_run).collect()
    }

    /// Returns the numbers of repeats and of contradictions: of the fragments that are taken for an
    /// event, those that are of the same run as the first one, and the others.
    fn expected(&self, run: u64) -> (u64, u64) {
        let (mut first, mut repeats, mut contradictions) = (BTreeMap::new(), 0, 0);
        for action in &self.actions {
            if let Action::Send { run: of, event } = action
                && (*of == run || self.protocol == 1)
            {
                match first.insert(*event, *first.get(event).unwrap_or(of)) {
                    None => {}
                    Some(first) if first == *of => repeats += 1,
                    Some(_) => contradictions += 1,
                }
            }
        }
        (repeats, contradictions)
    }

    fn cuts(&self) -> u64 {
        self.actions.iter().filter(|action| matches!(action, Action::Cut { .. })).count() as u64
    }

    /// Returns true if events may be closed without fragments that this board sends.
    fn is_slow(&self) -> bool {
        let long = |action: &Action| matches!(action, Action::Sleep { millis } if *millis >= LONG);
        self.dies || self.actions.iter().any(long)
    }

    /// Checks the counts of the board's source in the summary, and its fragments in the files.
    fn check(&self, run: u64, summary: &Value, used: &[(u64, Option<u64>)]) {
        let own = &summary["sources"][usize::from(self.source) - 1];
        let count = |key: &str| own[key].as_u64().unwrap();
        let (sent, left) = (self.sent(run), self.sent(run - 1));
        let true_ones: BTreeSet<u64> = sent.iter().copied().collect();
        for (event, found) in used {
            match found {
                Some(of) if *of == run => assert!(true_ones.contains(event), "event {event}"),
                // Only after the start, protocol 1 cannot tell a leftover.
                Some(of) => {
                    assert!(*of == run - 1 && self.protocol == 1 && left.contains(event), "event {event}")
                }
                None => {
                    assert!(
                        !true_ones.contains(event) || self.is_slow(),
                        "event {event} lacks its fragment: {own:#}"
                    )
                }
            }
        }
        let missing = used.iter().filter(|(_, found)| found.is_none()).count() as u64;
        assert_eq!(count("missing"), missing);
        let by_cause = own["missing_by_cause"].as_object().unwrap().values();
        assert_eq!(by_cause.map(|events| events.as_u64().unwrap()).sum::<u64>(), missing, "a cause for each");
        assert_eq!(count("discarded_before_start"), (self.before.len() + self.at.len()) as u64);
        if self.is_slow() {
            return;
        }
        assert_eq!(count("malformed"), self.cuts());
        let (repeats, contradictions) = self.expected(run);
        let (found, other) = ((count("repeats"), count("contradictions")), count("of_other_runs"));
        assert_eq!(found.0 + found.1, repeats + contradictions, "{own:#}");
        // evb may read two connections in another order than they were written.
        assert!(self.cuts() > 0 || found == (repeats, contradictions), "{found:?} {own:#}");
        assert_eq!(found.1 > 0, contradictions > 0, "{own:#}");
        assert_eq!(other, if self.protocol == 1 { 0 } else { left.len() as u64 });
        assert_eq!(count("front_end_protocol"), u64::from(self.protocol));
    }
}

/// States a run that is not the one stated last.
fn state(front_end: &mut FrontEnd, run: Option<[u8; 16]>, stated: &mut Option<[u8; 16]>) {
    if let Some(id) = run.filter(|_| *stated != run) {
        front_end.try_state(id);
        *stated = run;
    }
}

#[test]
fn every_fragment_is_of_its_run_or_named() {
    let schedules = env::var("EVB_EDGE_SCHEDULES").map_or(FEW, |count| count.parse().unwrap());
    let system = System::start_with_deadline("1 s");
    let mut rng = Rng::new(3600);
    let mut last = [9; 16];
    for run in 1..=schedules {
        let boards = [1, 2].map(|source| Board::random(source, run, &mut rng));
        system.wait_until_ready(run - 1);
        let mut open = boards.each_ref().map(|board| board.connect(&system));
        boards
            .iter()
            .zip(&mut open)
            .for_each(|(board, front_end)| board.leave(front_end, &board.before, run));
        thread::sleep(Duration::from_millis(rng.below(2) * 50));
        let logged = system.log().len();
        system.freeze();
        boards.iter().zip(&mut open).for_each(|(board, front_end)| board.leave(front_end, &board.at, run));
        system.begin_from_frozen();
        let (summary, ids) = thread::scope(|scope| {
            let system = &system;
            let play =
                |(board, front_end)| scope.spawn(move || Board::play(board, system, front_end, run, last));
            let playing: Vec<_> = boards.iter().zip(open).map(play).collect();
            let summary = system.end(run);
            (summary, playing.into_iter().map(|board| board.join().unwrap()).collect::<Vec<_>>())
        });
        last = ids.into_iter().flatten().next().unwrap_or([run as u8; 16]);
        println!("run {run}: {boards:?}");
        check(&system, run, &boards, &summary);
        check_changes(&system.log()[logged..]);
    }
}

/// Checks that no readout changed its state more than eight times in a run, which takes less than a
/// minute.
fn check_changes(log: &str) {
    for source in [1, 2] {
        let words = [
            format!("source {source} has no readout"),
            format!("the readout of source {source} delivers again"),
        ];
        let changes = log.lines().filter(|line| words.iter().any(|words| line.contains(words))).count();
        assert!(changes <= 8, "{log}");
    }
}

fn check(system: &System, run: u64, boards: &[Board; 2], summary: &Value) {
    let events = system.events(run);
    assert_eq!(events.len() as u64, EVENTS, "{summary:#}");
    for board in boards {
        let used: Vec<(u64, Option<u64>)> = (events.iter())
            .map(|event| {
                let own = event.fragments().find(|fragment| fragment.source.number() == board.source);
                let run = own.map(|own| u64::from_le_bytes(own.payload[8..16].try_into().unwrap()));
                (event.id.number(), run)
            })
            .collect();
        board.check(run, summary, &used);
    }
    let incomplete = summary["events"]["incomplete"].as_u64().unwrap();
    let contradictions = [0, 1].map(|source| summary["sources"][source]["contradictions"].as_u64().unwrap());
    let is_wrong = incomplete > 0 || contradictions != [0, 0];
    assert_eq!(summary["exit_code"], u64::from(is_wrong), "{summary:#}");
    let remarks = summary["remarks"].as_array().unwrap();
    for board in boards.iter().filter(|board| board.protocol == 1 && !board.sent(run).is_empty()) {
        let said = format!(
            "source {}: its front end speaks protocol 1, which does not state the run of its fragments; protocol 2 does",
            board.source
        );
        assert!(
            remarks.iter().any(|remark| remark.as_str().is_some_and(|remark| remark.starts_with(&said))),
            "{summary:#}"
        );
    }
}
