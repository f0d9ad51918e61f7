use std::time::Duration;

use super::{TickSigns, TickVerdict};
use crate::regularity::ticks::Ticks;

/// Gap between messages that leave evenly, in µs: about a sixth of 10 ms.
const NOMINAL_US: f64 = 1_667.2;
/// Part of the gaps near the nominal gap from which on an executor is regular.
const REGULAR: f64 = 0.98;

/// Returns the signs of ticks at this frequency in `gaps`, which are in µs.
fn signs(gaps: &[f64], hertz: u32) -> TickSigns {
    TickSigns::of(gaps, Ticks::new(hertz).expect("a frequency"), Duration::ZERO)
}

/// Gaps of clumps of six messages every 10 ms, as stamps of a loopback device show them.
fn clumps() -> Vec<f64> {
    let clump = [9_940.0, 12.0, 13.0, 12.0, 12.0, 11.0];
    clump.into_iter().cycle().take(6 * 50).collect()
}

/// Returns the verdict on one round, in which `near_nominal` is the part of the gaps near
/// [`NOMINAL_US`].
fn verdict(near_nominal: f64, signs: TickSigns) -> TickVerdict {
    let verdict = TickVerdict {
        executor: "tick".into(),
        trigger: "periodic",
        trigger_hz: Some(1000.0),
        receiver: 1,
        shaped: vec![near_nominal],
        signs: vec![signs],
        fails_regularity: false,
        on_ticks: false,
        clumped_at_ticks: false,
        clumps_expected: false,
        behaves: false,
    };
    verdict.concluded(NOMINAL_US, REGULAR)
}

#[test]
fn an_executor_whose_ticks_are_longer_than_the_nominal_gap_must_send_clumps() {
    let found = signs(&clumps(), 100);
    // Six messages at each tick of 10 ms, in place of one every 1.67 ms.
    assert_eq!((found.messages_per_clump, found.clump_gap_us), (6.0, 10_000.0));
    assert_eq!((found.on_ticks, found.one_tick), (1.0, 1.0));
    // Of 50 clumps, those of five ticks are left out at the start, and the last one may be cut.
    assert!((43..=45).contains(&found.clumps), "{found:?}");
    let verdict = verdict(0.0, found);
    assert!(verdict.fails_regularity && verdict.clumped_at_ticks && verdict.clumps_expected);
    assert!(verdict.behaves, "{verdict:?}");
}

#[test]
fn an_executor_whose_ticks_are_shorter_than_the_nominal_gap_must_send_at_ticks() {
    // Gaps of two and of three ticks of 667 µs.
    let gaps: Vec<f64> = [1_340.0, 1_990.0].into_iter().cycle().take(200).collect();
    let found = signs(&gaps, 1500);
    assert_eq!((found.messages_per_clump, found.on_ticks, found.one_tick), (1.0, 1.0, 0.0));
    let good = verdict(0.0, found);
    assert!(good.behaves && good.on_ticks && !good.clumps_expected, "{good:?}");
    // 80 % of the gaps on ticks are not enough.
    let mixed: Vec<f64> =
        [1_340.0, 1_990.0, 1_340.0, 1_990.0, 1_667.0].into_iter().cycle().take(200).collect();
    assert!(!verdict(0.2, signs(&mixed, 1500)).behaves);
}

#[test]
fn a_regular_executor_does_not_behave_as_one_with_ticks() {
    let found = signs(&[NOMINAL_US; 300], 100);
    let clumped = verdict(1.0, found);
    assert!(!clumped.fails_regularity && !clumped.behaves, "{clumped:?}");
    let regular = verdict(1.0, signs(&[NOMINAL_US; 300], 1500));
    assert!(!regular.on_ticks && !regular.behaves, "{regular:?}");
    // Messages that fail the criterion without any tick do not behave either.
    let ragged: Vec<f64> = (0..300).map(|n| 500.0 + f64::from(n * 37 % 1000)).collect();
    assert!(!verdict(0.1, signs(&ragged, 1500)).behaves);
    assert!(!verdict(0.0, signs(&[], 100)).behaves, "a run without gaps shows nothing");
}
