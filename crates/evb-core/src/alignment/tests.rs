//! Promises of the guard and the inquiry together: healthy boards are never flagged, and each fault
//! is flagged, and named with its board, its size and its first event.

mod slips;

use core::time::Duration;

use super::{
    Alignment, ClockWrap, DetectorClock, Doubt, Explanation, Gathered, Guard, Inquiry, ReadingRing, Start,
    Survey,
    inquiry::Finding,
    scale::Scale,
    start,
    track::{Change, Sight, Track},
};
use crate::{fragment::Timestamp, id::EventId, index::ClockIndex, rng::Rng, time::Instant, units::Frequency};

/// First faulty event of the tests.
const AT: u64 = 2000;
const FAULTY: usize = 2;

fn clock(hertz: f64, wrap: ClockWrap) -> DetectorClock {
    let tolerance = Duration::from_nanos(100);
    DetectorClock { tolerance, ..DetectorClock::new(Frequency::from_hertz(hertz).unwrap(), wrap) }
}

/// Four boards with different clocks. The first is the lead.
fn clocks() -> Vec<DetectorClock> {
    vec![
        clock(125e6, ClockWrap::Bits(56)),
        clock(100e6, ClockWrap::Bits(32)),
        clock(62.5e6, ClockWrap::Bits(40)),
        clock(40e6, ClockWrap::Ticks(3564)),
    ]
}

/// Triggers, and what every board reads of them.
struct Boards {
    clocks: Vec<DetectorClock>,
    /// Nanoseconds of each trigger; event 1 is the second.
    times: Vec<f64>,
    zeros: Vec<u64>,
    rng: Rng,
}

impl Boards {
    fn new(clocks: Vec<DetectorClock>, mut interval: impl FnMut(&mut Rng) -> f64) -> Self {
        let mut rng = Rng::new(3);
        let mut now = 0.0;
        let mut next = || {
            now += interval(&mut rng);
            now
        };
        let times = (0..AT as usize + 2000).map(|_| next()).collect();
        let zeros = clocks.iter().map(|_| rng.next_u64() >> 8).collect();
        Self { clocks, times, zeros, rng }
    }

    fn poisson() -> Self {
        Self::new(clocks(), |rng| 1e5 * rng.exponential())
    }

    fn periodic() -> Self {
        Self::new(clocks(), |_| 1e5)
    }

    fn host(&self, event: u64) -> Instant {
        Instant::from_nanos(self.times[event as usize] as u64 + event % 5 * 100_000)
    }

    /// Returns what a board reads of a trigger, with jitter; its rate is off by 30 ppm times its
    /// position.
    fn read(&mut self, board: usize, trigger: u64) -> u64 {
        let clock = self.clocks[board];
        let jitter = (self.rng.uniform() - 0.5) * 16.0;
        let seconds = (self.times[trigger as usize] + jitter) * 1e-9 * (1.0 + board as f64 * 30e-6);
        self.cut(board, self.zeros[board].wrapping_add((seconds * clock.rate.hertz()) as u64))
    }

    fn cut(&self, board: usize, ticks: u64) -> u64 {
        match self.clocks[board].wrap {
            ClockWrap::Bits(bits) => ticks & u64::MAX >> (64 - bits),
            ClockWrap::Ticks(wrap) => ticks % wrap,
        }
    }
}

/// Result of a run.
#[derive(Default)]
struct Run {
    /// Events and boards that were flagged.
    flagged: Vec<(u64, usize)>,
    suspects: Vec<usize>,
    findings: Vec<(u64, Finding)>,
}

/// Runs boards with a fault: `sent` returns what a board sends under an event's number.
fn run(
    boards: &mut Boards,
    guard: &mut Guard,
    mut sent: impl FnMut(&mut Boards, usize, u64) -> Option<u64>,
) -> Run {
    let count = boards.clocks.len();
    let mut result = Run::default();
    let mut rings = vec![ReadingRing::default(); count];
    let mut open: Vec<Option<(Inquiry, Survey)>> = vec![None; count];
    let mut gathered = Gathered::new(count);
    for event in 1..AT + 900 {
        let readings: Vec<Option<u64>> = (0..count).map(|board| sent(boards, board, event)).collect();
        for (ring, reading) in rings.iter_mut().zip(&readings) {
            reading.iter().for_each(|ticks| ring.push(EventId::new(event), Timestamp::new(*ticks)));
        }
        let seen = guard.observe(EventId::new(event), boards.host(event), &readings);
        guard.invariants();
        let flagged = |board: &usize| guard.alignment(ClockIndex::new(*board)) == Alignment::Disagrees;
        let flags: Vec<usize> = (0..count).filter(flagged).collect();
        assert_eq!(flags.len() as u32, seen.disagree, "event {event}");
        result.flagged.extend(flags.iter().map(|board| (event, *board)));
        while let Some(doubt) = guard.next_doubt() {
            if doubt.suspect {
                result.suspects.push(doubt.clock.get());
            }
            hear(&mut open[doubt.clock], &doubt, guard, event);
        }
        for place in &mut open {
            let Some((inquiry, survey)) = place else { continue };
            if inquiry.next_look() > EventId::new(event) {
                continue;
            }
            for (clock, ring) in ClockIndex::all(count).zip(&rings) {
                gathered.add(clock, ring.iter());
            }
            if let Some(finding) = inquiry.look(survey, &gathered) {
                result.findings.push((event, finding));
                *place = None;
            }
        }
    }
    result
}

fn hear(open: &mut Option<(Inquiry, Survey)>, doubt: &Doubt, guard: &Guard, event: u64) {
    match open {
        Some((inquiry, _)) => inquiry.add(doubt),
        None => *open = Some((Inquiry::new(doubt, EventId::new(event)), guard.survey())),
    }
}

/// Runs a fault of one board, and returns what was found about that board alone.
fn found(mut boards: Boards, sent: impl FnMut(&mut Boards, usize, u64) -> Option<u64>) -> (Run, Finding) {
    let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
    let run = run(&mut boards, &mut guard, sent);
    assert!(run.flagged.iter().all(|(event, board)| *event >= AT && *board == FAULTY), "{:?}", run.flagged);
    let finding = run.findings.first().expect("a finding").1;
    assert_eq!(finding.clock, ClockIndex::new(FAULTY));
    assert!(!finding.is_disputed);
    (run, finding)
}

/// Returns a faulty board's sender: from event [`AT`] on, `fault` says what the board sends.
fn faulty(fault: impl Fn(&mut Boards, u64) -> u64) -> impl FnMut(&mut Boards, usize, u64) -> Option<u64> {
    move |boards, board, event| {
        if board == FAULTY && event >= AT {
            let ticks = fault(boards, event);
            return Some(boards.cut(board, ticks));
        }
        Some(boards.read(board, event))
    }
}

#[test]
fn healthy_boards_are_never_flagged() {
    for mut boards in [Boards::poisson(), Boards::periodic()] {
        let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
        let run = run(&mut boards, &mut guard, |boards, board, event| Some(boards.read(board, event)));
        assert!(run.flagged.is_empty() && run.findings.is_empty());
        assert!(ClockIndex::all(4).all(|clock| guard.alignment(clock) == Alignment::Agrees));
    }
}

#[test]
fn a_slip_is_flagged_at_its_first_event_and_named() {
    for shift in [1, -1, 2, -5, 16] {
        for boards in [Boards::poisson(), Boards::periodic()] {
            let fault = move |boards: &mut Boards, event: u64| {
                boards.read(FAULTY, event.saturating_add_signed(shift))
            };
            let (run, finding) = found(boards, faulty(fault));
            assert_eq!(finding.verdict, Explanation::Slip { shift, offset_is_new: false });
            assert!(finding.verdict.is_misaligned());
            assert_eq!((run.flagged[0].0, finding.since), (AT, EventId::new(AT)));
            assert_eq!(run.suspects, [FAULTY]);
            assert!(run.findings[0].0 <= AT + 32);
        }
    }
}

#[test]
fn a_doubled_trigger_is_a_slip_after_one_spurious_time() {
    let fault = |boards: &mut Boards, event: u64| match event {
        AT => (boards.read(FAULTY, AT - 1) + boards.read(FAULTY, AT)) / 2,
        later => boards.read(FAULTY, later - 1),
    };
    let (_, finding) = found(Boards::poisson(), faulty(fault));
    assert_eq!(finding.verdict, Explanation::Slip { shift: -1, offset_is_new: false });
}

#[test]
fn a_clock_that_is_reset_has_right_events_and_can_be_learnt_again() {
    let mut boards = Boards::poisson();
    let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
    let mut sender = faulty(|boards, event| boards.read(FAULTY, event).wrapping_sub(123_456_789));
    let result = run(&mut boards, &mut guard, &mut sender);
    let Explanation::ClockJump { nanos } = result.findings[0].1.verdict else {
        panic!("{:?}", result.findings)
    };
    assert!((nanos + 123_456_789.0 * 16.0).abs() < 200.0, "{nanos}");
    assert!(!result.findings[0].1.verdict.is_misaligned());
    let clock = ClockIndex::new(FAULTY);
    assert!(guard.is_suspect(clock));
    guard.learn(clock);
    for event in AT + 900..AT + 1000 {
        let readings: Vec<_> = (0..4).map(|board| sender(&mut boards, board, event)).collect();
        let seen = guard.observe(EventId::new(event), boards.host(event), &readings);
        assert_eq!(seen.disagree, 0, "{event}");
    }
    assert_eq!(guard.alignment(clock), Alignment::Agrees);
}

#[test]
fn wrong_bits_and_wrong_rates_are_named() {
    let (_, finding) =
        found(Boards::poisson(), faulty(|boards, event| boards.read(FAULTY, event).wrapping_sub(1 << 24)));
    assert_eq!(finding.verdict, Explanation::OtherBits(24));
    let mut boards = Boards::poisson();
    let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
    let result = run(&mut boards, &mut guard, |boards, board, event| {
        let ticks = boards.read(board, event);
        let fast = (boards.times[event as usize] * 1e-9 * 62.5e6 * 800e-6) as u64;
        Some(if board == FAULTY { ticks + fast } else { ticks })
    });
    let named = |finding: &(u64, Finding)| matches!(finding.1.verdict, Explanation::OtherRate { ppm } if (ppm - 860.0).abs() < 50.0);
    assert!(result.findings.iter().any(named), "{:?}", result.findings);
}

#[test]
fn a_stuck_clock_and_exchanged_boards_are_named() {
    let (_, finding) = found(Boards::poisson(), faulty(|_, _| 4711));
    assert_eq!(finding.verdict, Explanation::Stuck);
    let mut boards = Boards::poisson();
    boards.clocks[1] = boards.clocks[2];
    let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
    let result = run(&mut boards, &mut guard, |boards, board, event| {
        let other = if event >= AT && (1..=2).contains(&board) { 3 - board } else { board };
        Some(boards.read(other, event))
    });
    let verdicts: Vec<_> =
        result.findings.iter().map(|(_, finding)| (finding.clock.get(), finding.verdict)).collect();
    let with = |other| Explanation::ExchangedWith(ClockIndex::new(other));
    assert_eq!(verdicts, [(1, with(2)), (2, with(1))]);
}

#[test]
fn a_swapped_pair_and_single_wrong_times_raise_no_suspicion() {
    let swapped = |boards: &mut Boards, event: u64| match event {
        AT => boards.read(FAULTY, AT + 1),
        event if event == AT + 1 => boards.read(FAULTY, AT),
        event => boards.read(FAULTY, event),
    };
    let (run, finding) = found(Boards::poisson(), faulty(swapped));
    assert_eq!((finding.verdict, run.suspects.len()), (Explanation::SwappedPair, 0));
    let corrupt = |boards: &mut Boards, event: u64| boards.read(FAULTY, event) ^ u64::from(event == AT) << 17;
    let (run, finding) = found(Boards::poisson(), faulty(corrupt));
    assert_eq!((finding.verdict, run.suspects.len()), (Explanation::SingleStamps, 0));
    assert_eq!(run.flagged, [(AT, FAULTY)]);
}

#[test]
fn fragments_of_another_run_are_foreign_and_the_source_is_believed_again_after_them() {
    let leftover = |boards: &mut Boards, event: u64| {
        let old = boards.read(FAULTY, 1 + (event * 7919) % 900);
        if event < AT + 40 { old } else { boards.read(FAULTY, event) }
    };
    let (run, finding) = found(Boards::poisson(), faulty(leftover));
    assert_eq!(finding.verdict, Explanation::Foreign);
    assert!(run.flagged.iter().all(|(event, _)| *event < AT + 40));
}

#[test]
fn the_lead_itself_can_slip() {
    let mut boards = Boards::poisson();
    let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
    let result = run(&mut boards, &mut guard, |boards, board, event| {
        Some(boards.read(board, event + u64::from(board == 0 && event >= AT)))
    });
    assert!(result.flagged.iter().all(|(event, board)| *event >= AT && *board == 0));
    let (_, finding) = result.findings[0];
    assert_eq!((finding.clock.get(), finding.since), (0, EventId::new(AT)));
    assert_eq!(finding.verdict, Explanation::Slip { shift: 1, offset_is_new: false });
}

#[test]
fn of_two_clocks_nobody_knows_which_one_slipped() {
    let mut boards = Boards::new(clocks()[..2].to_vec(), |rng| 1e5 * rng.exponential());
    let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
    let result = run(&mut boards, &mut guard, |boards, board, event| {
        Some(boards.read(board, event + u64::from(board == 1 && event >= AT)))
    });
    let (_, finding) = result.findings[0];
    assert_eq!(finding.verdict, Explanation::Slip { shift: 1, offset_is_new: false });
    assert!(finding.is_disputed);
    assert!(result.flagged.contains(&(AT, 0)) && result.flagged.contains(&(AT, 1)));
}

#[test]
fn a_slip_before_event_1_shows_unless_the_triggers_are_periodic() {
    let slipped = |boards: &mut Boards, board: usize, event: u64| {
        Some(boards.read(board, event + u64::from(board == FAULTY)))
    };
    for (mut boards, expected) in [(Boards::poisson(), Start::Proven), (Boards::periodic(), Start::NotProven)]
    {
        let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
        let result = run(&mut boards, &mut guard, slipped);
        let first = result.findings.first().map(|(_, finding)| (finding.clock.get(), finding.verdict));
        let slip = (FAULTY, Explanation::Slip { shift: 1, offset_is_new: true });
        assert_eq!(first, (expected == Start::Proven).then_some(slip));
        assert_eq!(first_events(&mut boards, &guard), Some(expected));
    }
}

/// Returns what the first events of healthy boards prove.
fn first_events(boards: &mut Boards, guard: &Guard) -> Option<Start> {
    let mut gathered = Gathered::new(4);
    for clock in ClockIndex::all(4) {
        let read = |event| (EventId::new(event), Timestamp::new(boards.read(clock.get(), event)));
        gathered.add(clock, (1..=256).map(read).collect::<Vec<_>>());
    }
    start(&guard.survey(), &gathered, ClockIndex::new(1))
}

#[test]
fn a_builder_that_joins_takes_over_what_another_one_learnt() {
    let mut boards = Boards::periodic();
    let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
    run(&mut boards, &mut guard, |boards, board, event| Some(boards.read(board, event)));
    let (survey, mut joined) = (guard.survey(), Guard::with_lead(&boards.clocks, ClockIndex::new(0)));
    joined.resume(&survey);
    for event in AT + 900..AT + 1000 {
        // The source slipped between the two, which a builder without relations would learn.
        let readings: Vec<_> =
            (0..4).map(|board| Some(boards.read(board, event + u64::from(board == FAULTY)))).collect();
        let seen = joined.observe(EventId::new(event), boards.host(event), &readings);
        assert_eq!(seen.disagree, 1, "{event}");
        joined.invariants();
    }
}

#[test]
fn missing_fragments_late_events_and_a_lead_that_dies_are_no_faults() {
    let mut boards = Boards::poisson();
    let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
    let mut rng = Rng::new(8);
    let result = run(&mut boards, &mut guard, |boards, board, event| {
        let is_dead = board == 0 && event >= AT;
        // Events end out of order within 16.
        let event = (event ^ 5).max(1);
        (!is_dead && rng.below(20) > 0).then(|| boards.read(board, event))
    });
    assert!(result.flagged.is_empty(), "{:?}", result.flagged);
    assert_ne!(guard.survey().lead(), ClockIndex::new(0));
}

#[test]
fn the_zero_of_a_clock_does_not_matter() {
    let flags = |zero: u64| {
        let mut boards = Boards::poisson();
        boards.zeros[FAULTY] = zero;
        let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
        run(&mut boards, &mut guard, faulty(|boards, event| boards.read(FAULTY, event + 1))).flagged
    };
    let expected = flags(0);
    assert!(!expected.is_empty());
    for zero in [1, (1 << 40) - 5, u64::MAX >> 9] {
        assert_eq!(flags(zero), expected);
    }
}

#[test]
fn corrupt_times_among_ten_thousand_never_become_a_suspicion() {
    let mut boards = Boards::poisson();
    let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
    let mut planted = 0;
    let result = run(&mut boards, &mut guard, |boards, board, event| {
        let is_corrupt = event > 100 && event % 331 == 0 && board == 1;
        planted += u64::from(is_corrupt);
        Some(boards.read(board, event) ^ u64::from(is_corrupt) << 20)
    });
    assert_eq!(result.flagged.len() as u64, planted);
    assert!(result.suspects.is_empty());
}

#[test]
fn each_suspicion_needs_agreements_of_its_own() {
    let scale = Scale::new(&clocks()[1], 100.0);
    let (mut track, mut event) = (Track::default(), 0);
    let mut step = |residual: f64, limit: f64| {
        event += 1;
        let (at, follow) = (event as i64 * 64_000_000, true);
        let sight = Sight { event, ticks: 0, at, residual, limit, follow, leads: false, undecided: false };
        let (_, change) = track.step(&scale, &sight);
        track.invariants();
        change
    };
    (0..9).for_each(|_| assert_eq!(step(0.0, 10.0), Change::None));
    let doubted = [Change::Doubted, Change::None, Change::Suspected];
    assert_eq!([(); 3].map(|()| step(1e6, 10.0)), doubted);
    (0..15).for_each(|_| assert_eq!(step(0.0, 10.0), Change::None));
    assert_eq!(step(0.0, 10.0), Change::Returned);
    // After a long silence the clock is learnt again, which fails.
    assert_eq!(step(0.0, 2.0 * scale.quarter), Change::None);
    assert_eq!([(); 3].map(|()| step(1e6, 10.0)), doubted);
    (0..15).for_each(|_| assert_eq!(step(0.0, 10.0), Change::None));
    assert_eq!(step(0.0, 10.0), Change::Returned);
}

#[test]
fn a_builder_needs_at_most_256_bytes_a_source() {
    let clocks = vec![clock(1e8, ClockWrap::Bits(48)); 100];
    assert!(Guard::bytes_per_clock() <= 256, "{}", Guard::bytes_per_clock());
    let mut guard = Guard::new(&clocks);
    assert_eq!(guard.observe(EventId::FIRST, Instant::ZERO, &[]).disagree, 0);
    assert_eq!(guard.alignment(ClockIndex::new(200)), Alignment::Unchecked);
}
