use super::*;

#[test]
fn one_two_half_and_all_but_one_are_stopped() {
    let all = troubles(8);
    for count in [1, 2, 4, 7] {
        assert!(all.contains(&Trouble::Short(count)) && all.contains(&Trouble::Long(count)), "{count}");
    }
    assert_eq!(all.len(), 2 + 2 * 4);
    // With two sources, *one*, *half* and *all but one* are the same number, which must not be
    // tested several times.
    assert_eq!(troubles(2), [Trouble::None, Trouble::Hogs, Trouble::Short(1), Trouble::Long(1)]);
}

#[test]
fn the_others_rate_is_that_of_the_port_meanwhile() {
    let watch = Watch {
        from: Some((Duration::from_secs(6), 1_000)),
        until: Some((Duration::from_secs(8), 1_001_000)),
        ..Watch::default()
    };
    assert_eq!(watch.rate(), Some(4e6));
    assert_eq!(Watch::default().rate(), None);
}
