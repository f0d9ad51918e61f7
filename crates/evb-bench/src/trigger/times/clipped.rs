//! Normal distributions whose negative values are set to zero, with the centre moved so that the
//! mean stays as requested.

/// Number of standard deviations beyond which a normal distribution has less than 10⁻¹⁸ of its
/// weight.
const EDGE: f64 = 9.0;

/// Returns the centre of the normal distribution for which max(0, x) has the mean `mean`. The
/// centre is found by bisection on E\[max(0, x)\], which grows with the centre.
pub(super) fn centre(mean: f64, sigma: f64) -> f64 {
    if sigma <= 0.0 || mean >= EDGE * sigma {
        return mean;
    }
    let (mut low, mut high) = (-EDGE * sigma, mean);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if clipped_mean(middle, sigma) < mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Returns E\[max(0, x)\] for a normally distributed x with that centre and standard deviation, by
/// Simpson's rule over the part above zero.
fn clipped_mean(centre: f64, sigma: f64) -> f64 {
    const STEPS: u32 = 512;
    let from = (-centre / sigma).max(-EDGE);
    let step = (EDGE - from).max(0.0) / f64::from(STEPS);
    let integrand = |z: f64| (centre + sigma * z) * (-0.5 * z * z).exp();
    let sum: f64 = (0..=STEPS)
        .map(|index| {
            let weight = match index {
                0 | STEPS => 1.0,
                _ if index % 2 == 1 => 4.0,
                _ => 2.0,
            };
            weight * integrand(from + step * f64::from(index))
        })
        .sum();
    sum * step / 3.0 / core::f64::consts::TAU.sqrt()
}
