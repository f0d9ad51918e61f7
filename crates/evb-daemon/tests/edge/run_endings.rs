//! The records of runs that end in all kinds of ways, of kill -9 of every process at any instant
//! too. The state directory is copied at random instants all the while: each record of the
//! directory and of each copy is whole, as the schema says, and true of the event files.
//! `EVB_EDGE_ENDINGS=all` runs all 50 cases, and `=20,21` these; without it, a few are run.

use std::{
    env, fs,
    iter::repeat_n,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use evb_core::rng::Rng;
use evb_file::files_at;
use serde_json::Value;

use crate::{
    hooks::script,
    record_checks::{Copying, DirCopy, Files, copied, faults, faults_of_copies, records},
    run_hooks::System,
    run_records::begun,
    system::{ctl, wait_for},
};

/// Numbers of the cases that are run without `EVB_EDGE_ENDINGS`.
const FEW: [usize; 8] = [8, 12, 20, 27, 33, 38, 42, 46];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    /// The run has had its events, or its time.
    Events,
    Time,
    /// Commands end the run.
    Stop,
    PauseAndStop,
    /// A signal that drains.
    Signal(&'static str),
    /// A second interrupt, at which the supervisor leaves at once.
    Leave,
    /// The process with all roles is killed at any instant.
    KillAll,
    KillAllWithJournal,
    /// The supervisor is killed, and another one goes on or not.
    KillSupervisor,
    KillSupervisorForGood,
    KillBuilder,
    /// A builder is killed and comes again, before the supervisor is.
    KillBuilderAndSupervisor,
    KillSource,
    /// The disk of the event files is full.
    FullDisk,
    /// The disk of the records is full, until there is room again or to the end.
    FullState {
        until_the_end: bool,
    },
    /// A program refuses the run.
    Veto,
    /// A source never comes.
    NoSource,
}

use Ending::*;

impl Ending {
    fn all() -> Vec<Self> {
        let with_counts = [
            (Events, 2),
            (Time, 2),
            (Stop, 4),
            (PauseAndStop, 3),
            (Signal("INT"), 2),
            (Signal("TERM"), 2),
            (Leave, 2),
            (KillAll, 8),
            (KillAllWithJournal, 7),
            (KillSupervisor, 4),
            (KillSupervisorForGood, 1),
            (KillBuilder, 3),
            (KillSource, 2),
            (FullDisk, 2),
            (FullState { until_the_end: false }, 1),
            (FullState { until_the_end: true }, 1),
            (Veto, 2),
            (NoSource, 1),
            (KillBuilderAndSupervisor, 1),
        ];
        with_counts.into_iter().flat_map(|(ending, count)| repeat_n(ending, count)).collect()
    }

    fn has_journal(self) -> bool {
        matches!(self, KillAllWithJournal | KillSupervisor | KillBuilderAndSupervisor)
    }
}

/// The records that must be there at the end of a case.
#[derive(Debug, Default)]
struct Expected {
    /// For each record: true if it is closed; `None`: either.
    closed: Vec<Option<bool>>,
    exit_code: Option<u64>,
    /// True if builders have told of all their files.
    has_all_files: bool,
}

impl Expected {
    fn closed(exit_code: u64) -> Self {
        Self { closed: vec![Some(true)], exit_code: Some(exit_code), has_all_files: true }
    }

    fn open() -> Self {
        Self { closed: vec![Some(false)], ..Self::default() }
    }
}

/// A run that ends in a way.
struct Case {
    ending: Ending,
    system: System,
    rng: Rng,
}

impl Case {
    fn new(ending: Ending, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let hooks = match ending {
            Veto => "run_starts = [\"DIR/may\"]",
            _ if rng.below(2) == 0 => "run_starts = [\"true\"]\nrun_ends = [\"true\"]",
            _ => "",
        };
        let least = if matches!(ending, KillSupervisor | KillBuilder | KillSource) { 700 } else { 150 };
        let events = format!("[run]\nevents = {}", least + rng.below(200));
        let run = match ending {
            Time => format!("[run]\nduration = \"{} ms\"", 300 + rng.below(600)),
            KillBuilderAndSupervisor => "[run]\nduration = \"13 s\"".to_owned(),
            Stop | PauseAndStop => {
                format!("[control]\nlisten = \"127.0.0.1:{}\"", evb_needs::free_ports(1)[0])
            }
            Signal(_) | Leave | KillSupervisorForGood | FullDisk | FullState { until_the_end: false } => {
                String::new()
            }
            _ => events,
        };
        let case = Self { ending, system: System::new(hooks, &run), rng };
        case.configure();
        case
    }

    /// Adds the keys that the case needs.
    fn configure(&self) {
        let (system, ending) = (&self.system, self.ending);
        let mut keys = format!("[supervisor]\nstate = \"{}\"\n", system.path("evb-state").display());
        if ending.has_journal() {
            keys += &format!("journal = \"{}\"\n", system.path("journal").display());
        }
        let port = evb_needs::free_ports(1)[0];
        let builder = format!(
            "[[builder]]\nid = 2\nlisten = \"127.0.0.1:{port}\"\nsink = {{ kind = \"file\", path = \"{}\", rotate = \"64 kB\" }}\n",
            system.path("out").display()
        );
        let more = match ending {
            Leave => {
                keys += "on_source_loss = \"wait\"\ndeadline = \"20 s\"\n";
                ""
            }
            KillSupervisorForGood => {
                keys += "patience = \"1 s\"\n";
                ""
            }
            NoSource => {
                keys += "start_timeout = \"1 s\"\n";
                "[[source]]\nid = 2\ninput = { kind = \"generator\", size = \"1 kB\" }\n"
            }
            KillSource => "[[source]]\nid = 2\ninput = { kind = \"generator\", size = \"1 kB\" }\n",
            KillBuilder | KillBuilderAndSupervisor => &builder,
            FullDisk => "give_up = \"300 ms\"\n",
            _ => "",
        };
        let path = system.path("evb.toml");
        let text = fs::read_to_string(&path).unwrap().replace("[supervisor]\n", &keys) + more;
        fs::write(path, text).unwrap();
    }

    /// Waits for a random time, in milliseconds.
    fn wait(&mut self, at_most: u64) {
        thread::sleep(Duration::from_millis(self.rng.below(at_most)));
    }

    /// Waits until that number of event files are there.
    fn wait_for_files(&self, least: usize) {
        let until = Instant::now() + Duration::from_secs(30);
        while files_at(&self.system.path("out")).map_or(0, |files| files.len()) < least {
            assert!(Instant::now() < until, "{:?}: no file", self.ending);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Lets the run begin and end; returns what must be then.
    fn run(&mut self) -> Expected {
        match self.ending {
            Events | Time => {
                assert_eq!(self.system.start_quietly().code(), Some(0));
                Expected::closed(0)
            }
            Stop | PauseAndStop => self.command(),
            Signal(signal) => {
                let mut evbd = self.system.start_quietly();
                self.wait_for_files(1);
                self.wait(600);
                evbd.signal(signal);
                assert_eq!(evbd.code(), Some(0));
                Expected::closed(0)
            }
            KillAll => self.kill_all(),
            KillAllWithJournal => self.kill_all_with_journal(),
            FullDisk => self.fill_disk(),
            FullState { until_the_end } => self.fill_state(until_the_end),
            Veto => {
                script(self.system.dir.path(), "may", "exit 3");
                assert_eq!(self.system.start_quietly().code(), Some(1));
                Expected::default()
            }
            NoSource => {
                let mut evbd = self.system.start_roles(&["supervisor", "source:1", "builder:1"]);
                assert_eq!(evbd.code(), Some(1));
                Expected::default()
            }
            _ => self.run_in_processes(),
        }
    }

    fn command(&mut self) -> Expected {
        let (mut evbd, dir) = (begun(&self.system), self.system.dir.path().to_owned());
        if self.ending == PauseAndStop {
            self.wait(300);
            assert!(ctl(&dir, &["pause"]).status.success());
        }
        self.wait(300);
        assert!(ctl(&dir, &["stop"]).status.success());
        wait_for(&dir, "over", |status| status["runs"] == 1);
        self.wait(100);
        evbd.signal("TERM");
        assert_eq!(evbd.code(), Some(0));
        Expected::closed(0)
    }

    /// Kills the process, and lets another one begin the next run. It goes on with nothing.
    fn kill_all(&mut self) -> Expected {
        let evbd = self.system.start_quietly();
        self.wait(1300);
        drop(evbd);
        let state = self.system.path("evb-state");
        let left = copied(&state);
        let first: Vec<Value> = records(&left).into_values().collect();
        assert_eq!(self.system.start_quietly().code(), Some(0));
        let after = copied(&state);
        assert!(
            left.iter()
                .filter(|(name, _)| name.ends_with(".json"))
                .all(|file| after.get(file.0) == Some(file.1))
        );
        let run = |record: &Value| record["run"].as_u64().unwrap();
        assert!(
            records(&after).values().all(|record| first.contains(record) || run(record) > first.len() as u64)
        );
        let closed = first.iter().map(|_| None).chain([Some(true)]).collect();
        Expected { closed, ..Expected::default() }
    }

    /// Kills the process, and lets another one go on with the run, unless it had not begun or was
    /// over.
    fn kill_all_with_journal(&mut self) -> Expected {
        let evbd = self.system.start_quietly();
        self.wait(1300);
        drop(evbd);
        let state = self.system.path("evb-state");
        let before = records(&copied(&state)).len();
        let code = self.system.start_quietly().code();
        let count = records(&copied(&state)).len();
        assert!(code == Some(0) || code == Some(1), "{code:?}");
        assert!(count == before || count == before + 1, "{before} and then {count}");
        // A run of which the journal has the end does not go on.
        let closed = (1..=count).map(|run| (run == count).then_some(true)).collect();
        Expected { closed, ..Expected::default() }
    }

    fn fill_disk(&mut self) -> Expected {
        let mut evbd = self.system.start_with_small_files(60, &[]);
        let until = Instant::now() + Duration::from_secs(30);
        let log = || fs::read_to_string(self.system.path("log")).unwrap();
        while !log().contains("the builder's sink accepts no events") {
            assert!(Instant::now() < until, "{}", log());
            thread::sleep(Duration::from_millis(10));
        }
        self.wait(300);
        evbd.signal("TERM");
        assert_eq!(evbd.code(), Some(1));
        Expected { has_all_files: false, ..Expected::closed(1) }
    }

    fn fill_state(&mut self, until_the_end: bool) -> Expected {
        let mut supervisor = self.system.start_with_small_files(1, &["supervisor"]);
        let _others = self.system.start_roles(&["source:1", "builder:1"]);
        if until_the_end {
            assert_eq!(supervisor.code(), Some(0));
            return Expected::default();
        }
        self.wait_for_files(2);
        assert!(records(&copied(&self.system.path("evb-state"))).is_empty());
        supervisor.make_room();
        supervisor.signal("TERM");
        assert_eq!(supervisor.code(), Some(0));
        Expected::closed(0)
    }

    /// Does what needs a process for each role.
    fn run_in_processes(&mut self) -> Expected {
        let begun = Instant::now();
        let start = |system: &System, role: &str| system.start_roles(&[role]);
        let mut supervisor = start(&self.system, "supervisor");
        let mut source = start(&self.system, "source:1");
        let mut builder = start(&self.system, "builder:1");
        let other = match self.ending {
            KillSource => Some("source:2"),
            KillBuilder | KillBuilderAndSupervisor => Some("builder:2"),
            _ => None,
        };
        let mut other = other.map(|role| (role, start(&self.system, role)));
        self.wait_for_files(if self.ending == KillBuilder { 3 } else { 1 });
        self.wait(400);
        match self.ending {
            Leave => {
                source.signal("STOP");
                thread::sleep(Duration::from_millis(100));
                supervisor.signal("INT");
                thread::sleep(Duration::from_millis(1100));
                supervisor.signal("INT");
                assert_eq!(supervisor.code(), Some(130));
                return Expected::open();
            }
            KillSupervisorForGood => {
                drop(supervisor);
                assert_eq!((source.code(), builder.code()), (Some(1), Some(1)));
                return Expected::open();
            }
            KillSupervisor => {
                drop(supervisor);
                supervisor = start(&self.system, "supervisor");
            }
            KillBuilderAndSupervisor => {
                // The next process of the builder closes fewer files before the supervisor dies.
                self.wait_for_files(25);
                drop(other);
                other = Some(("builder:2", start(&self.system, "builder:2")));
                // The record is written every ten seconds.
                thread::sleep(Duration::from_secs(11).saturating_sub(begun.elapsed()));
                drop(supervisor);
                supervisor = start(&self.system, "supervisor");
            }
            _ => other = None,
        }
        let code = if self.ending == KillSource { 1 } else { 0 };
        assert_eq!(supervisor.code(), Some(code));
        let own = other.iter_mut().map(|(_, process)| process);
        for process in own.chain([&mut source, &mut builder]) {
            assert_eq!(process.code(), Some(code));
        }
        let has_all_files = self.ending == KillSupervisor || self.ending == KillSource;
        Expected { has_all_files, ..Expected::closed(code as u64) }
    }

    /// Runs the case, and compares all records with what must be.
    fn check(mut self, seed: u64) {
        let (state, out) = (self.system.path("evb-state"), self.system.path("out"));
        let copying = Copying::start(state.clone(), seed);
        let expected = self.run();
        let (copies, end) = (copying.end(), copied(&state));
        let files = Files::of(&out);
        let what = format!("{:?}, {expected:?}", self.ending);
        assert_eq!(faults_of_copies(&copies, &out, &files), [""; 0], "{what}");
        let found = records(&end);
        assert_eq!(found.len(), expected.closed.len(), "{what}: {found:#?}");
        for ((name, record), closed) in found.iter().zip(&expected.closed) {
            assert_eq!(faults(name, record, &out, &files), [""; 0], "{what}");
            assert!(closed.is_none_or(|closed| record["closed"] == closed), "{what}: {record:#}");
            assert!(expected.exit_code.is_none_or(|code| record["exit_code"] == code), "{what}: {record:#}");
            assert_eq!(record["files_left_out"], 0, "{what}: {record:#}");
            if expected.has_all_files {
                assert!(files.missing(record).is_empty(), "{what}: {:?}", files.missing(record));
            }
        }
        let any = self.rng.below(copies.len() as u64) as usize;
        assert_shown(&self.system, &copies[any]);
        assert_shown(&self.system, &end);
        println!("{what}: {} copies, {} records", copies.len(), found.len());
    }
}

/// Checks that `evbd runs` and `evbd report` show each record of a copy.
fn assert_shown(system: &System, copy: &DirCopy) {
    let dir = tempfile::tempdir_in(system.dir.path()).unwrap();
    copy.iter().for_each(|(name, bytes)| fs::write(dir.path().join(name), bytes).unwrap());
    let evbd = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
        command.args(words).arg(dir.path()).output().unwrap()
    };
    let found = records(copy);
    let output = evbd(&["runs", "--json"]);
    assert_eq!(output.status.success(), !found.is_empty(), "{output:?}");
    let shown = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>().map(Result::unwrap);
    assert_eq!(shown.collect::<Vec<_>>(), found.values().rev().cloned().collect::<Vec<_>>());
    for record in found.values() {
        let id = record["run_id"].as_str().unwrap();
        let page = dir.path().join("page.html");
        let output = evbd(&["report", id, "--html", page.to_str().unwrap(), "--state"]);
        assert!(
            output.status.success() && fs::read_to_string(page).unwrap().contains(&id[..8]),
            "{output:?}"
        );
    }
}

#[test]
fn each_record_is_whole_and_true_however_its_run_ends() {
    let wanted = env::var("EVB_EDGE_ENDINGS");
    let is_wanted = |number: usize| match wanted.as_deref() {
        Ok("all") => true,
        Ok(listed) => listed.split(',').any(|wanted| wanted == number.to_string()),
        Err(_) => FEW.contains(&number),
    };
    for (number, ending) in Ending::all().into_iter().enumerate().filter(|(number, _)| is_wanted(*number)) {
        let begun = Instant::now();
        Case::new(ending, number as u64).check(number as u64);
        println!("case {number}: {:.1} s", begun.elapsed().as_secs_f64());
    }
}
