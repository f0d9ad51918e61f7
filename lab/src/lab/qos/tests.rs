use super::*;

#[test]
fn every_shape_is_driven_up_to_nearly_its_link() {
    for (sources, builders) in [(1, 1), (1, 3), (3, 1)] {
        let shape = shape(sources, builders);
        for rates in rates(shape) {
            assert_eq!(rates.len(), usize::from(builders));
            let on_link = rates.iter().sum::<u64>().max(rates[0] * u64::from(sources));
            assert!(on_link <= (LINK as f64 * FULL) as u64, "{rates:?} of a {shape}");
        }
        let most = rates(shape).iter().map(|rates| rates.iter().sum::<u64>() * u64::from(sources)).max();
        assert!(most > Some(LINK / 100 * 94), "{most:?} of a {shape}");
    }
}

#[test]
fn names_say_shape_means_and_rates() {
    assert_eq!(name(shape(1, 3), "tbf", &UNEQUAL), "1x3 tbf 10-100-500");
    assert_eq!(name(shape(3, 1), "software", &[10_000_000]), "3x1 software 10");
}
