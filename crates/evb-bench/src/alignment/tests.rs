//! A short form of the study.

use super::{AlignmentArguments, measure};

#[test]
fn a_short_study_has_no_false_alarm_and_no_wrong_slip() {
    let arguments = AlignmentArguments {
        trials: 2,
        events: 20_000,
        sources: vec![2],
        pattern: "Poisson 100".into(),
        fault: "slip".into(),
        output: Default::default(),
    };
    let study = measure(&arguments);
    assert!(study.holds, "{study:?}");
    let plain = study.faults.iter().find(|row| row.fault == "slip +1").unwrap();
    assert_eq!((plain.trials, plain.seen, plain.right), (6, 100.0, 100.0), "{plain:?}");
    assert!(study.text().contains("0 false alarms"));
}
