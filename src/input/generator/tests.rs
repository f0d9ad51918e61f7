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
