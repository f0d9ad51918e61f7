//! Many starts of runs by two supervisors on the disks of four builders, with wrong clocks,
//! directories that are deleted or copied, and numbers that are given or not: no two runs have one
//! id, no number is given twice while a builder that takes part knows it, and no event is lost.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use evb::{
    file::{EventFile, Selection, WriterOptions, files_at, merge, parse_file_name},
    id::{Epoch, RunId},
    input::{FragmentSize, Generator},
    ledger::RunReport,
    prelude::*,
    supervisor::{RunState, StateDir},
};
use evb_core::rng::Rng;
use tokio::task::JoinSet;

const SEQUENCES: u64 = 300;
const STARTS: u64 = 3;
const TOGETHER: usize = 4;
const DISKS: u64 = 4;
const EVENTS: u64 = 2;
/// Id of a builder that is added later.
const LATE: u16 = 9;
const HOUR: u64 = 3_600_000_000;

/// Hosts and disks, and what is known of the runs.
struct World {
    dir: tempfile::TempDir,
    rng: Rng,
    ids: BTreeSet<RunId>,
    refused: usize,
    /// Number of builders that came late and were refused.
    barred: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, rng: Rng::new(seed), ids: BTreeSet::new(), refused: 0, barred: 0 }
    }

    fn disk(&self, disk: usize) -> PathBuf {
        self.dir.path().join(format!("disk{disk}"))
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.rng.below(one_in) == 0
    }

    /// Deletes or copies a directory, or deletes the state of a host.
    fn disturb(&mut self) {
        let (one, other) = (self.rng.below(DISKS) as usize, self.rng.below(DISKS) as usize);
        if self.chance(6) {
            let _ = fs::remove_dir_all(self.disk(one));
        }
        if self.chance(4) && one != other {
            for file in files_in(&self.disk(one)) {
                let copy = self.disk(other).join(file.file_name().unwrap());
                fs::create_dir_all(self.disk(other)).unwrap();
                if !copy.exists() {
                    fs::copy(&file, copy).unwrap();
                }
            }
        }
        if self.chance(5) {
            let host = self.rng.below(2);
            let _ = fs::remove_dir_all(self.dir.path().join(format!("state{host}")));
        }
    }

    /// Starts a run on one or two disks, and checks its number and id.
    async fn start(&mut self) {
        let host = self.rng.below(2);
        let clock = evb_net::clock::wall_clock_micros() - HOUR + self.rng.below(3) * HOUR;
        let first = self.rng.below(DISKS) as usize;
        let disks = if self.chance(2) { vec![first] } else { vec![first, (first + 1) % DISKS as usize] };
        let state = StateDir::new(self.dir.path().join(format!("state{host}")));
        let kept = state.highest().unwrap();
        let given = if self.chance(3) { Some(1 + self.rng.below(6) as u32) } else { None };
        let least = kept.map_or(1, |run| run.number() + 1);
        // A builder has another id after a change of hosts.
        let shift = self.rng.below(2) as u16;
        let ids: Vec<u16> = (1..).map(|id| id + shift).take(disks.len()).collect();
        let known: BTreeSet<u32> = disks.iter().flat_map(|disk| numbers(&self.disk(*disk))).collect();
        let plan = RunPlan {
            fixed_number: given.is_some(),
            events: Some(EVENTS),
            ..RunPlan::new(
                RunNumber::new(given.unwrap_or(least)),
                Epoch::new(clock),
                vec![SourceId::new(1)],
                ids.iter().copied().map(BuilderId::new).collect(),
            )
        };
        let late = if self.chance(10) { Some((first + 2) % DISKS as usize) } else { None };
        let late_knows = late.map_or_else(Vec::new, |disk| numbers(&self.disk(disk)));
        let plan = RunPlan { events: plan.events.filter(|_| late.is_none()), ..plan };
        let builders = ids.into_iter().zip(disks.iter().map(|disk| self.disk(*disk)));
        let before: Vec<_> = (0..DISKS as usize).map(|disk| events_in(&self.disk(disk))).collect();
        let report = run(plan, state, builders.collect(), late.map(|disk| self.disk(disk))).await;
        assert!(self.ids.insert(report.run_id), "two runs have the id {}", report.run_id);
        match given {
            Some(number) if known.contains(&number) => {
                let failure = report.failure.expect("a number that is known is refused");
                assert!(
                    failure.starts_with("builder ") && failure.contains("was written here before"),
                    "{failure}"
                );
                self.refused += 1;
                return;
            }
            Some(number) => assert_eq!(report.run, number, "{report:?}"),
            None => {
                assert!(!known.contains(&report.run), "run {} is known: {known:?}", report.run);
                assert!(kept.is_none_or(|kept| report.run > kept.number()), "{kept:?}");
            }
        }
        assert_eq!(report.exit_code, 0, "{report:?}");
        let written = report.events.written;
        assert!(written == EVENTS || late.is_some(), "{report:?}");
        if late_knows.contains(&report.run) {
            let says = |text: &String| text.contains("was written here before");
            assert!(report.problems.iter().chain(&report.remarks).any(says), "{report:?}");
            self.barred += 1;
        }
        let mut found = 0;
        for (disk, before) in before.into_iter().enumerate() {
            let mut now = events_in(&self.disk(disk));
            found += now.remove(&(report.run, report.epoch)).unwrap_or(0);
            assert_eq!(now, before, "the events of earlier runs on disk {disk}");
        }
        assert_eq!(found, written, "the events of run {}", report.run);
    }

    /// Merges each run on all disks: no event is lost, although directories were copied and two
    /// runs may have one number.
    fn merge(&self) -> usize {
        let disks: Vec<_> =
            (0..DISKS as usize).map(|disk| self.disk(disk)).filter(|disk| disk.exists()).collect();
        let mut there = BTreeMap::<RunId, BTreeSet<EventId>>::new();
        for file in disks.iter().flat_map(|disk| files_in(disk)) {
            let file = EventFile::open(file).unwrap();
            let events = file.events().map(|event| event.unwrap().id);
            there.entry(file.header().run_id).or_default().extend(events);
        }
        for (run, events) in &there {
            let run = Some(run.to_string().parse().unwrap());
            let selection = Selection { run, ..Selection::default() };
            let to = tempfile::tempdir().unwrap();
            let merged = merge(&disks, &selection, to.path(), WriterOptions::default()).unwrap();
            assert_eq!(merged.written.events, events.len() as u64);
        }
        there.len()
    }
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    if dir.exists() { files_at(dir).unwrap() } else { Vec::new() }
}

fn numbers(dir: &Path) -> Vec<u32> {
    let name = |file: PathBuf| parse_file_name(file.file_name()?.to_str()?);
    files_in(dir).into_iter().filter_map(name).map(|(run, ..)| run.number()).collect()
}

/// Returns the number of events of each run in a directory, by number and epoch.
fn events_in(dir: &Path) -> BTreeMap<(u32, u64), u64> {
    let mut found = BTreeMap::new();
    for file in files_in(dir) {
        let file = EventFile::open(file).unwrap();
        let key = (file.header().run.number(), file.header().epoch.number());
        *found.entry(key).or_default() += file.events().map(Result::unwrap).count() as u64;
    }
    found
}

/// Leads a run of one source to its end. If there is a late builder's disk, the builder is added
/// while the run goes on.
async fn run(
    plan: RunPlan,
    state: StateDir,
    builders: Vec<(u16, PathBuf)>,
    late: Option<PathBuf>,
) -> RunReport {
    let config = SupervisorConfig { state: Some(state), ..SupervisorConfig::new("127.0.0.1:0", plan) };
    let supervisor = Supervisor::bind(config).await.unwrap();
    let address = supervisor.address().to_string();
    let handle = supervisor.handle();
    let ended = tokio::spawn(supervisor.run());
    let mut roles = Vec::new();
    for (id, dir) in builders {
        let config = BuilderConfig::new(BuilderId::new(id), &address);
        roles.push(Builder::connect(config, FileSink::new(dir, WriterOptions::default())).await.unwrap());
    }
    let config = SourceConfig::new(SourceId::new(1), &address);
    let readout = Generator::new(config.id, FragmentSize::Fixed(Bytes::new(100)), config.max_fragment, 1);
    let source = Source::on_demand(config, readout).await.unwrap();
    if let Some(dir) = late {
        let id = BuilderId::new(LATE);
        let mut progress = handle.progress();
        let begun = progress.wait_for(|progress| progress.state != RunState::Configured).await;
        if begun.is_some() && handle.add_builder(id).await.is_ok() {
            let config = BuilderConfig::new(id, &address);
            let builder = Builder::connect(config, FileSink::new(dir, WriterOptions::default())).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            roles.extend(builder);
        }
        let _ = handle.request_run_end("enough").await;
    }
    let report = ended.await.unwrap().unwrap();
    for builder in roles {
        let _ = builder.finished().await;
    }
    let _ = source.finished().await;
    report
}

/// Goes through one sequence of starts, and returns the numbers of those that were refused, of late
/// builders that were refused, and of merged runs.
async fn sequence(seed: u64) -> [usize; 3] {
    let mut world = World::new(seed);
    for _ in 0..STARTS {
        world.start().await;
        world.disturb();
    }
    [world.refused, world.barred, world.merge()]
}

#[tokio::test]
async fn no_two_runs_are_taken_for_one() {
    let mut sums = [0; 3];
    // Some sequences at a time, because each mostly waits for its sockets.
    for seed in (0..SEQUENCES).step_by(TOGETHER) {
        let mut together = JoinSet::new();
        for seed in seed..SEQUENCES.min(seed + TOGETHER as u64) {
            together.spawn(sequence(seed));
        }
        for counts in together.join_all().await {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    let [refused, barred, merged] = sums;
    assert!(
        refused > 10 && barred > 2 && merged > 300,
        "{refused} refused, {barred} barred, {merged} merged"
    );
}
