use super::*;

#[test]
fn equal_pairs_leave_no_doubt() {
    let ratios = Ratios::of(&[(2.0, 1.0), (4.0, 2.0), (8.0, 4.0)]);
    for value in [ratios.mean, ratios.low, ratios.high] {
        assert!((value - 0.5).abs() < 1e-12, "{ratios:?}");
    }
}

#[test]
fn scatter_widens_the_interval() {
    // The logarithms of the ratios are 0.1 and -0.1, so their mean is 0 and its standard error 0.1,
    // with one degree of freedom.
    let ratios = Ratios::of(&[(1.0, 0.1_f64.exp()), (1.0, (-0.1_f64).exp())]);
    assert!((ratios.mean - 1.0).abs() < 1e-12);
    assert!(
        (ratios.low.ln() + 1.2706).abs() < 1e-9 && (ratios.high.ln() - 1.2706).abs() < 1e-9,
        "{ratios:?}"
    );
}
