use super::*;

#[test]
fn every_shape_is_driven_up_to_nearly_its_link() {
    for (sources, builders) in [(1, 1), (1, 3), (3, 1)] {
        let shape = shape(sources, builders, 1000);
        for rates in rates(shape, false) {
            assert_eq!(rates.len(), usize::from(builders));
            let on_link = rates.iter().sum::<u64>().max(rates[0] * u64::from(sources));
            assert!(on_link <= (1e9 * FULL) as u64, "{rates:?} of a {shape}");
        }
        let most =
            rates(shape, true).iter().map(|rates| rates.iter().sum::<u64>() * u64::from(sources)).max();
        assert!(most > Some(940_000_000), "{most:?} of a {shape}");
    }
}

#[test]
fn unequal_rates_are_at_least_the_smallest_of_the_study() {
    let megabits = |mbit| -> Vec<Vec<u64>> {
        let all = rates(shape(1, 3, mbit), true);
        all.into_iter().map(|rates| rates.into_iter().map(|rate| rate / 1_000_000).collect()).collect()
    };
    assert_eq!(megabits(1000), [[316, 316, 316], [10, 100, 500]]);
    assert_eq!(megabits(250), [[79, 79, 79], [10, 25, 125]]);
}

#[test]
fn names_say_shape_means_and_rates() {
    assert_eq!(
        name(shape(1, 3, 1000), Mechanism::Kernel(Bucket::Tbf), &[10_000_000, 100_000_000, 500_000_000]),
        "1x3 tbf 10-100-500"
    );
    assert_eq!(name(shape(1, 1, 1000), Mechanism::Kernel(Bucket::Htb), &[100_000_000]), "1x1 htb 100");
    assert_eq!(name(shape(3, 1, 1000), Mechanism::Software, &[10_000_000]), "3x1 software 10");
}
