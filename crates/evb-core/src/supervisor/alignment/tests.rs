//! Tests of the watch together with the guards of builders and the rings of sources.

use super::*;
use crate::{
    alignment::{ClockWrap, DetectorClock, Explanation},
    builder::EventGuard,
    event::{Alignment, Event},
    source::RecentReadings,
    units::Frequency,
    wire::control::AlignmentReport,
};

const SOURCES: u16 = 4;
const BUILDERS: u64 = 2;

fn source(number: u16) -> SourceId {
    SourceId::new(number)
}

fn clocks() -> GuardedClocks {
    let clock = |rate| {
        let clock = DetectorClock::new(Frequency::from_hertz(rate).unwrap(), ClockWrap::Bits(48));
        DetectorClock { tolerance: Duration::from_nanos(100), ..clock }
    };
    let rates = [125e6, 100e6, 62.5e6, 125e6];
    let clocks = (1..=SOURCES).zip(rates).map(|(number, rate)| (source(number), clock(rate)));
    GuardedClocks { clocks: clocks.collect(), lead: None, host_times: true }
}

/// Four sources, two builders that take turns, and the supervisor's watch.
struct System {
    watch: AlignmentWatch,
    guards: Vec<EventGuard>,
    rings: Vec<RecentReadings>,
    found: Vec<Finding>,
    /// Events with a fragment that disagrees.
    flagged: Vec<u64>,
    returned: Vec<SourceId>,
    /// Builder whose reports the supervisor does not get.
    unheard: Option<u64>,
    /// Number of events by which sources are ahead of builders.
    ahead: u64,
}

impl System {
    fn new() -> Self {
        let guard = |_| EventGuard::new(clocks(), None, Duration::from_millis(250)).unwrap();
        Self {
            watch: AlignmentWatch::new(&clocks()).unwrap(),
            guards: (0..BUILDERS).map(guard).collect(),
            rings: (0..SOURCES).map(|_| RecentReadings::default()).collect(),
            found: Vec::new(),
            flagged: Vec::new(),
            returned: Vec::new(),
            unheard: None,
            ahead: 0,
        }
    }

    /// Returns the time of a trigger: about a millisecond after the one before.
    fn at(event: u64) -> Instant {
        Instant::from_nanos(1_000_000 * event + event * event % 97 * 8_000)
    }

    /// Builds an event in which each source delivers what belongs to the event that `of` names.
    /// Returns the relations that the builder reports.
    fn build(&mut self, event: u64, of: impl Fn(SourceId, u64) -> u64) -> Option<ClockRelations> {
        let (id, now) = (EventId::new(event), Self::at(event));
        self.watch.note_trigger(id, now);
        let mut built = Event { id, utc: crate::time::Utc::from_nanos(now.as_nanos()), ..Event::default() };
        for (ring, (source, clock)) in self.rings.iter_mut().zip(clocks().clocks) {
            let timestamp = |event| {
                let seconds = Self::at(of(source, event)).as_nanos() as f64 / 1e9;
                Timestamp::new((seconds * clock.rate.hertz()) as u64)
            };
            built.add(source, timestamp(event), bytes::Bytes::new());
            let pushed = event + self.ahead;
            ring.add(EventId::new(pushed), timestamp(pushed));
        }
        let guard = &mut self.guards[(event % BUILDERS) as usize];
        let mut disagrees = false;
        guard.observe(&mut built, |_| disagrees = true);
        if disagrees {
            self.flagged.push(event);
        }
        let states: Vec<_> = built.fragments().map(|part| part.alignment).collect();
        assert_eq!(states.contains(&Alignment::Disagrees), disagrees);
        assert!(!states.contains(&Alignment::Unchecked));
        let report = guard.next_report(now).filter(|_| self.unheard != Some(event % BUILDERS));
        report.iter().for_each(|report| self.hear(report, id));
        self.talk(now);
        report?.relations
    }

    fn hear(&mut self, report: &AlignmentReport, decided: EventId) {
        self.returned.extend(self.watch.handle_report(report, decided).unwrap());
    }

    /// Carries questions and answers.
    fn talk(&mut self, now: Instant) {
        for found in self.watch.look(now) {
            let source = self.watch.source(found.clock).unwrap();
            let known = Misaligned { since: found.since, sentence: String::new() };
            let lasts = found.verdict.is_misaligned() && found.until.is_none();
            self.watch.set_misaligned(source, lasts.then_some(known));
            if !found.verdict.is_misaligned() {
                let decided = self.watch.decided();
                self.guards.iter_mut().for_each(|guard| guard.learn(source, decided));
            }
            self.found.push(found);
        }
        let asking = self.watch.next_question(now);
        self.carry(asking, now);
    }

    fn carry(&mut self, asking: Option<Asking>, now: Instant) {
        if let Some((wanted, sources)) = asking {
            for source in sources {
                self.rings[usize::from(source.number()) - 1].handle_wanted(wanted, now);
            }
        }
        for (number, ring) in (1..).zip(&mut self.rings) {
            ring.handle_timeout(now);
            if let Some(readings) = ring.take_answer() {
                self.watch.handle_readings(source(number), &readings).unwrap();
            }
        }
    }
}

#[test]
fn a_healthy_run_asks_nothing_and_flags_nothing() {
    let mut system = System::new();
    for event in 1..=3000 {
        system.build(event, |_, event| event);
        assert!(system.watch.is_idle() && system.watch.question.is_none());
    }
    assert_eq!((system.flagged, system.found), (Vec::new(), Vec::new()));
}

#[test]
fn a_board_that_misses_a_trigger_is_named_with_event_and_size_of_the_slip() {
    for (shift, named) in [(1, 3), (2, 1), (-1, 2), (5, 4)] {
        let mut system = System::new();
        let of = |source: SourceId, event: u64| match source.number() == named && event >= 500 {
            true => event.saturating_add_signed(shift),
            false => event,
        };
        (1..=700).for_each(|event| drop(system.build(event, of)));
        let [found] = system.found.as_slice() else { panic!("{shift}: {:?}", system.found) };
        let verdict = Explanation::Slip { shift, offset_is_new: false };
        assert_eq!((found.verdict, found.since, found.is_disputed), (verdict, EventId::new(500), false));
        assert_eq!(system.watch.source(found.clock), Some(source(named)));
        assert_eq!(system.flagged, (500..=700).collect::<Vec<_>>());
        assert_eq!(system.watch.survey(source(named)).unwrap().state, AlignmentState::Misaligned);
    }
}

#[test]
fn a_slip_is_named_from_its_first_event_although_a_builder_that_got_it_says_nothing() {
    let mut system = System { unheard: Some(0), ..System::new() };
    let of = |source: SourceId, event: u64| event + u64::from(source.number() == 3 && event >= 500);
    (1..=700).for_each(|event| drop(system.build(event, of)));
    let found: Vec<_> = system.found.iter().map(|found| (found.verdict, found.since)).collect();
    assert_eq!(found, [(Explanation::Slip { shift: 1, offset_is_new: false }, EventId::new(500))]);
}

#[test]
fn a_slip_whose_first_readings_have_left_the_rings_is_named_since_the_first_doubt() {
    let mut system = System { ahead: 300, ..System::new() };
    let of = |source: SourceId, event: u64| event + u64::from(source.number() == 3 && event >= 500);
    (1..=700).for_each(|event| drop(system.build(event, of)));
    let found: Vec<_> = system.found.iter().map(|found| (found.verdict, found.since)).collect();
    assert_eq!(found, [(Explanation::Slip { shift: 1, offset_is_new: false }, EventId::new(500))]);
}

#[test]
fn a_source_that_agrees_again_is_no_longer_misaligned() {
    let mut system = System::new();
    let of = |source: SourceId, event: u64| {
        event + u64::from(source == source_of_the_fault() && (500..600).contains(&event))
    };
    (1..=800).for_each(|event| drop(system.build(event, of)));
    assert_eq!((system.found.len(), system.returned.as_slice()), (1, [source_of_the_fault()].as_slice()));
    assert_eq!(system.watch.misaligned().count(), 0);
    assert_eq!(system.flagged, (500..600).collect::<Vec<_>>());
}

#[test]
fn what_ends_before_it_is_clear_has_an_end() {
    // Fragments that are 50 events off fit nowhere, which takes longer to be clear.
    for (shift, lasts) in [(1, 12), (1, 40), (50, 30), (50, 40)] {
        let mut system = System::new();
        let of = |source: SourceId, event: u64| {
            let is_wrong = source == source_of_the_fault() && (500..500 + lasts).contains(&event);
            if is_wrong { event + shift } else { event }
        };
        (1..=800).for_each(|event| drop(system.build(event, of)));
        let [found] = system.found.as_slice() else { panic!("{lasts}: {:?}", system.found) };
        let is_over = found.until.is_some_and(|until| (499 + lasts..600).contains(&until.number()));
        assert!(is_over || !system.returned.is_empty(), "{shift}, {lasts}: {found:?}");
        assert_eq!(system.watch.misaligned().count(), 0, "{shift}, {lasts}: {found:?}");
    }
}

#[test]
fn a_clock_that_stands_still_is_named_once_each_time() {
    let mut system = System::new();
    let of = |source: SourceId, event: u64| match event {
        500..1000 if source == source_of_the_fault() => 499,
        1500.. if source == source_of_the_fault() => 1499,
        _ => event,
    };
    (1..=2000).for_each(|event| drop(system.build(event, of)));
    assert!(system.found.iter().filter(|found| found.is_repeated).count() > 4, "{:?}", system.found);
    let told = system.found.iter().filter(|found| !found.is_repeated && found.verdict == Explanation::Stuck);
    let since: Vec<_> = told.map(|found| found.since.number()).collect();
    assert_eq!(since, [500, 1500], "{:?}", system.found);
}

#[test]
fn a_slip_that_an_operator_takes_as_right_while_events_are_under_way_is_named_again() {
    let mut system = System::new();
    let named = source_of_the_fault();
    let of = |source: SourceId, event: u64| event + u64::from(source == named && event >= 500);
    (1..=700).for_each(|event| drop(system.build(event, of)));
    // The next 20 events are decided already.
    let decided = EventId::new(720);
    system.watch.forget(named, decided);
    system.guards.iter_mut().for_each(|guard| guard.learn(named, decided));
    (701..=1000).for_each(|event| drop(system.build(event, of)));
    let slips = |found: &Finding| matches!(found.verdict, Explanation::Slip { shift: 1, .. });
    assert!(system.found.len() == 2 && system.found.iter().all(slips), "{:?}", system.found);
    assert_eq!(system.watch.misaligned().count(), 1);
    assert!(!system.flagged.iter().any(|event| (701..=720).contains(event)), "{:?}", system.flagged);
}

fn source_of_the_fault() -> SourceId {
    source(2)
}

#[test]
fn a_slip_shortly_before_the_end_is_named_or_at_least_suspected() {
    for last in [501, 503, 505, 510, 520, 535] {
        let mut system = System::new();
        let of = |source: SourceId, event: u64| event + u64::from(source.number() == 3 && event >= 500);
        (1..=last).for_each(|event| drop(system.build(event, of)));
        let now = System::at(last + 1);
        for guard in 0..system.guards.len() {
            let report = system.guards[guard].last_report();
            report.iter().for_each(|report| system.hear(report, EventId::new(last)));
        }
        let asking = system.watch.last_question(now);
        system.carry(asking, now);
        let (found, unclear) = system.watch.conclude();
        let found: Vec<_> =
            system.found.iter().chain(&found).map(|found| (found.verdict, found.since)).collect();
        let slip = (Explanation::Slip { shift: 1, offset_is_new: false }, EventId::new(500));
        let is_suspected = unclear
            .iter()
            .any(|inquiry| (inquiry.clock(), inquiry.first()) == (ClockIndex::new(2), EventId::new(500)));
        assert!(found == [slip] || (found.is_empty() && is_suspected && last < 520), "{last}: {found:?}");
    }
}

#[test]
fn a_question_that_a_source_does_not_answer_ends_after_some_time() {
    let mut system = System::new();
    let of = |source: SourceId, event: u64| event + u64::from(source.number() == 3 && event >= 100);
    (1..=102).for_each(|event| drop(system.build(event, of)));
    let question = system.watch.question.as_mut().unwrap();
    question.waits_for.insert(source(1));
    let until = system.watch.next_timeout().unwrap();
    let number = system.watch.questions;
    system.talk(until);
    assert!(system.watch.questions > number || system.watch.question.is_none());
}

#[test]
fn doubts_about_sources_without_a_clock_and_impossible_relations_are_malformed() {
    let mut system = System::new();
    let of = |source: SourceId, event: u64| event + u64::from(source.number() == 3 && event >= 100);
    (1..=99).for_each(|event| drop(system.build(event, of)));
    let doubt = crate::wire::control::ClockDoubt { source: 9, first: 3, is_suspect: true, is_tie: false };
    let report = AlignmentReport { doubts: vec![doubt], ..AlignmentReport::default() };
    assert!(system.watch.handle_report(&report, EventId::new(99)).is_err());
    let relations = ClockRelations::default();
    let known = crate::wire::control::ClockDoubt { source: 3, ..doubt };
    let report =
        AlignmentReport { doubts: vec![known], relations: Some(relations), ..AlignmentReport::default() };
    assert!(system.watch.handle_report(&report, EventId::new(99)).is_err());
    let uneven = Readings { events: vec![1], ..Readings::default() };
    assert!(system.watch.handle_readings(source(1), &uneven).is_err());
}

#[test]
fn a_builder_that_joins_after_a_slip_flags_the_source_and_a_misled_one_tells_nobody() {
    let mut system = System::new();
    let of = |source: SourceId, event: u64| event + u64::from(source.number() == 3 && event >= 500);
    let mut learnt = None;
    for event in 1..=700 {
        let reports = system.build(event, of);
        learnt = reports.filter(|relations| system.watch.is_sound(relations)).or(learnt);
    }
    let interval = Duration::from_millis(250);
    let joined = EventGuard::new(clocks(), learnt.as_ref(), interval).unwrap();
    let misled = EventGuard::new(clocks(), None, interval).unwrap();
    (system.guards, system.flagged) = (vec![joined, misled], Vec::new());
    for event in 701..=1200 {
        let reports = system.build(event, of);
        let is_sound = reports.is_some_and(|relations| system.watch.is_sound(&relations));
        assert!(!is_sound || event % BUILDERS == 0);
    }
    system.flagged.retain(|event| event % BUILDERS == 0);
    assert_eq!(system.flagged, (702..=1200).step_by(2).collect::<Vec<_>>());
}

#[test]
fn a_new_supervisor_names_a_slip_from_what_the_sources_still_have() {
    let mut system = System::new();
    let of = |source: SourceId, event: u64| event + u64::from(source.number() == 4 && event >= 500);
    (1..=570).for_each(|event| drop(system.build(event, of)));
    // Its predecessor died, and took its findings with it. Its first decision lies far ahead.
    system.found.clear();
    system.watch = AlignmentWatch::new(&clocks()).unwrap();
    let now = System::at(571);
    for guard in &mut system.guards {
        guard.report_again();
    }
    let reports: Vec<_> = system.guards.iter_mut().filter_map(|guard| guard.last_report()).collect();
    for report in reports {
        system.hear(&report, EventId::new(200_075));
    }
    (0..3).for_each(|_| system.talk(now));
    let found: Vec<_> = system.found.iter().map(|found| (found.verdict, found.since)).collect();
    assert_eq!(found, [(Explanation::Slip { shift: 1, offset_is_new: false }, EventId::new(500))]);
}

#[test]
fn doubts_of_a_builder_that_believes_the_slipped_source_accuse_no_other() {
    for lead in 1..=SOURCES {
        let mut system = System::new();
        let of = |source: SourceId, event: u64| event + u64::from(source.number() == lead && event >= 5);
        // Each builder has seen two events before the slip.
        (1..=300).for_each(|event| drop(system.build(event, of)));
        let found: Vec<_> = system
            .found
            .iter()
            .map(|found| (system.watch.source(found.clock), found.verdict, found.since, found.is_disputed))
            .collect();
        let slip = Explanation::Slip { shift: 1, offset_is_new: false };
        assert_eq!(found, [(Some(source(lead)), slip, EventId::new(5), false)]);
    }
}
