//! Random requests, events, times and delays.

use super::*;
use crate::{
    rng::Rng,
    supervisor::{NotReady, RunOver},
};

/// A stage whose results come late, and the state of its run.
struct Play {
    stage: Stage,
    rng: Rng,
    /// True if a run is open.
    is_open: bool,
    is_beginning: bool,
    /// Results that are outstanding: at most one.
    results: Vec<Done>,
    unanswered: BTreeMap<u64, Request>,
    has_ended: bool,
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut stage = Stage::with(Leader::new(rng.below(2) == 0));
        stage.is_slow = true;
        Self {
            stage,
            rng,
            is_open: false,
            is_beginning: false,
            results: Vec::new(),
            unanswered: BTreeMap::new(),
            has_ended: false,
        }
    }

    fn ask(&mut self) {
        let id = builder(1 + self.rng.below(4) as u16);
        let request = match self.rng.below(12) {
            0 => Request::Rate(Frequency::from_hertz(5.0).unwrap()),
            1 => Request::Add(id),
            2 => Request::Remove(id),
            3..6 => Request::Command(Command::Start),
            6 => Request::Command(Command::Configure),
            n => Request::Command(Command::ALL[n as usize % Command::ALL.len()]),
        };
        let number = self.stage.ask(request.clone());
        self.unanswered.insert(number, request);
    }

    fn event(&mut self) -> Option<RunEvent> {
        let peer = Peer::Builder(builder(1 + self.rng.below(3) as u16));
        let states = [
            RunState::Configured,
            RunState::Running,
            RunState::Paused,
            RunState::Recovering,
            RunState::Stopping,
            RunState::Ended,
        ];
        Some(match self.rng.below(20) {
            _ if !self.is_open => return None,
            0..8 => RunEvent::Progress(progress(states[self.rng.below(6) as usize])),
            8..14 if self.is_beginning => {
                self.is_beginning = false;
                let result = match self.rng.below(4) {
                    0 => Err(NotReady::Missing(vec![(peer, String::new())]).into()),
                    1 => Err(RunOver.into()),
                    _ => Ok(()),
                };
                RunEvent::Begun { result, is_hosting: self.rng.below(2) == 0 }
            }
            14 => RunEvent::Joined { peer, is_hosting: self.rng.below(2) == 0 },
            15 => RunEvent::RoleLeft(peer),
            16 => RunEvent::RoleEnded(peer, "gone".to_owned()),
            17 if self.rng.below(5) == 0 => RunEvent::NotJoined(error()),
            18 if self.rng.below(5) == 0 => {
                self.is_open = false;
                RunEvent::Broken("gone".to_owned())
            }
            19 => {
                self.is_open = false;
                RunEvent::Over(Arc::new(report(self.stage.run)))
            }
            _ => return None,
        })
    }

    fn step(&mut self) {
        match self.rng.below(10) {
            0..2 => self.ask(),
            2..5 => {
                if let Some(event) = self.event() {
                    self.stage.hear(event);
                }
            }
            5 => self.stage.pass(Duration::from_millis(self.rng.below(3000))),
            _ => {
                if let Some(done) = self.results.pop() {
                    self.is_open |= matches!(done, Done::Opened(Ok(_)));
                    self.stage.done(done);
                }
            }
        }
        self.look();
    }

    /// Checks what the leader told, and answers.
    fn look(&mut self) {
        self.stage.pass(Duration::ZERO);
        for output in self.stage.told() {
            assert!(!self.has_ended, "nothing follows the end");
            match &output {
                LeaderOutput::Open { .. } => {
                    assert!(!self.is_open, "one run at a time");
                    self.is_beginning = false;
                }
                LeaderOutput::Begin(_) => {
                    assert!(!mem::replace(&mut self.is_beginning, true), "one beginning at a time");
                }
                LeaderOutput::Close(_) => (self.is_open, self.is_beginning) = (false, false),
                LeaderOutput::Ended => self.has_ended = true,
                _ => {}
            }
            self.stage.error = (self.rng.below(10) == 0).then(error);
            self.stage.refuses = (self.rng.below(10) == 0).then(|| "no".to_owned());
            self.results.extend(self.stage.play(output));
            assert!(self.results.len() <= 1, "one result at a time: {:?}", self.results);
        }
        for (number, _) in mem::take(&mut self.stage.answers) {
            assert!(self.unanswered.remove(&number).is_some(), "only requests are answered");
        }
        let due = self.stage.leader.next_timeout();
        assert!(due.is_none_or(|due| due > self.stage.now), "a timer that is due does something");
    }

    /// Ends the leader, and lets all results come.
    fn end(&mut self) {
        let number = self.stage.ask(Request::Close("enough".to_owned()));
        self.unanswered.insert(number, Request::Close(String::new()));
        for _ in 0..1000 {
            self.look();
            if let Some(done) = self.results.pop() {
                self.is_open |= matches!(done, Done::Opened(Ok(_)));
                self.stage.done(done);
            } else if mem::take(&mut self.is_beginning) {
                self.stage.begun(Ok(()));
            } else if mem::take(&mut self.is_open) {
                self.stage.over();
            }
        }
        assert!(self.has_ended, "{:?}", self.stage.leader);
        let left: Vec<_> = self.unanswered.values().collect();
        assert!(left.is_empty(), "every request is answered: {left:?}");
    }
}

#[test]
fn every_request_is_answered_once_whatever_happens() {
    for seed in 0..2000 {
        let mut play = Play::new(seed);
        for _ in 0..200 {
            play.step();
        }
        play.end();
    }
}
