use super::*;

const LIMIT: Bytes = Bytes::mib(4);

fn generator(size: FragmentSize, seed: u64) -> Generator {
    Generator::new(SourceId::new(3), size, LIMIT, seed)
}

/// Mean and deviation of the sizes of the first hundred thousand events.
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
        // Five standard errors of 100 000 draws are 32 and 22 bytes.
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
fn a_fragment_depends_on_seed_source_and_event_alone() {
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
fn committed_memory_is_written_afresh() {
    let mut generator = generator(FragmentSize::Fixed(Bytes::kib(100)), 1);
    let first = generator.generate(EventId::new(1)).payload;
    let memory = first.as_ptr();
    generator.recycle(first);
    let second = generator.generate(EventId::new(2));
    assert_eq!(second.payload.as_ptr(), memory);
    assert_eq!(second.checksum, evb_core::fragment::Checksum::of(&second.payload));
    assert_eq!(second.payload.len(), 100 * 1024);
    assert_eq!(second.payload[0], 2);
}

#[test]
fn shared_memory_is_left_alone_and_the_pool_is_bounded() {
    let mut generator = generator(FragmentSize::Fixed(Bytes::new(1000)), 1);
    let shared = generator.generate(EventId::new(1)).payload;
    generator.recycle(shared.clone());
    let next = generator.generate(EventId::new(2)).payload;
    assert_ne!(next.as_ptr(), shared.as_ptr());
    assert_eq!(shared[0], 1);
    let count = POOL_PIECES as u64 + 1000;
    let many: Vec<Payload> =
        (0..count).map(|event| generator.generate(EventId::new(event)).payload).collect();
    many.into_iter().for_each(|payload| generator.recycle(payload));
    assert_eq!(generator.pool.len(), POOL_PIECES);

    let mut large = Generator::new(SourceId::new(1), FragmentSize::Fixed(Bytes::mib(8)), Bytes::mib(8), 1);
    let many: Vec<Payload> = (0..12).map(|event| large.generate(EventId::new(event)).payload).collect();
    many.into_iter().for_each(|payload| large.recycle(payload));
    assert_eq!(large.pool.len() * 8, POOL_BYTES >> 20);
}
