//! One trial: a system with a planted fault, from its first event to the verdict.

use evb_core::{
    alignment::{Alignment, DetectorClock, Explanation, Gathered, Guard, Inquiry, ReadingRing, Survey},
    fragment::Timestamp,
    id::EventId,
    index::ClockIndex,
};

use super::{
    boards::{Board, LEAD},
    fault::{Fault, Planted},
    triggers::Pattern,
    world::World,
};

/// Triggers that are made before they are needed, for slips to later events.
const AHEAD: u64 = 40;
/// Events that are simulated after a fault; a wrong rate takes longer.
const SPAN: u64 = 900;
const SPAN_OF_RATES: u64 = 20_000;

/// Division of the events among the builders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) builders: u64,
    /// Number of successive events that one builder gets.
    pub(super) run: u64,
}

impl Share {
    pub(super) fn builder_of(self, event: u64) -> usize {
        ((event - 1) / self.run % self.builders) as usize
    }
}

/// Outcome of a trial; delays are in events of the whole run since the fault.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) flag: Option<u64>,
    pub(super) suspect: Option<u64>,
    /// Clock, verdict and delay. A verdict of single timestamps counts only if there is no other.
    pub(super) verdict: Option<(ClockIndex, Explanation, u64)>,
    /// True if an innocent board was flagged in the first event with a flag.
    pub(super) blames_innocent: bool,
    /// Verdicts of a slip that name another board, another size, or a slip that there is not.
    pub(super) wrong_slips: u64,
}

/// The supervisor of a trial. It gets rings and doubts at once.
struct Supervisor {
    inquiries: Vec<Option<(Inquiry, Survey)>>,
    rings: Vec<ReadingRing>,
    gathered: Gathered,
}

impl Supervisor {
    fn gather(&mut self, world: &World, event: u64) {
        for (clock, ring) in ClockIndex::all(self.rings.len()).zip(&self.rings) {
            self.gathered.add(clock, ring.iter());
        }
        let first = event.saturating_sub(256).max(1);
        self.gathered.add_hosts((first..=event).map(|event| (EventId::new(event), world.host(event))));
    }

    /// Takes the doubts of a builder. Returns true if a clock became suspect.
    fn hear(&mut self, guard: &mut Guard, world: &World, event: u64) -> bool {
        let mut is_suspect = false;
        while let Some(doubt) = guard.next_doubt() {
            is_suspect |= doubt.suspect;
            if self.inquiries.iter().all(Option::is_none) {
                self.gathered = Gathered::new(self.rings.len());
                self.gather(world, event);
            }
            match &mut self.inquiries[doubt.clock] {
                Some((inquiry, _)) => inquiry.add(&doubt),
                none => *none = Some((Inquiry::new(&doubt, EventId::new(event)), guard.survey())),
            }
        }
        is_suspect
    }

    /// Makes the looks that wait for this event, and returns their findings.
    fn look(&mut self, world: &World, event: u64) -> Vec<(ClockIndex, Explanation)> {
        let waits = |(inquiry, _): &(Inquiry, Survey)| inquiry.next_look().number() <= event;
        if !self.inquiries.iter().flatten().any(waits) {
            return Vec::new();
        }
        self.gather(world, event);
        let mut findings = Vec::new();
        for place in &mut self.inquiries {
            let Some((inquiry, survey)) = place.as_mut().filter(|open| waits(open)) else { continue };
            if let Some(found) = inquiry.look(survey, &self.gathered) {
                findings.push((found.clock, found.verdict));
                *place = None;
            }
        }
        findings
    }
}

pub(super) fn trial(
    boards: &[Board],
    clocks: &[DetectorClock],
    pattern: Pattern,
    share: Share,
    planted: Planted,
    seed: u64,
) -> Outcome {
    let mut world = World::new(boards, pattern, seed, Some(planted));
    let mut guards: Vec<Guard> = (0..share.builders).map(|_| Guard::with_lead(clocks, LEAD)).collect();
    let mut supervisor = Supervisor {
        inquiries: vec![None; boards.len()],
        rings: vec![ReadingRing::default(); boards.len()],
        gathered: Gathered::new(boards.len()),
    };
    let mut outcome = Outcome::default();
    let mut readings = vec![None; boards.len()];
    for _ in 0..AHEAD {
        world.make();
    }
    let span = if matches!(planted.fault, Fault::Rate(_)) { SPAN_OF_RATES } else { SPAN };
    for event in 1..=planted.at + span {
        world.make();
        for (board, reading) in readings.iter_mut().enumerate() {
            let ticks = world.sent(board, event);
            *reading = Some(ticks);
            supervisor.rings[board].push(EventId::new(event), Timestamp::new(ticks));
        }
        let guard = &mut guards[share.builder_of(event)];
        let seen = guard.observe(EventId::new(event), world.host(event), &readings);
        let delay = event.saturating_sub(planted.at);
        if seen.disagree > 0 && outcome.flag.is_none() {
            outcome.flag = Some(delay);
            outcome.blames_innocent = ClockIndex::all(boards.len())
                .any(|clock| guard.alignment(clock) == Alignment::Disagrees && !planted.blames(clock.get()));
        }
        if seen.doubts > 0 && supervisor.hear(guard, &world, event) {
            outcome.suspect.get_or_insert(delay);
        }
        for (clock, verdict) in supervisor.look(&world, event) {
            let is_right = planted.deserves(clock, verdict);
            outcome.wrong_slips += u64::from(!is_right && matches!(verdict, Explanation::Slip { .. }));
            let is_better = outcome
                .verdict
                .is_none_or(|(_, old, _)| old == Explanation::SingleStamps && (verdict != old || is_right));
            if is_better {
                outcome.verdict = Some((clock, verdict, delay));
            }
        }
        if outcome.verdict.is_some_and(|(_, verdict, _)| verdict != Explanation::SingleStamps) {
            break;
        }
    }
    outcome
}
