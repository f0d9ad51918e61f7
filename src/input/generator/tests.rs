use evb_core::{
    alignment::{ClockWrap, Guard},
    time::Instant,
    units::Frequency,
};

use super::*;

const LIMIT: Bytes = Bytes::mib(4);

fn generator(size: FragmentSize, seed: u64) -> Generator {
    Generator::new(SourceId::new(3), size, LIMIT, seed)
}

/// Returns mean and standard deviation of the sizes of the first 100 000 events.
fn moments(size: FragmentSize) -> (f64, f64) {
    let generator = generator(size, 1);
    let sizes: Vec<f64> =
        (1..=100_000).map(|event| generator.size(EventId::new(event)).count() as f64).collect();
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / sizes.len() as f64;
    (mean, variance.sqrt())
}

#[test]
fn sizes_have_the_asked_mean_and_deviation() {
    let (mean, sigma) = (Bytes::new(10_000), Bytes::new(2_000));
    for size in [FragmentSize::Gaussian { mean, sigma }, FragmentSize::LogNormal { mean, sigma }] {
        let (mean, sigma) = moments(size);
        // With 100 000 draws, five standard errors of the mean and of the deviation are 32 and 22
        // bytes.
        assert!((mean - 10_000.0).abs() < 40.0, "{size:?}: mean {mean}");
        assert!((sigma - 2_000.0).abs() < 60.0, "{size:?}: sigma {sigma}");
    }
}

#[test]
fn sizes_are_cut_at_zero_and_at_the_limit() {
    let wide = FragmentSize::Gaussian { mean: Bytes::new(100), sigma: Bytes::new(1000) };
    let generator = Generator::new(SourceId::new(1), wide, Bytes::new(500), 1);
    let sizes: Vec<u64> = (1..=1000).map(|event| generator.size(EventId::new(event)).count()).collect();
    assert!(sizes.contains(&0) && sizes.contains(&500));
    assert!(sizes.iter().all(|size| *size <= 500));
}

#[test]
fn a_small_fragment_depends_on_seed_source_and_event_alone() {
    let size = FragmentSize::Gaussian { mean: Bytes::new(1000), sigma: Bytes::new(300) };
    let (mut one, mut two) = (generator(size, 1), generator(size, 1));
    let event = EventId::new(7);
    one.generate(EventId::new(8));
    assert_eq!(one.generate(event), two.generate(event));
    let other_seed = generator(size, 2);
    let other_source = Generator::new(SourceId::new(4), size, LIMIT, 1);
    let differs = |other: &Generator| {
        (1..100).any(|event| other.size(EventId::new(event)) != one.size(EventId::new(event)))
    };
    assert!(differs(&other_seed) && differs(&other_source));
}

#[test]
fn memory_is_used_again_when_nobody_holds_it() {
    let mut generator = generator(FragmentSize::Fixed(Bytes::kib(100)), 1);
    let first = generator.generate(EventId::new(1)).payload;
    let memory = first.as_ptr();
    let second = generator.generate(EventId::new(2)).payload;
    assert_ne!(second.as_ptr(), memory, "the first is still held");
    assert_eq!((first[0], second[0]), (1, 2));
    drop(first);
    let third = generator.generate(EventId::new(3));
    assert_eq!(third.payload.as_ptr(), memory);
    assert_eq!(third.checksum, evb_core::fragment::Checksum::of(&third.payload));
    assert_eq!((third.payload.len(), third.payload[0]), (100 * 1024, 3));
}

#[test]
fn a_part_that_is_held_keeps_all_of_its_memory() {
    let mut generator = generator(FragmentSize::Fixed(Bytes::kib(100)), 1);
    let part = generator.generate(EventId::new(1)).payload.slice(..10);
    let next = generator.generate(EventId::new(2)).payload;
    assert_ne!(next.as_ptr(), part.as_ptr());
    assert_eq!(part[0], 1);
}

#[test]
fn what_is_kept_is_bounded() {
    let mut generator = generator(FragmentSize::Fixed(Bytes::kib(16)), 1);
    let count = KEPT_PAYLOADS as u64 + 1000;
    let held: Vec<Payload> =
        (0..count).map(|event| generator.generate(EventId::new(event)).payload).collect();
    assert_eq!(generator.kept.len(), KEPT_PAYLOADS);
    drop(held);
    (0..count).for_each(|event| drop(generator.generate(EventId::new(event))));
    assert_eq!((generator.kept.len(), generator.kept_bytes), (KEPT_PAYLOADS, KEPT_PAYLOADS << 14));

    let mut large =
        Generator::new(SourceId::new(1), FragmentSize::Fixed(Bytes::mib(100)), Bytes::mib(100), 1);
    let held: Vec<Payload> = (0..6).map(|event| large.generate(EventId::new(event)).payload).collect();
    assert_eq!((large.kept.len(), held.len()), (5, 6));
}

#[test]
fn sizes_that_vary_share_memory_and_keep_their_content() {
    let size = FragmentSize::Gaussian { mean: Bytes::kib(40), sigma: Bytes::kib(15) };
    let mut generator = generator(size, 3);
    let mut held = VecDeque::new();
    for event in (1..2000).map(EventId::new) {
        let fragment = generator.generate(event);
        held.push_back((event, fragment));
        if held.len() > 50 {
            let (event, fragment) = held.pop_front().unwrap();
            let place = PatternStart::stamped(&fragment.payload);
            let stamp = Stamp::new(event, SourceId::new(3), place, fragment.payload.len());
            assert!(stamp.is_on(&fragment.payload));
            assert_eq!(place.first_difference(&fragment.payload), None);
        }
    }
    assert!(generator.kept.len() < 100);
}

/// Returns clocks of three kinds of boards.
fn clocks() -> [DetectorClock; 3] {
    let clock = |hertz, wrap| DetectorClock::new(Frequency::from_hertz(hertz).unwrap(), wrap);
    let mut exact = clock(100e6, ClockWrap::Bits(32));
    exact.tolerance = Duration::from_nanos(50);
    [clock(125e6, ClockWrap::Bits(48)), exact, clock(40.079e6, ClockWrap::Ticks(3564))]
}

/// Returns the number of events, of every `step`-th until 20 000, that a guard flags, and the first
/// of them. It has no time of a host.
fn flagged(generators: &mut [Generator], clocks: &[DetectorClock], step: usize) -> (u64, u64) {
    let mut guard = Guard::new(clocks);
    let (mut count, mut first) = (0, 0);
    for event in (1..=20_000).step_by(step).map(EventId::new) {
        let ticks = |generator: &mut Generator| Some(generator.generate(event).timestamp.ticks());
        let readings: Vec<_> = generators.iter_mut().map(ticks).collect();
        if guard.observe(event, Instant::ZERO, &readings).disagree > 0 {
            (count, first) = (count + 1, if first == 0 { event.number() } else { first });
        }
    }
    (count, first)
}

fn boards(clocks: &[DetectorClock], seed: u64) -> Vec<Generator> {
    let size = FragmentSize::Fixed(Bytes::new(20));
    let board = |(id, clock)| Generator::new(SourceId::new(id), size, LIMIT, seed).with_clock(clock);
    (1..).zip(clocks).map(board).collect()
}

#[test]
fn the_guard_flags_no_healthy_generator_and_every_slip() {
    let clocks = clocks();
    for (seed, step) in [(1, 1), (2, 1), (3, 2), (4, 16)] {
        assert_eq!(flagged(&mut boards(&clocks, seed), &clocks, step), (0, 0), "seed {seed}");
    }
    for by in [-16, -1, 1, 5, 16] {
        let mut boards = boards(&clocks, 1);
        let faulty = boards.remove(1).with_slip(by, EventId::new(5000));
        boards.insert(1, faulty);
        let (count, first) = flagged(&mut boards, &clocks, 1);
        assert_eq!(first, 5000, "slip {by}");
        assert!(count > 14_000, "slip {by}: {count} events flagged");
    }
}

#[test]
fn a_slip_exchanges_content_and_timestamp_from_its_event_on() {
    let size = FragmentSize::Gaussian { mean: Bytes::new(1000), sigma: Bytes::new(300) };
    let clock = clocks()[0];
    let mut healthy = generator(size, 1).with_clock(&clock);
    let mut faulty = generator(size, 1).with_clock(&clock).with_slip(-2, EventId::new(10));
    for (event, content) in [(9, 9), (10, 8), (11, 9), (1000, 998)] {
        let (sent, own) = (faulty.generate(EventId::new(event)), healthy.generate(EventId::new(content)));
        assert_eq!(sent.event, EventId::new(event));
        assert_eq!((sent.timestamp, &sent.payload), (own.timestamp, &own.payload));
        assert_eq!(faulty.size(EventId::new(event)), own.size());
    }
    let mut before_all = generator(size, 1).with_slip(-16, EventId::FIRST);
    assert_eq!(before_all.generate(EventId::FIRST).timestamp, Timestamp::new(0));
}
