//! Boards that miss or double a trigger, whose clock goes wrong, or that send what is left of
//! another run, while the run goes on: log, status, metrics, summary, files, `evbd verify --align`
//! and Python say the same. `EVB_EDGE_MISALIGNED=all` runs all cases, and `=20,21` these; without
//! it, a few are run.

use std::{
    env,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use evb::supervisor::StateDir;
use evb_core::rng::Rng;
use evb_file::{Episode, Merge, Selection};
use serde_json::{Value, json};

use crate::{
    detector::{Detector, Layout},
    system::fragment,
};

/// Number of events of a run, and of sources.
const EVENTS: u64 = 600;
const SOURCES: u16 = 8;
/// The source whose board has the fault, the one whose clock counts time, and one whose cable may
/// be in the wrong place.
const FAULTY: u16 = 4;
const LEAD: u16 = 1;
const OTHER: u16 = 6;
/// Clocks of the boards: kilohertz, bits, and the deviation of their rate in parts per million.
const CLOCKS: [(u64, u32, i64); SOURCES as usize] = [
    (250_000, 64, 12),
    (100_000, 32, -40),
    (62_500, 40, 75),
    (125_000, 48, -90),
    (40_079, 24, 33),
    (125_000, 48, 3),
    (125_000, 48, -7),
    (125_000, 48, 60),
];
/// Number of fragments that are left of another run.
const LEFT: u64 = 40;
/// Without `EVB_EDGE_MISALIGNED=all`, one of that number of cases is run.
const ONE_OF: usize = 13;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The board misses that many triggers and counts on; if negative, it counts triggers twice.
    Slips(i64),
    /// The board whose clock counts time misses a trigger.
    LeadSlips,
    /// The clock of the board is reset.
    Resets,
    /// The clock of the board leaps ahead.
    Leaps,
    /// The clock of the board stands still.
    Stands,
    /// The clock of the board becomes too fast.
    OtherRate,
    /// The clock of the board has fewer bits than its declaration.
    OtherBits,
    /// The cables of two boards are exchanged.
    Exchanged,
    /// One timestamp is wrong.
    WrongStamp,
    /// Fragments of another run come in place of the right ones.
    Leftovers,
}

#[derive(Clone, Copy, Debug)]
enum Triggers {
    Periodic,
    Poisson,
    Spills,
}

/// A fault from an event on, and the process that is killed soon after it.
#[derive(Clone, Copy, Debug)]
struct Case {
    fault: Fault,
    at: u64,
    triggers: Triggers,
    builders: u16,
    killed: Option<&'static str>,
}

impl Triggers {
    /// Returns the times of triggers in nanoseconds, about 200 in a second. The first one is that
    /// of event 0, which does not exist.
    fn times(self, seed: u64) -> Vec<u64> {
        let mut rng = Rng::new(seed);
        let mut now = 0;
        let interval = |number: u64, rng: &mut Rng| match self {
            Self::Periodic => 5_000_000,
            // So far apart that a fragment of the next event never agrees by chance.
            Self::Poisson => (5e6 * rng.exponential()) as u64 + 20_000,
            Self::Spills if number.is_multiple_of(100) => 300_000_000,
            Self::Spills => 1_000_000 + rng.below(2_000_000),
        };
        let mut times = vec![0];
        for number in 1..=EVENTS + 1 {
            now += interval(number, &mut rng);
            times.push(now);
        }
        times
    }
}

/// Returns the reading of a board's clock; boards begin at different times and have jitter.
fn reading(source: u16, nanos: u64) -> u64 {
    let (kilohertz, bits, deviation) = CLOCKS[usize::from(source) - 1];
    let jitter = (nanos / 1000 * u64::from(source) * 7919) % 9;
    let rate = u128::from(kilohertz) * u128::from(1_000_000u64.strict_add_signed(deviation));
    let ticks = u128::from(nanos + jitter) * rate / 1_000_000_000_000;
    (ticks as u64 + u64::from(source) * 1_000_000_007) & (u64::MAX >> (64 - bits))
}

/// Returns the clock of a source as its configuration declares it.
fn clock(source: u16) -> String {
    let (kilohertz, bits, _) = CLOCKS[usize::from(source) - 1];
    format!("clock = {{ rate = \"{kilohertz} kHz\", bits = {bits} }}")
}

impl Case {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        let mut add = |fault, at, triggers, killed| {
            let builders = if all.len() % 2 == 0 { 2 } else { 4 };
            all.push(Self { fault, at, triggers, builders, killed });
        };
        for triggers in [Triggers::Periodic, Triggers::Poisson, Triggers::Spills] {
            for fault in [Fault::Slips(1), Fault::Slips(-1), Fault::Resets, Fault::Leftovers] {
                for at in [150, 330, EVENTS - 15, EVENTS] {
                    add(fault, at, triggers, None);
                }
            }
            for fault in [Fault::Slips(2), Fault::Slips(-5), Fault::LeadSlips] {
                add(fault, 150, triggers, None);
            }
            for fault in [Fault::Leaps, Fault::Stands, Fault::OtherRate, Fault::Exchanged, Fault::WrongStamp]
            {
                add(fault, 330, triggers, None);
            }
            add(Fault::OtherBits, 1, triggers, None);
        }
        for killed in ["builder:2", "sources 3", "supervisor"] {
            for _ in [2, 4] {
                add(Fault::Slips(1), 330, Triggers::Poisson, Some(killed));
            }
        }
        all
    }

    /// Returns the sources whose boards have the fault.
    fn faulty(self) -> &'static [u16] {
        match self.fault {
            Fault::LeadSlips => &[LEAD],
            Fault::Exchanged => &[FAULTY, OTHER],
            _ => &[FAULTY],
        }
    }

    /// Returns what the board of a source sends for an event: its trigger, and its timestamp.
    fn sends(self, source: u16, event: u64, times: &[u64], other: &[u64]) -> Option<Vec<u8>> {
        let (mut trigger, mut stamp) = (event, None);
        if self.faulty().contains(&source) && event >= self.at {
            let time = times[event as usize];
            match self.fault {
                Fault::Slips(shift) => trigger = event.strict_add_signed(shift),
                Fault::LeadSlips => trigger += 1,
                Fault::Resets => stamp = Some(reading(source, time - times[self.at as usize - 1])),
                Fault::Leaps => stamp = Some(reading(source, time + 3_141_592_653)),
                Fault::Stands => stamp = Some(reading(source, times[self.at as usize - 1])),
                Fault::OtherRate => {
                    let fast = (time - times[self.at as usize - 1]) / 1000;
                    stamp = Some(reading(source, time + fast));
                }
                Fault::OtherBits => stamp = Some(reading(source, time) & 0x3ff_ffff),
                Fault::Exchanged => stamp = Some(reading(FAULTY + OTHER - source, time)),
                Fault::WrongStamp if event == self.at => stamp = Some(reading(source, time + 123_456_789)),
                Fault::Leftovers if event < self.at + LEFT => {
                    stamp = Some(reading(source, 77_000_000_000 + other[event as usize]));
                }
                Fault::Leftovers | Fault::WrongStamp => {}
            }
        }
        if trigger > EVENTS {
            return None;
        }
        let stamp = stamp.unwrap_or_else(|| reading(source, times[trigger as usize]));
        let mut bytes = fragment(source, 1, trigger);
        bytes[4..12].copy_from_slice(&event.to_le_bytes());
        bytes[12..20].copy_from_slice(&stamp.to_le_bytes());
        Some(bytes)
    }

    fn layout(self, seed: u64, on_slip: &'static str) -> Layout {
        let times = Arc::new(self.triggers.times(seed));
        let other = self.triggers.times(seed + 1);
        let due = times.clone();
        Layout {
            sources: SOURCES,
            together: 1,
            builders: self.builders,
            run: format!("events = {EVENTS}"),
            supervisor: "deadline = \"1 s\"",
            keys: (1..=SOURCES).map(|id| (id, clock(id))).collect(),
            sections: on_slip.to_owned(),
            // Later announcements make up for those that were lost while the supervisor was dead.
            due: Arc::new(move |number| {
                let nanos = due.get(number as usize).copied();
                Duration::from_nanos(
                    nanos.unwrap_or_else(|| due[due.len() - 1] + 5_000_000 * (number - EVENTS)),
                )
            }),
            sent: Arc::new(move |source, event| {
                (event <= EVENTS).then(|| self.sends(source, event, &times, &other)).flatten()
            }),
        }
    }

    /// Returns true if enough events follow the fault to name it.
    fn can_be_named(self) -> bool {
        self.at + 100 < EVENTS
    }

    fn shift(self) -> Option<i64> {
        match self.fault {
            Fault::Slips(shift) => Some(shift),
            Fault::LeadSlips => Some(1),
            _ => None,
        }
    }

    fn run(self, seed: u64) {
        let mut detector = Detector::start(self.layout(seed, ""));
        detector.begin();
        if let Some(killed) = self.killed {
            while detector.triggers() < self.at + 5 {
                thread::sleep(Duration::from_millis(1));
            }
            detector.kill(killed);
            thread::sleep(Duration::from_millis(200));
            detector.launch(killed);
        }
        if self.can_be_named() && self.killed.is_none() && self.shift().is_some() {
            self.check_status(&detector);
        }
        let summary = detector.summary();
        self.check(&detector, &summary);
    }

    /// Waits until the status names the source, and compares the metrics with it.
    fn check_status(self, detector: &Detector) {
        let (faulty, since) = (self.faulty()[0], format!("since event {}", self.at));
        let status = detector.wait_for("named in the status", |status| {
            let problems = status["problems"].as_array();
            let is_named = |problem: &Value| {
                problem["subject"] == named(faulty)
                    && problem["text"].as_str().is_some_and(|text| text.contains(&since))
            };
            let state = &status["survey"]["sources"][usize::from(faulty) - 1]["alignment"]["state"];
            state == "misaligned" && problems.is_some_and(|all| all.iter().any(is_named))
        });
        let metrics = metrics(detector);
        for source in 1..=SOURCES {
            let line =
                format!("evb_source_is_misaligned{{source=\"{source}\"}} {}.0", u8::from(source == faulty));
            assert!(metrics.lines().any(|found| found == line), "{self:?}: {line}; {status:#}; {metrics}");
        }
    }

    /// Returns the word for what happens, if it is known soon after the fault, and if the first
    /// event of it is known.
    fn kind(self) -> Option<&'static str> {
        match self.fault {
            Fault::Slips(_) | Fault::LeadSlips => self.can_be_named().then_some("slip"),
            Fault::Leaps => Some("clock jump"),
            Fault::Resets => self.can_be_named().then_some("clock jump"),
            Fault::Stands => Some("stuck"),
            Fault::OtherRate => Some("other rate"),
            Fault::OtherBits => Some("other bits"),
            Fault::Exchanged => Some("exchanged"),
            Fault::WrongStamp => Some("single timestamps"),
            Fault::Leftovers => None,
        }
    }

    /// Compares summary, log, files and `evbd verify --align`.
    fn check(self, detector: &Detector, summary: &Value) {
        let texts = |key: &str| -> Vec<String> {
            summary[key]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|text| text.as_str().map(str::to_owned))
                .collect()
        };
        let (problems, remarks) = (texts("problems"), texts("remarks"));
        let is_named = |text: &&String| self.faulty().iter().any(|faulty| text.contains(&named(*faulty)));
        let all: Vec<&String> =
            problems.iter().chain(&remarks).filter(|text| text.contains("since event")).collect();
        assert!(all.iter().all(is_named), "{self:?}: an innocent source: {summary:#}");
        let merge = Merge::open(&[detector.path("out")], &Selection::default()).unwrap();
        let told = merge.identity().episodes.clone();
        let found = verified(detector);
        assert!(
            told.iter().chain(&found).all(|episode| self.faulty().contains(&episode.source.number())),
            "{self:?}: {told:?}"
        );
        let records = StateDir::new(detector.path("evb-state")).records().unwrap();
        let kinds = |all: &[Episode]| all.iter().map(|one| (one.since, one.kind.clone())).collect::<Vec<_>>();
        assert_eq!(records.first().map(|record| kinds(&record.episodes)), Some(kinds(&told)), "{self:?}");
        if self.killed.is_none() {
            // The run only knows that an episode is over soon after its last event, and may measure
            // a rate in other events.
            let without_end = |all: &[Episode]| -> Vec<(Episode, bool)> {
                let known = |one: &Episode| Episode { until: None, text: String::new(), ..one.clone() };
                let cut = |one: &Episode| (known(one), one.until.is_some());
                all.iter().map(cut).collect()
            };
            assert_eq!(
                without_end(&told),
                without_end(&found),
                "{self:?}: the files and evbd verify: {summary:#}"
            );
        }
        if let Some(kind) = self.kind() {
            let expected: Vec<_> = self.faulty().iter().map(|source| (*source, kind)).collect();
            let all: Vec<_> = told.iter().map(|one| (one.source.number(), one.kind.as_str())).collect();
            assert_eq!(all, expected, "{self:?}: {told:?}");
        }
        self.check_python(detector, &told);
        let is_suspect = |text: &&String| text.contains("the run ended before it was clear");
        match self.shift() {
            Some(shift) if self.can_be_named() => {
                let [episode] = &told[..] else { panic!("{self:?}: {told:?} {summary:#}") };
                assert_eq!(episode.shift, Some(shift), "{self:?}: {episode:?}");
                let tolerated = if self.killed.is_none() { 0 } else { 60 };
                assert!(
                    (self.at..=self.at + tolerated).contains(&episode.since.number()),
                    "{self:?}: {episode:?}"
                );
                let since = format!("since event {}, {}", episode.since, named(self.faulty()[0]));
                assert!(problems.iter().any(|text| text.starts_with(&since)), "{self:?}: {summary:#}");
                assert!(detector.log().contains(&since), "{self:?}: {}", detector.log());
            }
            // Near the end of the run, rings hold too little to tell.
            Some(_) if self.at < EVENTS => assert!(
                all.iter().any(|text| is_suspect(text) || text.contains(&format!("since event {}", self.at))),
                "{self:?}: {summary:#}"
            ),
            Some(1) => {
                let words =
                    format!("delivered {} of {EVENTS} fragments, none for the last event", EVENTS - 1);
                assert!(problems.iter().any(|text| text.contains(&words)), "{self:?}: {summary:#}");
            }
            Some(_) => assert!(!all.is_empty(), "{self:?}: {summary:#}"),
            None if self.fault == Fault::Resets => {
                let is_right = told.iter().all(|episode| !episode.misaligned);
                assert!(is_right && problems.iter().all(|text| is_suspect(&text)), "{self:?}: {summary:#}");
                assert!(!all.is_empty(), "{self:?}: {summary:#}");
            }
            None => assert!(!all.is_empty(), "{self:?}: {summary:#}"),
        }
        assert_eq!(summary["exit_code"], u64::from(!problems.is_empty()), "{self:?}: {summary:#}");
    }

    /// Compares what Python reads from the files with the episodes of the run.
    fn check_python(self, detector: &Detector, told: &[Episode]) {
        let Some(read) = read_by_python(detector) else { return };
        let episode = |one: &Episode| json!([one.source.number(), one.since.number(), one.shift, one.kind]);
        assert_eq!(read["episodes"], told.iter().map(episode).collect::<Value>(), "{self:?}");
        let events = |state: &str, source: u16| -> Vec<u64> {
            let all = read["flags"][state][source.to_string()].as_array();
            all.into_iter().flatten().filter_map(Value::as_u64).collect()
        };
        for source in 1..=SOURCES {
            let (agree, disagree) = (events("True", source), events("False", source));
            if !self.faulty().contains(&source) {
                assert!(disagree.is_empty(), "{self:?}: source {source}: {disagree:?}");
            } else if self.can_be_named() && self.shift().is_some() {
                let wrong: Vec<_> = agree.iter().filter(|event| **event >= self.at).collect();
                assert!(wrong.is_empty(), "{self:?}: {wrong:?}");
                assert!(disagree.contains(&self.at), "{self:?}: {disagree:?}");
            }
        }
    }
}

/// Prints, from Python, the episodes of a run, and the events in which fragments of each source
/// agree and disagree.
const READER: &str = "
import json, sys, evb_read
[run], _ = evb_read.runs_of(evb_read.files_at(sys.argv[1:]))
flags = {}
for path in run.files:
    with evb_read.EventFile(path) as file:
        for event in file:
            for part in event.fragments:
                flags.setdefault(str(part.aligned), {}).setdefault(part.source, []).append(event.id)
            assert event.aligned == all(part.aligned is not False for part in event.fragments)
print(json.dumps({'episodes': [[one.source, one.since, one.shift, one.kind] for one in run.alignment], 'flags': flags}))
";

/// Returns a source as messages name it.
fn named(source: u16) -> String {
    format!("source {source} (crate {source})")
}

/// Returns what Python finds in the files; `None` where there is no Python.
fn read_by_python(detector: &Detector) -> Option<Value> {
    evb_needs::granted(evb_needs::programs(&["python3"]))?;
    let modules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/python");
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", modules).env("PYTHONDONTWRITEBYTECODE", "1").args(["-c", READER]);
    let output = python.arg(detector.path("out")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Returns the episodes that `evbd verify --align` finds in the files.
fn verified(detector: &Detector) -> Vec<Episode> {
    let mut verify = Command::new(env!("CARGO_BIN_EXE_evbd"));
    verify.args(["verify", "--json", "--align"]).arg(detector.path("evb.toml")).arg(detector.path("out"));
    let report: Value = serde_json::from_slice(&verify.output().unwrap().stdout).unwrap();
    serde_json::from_value(report["alignment"]["episodes"].clone()).unwrap()
}

fn metrics(detector: &Detector) -> String {
    let mut stream = TcpStream::connect(detector.control()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_board_that_goes_wrong_is_named_everywhere() {
    let wanted = env::var("EVB_EDGE_MISALIGNED");
    let is_wanted = |number: usize| match wanted.as_deref() {
        Ok("all") => true,
        Ok(listed) => listed.split(',').any(|wanted| wanted == number.to_string()),
        Err(_) => number % ONE_OF == 2,
    };
    for (number, case) in Case::all().into_iter().enumerate() {
        if is_wanted(number) {
            println!("case {number}: {case:?}");
            case.run(number as u64);
        }
    }
}

#[test]
fn a_run_pauses_soon_after_a_slip() {
    let case =
        Case { fault: Fault::Slips(1), at: 330, triggers: Triggers::Poisson, builders: 2, killed: None };
    let mut detector = Detector::start(case.layout(3, "[alignment]\non_slip = \"pause\""));
    detector.begin();
    while detector.triggers() < case.at {
        thread::sleep(Duration::from_millis(1));
    }
    let begun = Instant::now();
    detector.wait_for("paused", |status| status["state"] == "Paused");
    println!("paused {:?} after the slip", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    detector.end();
}
