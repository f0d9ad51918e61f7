//! Random schedules in which sources are excluded and included by id, name and group, boards fall
//! silent, processes die and come back, and an operator pauses, each a run. `EVB_OWING_SCHEDULES`
//! sets their number; without it, a few are run.

use std::{
    collections::BTreeMap,
    env,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use evb_core::{
    event::{Cause, Event, MissingSource},
    id::SourceId,
    rng::Rng,
};
use evb_file::{Merge, OwingChange, Selection};
use evb_needs::{granted, programs};
use serde_json::Value;

use crate::{
    detector::{Detector, Layout},
    system::fragment,
};

/// Number of schedules without `EVB_OWING_SCHEDULES`.
const FEW: u64 = 2;

/// A source that is not essential.
#[derive(Clone, Copy, PartialEq)]
enum Need {
    Expendable,
    /// The source owes nothing.
    Sporadic,
}

/// A group by its first and last source, and its least number.
struct Group {
    name: &'static str,
    sources: (u16, u16),
    at_least: usize,
}

/// Knowledge about the sources of a detector, apart from evb.
struct Known {
    needs: &'static [(u16, Need)],
    groups: &'static [Group],
}

impl Known {
    /// Returns the sections of the groups in the configuration.
    fn sections(&self) -> String {
        let section = |Group { name, sources: (first, last), at_least }: &Group| {
            format!("[[group]]\nname = \"{name}\"\nsources = \"{first}-{last}\"\nat_least = {at_least}\n")
        };
        self.groups.iter().map(section).collect()
    }
}

const SMALL: Known = Known {
    needs: &[(4, Need::Expendable), (5, Need::Sporadic)],
    groups: &[
        Group { name: "trio", sources: (1, 3), at_least: 2 },
        Group { name: "last of it", sources: (3, 3), at_least: 0 },
    ],
};

fn small(supervisor: &'static str) -> Layout {
    Layout {
        sources: 5,
        together: 1,
        builders: 2,
        slots: 64,
        readouts: Vec::new(),
        run: String::new(),
        supervisor,
        keys: vec![(4, "need = \"expendable\"".into()), (5, "owes = \"none\"\nwait = \"5 ms\"".into())],
        sections: SMALL.sections(),
        due: Arc::new(|number| Duration::from_millis(5 * number)),
        sent: Arc::new(|source, event| Some(fragment(source, 1, event))),
    }
}

const LARGE: Known = Known {
    needs: &[],
    groups: &[
        Group { name: "tracker", sources: (1, 200), at_least: 195 },
        Group { name: "calorimeter", sources: (201, 399), at_least: 100 },
        Group { name: "monitor", sources: (400, 400), at_least: 0 },
    ],
};

fn large() -> Layout {
    Layout {
        sources: 400,
        together: 100,
        supervisor: "on_source_loss = \"wait\"\ndeadline = \"1 s\"\nstart_timeout = \"60 s\"",
        keys: Vec::new(),
        sections: LARGE.sections(),
        due: Arc::new(|number| Duration::from_millis(40 * number)),
        ..small("")
    }
}

/// A detector in a run, with the sources that the operator has excluded.
struct Shift {
    detector: Detector,
    known: Known,
    excluded: Vec<bool>,
}

impl Shift {
    fn begin(layout: Layout, known: Known) -> Self {
        let excluded = vec![false; usize::from(layout.sources)];
        let mut shift = Self { detector: Detector::start(layout), known, excluded };
        shift.detector.begin();
        shift.wait_for_events();
        shift
    }

    fn is_excluded(&self, source: u16) -> bool {
        self.excluded[usize::from(source) - 1]
    }

    fn sources(&self) -> std::ops::RangeInclusive<u16> {
        1..=self.detector.layout.sources
    }

    /// Excludes or includes sources that are named as `words` say. Returns true if evb accepted it.
    fn change(&mut self, sources: (u16, u16), words: &[&str], excludes: bool) -> bool {
        let command = if excludes { "exclude" } else { "include" };
        let mut words = [&[command], words].concat();
        if excludes {
            words.extend(["--why", "a test"]);
        }
        let is_accepted = self.detector.does(&words);
        if is_accepted {
            (sources.0..=sources.1).for_each(|id| self.excluded[usize::from(id) - 1] = excludes);
        }
        is_accepted
    }

    fn change_one(&mut self, source: u16, excludes: bool, rng: &mut Rng) -> bool {
        let name = if rng.below(2) == 0 { format!("crate {source}") } else { source.to_string() };
        let from = (self.detector.triggers() + 20 + rng.below(40)).to_string();
        let mut words = vec!["source", &name];
        if rng.below(3) == 0 {
            words.extend(["--from", &from]);
        }
        self.change((source, source), &words, excludes)
    }

    fn change_group(&mut self, index: usize, excludes: bool) -> bool {
        let Group { name, sources, .. } = self.known.groups[index];
        self.change(sources, &["group", name], excludes)
    }

    /// Carries out a random action, and returns its name.
    fn act(&mut self, rng: &mut Rng) -> String {
        let mut source = 1 + rng.below(self.excluded.len() as u64) as u16;
        let excluded: Vec<u16> = self.sources().filter(|id| self.is_excluded(*id)).collect();
        let host = self.detector.layout.host(source);
        match rng.below(16) {
            3..=5 if !excluded.is_empty() => {
                source = excluded[rng.below(excluded.len() as u64) as usize];
                format!("include {source}: {}", self.change_one(source, false, rng))
            }
            0..=5 => format!("exclude {source}: {}", self.change_one(source, true, rng)),
            6 => format!("exclude group: {}", self.change_group(1, true)),
            7 => format!("include group: {}", self.change_group(1, false)),
            8 | 9 => {
                self.detector.freeze(source, true);
                format!("freeze {source}")
            }
            10 => {
                self.detector.freeze(source, false);
                format!("thaw {source}")
            }
            11 => {
                self.detector.kill(&host);
                format!("kill {host}")
            }
            12 => {
                self.sources().for_each(|id| self.detector.launch(&self.detector.layout.host(id)));
                "launch all".to_owned()
            }
            13 => {
                self.detector.kill("supervisor");
                thread::sleep(Duration::from_millis(rng.below(500)));
                self.detector.launch("supervisor");
                "supervisor dies and returns".to_owned()
            }
            14 => {
                self.detector.kill("builder:2");
                thread::sleep(Duration::from_millis(rng.below(1500)));
                self.detector.launch("builder:2");
                "builder 2 dies and returns".to_owned()
            }
            _ => {
                let command = if rng.below(2) == 0 { "pause" } else { "resume" };
                format!("{command}: {}", self.detector.does(&[command]))
            }
        }
    }

    /// Lets all sources deliver that owe fragments, and as many owe them as the groups need. The
    /// others stay as they are: dead, silent or well.
    fn mend(&mut self) {
        for index in 0..self.known.groups.len() {
            let Group { sources: (first, last), at_least, .. } = self.known.groups[index];
            for source in first..=last {
                let included = (first..=last).filter(|id| !self.is_excluded(*id)).count();
                if included < at_least && self.is_excluded(source) {
                    self.insist_on_including(source);
                }
            }
        }
        for source in self.sources() {
            let owes = self.known.needs.iter().all(|(id, _)| *id != source) && !self.is_excluded(source);
            if owes {
                self.detector.freeze(source, false);
                self.detector.launch(&self.detector.layout.host(source));
            }
        }
    }

    /// Includes a source, once all earlier changes hold.
    fn insist_on_including(&mut self, source: u16) {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.change((source, source), &["source", &source.to_string()], false) {
            assert!(Instant::now() < until, "source {source} is not included: {}", self.detector.log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until more events are built. With `on_source_loss = "wait"`, none is if an event waits
    /// for a source that delivers nothing.
    fn wait_for_events(&self) {
        let count = |status: &Value| {
            ["complete", "incomplete"]
                .iter()
                .filter_map(|key| status["survey"]["events"][key].as_u64())
                .sum::<u64>()
        };
        let before = count(&self.detector.wait_for("a status", |status| status["survey"].is_object()));
        self.detector.wait_for("more events", |status| {
            if status["state"] == "Paused" {
                // It is refused while the run has paused by itself.
                self.detector.does(&["resume"]);
            }
            count(status) >= before + 80
        });
    }

    /// Checks that Chromium shows on the page which sources are excluded.
    fn look_at_the_page(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let page = self.detector.page();
            let shows = |id: u16| page.contains(&format!("ctl include source {id}\""));
            let wrong: Vec<u16> = self.sources().filter(|id| shows(*id) != self.is_excluded(*id)).collect();
            if wrong.is_empty() && page.contains("crate 1") {
                return;
            }
            // A change from a later event on is shown when it applies.
            assert!(Instant::now() < until, "{wrong:?}: {page}");
        }
    }

    /// Ends the run, and compares its files with what is known.
    fn end(self) {
        let summary = self.detector.end();
        let mut merge = Merge::open(&[self.detector.path("out")], &Selection::default()).unwrap();
        let changes = merge.identity().changes.clone();
        for source in self.sources() {
            let last = changes.iter().filter(|one| one.source.number() == source).max_by_key(|one| one.from);
            assert_eq!(
                last.is_some_and(|one| one.excluded),
                self.is_excluded(source),
                "{source}: {changes:?}"
            );
        }
        let mut found = Found::default();
        while let Some(event) = merge.next_event().unwrap() {
            self.check(&event, &changes);
            found.count(&event);
        }
        found.check(&summary);
    }

    /// Checks which sources an event lacks, and that each group has its least number in it.
    fn check(&self, event: &Event, changes: &[OwingChange]) {
        let present: Vec<u16> = event.fragments().map(|fragment| fragment.source.number()).collect();
        let excluded = |id: u16| {
            let own = changes.iter().filter(|one| one.source.number() == id && one.from <= event.id);
            own.max_by_key(|one| one.from).is_some_and(|last| last.excluded)
        };
        let (mut missing, mut absent) = (Vec::new(), Vec::new());
        for id in self.sources() {
            let source = SourceId::new(id);
            let need = self.known.needs.iter().find(|(of, _)| *of == id).map(|(_, need)| *need);
            match (excluded(id), present.contains(&id), need) {
                (true, is_present, _) => {
                    assert!(!is_present, "event {} has a fragment of {id}, {changes:?}", event.id);
                    absent.push(MissingSource::new(source, Cause::Excluded));
                }
                (false, true, _) | (false, false, Some(Need::Sporadic)) => {}
                (false, false, Some(Need::Expendable)) => {
                    absent.push(MissingSource::new(source, Cause::Expendable));
                }
                (false, false, None) => missing.push(source),
            }
        }
        let named: Vec<SourceId> = event.missing_sources().collect();
        assert_eq!((named, &event.absent), (missing, &absent), "event {}: {changes:?}", event.id);
        for Group { name, sources: (first, last), at_least } in self.known.groups {
            let included = (*first..=*last).filter(|id| !excluded(*id)).count();
            assert!(
                included >= *at_least,
                "event {} has {included} sources of {name}: {changes:?}",
                event.id
            );
        }
    }
}

/// Counts of the events in the files.
#[derive(Debug, Default)]
struct Found {
    complete: u64,
    incomplete: u64,
    /// Number of complete events without a fragment of each source.
    absent: BTreeMap<u16, u64>,
}

impl Found {
    fn count(&mut self, event: &Event) {
        if !event.missing.is_empty() {
            self.incomplete += 1;
            return;
        }
        self.complete += 1;
        for absent in &event.absent {
            *self.absent.entry(absent.source.number()).or_default() += 1;
        }
    }

    /// Compares the counts with the summary, whose outcomes must add up to the triggers. Files may
    /// also have events that count as lost.
    fn check(&self, summary: &Value) {
        let of = |key: &str| summary["events"][key].as_u64().unwrap();
        let outcomes = of("inhibited") + of("complete") + of("incomplete") + of("lost") + of("rejected");
        assert_eq!(of("triggered"), outcomes, "{:#}", summary["events"]);
        if of("lost") > 0 {
            assert!(
                self.complete >= of("complete") && self.incomplete >= of("incomplete"),
                "{self:?}: {summary:#}"
            );
            return;
        }
        assert_eq!((self.complete, self.incomplete), (of("complete"), of("incomplete")), "{summary:#}");
        for source in summary["sources"].as_array().unwrap() {
            let id = source["id"].as_u64().unwrap() as u16;
            let absent = self.absent.get(&id).copied().unwrap_or_default();
            assert_eq!(source["absent"].as_u64(), Some(absent), "source {id}: {summary:#}");
        }
    }
}

#[test]
fn every_event_lacks_what_the_changes_of_the_run_say() {
    let schedules = env::var("EVB_OWING_SCHEDULES").map_or(FEW, |count| count.parse().unwrap());
    let has_browser = granted(programs(&["chromium"])).is_some();
    let mut rng = Rng::new(4200);
    for run in 1..=schedules {
        let waits = "on_source_loss = \"wait\"\ndeadline = \"500 ms\"";
        let supervisor = if rng.below(2) == 0 { waits } else { "deadline = \"500 ms\"" };
        let mut shift = Shift::begin(small(supervisor), SMALL);
        println!("run {run}, {supervisor}");
        for _ in 0..4 + rng.below(8) {
            println!("  {}", shift.act(&mut rng));
            thread::sleep(Duration::from_millis(50 + rng.below(300)));
        }
        shift.mend();
        shift.wait_for_events();
        if has_browser {
            shift.look_at_the_page();
        }
        shift.end();
    }
}

#[test]
#[ignore = "takes a minute of two processors: cargo test -p evb-daemon --test edge -- --ignored four_hundred"]
fn four_hundred_sources_in_three_groups_may_fail_too() {
    if granted(evb_needs::open_files(1024)).is_none() {
        return;
    }
    let mut shift = Shift::begin(large(), LARGE);
    let mut rng = Rng::new(400);
    // Five crates may be away, and the sixth lets the run pause by itself.
    for source in 1..=5 {
        shift.detector.freeze(source, true);
        assert!(shift.change_one(source, true, &mut rng));
    }
    shift.wait_for_events();
    assert!(shift.change((6, 6), &["source", "6"], true));
    shift.detector.wait_for("paused", |status| status["state"] == "Paused");
    assert!(shift.change((6, 6), &["source", "6"], false));
    shift.detector.wait_for("running", |status| status["state"] == "Running");
    shift.detector.kill("sources 3");
    assert!(shift.change_group(2, true));
    for _ in 0..12 {
        println!("{}", shift.act(&mut rng));
        thread::sleep(Duration::from_millis(300));
    }
    shift.mend();
    shift.wait_for_events();
    shift.end();
}
